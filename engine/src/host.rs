//! A simulated host as a backend of `wire`.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use turmoil_net::shim::tokio::net::{TcpListener, TcpStream, UdpSocket};
use wire::{Backend, BoxFuture, Clock, Entry, Seed};

use crate::{
    flow::CONNECT_TIMEOUT,
    network::Shared,
    record::What,
    scope::{Place, Scoped},
    socket::{SimListener, SimStream, SimUdp, here},
};

/// One life of a host: after a crash its handle is of no use, and [`crate::Network::restart`] gives a new one.
pub(crate) struct SimHost {
    pub(crate) shared: Arc<Shared>,
    pub(crate) place: Place,
    pub(crate) name: String,
    pub(crate) address: IpAddr,
}

impl SimHost {
    fn alive(&self) -> io::Result<()> {
        let alive = self.shared.state().is_alive(self.place);
        alive.then_some(()).ok_or_else(|| io::Error::new(io::ErrorKind::NetworkDown, "the host has crashed"))
    }
}

impl Backend for SimHost {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self) -> IpAddr {
        self.address
    }

    fn clock(&self) -> Clock {
        self.shared.clock
    }

    fn seed(&self) -> Seed {
        self.shared.config.seed
    }

    fn listen(&self, port: u16) -> BoxFuture<'static, io::Result<wire::Listener>> {
        let (alive, place, address) = (self.alive(), self.place, self.address);
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            alive?;
            let socket = here(place, TcpListener::bind(("0.0.0.0", port))).await?;
            let local = SocketAddr::new(address, socket.local_addr()?.port());
            Ok(wire::Listener::new(SimListener::new(shared, place, socket, local), local))
        })
    }

    fn connect(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<wire::Stream>> {
        let (alive, place, address) = (self.alive(), self.place, self.address);
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            alive?;
            let peer = SocketAddr::new(shared.state().lookup(&host)?, port);
            let connecting = here(place, TcpStream::connect(peer));
            let socket = wire::within(CONNECT_TIMEOUT, connecting).await.ok_or(io::ErrorKind::TimedOut)??;
            SimStream::open(shared, place, socket, address, peer)
        })
    }

    fn udp(&self, port: u16) -> BoxFuture<'static, io::Result<wire::UdpSocket>> {
        let (alive, place, address) = (self.alive(), self.place, self.address);
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            alive?;
            let socket = here(place, UdpSocket::bind(("0.0.0.0", port))).await?;
            let local = SocketAddr::new(address, socket.local_addr()?.port());
            Ok(wire::UdpSocket::new(SimUdp::new(shared, place, socket, local.port()), local))
        })
    }

    fn resolve(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<SocketAddr>> {
        let found = self.shared.state().lookup(&host).map(|address| SocketAddr::new(address, port));
        Box::pin(std::future::ready(found))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one spawner of a simulated world")]
    fn spawn(&self, task: BoxFuture<'static, ()>) -> tokio::task::AbortHandle {
        let scoped = Scoped::new(Arc::clone(&self.shared), self.place, task);
        let handle = tokio::spawn(scoped).abort_handle();
        if self.alive().is_ok() {
            self.shared.state().keep_task(self.place.host, handle.clone());
        } else {
            handle.abort();
        }
        handle
    }

    fn ordinal(&self, purpose: &str) -> u64 {
        self.shared.state().ordinal(self.place.host, purpose)
    }

    fn note(&self, entry: Entry) {
        // What a crashed host's last task still says was never said.
        if self.alive().is_ok() {
            self.shared.fact(What::Entry(entry));
        }
    }
}
