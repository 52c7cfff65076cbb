//! From a request to its answer, as a function of the controller: no sockets, no waiting.
//!
//! The order of checks is that of DSP0266: the resource's name tells what is open to all; then who asks; then whether
//! there is such a resource and method; then the headers; then the body.

use base64::Engine as _;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;
use wire::Instant;

use super::{
    change,
    message::Problem,
    metadata,
    path::{self, Resource},
    resource::{self, View},
};
use crate::{
    controller::{Controller, operations},
    fault::{Operation, Seen},
    machine::Control,
};

const ODATA_VERSION: HeaderName = HeaderName::from_static("odata-version");
const AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");

/// A request whose body has been read.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a [u8],
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Body,
}

/// What an answer carries.
#[derive(Debug)]
pub(super) enum Body {
    Nothing,
    Json(Value),
    Xml(String),
    /// What is left of one of the others.
    Remains(Bytes),
}

impl Body {
    pub(super) fn into_bytes(self) -> Bytes {
        match self {
            Self::Nothing => Bytes::new(),
            Self::Json(value) => value.to_string().into(),
            Self::Xml(text) => text.into(),
            Self::Remains(bytes) => bytes,
        }
    }

    /// Its first bytes.
    pub(super) fn truncated(self, length: usize) -> Self {
        let mut bytes = self.into_bytes();
        bytes.truncate(length);
        Self::Remains(bytes)
    }
}

/// The world around the controller, at the moment of a request.
pub(super) struct Surroundings<'a> {
    pub(super) now: Instant,
    pub(super) date: jiff::Timestamp,
    pub(super) name: &'a str,
    pub(super) id: &'a str,
    /// Draws an id that nobody can guess.
    pub(super) fresh: &'a dyn Fn() -> Uuid,
}

impl Answer {
    pub(super) fn new(status: StatusCode, body: Body) -> Self {
        Self { status, headers: HeaderMap::new(), body }
    }

    fn problem(problem: &Problem) -> Self {
        Self::new(problem.status(), Body::Json(problem.body()))
    }

    fn with(mut self, name: HeaderName, value: &str) -> Self {
        // Values here are paths, hashes and ids; one that no header may hold is left out.
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }
}

/// An answer of this status that says nothing in particular.
pub(super) fn general(status: StatusCode) -> Answer {
    finish(Answer::problem(&Problem::General { status }))
}

/// The answer to a body that is too long to be read.
pub(super) fn too_large() -> Answer {
    finish(Answer::problem(&Problem::TooLarge))
}

/// What a request is about, for the faults that are waiting for it.
pub(super) fn seen<'a>(request: &Request<'a>, id: &str) -> Seen<'a> {
    let operations = match path::find(request.path, id) {
        Some(Resource::System) if request.method == Method::GET => vec![Operation::PowerStatus],
        Some(Resource::System) if request.method == Method::PATCH => vec![Operation::SetBoot],
        Some(Resource::SystemReset) => match reset_type(request.body) {
            Some(control) => operations(control),
            None => vec![Operation::Reset],
        },
        Some(Resource::Sessions) if request.method == Method::POST => vec![Operation::Login],
        Some(Resource::InsertMedia(..)) => vec![Operation::InsertMedia],
        Some(Resource::EjectMedia(..)) => vec![Operation::EjectMedia],
        Some(_) | None => Vec::new(),
    };
    Seen { operations, http: Some((request.method.as_str(), request.path)) }
}

fn reset_type(body: &[u8]) -> Option<Control> {
    let body: Value = serde_json::from_slice(body).ok()?;
    change::control(body.get("ResetType")?.as_str()?)
}

/// Answers a request.
pub(super) fn answer(
    controller: &mut Controller,
    request: &Request<'_>,
    around: &Surroundings<'_>,
) -> Answer {
    match try_answer(controller, request, around) {
        Ok(answer) => finish(answer),
        Err(problem) => {
            let answer = finish(Answer::problem(&problem));
            if problem == Problem::Unauthorized {
                return answer.with(header::WWW_AUTHENTICATE, "Basic realm=\"redfish\"");
            }
            match path::find(request.path, around.id) {
                Some(resource) if problem == Problem::MethodNotAllowed => {
                    answer.with(header::ALLOW, &allowed(&resource))
                }
                Some(_) | None => answer,
            }
        }
    }
}

/// Puts on what every answer has.
fn finish(answer: Answer) -> Answer {
    let kind = match answer.body {
        // An answer that lost a part has had its headers put on before.
        Body::Nothing | Body::Remains(_) => None,
        Body::Json(_) => Some("application/json;charset=utf-8"),
        Body::Xml(_) => Some("application/xml;charset=utf-8"),
    };
    let answer = answer.with(ODATA_VERSION, "4.0").with(header::CACHE_CONTROL, "no-cache");
    match kind {
        Some(kind) => answer.with(header::CONTENT_TYPE, kind),
        None => answer,
    }
}

fn allowed(resource: &Resource) -> String {
    resource.methods().iter().map(Method::as_str).collect::<Vec<_>>().join(", ")
}

fn try_answer(
    controller: &mut Controller,
    request: &Request<'_>,
    around: &Surroundings<'_>,
) -> Result<Answer, Problem> {
    let resource = path::find(request.path, around.id);
    let open = resource.as_ref().is_some_and(|resource| resource.is_open(request.method));
    if !open && !is_authorized(controller, request.headers, around.now) {
        return Err(Problem::Unauthorized);
    }
    let not_found = || Problem::NotFound { uri: request.path.to_owned() };
    let resource = resource.ok_or_else(not_found)?;
    if !resource.methods().contains(request.method) {
        return Err(Problem::MethodNotAllowed);
    }
    check_headers_and_query(request)?;
    match *request.method {
        Method::GET | Method::HEAD => read(controller, &resource, request, around).ok_or_else(not_found),
        Method::PATCH => {
            let present = body(controller, &resource, around).ok_or_else(not_found)?;
            check_if_match(request.headers, &etag(&present))?;
            change::patch(controller, &resource, &present, &object(request.body)?)?;
            Ok(Answer::new(StatusCode::NO_CONTENT, Body::Nothing))
        }
        Method::DELETE => {
            let closed = matches!(&resource, Resource::Session(id) if controller.close_session(id));
            if closed { Ok(Answer::new(StatusCode::NO_CONTENT, Body::Nothing)) } else { Err(not_found()) }
        }
        Method::POST if resource == Resource::Sessions => log_in(controller, &object(request.body)?, around),
        Method::POST => {
            // sushy sends no body with EjectMedia; an action without parameters needs none.
            let parameters = if request.body.is_empty() { Map::new() } else { object(request.body)? };
            change::act(controller, &resource, &parameters, around.now)?;
            Ok(Answer::new(StatusCode::NO_CONTENT, Body::Nothing))
        }
        _ => Err(Problem::MethodNotAllowed),
    }
}

fn check_headers_and_query(request: &Request<'_>) -> Result<(), Problem> {
    if request.headers.get(ODATA_VERSION).is_some_and(|version| version != "4.0") {
        return Err(Problem::VersionNotSupported);
    }
    // Only parameters of the protocol itself must be understood (DSP0266 section 7.3.1).
    let unknown =
        request.query.into_iter().flat_map(|query| query.split('&')).find(|pair| pair.starts_with('$'));
    match unknown {
        Some(pair) => {
            let name = pair.split('=').next().unwrap_or(pair);
            Err(Problem::QueryNotSupported { name: name.to_owned() })
        }
        None => Ok(()),
    }
}

fn read(
    controller: &Controller,
    resource: &Resource,
    request: &Request<'_>,
    around: &Surroundings<'_>,
) -> Option<Answer> {
    let allow = allowed(resource);
    if *resource == Resource::Metadata {
        let answer = Answer::new(StatusCode::OK, Body::Xml(metadata::document()));
        return Some(answer.with(header::ALLOW, &allow));
    }
    let mut body = body(controller, resource, around)?;
    let mut answer = Answer::new(StatusCode::OK, Body::Nothing).with(header::ALLOW, &allow);
    if resource.methods().contains(&Method::PATCH) {
        let etag = etag(&body);
        answer = answer.with(header::ETAG, &etag);
        if matches_any(request.headers, &header::IF_NONE_MATCH, &etag) {
            answer.status = StatusCode::NOT_MODIFIED;
            return Some(answer);
        }
        body["@odata.etag"] = json!(etag);
    }
    answer.body = Body::Json(body);
    Some(answer)
}

fn body(controller: &Controller, resource: &Resource, around: &Surroundings<'_>) -> Option<Value> {
    View { controller, name: around.name, id: around.id, date: around.date }.body(resource)
}

/// A strong ETag: it changes exactly when the body does.
fn etag(body: &Value) -> String {
    let digest = Sha256::digest(body.to_string().as_bytes());
    let short: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{short}\"")
}

fn check_if_match(headers: &HeaderMap, etag: &str) -> Result<(), Problem> {
    if headers.contains_key(header::IF_MATCH) && !matches_any(headers, &header::IF_MATCH, etag) {
        return Err(Problem::PreconditionFailed);
    }
    Ok(())
}

/// Whether a list of ETags names this one. Weak and strong ones are alike here (RFC 9110 section 8.8.3.2).
fn matches_any(headers: &HeaderMap, name: &HeaderName, etag: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|value| value == "*" || value.strip_prefix("W/").unwrap_or(value) == etag)
}

fn object(body: &[u8]) -> Result<Map<String, Value>, Problem> {
    serde_json::from_slice(body).map_err(|_| Problem::MalformedJson)
}

fn is_authorized(controller: &mut Controller, headers: &HeaderMap, now: Instant) -> bool {
    if let Some(token) = headers.get(AUTH_TOKEN) {
        return token.to_str().is_ok_and(|token| controller.uses_session(now, token));
    }
    let Some(basic) = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    match basic_login(basic) {
        Some((username, password)) => controller.accepts(&username, &password),
        None => false,
    }
}

fn basic_login(header: &str) -> Option<(String, String)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded.trim()).ok()?;
    let (username, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    Some((username.to_owned(), password.to_owned()))
}

fn log_in(
    controller: &mut Controller,
    login: &Map<String, Value>,
    around: &Surroundings<'_>,
) -> Result<Answer, Problem> {
    let field = |name: &str| match login.get(name) {
        None => Err(Problem::PropertyMissing { name: name.to_owned() }),
        // What was given may be a secret, so it is not repeated.
        Some(value) => value
            .as_str()
            .ok_or_else(|| Problem::PropertyValueType { name: name.to_owned(), value: "******".to_owned() }),
    };
    let (username, password) = (field("UserName")?, field("Password")?);
    if !controller.accepts(username, password) {
        return Err(Problem::Unauthorized);
    }
    let id = (around.fresh)().simple().to_string();
    let token = (around.fresh)().simple().to_string();
    let session = controller.open_session(around.now, id, token.clone());
    let location = resource::session_uri(&session.id);
    Ok(Answer::new(StatusCode::CREATED, Body::Json(resource::session(&session)))
        .with(header::LOCATION, &location)
        .with(AUTH_TOKEN, &token))
}
