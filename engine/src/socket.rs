//! turmoil-net's sockets as `wire` needs them: always used as the host that owns them, and ending as on Linux.

use std::{
    cell::RefCell,
    io,
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil_net::shim::tokio::net::{TcpListener, TcpStream, UdpSocket};
use wire::{BoxFuture, Io, Listen, Stream, Udp};

use crate::{
    network::{Shared, UdpPort},
    scope::{Place, on},
};

/// A kernel's receive buffer. Reads take all of it at once: turmoil-net tells the sender of a reopened window only
/// after a single read of at least half of it, so that smaller reads could leave the sender waiting for ever.
const RECEIVE_BUFFER: usize = 64 * 1024;

thread_local! {
    /// Where reads land before their connection keeps what came.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Polls `work` as `place`, whoever polls us.
pub(crate) async fn here<T>(place: Place, work: impl Future<Output = T>) -> T {
    /// Drops what it holds as its host.
    struct Held<F>(Place, Option<Pin<Box<F>>>);
    impl<F> Drop for Held<F> {
        fn drop(&mut self) {
            let inner = self.1.take();
            on(self.0, || drop(inner));
        }
    }
    let mut held = Held(place, Some(Box::pin(work)));
    std::future::poll_fn(move |cx| match held.1.as_mut() {
        Some(inner) => on(place, || inner.as_mut().poll(cx)),
        None => Poll::Pending,
    })
    .await
}

/// A TCP connection.
pub(crate) struct SimStream {
    shared: Arc<Shared>,
    place: Place,
    socket: Option<TcpStream>,
    received: BytesMut,
    port: u16,
    peer: SocketAddr,
}

impl SimStream {
    pub(crate) fn open(
        shared: Arc<Shared>,
        place: Place,
        socket: TcpStream,
        address: IpAddr,
        peer: SocketAddr,
    ) -> io::Result<Stream> {
        let port = on(place, || socket.local_addr())?.port();
        // An earlier connection of the same ports may have ended so.
        shared.state().timed_out.remove(&(place.host, port, peer));
        let stream = Self { shared, place, socket: Some(socket), received: BytesMut::new(), port, peer };
        Ok(Stream::new(stream, SocketAddr::new(address, port), peer))
    }

    /// Tells a connection that nobody acknowledged from one that was reset: turmoil-net knows only the latter.
    fn explain(&self, error: io::Error) -> io::Error {
        let given_up = self.shared.state().timed_out.contains(&(self.place.host, self.port, self.peer));
        if given_up { io::ErrorKind::TimedOut.into() } else { error }
    }

    fn with<T>(
        &mut self,
        work: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let Some(socket) = self.socket.as_mut() else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        let done = on(self.place, || work(Pin::new(socket)));
        done.map_err(|error| self.explain(error))
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.received.is_empty() {
            let mut space = SCRATCH.take();
            space.resize(RECEIVE_BUFFER, 0);
            let mut all = ReadBuf::new(&mut space);
            let read = self.with(|socket| socket.poll_read(cx, &mut all));
            self.received.extend_from_slice(all.filled());
            SCRATCH.set(space);
            std::task::ready!(read)?;
        }
        let length = buf.remaining().min(self.received.len());
        buf.put_slice(&self.received[..length]);
        self.received.advance(length);
        if self.received.is_empty() {
            // An idle connection holds no buffer.
            self.received = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.with(|socket| socket.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|socket| socket.poll_shutdown(cx))
    }
}

impl Io for SimStream {
    fn close(&mut self, reset: bool) {
        let Some(socket) = self.socket.take() else { return };
        if reset || !self.received.is_empty() {
            self.shared.state().resets.push((self.place.host, self.port, self.peer));
        }
        on(self.place, || drop(socket));
    }
}

/// A listening socket.
pub(crate) struct SimListener {
    shared: Arc<Shared>,
    place: Place,
    socket: Option<TcpListener>,
    local: SocketAddr,
}

impl SimListener {
    pub(crate) fn new(shared: Arc<Shared>, place: Place, socket: TcpListener, local: SocketAddr) -> Self {
        Self { shared, place, socket: Some(socket), local }
    }
}

impl Listen for SimListener {
    fn accept(&self) -> BoxFuture<'_, io::Result<Stream>> {
        Box::pin(async move {
            let Some(socket) = &self.socket else { return Err(io::ErrorKind::NotConnected.into()) };
            let (stream, peer) = here(self.place, socket.accept()).await?;
            SimStream::open(Arc::clone(&self.shared), self.place, stream, self.local.ip(), peer)
        })
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let socket = self.socket.take();
        on(self.place, || drop(socket));
    }
}

/// A UDP socket. As a connected one on Linux, it hears of closed ports at the other end.
pub(crate) struct SimUdp {
    shared: Arc<Shared>,
    place: Place,
    socket: Option<UdpSocket>,
    port: u16,
}

impl SimUdp {
    pub(crate) fn new(shared: Arc<Shared>, place: Place, socket: UdpSocket, port: u16) -> Self {
        shared.state().hosts[place.host].udp.insert(port, UdpPort::default());
        Self { shared, place, socket: Some(socket), port }
    }

    /// Whether a refusal came; keeps the waker for the next one.
    fn take_refusal(&self, cx: &Context<'_>) -> bool {
        let mut state = self.shared.state();
        if !state.is_alive(self.place) {
            return false;
        }
        let port = state.hosts[self.place.host].udp.entry(self.port).or_default();
        port.waker = Some(cx.waker().clone());
        std::mem::take(&mut port.refused)
    }
}

impl Udp for SimUdp {
    fn send_to<'a>(&'a self, bytes: &'a [u8], to: SocketAddr) -> BoxFuture<'a, io::Result<usize>> {
        Box::pin(async move {
            let Some(socket) = &self.socket else { return Err(io::ErrorKind::NotConnected.into()) };
            here(self.place, socket.send_to(bytes, to)).await
        })
    }

    fn recv_from<'a>(&'a self, buffer: &'a mut [u8]) -> BoxFuture<'a, io::Result<(usize, SocketAddr)>> {
        Box::pin(async move {
            let Some(socket) = &self.socket else { return Err(io::ErrorKind::NotConnected.into()) };
            let mut receiving = pin!(here(self.place, socket.recv_from(buffer)));
            std::future::poll_fn(|cx| {
                if self.take_refusal(cx) {
                    return Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into()));
                }
                receiving.as_mut().poll(cx)
            })
            .await
        })
    }
}

impl Drop for SimUdp {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if state.is_alive(self.place) {
            state.hosts[self.place.host].udp.remove(&self.port);
        }
        drop(state);
        let socket = self.socket.take();
        on(self.place, || drop(socket));
    }
}
