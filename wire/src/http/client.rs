//! The client.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{
        self,
        connect::{Connected, Connection, capture_connection},
    },
    rt::{TokioIo, TokioTimer},
};
use tower_service::Service;

use super::Executor;
use crate::{BoxFuture, Host, Stream};

/// The largest answer that is read as a whole.
const LARGEST: usize = 64 << 20;

/// How long a client waits.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For the TCP connection.
    pub connect: Duration,
    /// For the answer's head once connected, and then for each further piece of its body.
    pub read: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(30), read: Duration::from_secs(60) }
    }
}

/// Why a request has no answer, named by what the client saw.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection: refused, unreachable, or the system gave up.
    #[error("connect to {authority}")]
    Connect {
        /// Host and port.
        authority: String,
        /// What the network said.
        source: io::Error,
    },
    /// No connection within [`Timeouts::connect`].
    #[error("connect to {authority} within {limit:?}")]
    ConnectTimeout {
        /// Host and port.
        authority: String,
        /// The limit.
        limit: Duration,
    },
    /// Connected, but no answer, or no more of it, within [`Timeouts::read`].
    #[error("read the answer of {authority} within {limit:?}")]
    ReadTimeout {
        /// Host and port.
        authority: String,
        /// The limit.
        limit: Duration,
    },
    /// The connection was reset before the whole answer had come.
    #[error("read the answer of {authority}: the connection was reset")]
    Reset {
        /// Host and port.
        authority: String,
    },
    /// The connection was closed before the whole answer had come.
    #[error("read the answer of {authority}: the connection was closed early")]
    Closed {
        /// Host and port.
        authority: String,
    },
    /// What came was not HTTP, or the request was not.
    #[error("understand the answer of {authority}: {reason}")]
    Protocol {
        /// Host and port.
        authority: String,
        /// What hyper said.
        reason: String,
    },
}

/// An HTTP client of a host.
#[derive(Clone, Debug)]
pub struct Client {
    inner: legacy::Client<Connector, Full<Bytes>>,
    timeouts: Timeouts,
    close: bool,
}

impl Client {
    /// A client that keeps connections alive and uses them again.
    pub fn new(host: &Host, timeouts: Timeouts) -> Self {
        let connector = Connector { host: host.clone(), limit: Some(timeouts.connect) };
        let inner = legacy::Client::builder(Executor(host.clone()))
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(5))
            .build(connector);
        Self { inner, timeouts, close: false }
    }

    /// A client that asks for each connection to be closed after its answer.
    pub fn without_keep_alive(host: &Host, timeouts: Timeouts) -> Self {
        Self { close: true, ..Self::new(host, timeouts) }
    }

    /// Sends a request and reads its whole answer, of 64 MiB at most. What may be larger is read piece by piece: see
    /// [`Self::open`].
    pub async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, Error> {
        let (head, mut body) = self.open(request).await?.into_parts();
        let mut bytes = Vec::new();
        while let Some(piece) = body.next().await? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > LARGEST {
                let reason = format!("it is larger than {LARGEST} bytes");
                return Err(Error::Protocol { authority: body.authority, reason });
            }
        }
        Ok(http::Response::from_parts(head, bytes.into()))
    }

    /// Sends a request and reads the head of its answer; the body comes in pieces.
    pub async fn open(&self, mut request: http::Request<Bytes>) -> Result<http::Response<Pieces>, Error> {
        let authority = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        if self.close {
            request.headers_mut().insert(http::header::CONNECTION, http::HeaderValue::from_static("close"));
        }
        let limit = self.timeouts.read;
        let mut request = request.map(Full::new);
        let mut connection = capture_connection(&mut request);
        let mut answering = std::pin::pin!(self.inner.request(request));
        // The connector bounds the connection by itself; the bound for the answer counts from there.
        let early = tokio::select! {
            biased;
            answer = &mut answering => Some(answer),
            () = async { drop(connection.wait_for_connection_metadata().await) } => None,
        };
        let answer = match early {
            Some(answer) => Ok(answer),
            None => tokio::time::timeout(limit, answering).await,
        };
        let response = match answer {
            Err(_) => return Err(Error::ReadTimeout { authority, limit }),
            Ok(Err(error)) => return Err(classify(authority, &error, self.timeouts)),
            Ok(Ok(response)) => response,
        };
        Ok(response.map(|body| Pieces { body, authority, timeouts: self.timeouts }))
    }
}

/// The body of an answer, piece by piece.
#[derive(Debug)]
pub struct Pieces {
    body: Incoming,
    authority: String,
    timeouts: Timeouts,
}

impl Pieces {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let limit = self.timeouts.read;
            match tokio::time::timeout(limit, self.body.frame()).await {
                Err(_) => return Err(Error::ReadTimeout { authority: self.authority.clone(), limit }),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(classify(self.authority.clone(), &error, self.timeouts)),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

/// Finds what the network saw in the chain of hyper's errors.
fn classify(authority: String, error: &(dyn std::error::Error + 'static), timeouts: Timeouts) -> Error {
    let connecting = error.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect);
    let mut deepest = error;
    let mut io = None;
    loop {
        if let Some(found) = deepest.downcast_ref::<io::Error>() {
            io = Some(found);
        }
        if deepest.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message) {
            return Error::Closed { authority };
        }
        match deepest.source() {
            Some(source) => deepest = source,
            None => break,
        }
    }
    match io.map(io::Error::kind) {
        Some(io::ErrorKind::TimedOut) if connecting => {
            Error::ConnectTimeout { authority, limit: timeouts.connect }
        }
        Some(kind) if connecting => Error::Connect { authority, source: kind.into() },
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => Error::Reset { authority },
        Some(io::ErrorKind::UnexpectedEof) => Error::Closed { authority },
        Some(_) | None => Error::Protocol { authority, reason: deepest.to_string() },
    }
}

/// Connects hyper clients through a host; also serves kube's client.
#[derive(Clone, Debug)]
pub struct Connector {
    /// Whose network is used.
    pub host: Host,
    /// How long to wait for a connection; `None` waits as long as the network does.
    pub limit: Option<Duration>,
}

impl Service<http::Uri> for Connector {
    type Response = Link;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Link>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: http::Uri) -> Self::Future {
        let Self { host, limit } = self.clone();
        Box::pin(async move {
            let secret = uri.scheme() == Some(&http::uri::Scheme::HTTPS);
            let target = uri.host().ok_or(io::ErrorKind::InvalidInput)?;
            let port = uri.port_u16().unwrap_or(if secret { 443 } else { 80 });
            let connecting = host.connect(target, port);
            let stream = match limit {
                Some(limit) => crate::within(limit, connecting).await.ok_or(io::ErrorKind::TimedOut)??,
                None => connecting.await?,
            };
            if secret {
                // Never in clear what was meant to be secret.
                return Err(io::Error::new(io::ErrorKind::Unsupported, "TLS is not supported"));
            }
            Ok(Link(TokioIo::new(stream)))
        })
    }
}

/// A connection in hyper's terms.
#[derive(Debug)]
pub struct Link(TokioIo<Stream>);

impl Connection for Link {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl hyper::rt::Write for Link {
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
