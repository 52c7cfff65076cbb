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
use wire::{Host, http::Timeouts};

use super::{
    super::{
        DriverError,
        requests::{Answer, Requests},
    },
    bmc::{Account, Bmc},
    error::{Error, decode, raise_for_status},
};
use crate::settings::{RedfishAuth, Settings};

/// The path of every service root.
const ROOT: &str = "/redfish/v1/";

/// How requests to a BMC say who sends them.
#[derive(Clone)]
enum Login {
    Nobody,
    Basic,
    Session { token: String, made_at: String },
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
        let requests = Requests::new(&host, timeouts).telling(settings.release.connection_errors);
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
            .ok_or_else(|| Error::MissingAttribute {
                attribute: "Systems/@odata.id",
                resource: ROOT.to_owned(),
            })?
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
        if bmc.auth == RedfishAuth::Basic {
            return Ok(Login::Basic);
        }
        let path = root.pointer("/Links/Sessions/@odata.id").and_then(Value::as_str);
        let path = path.map_or_else(|| format!("{ROOT}SessionService/Sessions"), str::to_owned);
        match self.create_session(bmc, account, path).await {
            Err(error) if bmc.auth == RedfishAuth::Auto && !matches!(error, Error::Connection { .. }) => {
                tracing::debug!(node = %bmc.node, %error, "no session, so basic authentication");
                Ok(Login::Basic)
            }
            done => done,
        }
    }

    async fn create_session(&self, bmc: &Bmc, account: &Account, path: String) -> Result<Login, Error> {
        let body = json!({ "UserName": account.username, "Password": account.password });
        let call = Call { method: Method::POST, path: &path, body: Some(&body), if_match: None };
        let answer = self.attempts(bmc, &Login::Nobody, &call).await?;
        let url = format!("{}{path}", bmc.address);
        let answer = raise_for_status(&call.method, &url, answer)?;
        match answer.header("X-Auth-Token") {
            Some(token) => Ok(Login::Session { token: token.to_owned(), made_at: path }),
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
    pub(super) async fn patch(
        &self,
        bmc: &Bmc,
        path: &str,
        body: &Value,
        etag: Option<&str>,
    ) -> Result<(), Error> {
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
        let (Login::Session { made_at, .. }, Some(account)) = (login, &bmc.account) else {
            return Err(refused);
        };
        let renewed = match self.create_session(bmc, account, made_at).await {
            Ok(login) => login,
            Err(error @ Error::Connection { .. }) => return Err(error),
            Err(_) => return Err(refused),
        };
        self.logins().insert(bmc.key(), renewed.clone());
        raise_for_status(&call.method, &url, self.attempts(bmc, &renewed, &call).await?)
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
        (Login::Session { token, .. }, _) => request = request.header("X-Auth-Token", secret(token)?),
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
    let mut value =
        HeaderValue::from_str(text).map_err(|_| Error::MissingToken("unusable token".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The paths of a collection's members.
pub(super) fn members(collection: &Value) -> impl Iterator<Item = &str> {
    let members = collection.get("Members").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    members.iter().filter_map(|member| member.get("@odata.id")?.as_str())
}
