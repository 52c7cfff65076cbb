//! Hosts on this machine: tokio's sockets, the system's time.
//!
//! A [`Network`] gives each host a loopback address of its own (127.0.0.0/8), so that every fake keeps its protocol's
//! real port. Where a port may not be bound (below 1024 without privileges), 10000 more is used, and connections by
//! the hosts' names and addresses are led there.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net,
};

use crate::{
    BoxFuture, Clock, Entry, Host, Journal, Seed, Silent,
    host::Backend,
    stream::{Io, Listen, Listener, Stream, Udp, UdpSocket},
};

/// Moves a port that needs privileges to one that does not.
const UNPRIVILEGED: u16 = 10_000;

/// Some hosts that reach each other by name on this machine's loopback interface, and the rest of the world as usual.
#[derive(Clone)]
pub struct Network(Arc<Shared>);

struct Shared {
    clock: Clock,
    seed: Seed,
    journal: Arc<dyn Journal>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    addresses: BTreeMap<String, IpAddr>,
    /// Where a (host address, wanted port) is really bound.
    ports: BTreeMap<(IpAddr, u16), u16>,
    ordinals: BTreeMap<(String, String), u64>,
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bound(&self, address: SocketAddr) -> SocketAddr {
        let port = self.table().ports.get(&(address.ip(), address.port())).copied();
        SocketAddr::new(address.ip(), port.unwrap_or(address.port()))
    }
}

impl Network {
    /// A network whose hosts note to `journal`. Must be called within a tokio runtime.
    pub fn new(seed: Seed, journal: Arc<dyn Journal>) -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is where real time enters")]
        let clock = Clock::starting(jiff::Timestamp::now());
        Self(Arc::new(Shared { clock, seed, journal, table: Mutex::default() }))
    }

    /// A host with a loopback address of its own; the same name gives the same host.
    pub fn host(&self, name: &str) -> Host {
        let mut table = self.0.table();
        let next = u32::try_from(table.addresses.len()).unwrap_or(u32::MAX);
        let address = *table.addresses.entry(name.to_owned()).or_insert_with(|| {
            // 127.0.0.1 stays free for what else runs on this machine.
            IpAddr::V4(Ipv4Addr::from_bits(Ipv4Addr::new(127, 0, 1, 1).to_bits().wrapping_add(next)))
        });
        drop(table);
        Host::new(RealHost { name: name.to_owned(), address: Some(address), network: Arc::clone(&self.0) })
    }

    /// Where clients outside this process reach `port` of a host.
    pub fn endpoint(&self, host: &Host, port: u16) -> SocketAddr {
        self.0.bound(SocketAddr::new(host.address(), port))
    }
}

/// This machine as a host, for a program that runs in the real world. Must be called within a tokio runtime.
pub fn host(name: &str, seed: Seed) -> Host {
    let Network(network) = Network::new(seed, Arc::new(Silent));
    Host::new(RealHost { name: name.to_owned(), address: None, network })
}

struct RealHost {
    name: String,
    /// `None`: all of this machine's addresses.
    address: Option<IpAddr>,
    network: Arc<Shared>,
}

impl RealHost {
    /// The socket addresses to try for a port, best first.
    fn candidates(&self, port: u16) -> Vec<SocketAddr> {
        let address = self.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let moved = (port != 0 && port < 1024).then(|| port + UNPRIVILEGED);
        [Some(port), moved].into_iter().flatten().map(|port| SocketAddr::new(address, port)).collect()
    }
}

fn keep_port(network: &Shared, wanted: u16, bound: SocketAddr) {
    network.table().ports.insert((bound.ip(), wanted), bound.port());
}

impl Backend for RealHost {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self) -> IpAddr {
        self.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    fn clock(&self) -> Clock {
        self.network.clock
    }

    fn seed(&self) -> Seed {
        self.network.seed
    }

    fn listen(&self, port: u16) -> BoxFuture<'static, io::Result<Listener>> {
        let candidates = self.candidates(port);
        let network = Arc::clone(&self.network);
        Box::pin(async move {
            let socket = net::TcpListener::bind(&candidates[..]).await?;
            let local = socket.local_addr()?;
            keep_port(&network, port, local);
            Ok(Listener::new(socket, local))
        })
    }

    fn connect(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<Stream>> {
        let target = self.resolve(host, port);
        Box::pin(async move {
            let socket = net::TcpStream::connect(target.await?).await?;
            socket.set_nodelay(true)?;
            let (local, peer) = (socket.local_addr()?, socket.peer_addr()?);
            Ok(Stream::new(TcpIo(socket), local, peer))
        })
    }

    fn udp(&self, port: u16) -> BoxFuture<'static, io::Result<UdpSocket>> {
        let candidates = self.candidates(port);
        let network = Arc::clone(&self.network);
        Box::pin(async move {
            let socket = net::UdpSocket::bind(&candidates[..]).await?;
            let local = socket.local_addr()?;
            keep_port(&network, port, local);
            Ok(UdpSocket::new(socket, local))
        })
    }

    fn resolve(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<SocketAddr>> {
        let network = Arc::clone(&self.network);
        Box::pin(async move {
            let bare = host.trim_start_matches('[').trim_end_matches(']');
            let known = bare.parse().ok().or_else(|| network.table().addresses.get(bare).copied());
            match known {
                Some(address) => Ok(network.bound(SocketAddr::new(address, port))),
                None => {
                    net::lookup_host((bare, port)).await?.next().ok_or_else(|| io::ErrorKind::NotFound.into())
                }
            }
        })
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one spawner of the real world")]
    fn spawn(&self, task: BoxFuture<'static, ()>) -> tokio::task::AbortHandle {
        tokio::spawn(task).abort_handle()
    }

    fn ordinal(&self, purpose: &str) -> u64 {
        let mut table = self.network.table();
        let next = table.ordinals.entry((self.name.clone(), purpose.to_owned())).or_default();
        *next += 1;
        *next
    }

    fn note(&self, entry: Entry) {
        self.network.journal.note(entry);
    }
}

struct TcpIo(net::TcpStream);

impl Io for TcpIo {
    fn close(&mut self, reset: bool) {
        if reset {
            // If the socket is already gone there is nothing left to reset.
            let _ = self.0.set_zero_linger();
        }
    }
}

impl AsyncRead for TcpIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for TcpIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Listen for net::TcpListener {
    fn accept(&self) -> BoxFuture<'_, io::Result<Stream>> {
        Box::pin(async move {
            let (socket, peer) = Self::accept(self).await?;
            socket.set_nodelay(true)?;
            let local = socket.local_addr()?;
            Ok(Stream::new(TcpIo(socket), local, peer))
        })
    }
}

impl Udp for net::UdpSocket {
    fn send_to<'a>(&'a self, bytes: &'a [u8], to: SocketAddr) -> BoxFuture<'a, io::Result<usize>> {
        Box::pin(Self::send_to(self, bytes, to))
    }

    fn recv_from<'a>(&'a self, buffer: &'a mut [u8]) -> BoxFuture<'a, io::Result<(usize, SocketAddr)>> {
        Box::pin(Self::recv_from(self, buffer))
    }
}
