//! The Redfish client as Ironic's library sushy behaves: how it logs in, what it tries again, how long, and what it
//! says when it gives up.
//!
//! Three layers of patience lie above each other. A request is repeated while the transport fails; a GET is repeated
//! while the server answers 5xx; and when a connection to a BMC cannot be had, Ironic repeats the whole of it. A BMC
//! that swallows packets costs their product.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::Engine as _;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;
use wire::{Host, http::Timeouts};

use super::super::{
    DriverError, Target,
    requests::{Answer, Failure, Requests, repr},
    text_of,
};
use crate::settings::{RedfishAuth, Settings};

/// The path of every service root.
const ROOT: &str = "/redfish/v1/";

/// One BMC and how to log in there, from a node's `driver_info`.
#[derive(Clone)]
pub(super) struct Bmc {
    pub(super) node: Uuid,
    /// Scheme, host and port.
    address: String,
    /// The path of the node's system; `None` when the BMC has only one.
    system: Option<String>,
    account: Option<Account>,
    auth: RedfishAuth,
}

#[derive(Clone)]
struct Account {
    username: String,
    password: String,
}

impl Bmc {
    pub(super) fn of(target: &Target, settings: &Settings) -> Result<Self, DriverError> {
        let info = &target.driver_info;
        let node = target.uuid;
        let Some(address) = text_of(info, "redfish_address") else {
            return Err(DriverError::Invalid(format!(
                "Missing the following Redfish properties in node {node} driver_info: ['redfish_address']"
            )));
        };
        let whole = if address.contains("://") { address.to_owned() } else { format!("https://{address}") };
        let parsed = whole.parse::<http::Uri>().ok().filter(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
        });
        let Some(uri) = parsed else {
            return Err(DriverError::Invalid(format!(
                "Invalid Redfish address {address} set in driver_info/redfish_address on node {node}"
            )));
        };
        let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        let address = format!("{}://{authority}", uri.scheme_str().unwrap_or("https"));
        let system = text_of(info, "redfish_system_id").map(str::to_owned);
        if system.as_deref().is_some_and(|path| path.contains("://")) {
            return Err(DriverError::Invalid(format!(
                "The value of driver_info/redfish_system_id on node {node} must be a path without scheme and authority"
            )));
        }
        let account = text_of(info, "redfish_username").map(|username| Account {
            username: username.to_owned(),
            password: text_of(info, "redfish_password").unwrap_or_default().to_owned(),
        });
        let auth = match info.get("redfish_auth_type").and_then(Value::as_str) {
            None => settings.redfish.auth_type,
            Some("auto") => RedfishAuth::Auto,
            Some("session") => RedfishAuth::Session,
            Some("basic") => RedfishAuth::Basic,
            Some(other) => {
                return Err(DriverError::Invalid(format!(
                    "Invalid value \"{other}\" set in driver_info/redfish_auth_type on node {node}. The value should be one of basic, session, auto."
                )));
            }
        };
        Ok(Self { node, address, system, account, auth })
    }

    /// Under what the connection is kept: another password is another connection.
    fn key(&self) -> [u8; 32] {
        let mut key = Sha256::new();
        let account = self.account.as_ref();
        let parts = [
            self.address.as_str(),
            account.map_or("", |account| &account.username),
            account.map_or("", |account| &account.password),
        ];
        for part in parts {
            key.update((part.len() as u64).to_le_bytes());
            key.update(part);
        }
        key.finalize().into()
    }
}

/// Why a request to a BMC failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The transport failed until patience ended.
    #[error("Unable to connect to {url}. Error: {failure}")]
    Connection { url: String, failure: Failure },
    /// The BMC answered with an error.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The answer is not JSON. Python's own exception, which Ironic does not expect.
    #[error("{0}")]
    NotJson(String),
    /// A resource lacks something.
    #[error("The attribute {attribute} is missing from the resource {resource}")]
    MissingAttribute { attribute: &'static str, resource: String },
    /// The BMC made a session without a token.
    #[error("No X-Auth-Token returned from remote host when attempting to establish a session. Error: {0}")]
    MissingToken(String),
}

/// An error that a BMC answered.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// The whole body, for those who look for message ids.
    pub(super) body: String,
    text: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error {
    /// The status that the BMC answered, if it did.
    pub(super) fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            Self::Connection { .. } | Self::NotJson(_) | Self::MissingAttribute { .. } | Self::MissingToken(_) => None,
        }
    }

    /// Whether the answer's body names a message.
    pub(super) fn mentions(&self, message: &str) -> bool {
        match self {
            Self::Refused(refusal) => refusal.body.contains(message),
            Self::Connection { .. } | Self::NotJson(_) | Self::MissingAttribute { .. } | Self::MissingToken(_) => false,
        }
    }

    fn is_access(&self) -> bool {
        matches!(self.status(), Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN))
    }

    /// What Ironic makes of a failure to find a system.
    fn finding(self, node: Uuid) -> DriverError {
        match &self {
            Self::Connection { .. } => DriverError::RedfishConnection { node, error: self.to_string() },
            Self::Refused(refusal) if refusal.status == StatusCode::NOT_FOUND || self.is_access() => {
                DriverError::Redfish(self.to_string())
            }
            Self::Refused(_) | Self::NotJson(_) | Self::MissingAttribute { .. } | Self::MissingToken(_) => {
                DriverError::Sushy(self.to_string())
            }
        }
    }
}

impl From<Error> for DriverError {
    fn from(error: Error) -> Self {
        Self::Sushy(error.to_string())
    }
}

/// How requests to a BMC say who sends them.
#[derive(Clone)]
enum Login {
    Nobody,
    Basic,
    Session { token: String },
}

/// Reaches BMCs, and keeps the connections.
pub(super) struct Sushy {
    host: Host,
    settings: Arc<Settings>,
    requests: Requests,
    logins: Mutex<BTreeMap<[u8; 32], Login>>,
}

/// A system as it was read, and the way to its BMC.
pub(super) struct System {
    pub(super) bmc: Bmc,
    pub(super) path: String,
    pub(super) body: Value,
    pub(super) etag: Option<String>,
}

impl System {
    /// The path that a link of the system leads to.
    pub(super) fn link(&self, pointer: &str) -> Option<&str> {
        self.body.pointer(pointer)?.get("@odata.id")?.as_str()
    }
}

impl Sushy {
    pub(super) fn new(host: Host, settings: Arc<Settings>) -> Self {
        let timeouts =
            Timeouts { connect: settings.redfish.connect_timeout, read: settings.redfish.read_timeout };
        let requests = Requests::new(&host, timeouts);
        Self { host, settings, requests, logins: Mutex::default() }
    }

    fn logins(&self) -> std::sync::MutexGuard<'_, BTreeMap<[u8; 32], Login>> {
        self.logins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the node's system, connecting first where need be.
    pub(super) async fn system(&self, bmc: &Bmc) -> Result<System, DriverError> {
        let settings = &self.settings.redfish;
        let mut attempt = 1;
        loop {
            match self.find_system(bmc).await {
                Ok(system) => return Ok(system),
                Err(error) => {
                    let lost = matches!(error, Error::Connection { .. });
                    if lost || error.is_access() {
                        // The next connection starts anew, with a new session.
                        self.logins().remove(&bmc.key());
                    }
                    if !lost || attempt >= settings.connection_attempts {
                        return Err(error.finding(bmc.node));
                    }
                }
            }
            attempt += 1;
            self.host.sleep(settings.connection_retry_interval).await;
        }
    }

    async fn find_system(&self, bmc: &Bmc) -> Result<System, Error> {
        if !self.logins().contains_key(&bmc.key()) {
            let root = self.get(bmc, ROOT).await?.0;
            let login = self.log_in(bmc, &root).await?;
            self.logins().insert(bmc.key(), login);
        }
        let path = match &bmc.system {
            Some(path) => path.clone(),
            None => self.only_system(bmc).await?,
        };
        let (body, etag) = self.get(bmc, &path).await?;
        if body.get("Id").is_none_or(Value::is_null) {
            return Err(Error::MissingAttribute { attribute: "Id", resource: path });
        }
        Ok(System { bmc: bmc.clone(), path, body, etag })
    }

    async fn only_system(&self, bmc: &Bmc) -> Result<String, Error> {
        let (root, _) = self.get(bmc, ROOT).await?;
        let collection = root
            .pointer("/Systems/@odata.id")
            .and_then(Value::as_str)
            .ok_or_else(|| Error::MissingAttribute { attribute: "Systems/@odata.id", resource: ROOT.to_owned() })?
            .to_owned();
        let (systems, _) = self.get(bmc, &collection).await?;
        let mut members = members(&systems);
        match (members.next(), members.next()) {
            (Some(only), None) => Ok(only.to_owned()),
            (None, _) | (Some(_), Some(_)) => {
                Err(Error::MissingAttribute { attribute: "Members/@odata.id", resource: collection })
            }
        }
    }

    /// Logs in as the settings say; a BMC without sessions gets the password with each request.
    async fn log_in(&self, bmc: &Bmc, root: &Value) -> Result<Login, Error> {
        let Some(account) = &bmc.account else { return Ok(Login::Nobody) };
        match bmc.auth {
            RedfishAuth::Basic => Ok(Login::Basic),
            RedfishAuth::Session => self.create_session(bmc, account, root).await,
            RedfishAuth::Auto => match self.create_session(bmc, account, root).await {
                Ok(login) => Ok(login),
                Err(error @ Error::Connection { .. }) => Err(error),
                Err(error) => {
                    tracing::debug!(node = %bmc.node, %error, "no session, so basic authentication");
                    Ok(Login::Basic)
                }
            },
        }
    }

    async fn create_session(&self, bmc: &Bmc, account: &Account, root: &Value) -> Result<Login, Error> {
        let path = root.pointer("/Links/Sessions/@odata.id").and_then(Value::as_str);
        let path = path.map_or_else(|| format!("{ROOT}SessionService/Sessions"), str::to_owned);
        let body = json!({ "UserName": account.username, "Password": account.password });
        let call = Call { method: Method::POST, path: &path, body: Some(&body), if_match: None };
        let answer = self.attempts(bmc, &Login::Nobody, &call).await?;
        let url = format!("{}{path}", bmc.address);
        let answer = raise_for_status(&call.method, &url, answer)?;
        match answer.header("X-Auth-Token") {
            Some(token) => Ok(Login::Session { token: token.to_owned() }),
            None => Err(Error::MissingToken(url)),
        }
    }

    /// Reads a resource, and its ETag.
    pub(super) async fn get(&self, bmc: &Bmc, path: &str) -> Result<(Value, Option<String>), Error> {
        let answer = self.call(bmc, Call { method: Method::GET, path, body: None, if_match: None }).await?;
        let body = decode(&answer.body)?;
        let etag = answer.header(header::ETAG).filter(|etag| !etag.is_empty()).map(str::to_owned);
        Ok((body, etag))
    }

    /// Carries an action out.
    pub(super) async fn post(&self, bmc: &Bmc, path: &str, body: Option<&Value>) -> Result<(), Error> {
        self.call(bmc, Call { method: Method::POST, path, body, if_match: None }).await.map(drop)
    }

    /// Changes a resource. A BMC that refuses the ETag it gave gets a strong one, then none.
    pub(super) async fn patch(&self, bmc: &Bmc, path: &str, body: &Value, etag: Option<&str>) -> Result<(), Error> {
        let strong = etag.and_then(|etag| etag.strip_prefix("W/"));
        let mut last = None;
        let ladder = [etag.map(Some), strong.map(Some), Some(None)];
        for if_match in ladder.into_iter().flatten() {
            match self.call(bmc, Call { method: Method::PATCH, path, body: Some(body), if_match }).await {
                Err(error) if error.status() == Some(StatusCode::PRECONDITION_FAILED) => last = Some(error),
                other => return other.map(drop),
            }
        }
        Err(last.unwrap_or_else(|| Error::MissingAttribute { attribute: "ETag", resource: path.to_owned() }))
    }

    /// Waits, on behalf of an operation that will try again.
    pub(super) async fn pause(&self, wait: Duration) {
        self.host.sleep(wait).await;
    }

    /// Sends a request with the login that is kept, logging in once more if the session is refused.
    async fn call(&self, bmc: &Bmc, call: Call<'_>) -> Result<Answer, Error> {
        let login = self.logins().get(&bmc.key()).cloned().unwrap_or(Login::Nobody);
        let url = format!("{}{}", bmc.address, call.path);
        let answer = self.attempts(bmc, &login, &call).await?;
        let refused = match raise_for_status(&call.method, &url, answer) {
            Err(error) if error.is_access() => error,
            other => return other,
        };
        let (Login::Session { .. }, Some(account)) = (&login, &bmc.account) else { return Err(refused) };
        let root = json!({ "Links": { "Sessions": { "@odata.id": self.sessions_path(bmc).await? } } });
        let renewed = match self.create_session(bmc, account, &root).await {
            Ok(login) => login,
            Err(error @ Error::Connection { .. }) => return Err(error),
            Err(_) => return Err(refused),
        };
        self.logins().insert(bmc.key(), renewed.clone());
        raise_for_status(&call.method, &url, self.attempts(bmc, &renewed, &call).await?)
    }

    /// Where sessions are made; the service root tells without a login.
    async fn sessions_path(&self, bmc: &Bmc) -> Result<String, Error> {
        let call = Call { method: Method::GET, path: ROOT, body: None, if_match: None };
        let answer = self.attempts(bmc, &Login::Nobody, &call).await?;
        let root = decode(&answer.body)?;
        let path = root.pointer("/Links/Sessions/@odata.id").and_then(Value::as_str);
        Ok(path.map_or_else(|| format!("{ROOT}SessionService/Sessions"), str::to_owned))
    }

    /// Sends a request until there is an answer that counts, or patience ends.
    async fn attempts(&self, bmc: &Bmc, login: &Login, call: &Call<'_>) -> Result<Answer, Error> {
        let settings = &self.settings.redfish;
        let (mut unheard, mut broken) = (1, 0);
        loop {
            match self.requests.send(request(bmc, login, call)?).await {
                Err(failure) if unheard >= settings.server_side_retries => {
                    return Err(Error::Connection { url: format!("{}{}", bmc.address, call.path), failure });
                }
                Err(_) => unheard += 1,
                Ok(answer) => {
                    let again = call.method == Method::GET
                        && answer.status.is_server_error()
                        && broken < settings.server_side_retries;
                    if !again {
                        return Ok(answer);
                    }
                    broken += 1;
                }
            }
            self.host.sleep(settings.server_side_retries_delay).await;
        }
    }
}

/// One request.
struct Call<'a> {
    method: Method,
    path: &'a str,
    body: Option<&'a Value>,
    if_match: Option<&'a str>,
}

fn request(bmc: &Bmc, login: &Login, call: &Call<'_>) -> Result<Request<Bytes>, Error> {
    let url = format!("{}{}", bmc.address, call.path);
    let mut request = Request::builder()
        .method(call.method.clone())
        .uri(&url)
        .header("OData-Version", "4.0")
        .header(header::ACCEPT_ENCODING, "identity");
    if call.body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    if let Some(etag) = call.if_match {
        request = request.header(header::IF_MATCH, etag);
    }
    match (login, &bmc.account) {
        (Login::Session { token }, _) => request = request.header("X-Auth-Token", secret(token)?),
        (Login::Basic, Some(account)) => {
            let plain = format!("{}:{}", account.username, account.password);
            let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(plain));
            request = request.header(header::AUTHORIZATION, secret(&basic)?);
        }
        (Login::Basic, None) | (Login::Nobody, _) => {}
    }
    let body = call.body.map(ToString::to_string).unwrap_or_default();
    request.body(body.into()).map_err(|_| Error::MissingAttribute { attribute: "@odata.id", resource: url })
}

fn secret(text: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(text).map_err(|_| Error::MissingToken("unusable token".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The paths of a collection's members.
pub(super) fn members(collection: &Value) -> impl Iterator<Item = &str> {
    let members = collection.get("Members").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    members.iter().filter_map(|member| member.get("@odata.id")?.as_str())
}

fn decode(body: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(body).map_err(|error| {
        // Where Python's reader would stop: at the first thing that is no value.
        let position = body.split(|byte| *byte == b'\n').take(error.line().saturating_sub(1)).map(|line| line.len() + 1);
        let position = position.sum::<usize>() + error.column().saturating_sub(1);
        let (line, column) = (error.line().max(1), error.column().max(1));
        Error::NotJson(format!("Expecting value: line {line} column {column} (char {position})"))
    })
}

fn raise_for_status(method: &Method, url: &str, answer: Answer) -> Result<Answer, Error> {
    let status = answer.status;
    if status.as_u16() < 400 {
        return Ok(answer);
    }
    let text = if status == StatusCode::NOT_FOUND {
        format!("Resource {url} not found")
    } else {
        let (error, extended) = complaint(&answer.body);
        format!("HTTP {method} {url} returned code {}. {error} Extended information: {extended}", status.as_u16())
    };
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    Err(Error::Refused(Box::new(Refusal { status, body, text })))
}

/// What an error body says, and its extended information as Python shows it.
fn complaint(body: &[u8]) -> (String, String) {
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return ("unknown error".to_owned(), "None".to_owned());
    };
    let error = body.get("error").unwrap_or(&Value::Null);
    let code = error.get("code").and_then(Value::as_str).unwrap_or("Base.1.0.GeneralError");
    let extended = error.get("@Message.ExtendedInfo").unwrap_or(&Value::Null);
    let messages = match extended {
        Value::Array(messages) => messages.as_slice(),
        single => std::slice::from_ref(single),
    };
    let severe = messages.iter().find(|message| {
        let severity = ["MessageSeverity", "Severity"].iter().find_map(|key| message.get(key)?.as_str());
        matches!(severity, Some("Critical" | "Warning"))
    });
    let message = severe.or_else(|| messages.first()).and_then(|message| message.get("Message")?.as_str());
    let message = message.or_else(|| error.get("message")?.as_str()).unwrap_or("unknown error.");
    (format!("{code}: {message}"), repr(extended))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_bodies_are_read_as_sushy_reads_them() {
        for (body, error, extended) in [
            ("", "unknown error", "None"),
            (r#"{"error":{"code":"Base.1.0.GeneralError","message":"injected"}}"#, "Base.1.0.GeneralError: injected", "None"),
            (
                r#"{"error":{"code":"A","message":"general","@Message.ExtendedInfo":[{"Message":"first"},{"Message":"second","Severity":"Critical"}]}}"#,
                "A: second",
                "[{'Message': 'first'}, {'Message': 'second', 'Severity': 'Critical'}]",
            ),
        ] {
            assert_eq!(complaint(body.as_bytes()), (error.to_owned(), extended.to_owned()), "{body}");
        }
    }

    #[test]
    fn what_is_not_json_is_complained_about_as_python_does() {
        for (body, text) in [
            ("<html>", "Expecting value: line 1 column 1 (char 0)"),
            ("", "Expecting value: line 1 column 1 (char 0)"),
        ] {
            assert_eq!(decode(body.as_bytes()).expect_err("not JSON").to_string(), text, "{body}");
        }
    }
}
