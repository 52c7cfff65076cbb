//! Doors from this machine's loopback interface into a live world.
//!
//! Each connection to a door is carried to a host of the world over its simulated network, so that real clients meet
//! its latency and faults. What cannot be carried over: a host that does not answer accepts the connection, since the
//! door does, and is silent then.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream, UdpSocket},
    task::AbortHandle,
};
use wire::Host;

use crate::{Network, Pace};

/// The largest UDP datagram.
const DATAGRAM: usize = 65_535;

/// How many clients a UDP door knows at once. Each run of `ipmitool` is another client; the one that was silent for
/// longest is forgotten, as a router that translates addresses does.
const MOST_CLIENTS: usize = 256;

/// After an error that may come again at once, such as a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The name of the host in whose name the doors connect.
const GATEWAY: &str = "gateway";

impl Network {
    /// Lets time pass as outside from now on. It does not go back.
    ///
    /// # Errors
    /// The world was not made for it: see [`Pace::Live`].
    pub fn go_live(&self) -> io::Result<()> {
        match self.0.config.pace {
            Pace::Virtual => Err(io::Error::new(io::ErrorKind::Unsupported, "time is virtual in this world")),
            Pace::Live => {
                if !self.0.live.swap(true, Ordering::Relaxed) {
                    tokio::time::resume();
                }
                Ok(())
            }
        }
    }

    /// Opens a TCP door: connections to `door` lead to `port` of `host`. Returns where the door is, which differs if
    /// its port is 0.
    ///
    /// # Errors
    /// The world is not live (see [`Network::go_live`]), or the address cannot be had.
    pub async fn open_tcp_door(&self, door: SocketAddr, host: &str, port: u16) -> io::Result<SocketAddr> {
        self.must_be_live()?;
        let listener = TcpListener::bind(door).await?;
        let door = listener.local_addr()?;
        let (gateway, host) = (self.host(GATEWAY), host.to_owned());
        let serving = gateway.clone();
        drop(gateway.spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((outside, _)) => {
                        drop(serving.spawn(carry(serving.clone(), outside, host.clone(), port)));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accept at a door");
                        serving.sleep(PAUSE).await;
                    }
                }
            }
        }));
        Ok(door)
    }

    /// Opens a UDP door: datagrams to `door` go to `port` of `host`, and answers go back to whoever asked.
    ///
    /// # Errors
    /// The world is not live (see [`Network::go_live`]), or the address cannot be had.
    pub async fn open_udp_door(&self, door: SocketAddr, host: &str, port: u16) -> io::Result<SocketAddr> {
        self.must_be_live()?;
        let outside = Arc::new(UdpSocket::bind(door).await?);
        let door = outside.local_addr()?;
        let gateway = self.host(GATEWAY);
        let target = gateway.resolve(host, port).await?;
        let serving = gateway.clone();
        drop(gateway.spawn(async move {
            let mut clients: BTreeMap<SocketAddr, Client> = BTreeMap::new();
            let mut datagrams = 0_u64;
            let mut buffer = vec![0; DATAGRAM];
            loop {
                let Ok((length, client)) = outside.recv_from(&mut buffer).await else {
                    serving.sleep(PAUSE).await;
                    continue;
                };
                datagrams += 1;
                let inside = match clients.get_mut(&client) {
                    Some(known) => {
                        known.heard = datagrams;
                        Arc::clone(&known.inside)
                    }
                    None => {
                        if clients.len() >= MOST_CLIENTS {
                            forget_the_most_silent(&mut clients);
                        }
                        let Ok(inside) = serving.udp(0).await.map(Arc::new) else { continue };
                        let answers = serving
                            .spawn(answers(Arc::clone(&inside), Arc::clone(&outside), client))
                            .abort_handle();
                        clients.insert(
                            client,
                            Client { inside: Arc::clone(&inside), answers, heard: datagrams },
                        );
                        inside
                    }
                };
                if let Err(error) = inside.send_to(&buffer[..length], target).await {
                    tracing::debug!(%error, "carry a datagram inside");
                }
            }
        }));
        Ok(door)
    }

    fn must_be_live(&self) -> io::Result<()> {
        let live = self.0.live.load(Ordering::Relaxed);
        live.then_some(()).ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "the world is not live"))
    }
}

/// Carries one connection until either side ends it.
async fn carry(gateway: Host, mut outside: TcpStream, host: String, port: u16) {
    match gateway.connect(&host, port).await {
        Ok(mut inside) => {
            let carried = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
            if carried.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset) {
                reset(&outside);
            }
        }
        Err(error) => {
            tracing::debug!(%error, host, port, "carry a connection inside");
            reset(&outside);
        }
    }
}

fn reset(outside: &TcpStream) {
    // A socket that is gone already needs no reset.
    let _ = outside.set_zero_linger();
}

/// A client of a UDP door.
struct Client {
    /// Its socket in the world.
    inside: Arc<wire::UdpSocket>,
    /// The task that carries answers back to it.
    answers: AbortHandle,
    /// Which datagram of the door was its last.
    heard: u64,
}

fn forget_the_most_silent(clients: &mut BTreeMap<SocketAddr, Client>) {
    let most_silent = clients.iter().min_by_key(|(_, client)| client.heard).map(|(address, _)| *address);
    if let Some(client) = most_silent.and_then(|address| clients.remove(&address)) {
        client.answers.abort();
    }
}

/// Carries answers back to one client.
async fn answers(inside: Arc<wire::UdpSocket>, outside: Arc<UdpSocket>, client: SocketAddr) {
    let mut buffer = vec![0; DATAGRAM];
    loop {
        // A refusal cannot be carried over; the client sees silence.
        let Ok((length, _)) = inside.recv_from(&mut buffer).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        if let Err(error) = outside.send_to(&buffer[..length], client).await {
            tracing::debug!(%error, "carry a datagram outside");
        }
    }
}
