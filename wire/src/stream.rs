//! Sockets, boxed: no generic parameter spreads through the crates that use them.

use std::{
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::BoxFuture;

/// What a backend's byte stream must be able to do.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Ends the connection as the last act before it is dropped: with a RST when `reset`, else with a FIN, unless
    /// bytes are unread (then, as on Linux, with a RST too).
    fn close(&mut self, reset: bool);
}

/// A TCP connection.
pub struct Stream {
    io: Box<dyn Io>,
    local: SocketAddr,
    peer: SocketAddr,
    reset: ResetSwitch,
}

impl Stream {
    /// A stream over a backend's connection.
    pub fn new(io: impl Io, local: SocketAddr, peer: SocketAddr) -> Self {
        Self { io: Box::new(io), local, peer, reset: ResetSwitch::default() }
    }

    /// Our end's address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The other end's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// A switch that makes the stream end with a RST when it is dropped.
    pub fn reset_switch(&self) -> ResetSwitch {
        self.reset.clone()
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("local", &self.local).field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.io.close(self.reset.is_on());
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Decides how a [`Stream`] ends when it is dropped, from wherever that is known.
#[derive(Clone, Debug, Default)]
pub struct ResetSwitch(Arc<AtomicBool>);

impl ResetSwitch {
    /// The stream will end with a RST.
    pub fn turn_on(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a backend's listening socket must be able to do.
pub trait Listen: Send + Sync + 'static {
    /// Waits for the next connection.
    fn accept(&self) -> BoxFuture<'_, io::Result<Stream>>;
}

/// A listening TCP socket. Dropping it closes the port.
pub struct Listener {
    socket: Box<dyn Listen>,
    local: SocketAddr,
}

impl Listener {
    /// A listener over a backend's socket.
    pub fn new(socket: impl Listen, local: SocketAddr) -> Self {
        Self { socket: Box::new(socket), local }
    }

    /// Where it listens.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Waits for the next connection.
    pub async fn accept(&self) -> io::Result<Stream> {
        self.socket.accept().await
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("local", &self.local).finish_non_exhaustive()
    }
}

/// What a backend's UDP socket must be able to do.
pub trait Udp: Send + Sync + 'static {
    /// Sends one datagram.
    fn send_to<'a>(&'a self, bytes: &'a [u8], to: SocketAddr) -> BoxFuture<'a, io::Result<usize>>;
    /// Waits for the next datagram; what does not fit into `buffer` is lost.
    fn recv_from<'a>(&'a self, buffer: &'a mut [u8]) -> BoxFuture<'a, io::Result<(usize, SocketAddr)>>;
}

/// A bound UDP socket. Dropping it closes the port.
pub struct UdpSocket {
    socket: Box<dyn Udp>,
    local: SocketAddr,
}

impl UdpSocket {
    /// A socket over a backend's.
    pub fn new(socket: impl Udp, local: SocketAddr) -> Self {
        Self { socket: Box::new(socket), local }
    }

    /// Where it is bound.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Sends one datagram.
    pub async fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.socket.send_to(bytes, to).await
    }

    /// Waits for the next datagram. A closed port at the other end shows as `ConnectionRefused`, as on Linux.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.recv_from(buffer).await
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket").field("local", &self.local).finish_non_exhaustive()
    }
}
