//! Ironic's API, as the operator uses it.
//!
//! A reconcile first asks [`Ironic::ready`], which tells whether Ironic can work at all and gives a [`Session`]; every
//! further request is made through that. Nothing is tried twice here: what a failure means is for the caller to say.

mod error;
mod session;
#[cfg(test)]
mod tests;
mod version;

use std::{fmt, sync::Arc, time::Duration};

use base64::Engine as _;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use serde::Deserialize;
use serde_json::Value;
use wire::{
    Host, Instant,
    http::{Client, Timeouts},
};

pub use error::{Cause, IronicError};
pub use session::Session;
pub use version::{Microversion, UnknownVersion};

use crate::options::{Credentials, Options};
use version::Discovery;

/// A connection to Ironic's API. Cheap to clone; all clones share what they know of Ironic's readiness.
#[derive(Clone)]
pub struct Ironic(Arc<Inner>);

struct Inner {
    host: Host,
    http: Client,
    /// Without a trailing slash.
    endpoint: String,
    headers: HeaderMap,
    /// How long one request may take.
    limit: Duration,
    /// How long a good answer about readiness lasts.
    cache: Duration,
    /// Held while asking, so that reconciles which ask at the same time share one answer, or fail one after another.
    ready: tokio::sync::Mutex<Option<(Instant, Microversion)>>,
}

impl fmt::Debug for Ironic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ironic").field("endpoint", &self.0.endpoint).finish_non_exhaustive()
    }
}

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// It is not a URL with a host.
    #[error("use {0:?} as Ironic's endpoint: it is not an http:// URL with a host")]
    NotHttp(String),
    /// The user name or password cannot be sent in a header.
    #[error("use the credentials for Ironic: they cannot be sent in a header")]
    Credentials,
}

/// Why Ironic is not ready for work. The operator waits for it and does nothing else meanwhile.
#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    /// It does not answer as it should.
    #[error("find Ironic ready")]
    Unanswered(#[source] IronicError),
    /// It lacks what the operator needs.
    #[error("use an Ironic whose newest API version is {0}: at least {min} is needed", min = Microversion::OLDEST)]
    TooOld(Microversion),
    /// No conductor is alive to drive hardware.
    #[error("find a driver in Ironic: no conductor is alive")]
    NoDrivers,
}

impl Ironic {
    /// The Ironic that the options name.
    pub fn new(host: &Host, options: &Options) -> Result<Self, EndpointError> {
        let endpoint = options.ironic.to_string();
        if !is_http(&options.ironic) {
            return Err(EndpointError::NotHttp(endpoint));
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(
            header::USER_AGENT,
            HeaderValue::from_static(concat!("baremetal-operator/", env!("CARGO_PKG_VERSION"))),
        );
        if let Some(credentials) = &options.credentials {
            headers.insert(header::AUTHORIZATION, basic(credentials)?);
        }
        let limit = options.ironic_timeout;
        Ok(Self(Arc::new(Inner {
            host: host.clone(),
            http: Client::new(host, Timeouts { connect: limit, read: limit }),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            headers,
            limit,
            cache: options.ironic_cache,
            ready: tokio::sync::Mutex::new(None),
        })))
    }

    /// Asks whether Ironic can work: its API answers in a version that we speak, and a conductor offers drivers. A
    /// good answer lasts a few seconds; a bad one is never kept.
    pub async fn ready(&self) -> Result<Session, NotReady> {
        let mut ready = self.0.ready.lock().await;
        let fresh = ready.filter(|(asked, _)| self.0.host.now().since(*asked) < self.0.cache);
        let version = match fresh {
            Some((_, version)) => version,
            None => {
                *ready = None;
                let version = self.ask_whether_ready().await?;
                *ready = Some((self.0.host.now(), version));
                version
            }
        };
        Ok(Session::new(self.clone(), version))
    }

    async fn ask_whether_ready(&self) -> Result<Microversion, NotReady> {
        let discovery: Discovery = self
            .request(None, Method::GET, "/", None, &[StatusCode::OK])
            .await
            .and_then(|answer| answer.json())
            .map_err(NotReady::Unanswered)?;
        let newest = discovery.newest().map_err(|cause| {
            NotReady::Unanswered(IronicError { request: "GET /".to_owned(), cause: cause.into() })
        })?;
        let version = newest.best_known().ok_or(NotReady::TooOld(newest))?;
        let drivers: Drivers = self
            .request(Some(version), Method::GET, "/drivers", None, &[StatusCode::OK])
            .await
            .and_then(|answer| answer.json())
            .map_err(NotReady::Unanswered)?;
        if drivers.drivers.is_empty() {
            return Err(NotReady::NoDrivers);
        }
        Ok(version)
    }

    /// Sends one request and insists on one of the `expected` answers. `path` begins with a slash and is below the
    /// endpoint.
    async fn request(
        &self,
        version: Option<Microversion>,
        method: Method,
        path: &str,
        body: Option<&Value>,
        expected: &[StatusCode],
    ) -> Result<Answered, IronicError> {
        let request = format!("{method} {path}");
        let fail = |cause| IronicError { request: request.clone(), cause };
        let message =
            self.message(version, method, path, body).map_err(|error| fail(Cause::Unsendable(error)))?;
        let answer = match wire::within(self.0.limit, self.0.http.send(message)).await {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => return Err(fail(Cause::Unreachable(error))),
            None => return Err(fail(Cause::TimedOut(self.0.limit))),
        };
        let (head, body) = answer.into_parts();
        if expected.contains(&head.status) {
            Ok(Answered { request, body })
        } else {
            Err(fail(Cause::Refused { status: head.status, text: error::text(&body) }))
        }
    }

    fn message(
        &self,
        version: Option<Microversion>,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> http::Result<http::Request<Bytes>> {
        let mut message = http::Request::builder().method(method).uri(format!("{}{path}", self.0.endpoint));
        if let Some(version) = version {
            message = message
                .header("X-OpenStack-Ironic-API-Version", version.to_string())
                .header("OpenStack-API-Version", format!("baremetal {version}"));
        }
        let body = match body {
            Some(body) => {
                message = message.header(header::CONTENT_TYPE, "application/json");
                Bytes::from(body.to_string())
            }
            None => Bytes::new(),
        };
        let mut message = message.body(body)?;
        message.headers_mut().extend(self.0.headers.clone());
        Ok(message)
    }
}

/// The answer that was hoped for.
struct Answered {
    request: String,
    body: Bytes,
}

impl Answered {
    fn json<T: serde::de::DeserializeOwned>(self) -> Result<T, IronicError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| IronicError { request: self.request, cause: Cause::Garbled(error) })
    }
}

/// The answer about drivers, of which only their number counts.
#[derive(Deserialize)]
struct Drivers {
    drivers: Vec<Value>,
}

fn is_http(endpoint: &Uri) -> bool {
    endpoint.scheme() == Some(&http::uri::Scheme::HTTP)
        && endpoint.host().is_some()
        && endpoint.query().is_none()
}

fn basic(credentials: &Credentials) -> Result<HeaderValue, EndpointError> {
    let pair = format!("{}:{}", credentials.username, credentials.password);
    let text = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair));
    let mut value = HeaderValue::try_from(text).map_err(|_| EndpointError::Credentials)?;
    value.set_sensitive(true);
    Ok(value)
}
