//! The API: from a request to what Ironic answers.
//!
//! One handler takes all paths, because Ironic's rules cut across them: paths without `/v1` mean the same as with it,
//! versions are negotiated before anything else, and unknown paths have error bodies of their own. What a path means
//! is in the modules below.

mod agents;
mod discovery;
mod list;
mod nodes;
mod patch;
mod ports;
mod states;
mod update;
mod version;

use axum::{
    Router,
    body::Body,
    extract::Query,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};
use serde_json::{Map, Value, json};
use wire::http::Fate;

use self::version::{Negotiation, Version};
use crate::{conductor::Conductor, failure::Failure, fault::Verdict};

/// The largest body that is read, in bytes; configuration drives come in them.
const BODY_LIMIT: usize = 64 << 20;

/// What the handlers know of a request.
struct Request {
    method: Method,
    /// The decoded path, without `v1`.
    path: Vec<String>,
    /// Whether the path is `/`, which asks for all versions there are.
    is_root: bool,
    query: Vec<(String, String)>,
    version: Version,
    body: Bytes,
    /// Scheme and authority, for links.
    base: String,
}

/// What Ironic answers when it does not refuse.
struct Answer {
    status: StatusCode,
    body: Option<Value>,
    location: Option<String>,
}

impl Answer {
    fn ok(body: impl Into<Value>) -> Self {
        Self { status: StatusCode::OK, body: Some(body.into()), location: None }
    }

    fn created(body: impl Into<Value>, location: String) -> Self {
        Self { status: StatusCode::CREATED, body: Some(body.into()), location: Some(location) }
    }

    /// 202, without a body.
    fn accepted() -> Self {
        Self { status: StatusCode::ACCEPTED, body: None, location: None }
    }

    /// 204.
    fn nothing() -> Self {
        Self { status: StatusCode::NO_CONTENT, body: None, location: None }
    }

    fn at(self, location: String) -> Self {
        Self { location: Some(location), ..self }
    }
}

type Outcome = Result<Answer, Failure>;

/// The API of a conductor.
#[derive(Clone)]
pub(crate) struct Api {
    conductor: Conductor,
}

impl Api {
    pub(crate) fn new(conductor: Conductor) -> Self {
        Self { conductor }
    }

    /// The service for all paths.
    pub(crate) fn router(self) -> Router {
        Router::new().fallback(move |request: axum::extract::Request| {
            let api = self.clone();
            async move { api.serve(request).await }
        })
    }

    /// Answers a request. It is carried out even if the client does not wait for the answer.
    async fn serve(self, request: axum::extract::Request) -> Response {
        let host = self.conductor.host().clone();
        let answering = host.spawn(async move {
            let (parts, body) = request.into_parts();
            match self.conductor.faults().judge(&parts.method, parts.uri.path()) {
                None => self.answer(&parts, body).await,
                Some(Verdict::Status(status)) => self.refuse(&Failure::injected(status), None),
                Some(Verdict::Stall) => std::future::pending().await,
                Some(Verdict::Reset) => fated(Fate::Reset),
                Some(Verdict::LoseAnswer) => {
                    drop(self.answer(&parts, body).await);
                    fated(Fate::Reset)
                }
            }
        });
        answering.await.unwrap_or_else(|| fated(Fate::Close))
    }

    async fn answer(&self, parts: &Parts, body: Body) -> Response {
        let path = path_of(parts.uri.path());
        let maximum = self.conductor.settings().release.api_max_version;
        let version = match version::negotiate(&parts.headers, maximum) {
            Negotiation::Agreed(version) => version,
            Negotiation::Refused(text) => return self.refuse(&Failure::version(text), None),
        };
        let outcome = match read(parts, body, path, version).await {
            Ok(request) => self.dispatch(&request).await,
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(answer) => self.dress(answer, version),
            Err(failure) => self.refuse(&failure, Some(version)),
        }
    }

    async fn dispatch(&self, request: &Request) -> Outcome {
        let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
        if request.method == Method::OPTIONS {
            return Ok(Answer { status: StatusCode::OK, body: None, location: None });
        }
        match path.as_slice() {
            [] => match request.method {
                Method::GET | Method::HEAD => Ok(self.discover(request)),
                _ => Err(Failure::no_method()),
            },
            ["drivers", rest @ ..] => self.drivers(request, rest),
            ["conductors", rest @ ..] => self.conductors(request, rest),
            ["nodes", rest @ ..] => self.nodes(request, rest).await,
            ["ports", rest @ ..] => self.ports(request, rest),
            ["lookup"] => self.lookup(request),
            ["heartbeat", node] => self.heartbeat(request, node),
            ["continue_inspection"] => self.continue_inspection(request).await,
            _ => Err(Failure::no_route()),
        }
    }

    fn dress(&self, answer: Answer, version: Version) -> Response {
        let body = answer.body.map(|body| body.to_string());
        let mut response = (answer.status, body.clone().unwrap_or_default()).into_response();
        let headers = response.headers_mut();
        headers.remove(header::CONTENT_TYPE);
        if body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(location) = answer.location.and_then(|text| HeaderValue::from_str(&text).ok()) {
            headers.insert(header::LOCATION, location);
        }
        self.add_headers(headers, Some(version));
        response
    }

    fn refuse(&self, failure: &Failure, version: Option<Version>) -> Response {
        let mut response = (failure.status, failure.body().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.add_headers(headers, version);
        response
    }

    fn add_headers(&self, headers: &mut HeaderMap, version: Option<Version>) {
        let mut put = |name: &'static str, value: String| {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        let maximum = Version(self.conductor.settings().release.api_max_version);
        put("x-openstack-ironic-api-minimum-version", version::MINIMUM.to_string());
        put("x-openstack-ironic-api-maximum-version", maximum.to_string());
        if let Some(version) = version {
            put("x-openstack-ironic-api-version", version.to_string());
        }
        let id = format!("req-{}", self.conductor.host().uuid("request"));
        put("openstack-request-id", id.clone());
        put("x-openstack-request-id", id);
    }
}

fn fated(fate: Fate) -> Response {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(fate);
    response
}

async fn read(parts: &Parts, body: Body, path: Vec<String>, version: Version) -> Result<Request, Failure> {
    let body = axum::body::to_bytes(body, BODY_LIMIT).await.map_err(|_| Failure::too_large())?;
    let query = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
        .map_err(|error| Failure::invalid(error.body_text()))?
        .0;
    let authority = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let authority =
        authority.or(parts.uri.authority().map(http::uri::Authority::as_str)).unwrap_or("localhost");
    let is_root = parts.uri.path() == "/";
    Ok(Request {
        method: parts.method.clone(),
        path,
        is_root,
        query,
        version,
        body,
        base: format!("http://{authority}"),
    })
}

/// The decoded segments of a path, without `v1` and empty ones.
fn path_of(path: &str) -> Vec<String> {
    let mut segments: Vec<String> =
        path.split('/').filter(|segment| !segment.is_empty()).map(decoded).collect();
    if segments.first().is_some_and(|first| first == "v1") {
        segments.remove(0);
    }
    segments
}

/// A segment without percent-encoding; one that is encoded wrongly stays as it is.
fn decoded(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        match (digit(rest.next()), digit(rest.next())) {
            (Some(high), Some(low)) => bytes.extend(u8::try_from(high * 16 + low)),
            (None, _) | (_, None) => return segment.to_owned(),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| segment.to_owned())
}

impl Request {
    /// The value of a query argument.
    fn argument(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Refuses query arguments that are not among these.
    fn expect_arguments(&self, known: &[&str]) -> Result<(), Failure> {
        refuse_unexpected(self.query.iter().map(|(key, _)| key.as_str()), known)
    }

    /// A list of fields, as in `fields=uuid,name`.
    fn fields(&self) -> Option<Vec<&str>> {
        self.argument("fields").map(|fields| fields.split(',').filter(|field| !field.is_empty()).collect())
    }

    fn flag(&self, name: &str) -> bool {
        self.argument(name).is_some_and(is_true)
    }

    /// The body as JSON; `null` without one.
    fn json(&self) -> Result<Value, Failure> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body).map_err(|error| Failure::server(complaint(&error, &self.body)))
    }

    /// The body as a JSON object with no other keys than these.
    fn object(&self, known: &[&str]) -> Result<Map<String, Value>, Failure> {
        match self.json()? {
            Value::Object(map) => {
                refuse_unexpected(map.keys().map(String::as_str), known)?;
                Ok(map)
            }
            Value::Null => Ok(Map::new()),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(Failure::invalid("Invalid input for body: it must be an object"))
            }
        }
    }

    /// The two links of a thing under a path like `nodes/U`.
    fn links(&self, path: &str) -> Value {
        json!([
            { "href": format!("{}/v1/{path}", self.base), "rel": "self" },
            { "href": format!("{}/{path}", self.base), "rel": "bookmark" },
        ])
    }
}

/// A boolean in a query.
fn is_true(text: &str) -> bool {
    matches!(text.to_ascii_lowercase().as_str(), "true" | "1" | "t" | "yes" | "on" | "y")
}

fn refuse_unexpected<'a>(given: impl Iterator<Item = &'a str>, known: &[&str]) -> Result<(), Failure> {
    let unexpected: Vec<&str> = given.filter(|key| !known.contains(key)).collect();
    if unexpected.is_empty() {
        return Ok(());
    }
    Err(Failure::invalid(format!("Unexpected arguments: {}", unexpected.join(", "))))
}

/// What Python says of a text that is not JSON.
fn complaint(error: &serde_json::Error, body: &[u8]) -> String {
    let (line, column) = (error.line(), error.column().max(1));
    let before: usize =
        body.split(|byte| *byte == b'\n').take(line.saturating_sub(1)).map(|line| line.len() + 1).sum();
    let what = if error.to_string().starts_with("key must be a string") {
        "Expecting property name enclosed in double quotes"
    } else {
        "Expecting value"
    };
    format!("{what}: line {line} column {column} (char {})", before + column - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        for (path, segments) in [
            ("/", vec![]),
            ("/v1/", vec![]),
            ("/v1/nodes/ns~host", vec!["nodes", "ns~host"]),
            ("/nodes/ns%7Ehost/", vec!["nodes", "ns~host"]),
            ("/v1/nodes/a%2Fb", vec!["nodes", "a/b"]),
            ("/v1/nodes/%zz", vec!["nodes", "%zz"]),
            ("/v1/nodes/%ff", vec!["nodes", "%ff"]),
            ("/v1/nodes/%", vec!["nodes", "%"]),
        ] {
            assert_eq!(path_of(path), segments, "{path}");
        }
    }

    #[test]
    fn bad_json_is_complained_about_as_python_does() {
        let complaint = |text: &str| {
            let error = serde_json::from_str::<Value>(text).expect_err("not JSON");
            complaint(&error, text.as_bytes())
        };
        assert_eq!(
            complaint("{not json"),
            "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
        );
        assert_eq!(complaint("[1,\n }"), "Expecting value: line 2 column 2 (char 5)");
    }
}
