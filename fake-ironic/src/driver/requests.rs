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

/// `requests` gives up after this many redirects.
const REDIRECTS: usize = 30;

/// Linux gives up on a connection after about 127 s; a limit above that never acts.
const SYSTEM_CONNECT_LIMIT: Duration = Duration::from_secs(127);

/// A client that asks for each connection to be closed, as Ironic's do.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    host: Host,
    client: Client,
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
        Self { host: host.clone(), client: Client::without_keep_alive(host, timeouts) }
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
        let expected = head.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
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
        let refused = |errno: u8, words: &str| {
            pool.unreachable(&format!(
                "NewConnectionError(\"{pool:#}: Failed to establish a new connection: [Errno {errno}] {words}\")"
            ))
        };
        let text = match error {
            Error::Connect { source, .. } => match source.kind() {
                io::ErrorKind::ConnectionRefused => refused(111, "Connection refused"),
                io::ErrorKind::HostUnreachable => refused(113, "No route to host"),
                io::ErrorKind::NetworkUnreachable => refused(101, "Network is unreachable"),
                io::ErrorKind::ConnectionReset => reset(),
                io::ErrorKind::NotFound => {
                    let host = pool.host();
                    pool.unreachable(&format!(
                        "NameResolutionError(\"{pool:#}: Failed to resolve '{host}' ([Errno -2] Name or service not known)\")"
                    ))
                }
                kind => refused(5, &kind.to_string()),
            },
            Error::ConnectTimeout { limit, .. } if *limit >= SYSTEM_CONNECT_LIMIT => {
                refused(110, "Connection timed out")
            }
            Error::ConnectTimeout { limit, .. } => {
                // What CPython shows of an object without a better name.
                let address = self.host.uuid("python object").as_u128() & 0xffff_fff0;
                let (host, limit) = (pool.host(), limit.as_secs());
                pool.unreachable(&format!(
                    "ConnectTimeoutError(<{pool:#} at 0x7f{address:010x}>, 'Connection to {host} timed out. (connect timeout={limit})')"
                ))
            }
            Error::ReadTimeout { limit, .. } => {
                format!("{pool}: Read timed out. (read timeout={})", limit.as_secs())
            }
            Error::Reset { .. } => reset(),
            Error::Closed { .. } => match progress {
                Progress::Head => {
                    "('Connection aborted.', RemoteDisconnected('Remote end closed connection without response'))"
                        .to_owned()
                }
                Progress::Body { read, expected } => {
                    let missing = expected
                        .map(|expected| format!(", {} more expected", expected.saturating_sub(read)))
                        .unwrap_or_default();
                    let incomplete = format!("IncompleteRead({read} bytes read{missing})");
                    format!("('Connection broken: {incomplete}', {incomplete})")
                }
            },
            Error::Protocol { reason, .. } => format!("('Connection aborted.', BadStatusLine({}))", quote(reason)),
        };
        Failure { text }
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
        Self { text: format!("Invalid URL {}: No host supplied", quote(url)) }
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

    fn unreachable(&self, cause: &str) -> String {
        format!("{self}: Max retries exceeded with url: {} (Caused by {cause})", without_secrets(self.0))
    }
}

impl fmt::Display for Pool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_tls() { "HTTPSConnection" } else { "HTTPConnection" };
        let pool = if f.alternate() { "" } else { "Pool" };
        write!(f, "{kind}{pool}(host='{}', port={})", self.host(), self.port())
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

/// Python's `repr()` of a string.
pub(crate) fn quote(text: &str) -> String {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::from(mark);
    for letter in text.chars() {
        match letter {
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\\' => quoted.push_str("\\\\"),
            _ if letter == mark => quoted.extend(['\\', letter]),
            _ => quoted.push(letter),
        }
    }
    quoted.push(mark);
    quoted
}

/// Python's `repr()` of what JSON can hold.
pub(crate) fn repr(value: &serde_json::Value) -> String {
    use serde_json::Value;
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quote(text),
        Value::Array(items) => format!("[{}]", items.iter().map(repr).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| format!("{}: {}", quote(key), repr(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    #[test]
    fn values_are_shown_as_python_shows_them() {
        for (value, shown) in [
            (json!(null), "None"),
            (json!([true, 1, "a'b"]), r#"[True, 1, "a'b"]"#),
            (json!({ "a": "b'\"\n" }), r#"{'a': 'b\'"\n'}"#),
        ] {
            assert_eq!(repr(&value), shown);
        }
    }
}
