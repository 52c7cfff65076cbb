//! HTTP as Python's `requests` does it, down to the words in which it fails.
//!
//! Ironic copies those words into `last_error`, where operators read them, so they are part of what a client can
//! tell. Redirects of GET and HEAD are followed; the secrets of a query are never quoted.

use std::{fmt, io, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use wire::{
    Host,
    http::{Client, Error, Timeouts},
};

use crate::{python::repr_text, settings::ConnectionErrors};

/// `requests` gives up after this many redirects.
const REDIRECTS: usize = 30;

/// Linux gives up on a connection after about 127 s; a limit above that never acts.
const SYSTEM_CONNECT_LIMIT: Duration = Duration::from_secs(127);

/// A client that asks for each connection to be closed, as Ironic's do.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    host: Host,
    client: Client,
    words: ConnectionErrors,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Where the answer came from, if that is not where the request went first.
    pub(crate) redirected: Option<String>,
}

impl Answer {
    /// A header, if it is there and is text.
    pub(crate) fn header(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Why there is no answer, as `str()` of the exception says it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Failure {
    text: String,
}

impl Requests {
    pub(crate) fn new(host: &Host, timeouts: Timeouts) -> Self {
        let client = Client::without_keep_alive(host, timeouts);
        Self { host: host.clone(), client, words: ConnectionErrors::Urllib3V2 }
    }

    /// The same, telling of failed connections in these words.
    pub(crate) fn telling(self, words: ConnectionErrors) -> Self {
        Self { words, ..self }
    }

    /// Asks for a page without a body.
    pub(crate) async fn fetch(&self, method: Method, url: &str) -> Result<Answer, Failure> {
        let mut target = url.to_owned();
        for hop in 0..=REDIRECTS {
            let request = Request::builder()
                .method(method.clone())
                .uri(&target)
                .body(Bytes::new())
                .map_err(|_| Failure::invalid_url(&target))?;
            let mut answer = self.send(request).await?;
            let next = answer.status.is_redirection().then(|| answer.header(header::LOCATION)).flatten();
            match next.and_then(|next| absolute(&target, next)) {
                Some(next) => target = next,
                None => {
                    answer.redirected = (hop > 0).then_some(target);
                    return Ok(answer);
                }
            }
        }
        Err(Failure { text: format!("Exceeded {REDIRECTS} redirects.") })
    }

    /// Sends a request as it is.
    pub(crate) async fn send(&self, request: Request<Bytes>) -> Result<Answer, Failure> {
        let uri = request.uri().clone();
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(Failure::invalid_url(&uri.to_string()));
        }
        let response =
            self.client.open(request).await.map_err(|error| self.failure(&uri, &error, Progress::Head))?;
        let (head, mut pieces) = response.into_parts();
        let expected =
            head.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let mut body = Vec::new();
        loop {
            match pieces.next().await {
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                Ok(None) => break,
                Err(error) => {
                    let read = body.len() as u64;
                    return Err(self.failure(&uri, &error, Progress::Body { read, expected }));
                }
            }
        }
        Ok(Answer { status: head.status, headers: head.headers, body: body.into(), redirected: None })
    }

    /// The words for a failure of an exchange with `uri`.
    pub(crate) fn failure(&self, uri: &Uri, error: &Error, progress: Progress) -> Failure {
        let pool = Pool(uri);
        let failed = |errno: Errno| self.not_connected(&pool, errno);
        let text = match error {
            Error::Connect { source, .. } => match source.kind() {
                io::ErrorKind::ConnectionRefused => failed(Errno::Refused),
                io::ErrorKind::HostUnreachable => failed(Errno::HostUnreachable),
                io::ErrorKind::NetworkUnreachable => failed(Errno::NetworkUnreachable),
                io::ErrorKind::ConnectionReset => reset(),
                io::ErrorKind::NotFound => self.not_resolved(&pool),
                // Whatever else a socket may say.
                _ => failed(Errno::Input),
            },
            Error::ConnectTimeout { limit, .. } if *limit >= SYSTEM_CONNECT_LIMIT => failed(Errno::TimedOut),
            Error::ConnectTimeout { limit, .. } => {
                let connection = match self.words {
                    ConnectionErrors::Urllib3V2 => format!("<{pool:#} at {}>", self.python_address()),
                    ConnectionErrors::Eventlet => self.python_connection(&pool),
                };
                let (host, limit) = (pool.host(), limit.as_secs());
                pool.unreachable(&format!(
                    "ConnectTimeoutError({connection}, 'Connection to {host} timed out. (connect timeout={limit})')"
                ))
            }
            Error::ReadTimeout { limit, .. } => {
                format!("{pool}: Read timed out. (read timeout={})", limit.as_secs())
            }
            Error::Reset { .. } => reset(),
            Error::Closed { .. } => match progress {
                Progress::Head => {
                    let comma = self.comma();
                    format!(
                        "('Connection aborted.', RemoteDisconnected('Remote end closed connection without response'{comma}))"
                    )
                }
                Progress::Body { read, expected } => {
                    let missing = expected
                        .map(|expected| format!(", {} more expected", expected.saturating_sub(read)))
                        .unwrap_or_default();
                    let incomplete = format!("IncompleteRead({read} bytes read{missing})");
                    format!("('Connection broken: {incomplete}', {incomplete})")
                }
            },
            Error::Protocol { reason, .. } => {
                format!("('Connection aborted.', BadStatusLine({}{}))", repr_text(reason), self.comma())
            }
        };
        Failure { text }
    }

    fn not_connected(&self, pool: &Pool<'_>, errno: Errno) -> String {
        let (number, name, words) = errno.tell();
        match self.words {
            ConnectionErrors::Urllib3V2 => pool.unreachable(&format!(
                "NewConnectionError(\"{pool:#}: Failed to establish a new connection: [Errno {number}] {words}\")"
            )),
            ConnectionErrors::Eventlet => {
                let connection = self.python_connection(pool);
                pool.unreachable(&format!(
                    "NewConnectionError('{connection}: Failed to establish a new connection: [Errno {number}] {name}',)"
                ))
            }
        }
    }

    fn not_resolved(&self, pool: &Pool<'_>) -> String {
        const WHY: &str = "[Errno -2] Name or service not known";
        match self.words {
            ConnectionErrors::Urllib3V2 => {
                let host = pool.host();
                pool.unreachable(&format!(
                    "NameResolutionError(\"{pool:#}: Failed to resolve '{host}' ({WHY})\")"
                ))
            }
            ConnectionErrors::Eventlet => {
                let connection = self.python_connection(pool);
                pool.unreachable(&format!(
                    "NewConnectionError('{connection}: Failed to establish a new connection: {WHY}',)"
                ))
            }
        }
    }

    /// What Python shows of a connection that has no better name.
    fn python_connection(&self, pool: &Pool<'_>) -> String {
        format!("<urllib3.connection.{} object at {}>", pool.kind(), self.python_address())
    }

    /// Where an object of Python lies in memory.
    fn python_address(&self) -> String {
        format!("0x7f{:010x}", self.host.uuid("python object").as_u128() & 0xff_ffff_fff8)
    }

    /// Python before 3.7 writes a comma after an exception's only argument.
    fn comma(&self) -> &'static str {
        match self.words {
            ConnectionErrors::Urllib3V2 => "",
            ConnectionErrors::Eventlet => ",",
        }
    }
}

/// Linux's numbers for why there is no connection.
#[derive(Clone, Copy)]
enum Errno {
    Refused,
    HostUnreachable,
    NetworkUnreachable,
    TimedOut,
    Input,
}

impl Errno {
    /// The number, its name (which is all that eventlet tells), and its words.
    fn tell(self) -> (u8, &'static str, &'static str) {
        match self {
            Self::Refused => (111, "ECONNREFUSED", "Connection refused"),
            Self::HostUnreachable => (113, "EHOSTUNREACH", "No route to host"),
            Self::NetworkUnreachable => (101, "ENETUNREACH", "Network is unreachable"),
            Self::TimedOut => (110, "ETIMEDOUT", "Connection timed out"),
            Self::Input => (5, "EIO", "Input/output error"),
        }
    }
}

/// How far an exchange had come when it failed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Progress {
    /// No whole head had come.
    Head,
    /// Some of the body had come.
    Body {
        /// Bytes that came.
        read: u64,
        /// Bytes that were announced.
        expected: Option<u64>,
    },
}

impl Failure {
    fn invalid_url(url: &str) -> Self {
        Self { text: format!("Invalid URL {}: No host supplied", repr_text(url)) }
    }
}

fn reset() -> String {
    "('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))".to_owned()
}

/// urllib3's names for a server: the pool, and in the alternate form one of its connections.
struct Pool<'a>(&'a Uri);

impl Pool<'_> {
    fn host(&self) -> &str {
        self.0.host().unwrap_or_default()
    }

    fn port(&self) -> u16 {
        self.0.port_u16().unwrap_or(if self.is_tls() { 443 } else { 80 })
    }

    fn is_tls(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }

    fn kind(&self) -> &'static str {
        if self.is_tls() { "HTTPSConnection" } else { "HTTPConnection" }
    }

    fn unreachable(&self, cause: &str) -> String {
        format!("{self}: Max retries exceeded with url: {} (Caused by {cause})", without_secrets(self.0))
    }
}

impl fmt::Display for Pool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pool = if f.alternate() { "" } else { "Pool" };
        write!(f, "{}{pool}(host='{}', port={})", self.kind(), self.host(), self.port())
    }
}

/// The path and query, with the values of secrets starred out.
fn without_secrets(uri: &Uri) -> String {
    let Some(query) = uri.query() else { return uri.path().to_owned() };
    let pairs: Vec<String> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((key, _)) if key.contains("token") || key.contains("password") => format!("{key}=***"),
            Some(_) | None => pair.to_owned(),
        })
        .collect();
    format!("{}?{}", uri.path(), pairs.join("&"))
}

/// A redirect's target as a whole URL.
fn absolute(from: &str, to: &str) -> Option<String> {
    if to.contains("://") {
        return Some(to.to_owned());
    }
    let from: Uri = from.parse().ok()?;
    let path = if to.starts_with('/') {
        to.to_owned()
    } else {
        let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{folder}/{to}")
    };
    Some(format!("{}://{}{path}", from.scheme_str()?, from.authority()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_resolved() {
        for (from, to, whole) in [
            ("http://a:1/b/c", "https://d/e", "https://d/e"),
            ("http://a:1/b/c", "/e?f", "http://a:1/e?f"),
            ("http://a:1/b/c", "e", "http://a:1/b/e"),
        ] {
            assert_eq!(absolute(from, to).as_deref(), Some(whole));
        }
    }

    #[test]
    fn secrets_of_a_query_are_not_quoted() {
        let uri: Uri = "http://a/v1/commands/?wait=true&agent_token=abc".parse().expect("this is a URI");
        assert_eq!(without_secrets(&uri), "/v1/commands/?wait=true&agent_token=***");
    }
}
