//! A Redfish service with one system, that can misbehave.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{
    Router,
    body::Bytes,
    response::{IntoResponse as _, Response},
};
use base64::Engine as _;
use http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::{Value, json};
use wire::Host;

/// What the service does with a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// Answers it.
    #[default]
    Fine,
    /// Answers this status.
    Status(u16),
    /// Answers this status to what is not a GET.
    StatusToPosts(u16),
    /// Answers what is not JSON.
    Garbage,
    /// Never answers.
    Silent,
}

/// The service's state. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Bmc(Arc<Mutex<State>>);

#[derive(Default)]
pub(super) struct State {
    pub(super) behaviour: Behaviour,
    pub(super) password: String,
    pub(super) has_sessions: bool,
    pub(super) tokens: BTreeSet<String>,
    pub(super) on: bool,
    pub(super) boot: Boot,
    pub(super) disc: Option<String>,
    /// How many more resets are answered by a conflict.
    pub(super) conflicts: u32,
    /// Each request: method, path, and the body if there is one.
    pub(super) seen: Vec<String>,
}

#[derive(Default)]
pub(super) struct Boot {
    target: String,
    enabled: String,
}

impl Bmc {
    /// A service that answers on port 80, with sessions, of a machine that is off.
    pub(super) fn serve(host: &Host) -> Self {
        let bmc = Self::default();
        {
            let mut state = bmc.state();
            state.password = "secret".to_owned();
            state.has_sessions = true;
            state.boot = Boot { target: "Cd".to_owned(), enabled: "Continuous".to_owned() };
        }
        let service = bmc.clone();
        let app = Router::new().fallback(move |method, uri, headers, body| {
            let service = service.clone();
            async move { service.answer(method, uri, headers, body).await }
        });
        let host = host.clone();
        drop(host.clone().spawn(async move { wire::http::serve(&host, 80, app).await }));
        bmc
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panicked while it held the BMC")
    }

    /// What changed something, since the last call: method, end of the path, body.
    pub(super) fn changes(&self) -> Vec<String> {
        let seen = std::mem::take(&mut self.state().seen);
        let changes =
            seen.into_iter().filter(|line| !line.starts_with("GET ") && !line.contains("/Sessions"));
        changes
            .map(|line| line.replace("/redfish/v1/Systems/1 ", "").replace("/redfish/v1/Systems/1", ""))
            .collect()
    }

    async fn answer(self, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
        let behaviour = {
            let mut state = self.state();
            // A login's body is a secret.
            let shown =
                if uri.path().ends_with("/Sessions") { "" } else { str::from_utf8(&body).unwrap_or("?") };
            state.seen.push(format!("{method} {} {shown}", uri.path()).trim_end().to_owned());
            state.behaviour
        };
        let injected = |status| {
            let status = StatusCode::from_u16(status).expect("tests name real statuses");
            let body = json!({ "error": { "code": "Base.1.0.GeneralError", "message": "injected" } });
            (status, axum::Json(body)).into_response()
        };
        match behaviour {
            Behaviour::Status(status) => injected(status),
            Behaviour::StatusToPosts(status) if method != Method::GET => injected(status),
            Behaviour::Garbage => "<html>starting</html>".into_response(),
            Behaviour::Silent => std::future::pending().await,
            Behaviour::Fine | Behaviour::StatusToPosts(_) => {
                self.state().handle(&method, uri.path(), &headers, &body)
            }
        }
    }
}

impl State {
    fn handle(&mut self, method: &Method, path: &str, headers: &HeaderMap, body: &[u8]) -> Response {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let path = path.strip_prefix("/redfish/v1/").unwrap_or("?");
        if path.is_empty() {
            return axum::Json(json!({ "Id": "Root", "Systems": link("Systems") })).into_response();
        }
        if path == "SessionService/Sessions" {
            return self.log_in(&body);
        }
        if !self.is_authentic(headers) {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        match (method.as_str(), path) {
            ("GET", "Systems") => axum::Json(json!({ "Members": [link("Systems/1")] })).into_response(),
            ("GET", "Systems/1") => axum::Json(self.system()).into_response(),
            ("PATCH", "Systems/1") => self.patch(&body["Boot"]),
            ("GET", "Systems/1/VirtualMedia") => {
                let members = [link("Systems/1/VirtualMedia/Floppy"), link("Systems/1/VirtualMedia/Cd")];
                axum::Json(json!({ "Members": members })).into_response()
            }
            ("GET", "Systems/1/VirtualMedia/Floppy") => {
                axum::Json(json!({ "MediaTypes": ["Floppy"] })).into_response()
            }
            ("GET", "Systems/1/VirtualMedia/Cd") => axum::Json(self.slot()).into_response(),
            ("POST", "Systems/1/Actions/ComputerSystem.Reset") => self.reset(body["ResetType"].as_str()),
            ("POST", "Systems/1/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia") => {
                self.disc = body["Image"].as_str().map(str::to_owned);
                StatusCode::NO_CONTENT.into_response()
            }
            ("POST", "Systems/1/VirtualMedia/Cd/Actions/VirtualMedia.EjectMedia") => {
                self.disc = None;
                StatusCode::NO_CONTENT.into_response()
            }
            _ => StatusCode::NOT_FOUND.into_response(),
        }
    }

    fn log_in(&mut self, body: &Value) -> Response {
        if !self.has_sessions {
            return StatusCode::NOT_FOUND.into_response();
        }
        if (body["UserName"].as_str(), body["Password"].as_str()) != (Some("admin"), Some(&self.password)) {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        let token = format!("token-{}", self.tokens.len());
        self.tokens.insert(token.clone());
        (StatusCode::CREATED, [("X-Auth-Token", token)]).into_response()
    }

    fn is_authentic(&self, headers: &HeaderMap) -> bool {
        let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
        let basic = base64::engine::general_purpose::STANDARD.encode(format!("admin:{}", self.password));
        text("Authorization").is_some_and(|value| value == format!("Basic {basic}"))
            || text("X-Auth-Token").is_some_and(|token| self.tokens.contains(token))
    }

    fn system(&self) -> Value {
        json!({
            "Id": "1",
            "PowerState": if self.on { "On" } else { "Off" },
            "Boot": {
                "BootSourceOverrideTarget": self.boot.target, "BootSourceOverrideEnabled": self.boot.enabled,
                "BootSourceOverrideMode": "UEFI", "HttpBootUri": null,
            },
            "VirtualMedia": link("Systems/1/VirtualMedia"),
            "Actions": { "#ComputerSystem.Reset": action("Systems/1/Actions/ComputerSystem.Reset") },
        })
    }

    fn slot(&self) -> Value {
        json!({
            "MediaTypes": ["CD", "DVD"], "Image": self.disc, "Inserted": self.disc.is_some(),
            "Actions": {
                "#VirtualMedia.InsertMedia": action("Systems/1/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"),
                "#VirtualMedia.EjectMedia": action("Systems/1/VirtualMedia/Cd/Actions/VirtualMedia.EjectMedia"),
            },
        })
    }

    fn patch(&mut self, boot: &Value) -> Response {
        for (key, place) in [
            ("BootSourceOverrideTarget", &mut self.boot.target),
            ("BootSourceOverrideEnabled", &mut self.boot.enabled),
        ] {
            if let Some(value) = boot[key].as_str() {
                value.clone_into(place);
            }
        }
        StatusCode::NO_CONTENT.into_response()
    }

    fn reset(&mut self, kind: Option<&str>) -> Response {
        if self.conflicts > 0 {
            self.conflicts -= 1;
            let body =
                json!({ "error": { "code": "Base.1.8.ActionParameterValueConflict", "message": "busy" } });
            return (StatusCode::CONFLICT, axum::Json(body)).into_response();
        }
        self.on = matches!(kind, Some("On" | "GracefulRestart"));
        // What was set for one boot is used up by it, as on the machine that was recorded.
        if self.on && self.boot.enabled == "Once" {
            self.boot.enabled = "Continuous".to_owned();
        }
        StatusCode::NO_CONTENT.into_response()
    }
}

fn link(path: &str) -> Value {
    json!({ "@odata.id": format!("/redfish/v1/{path}") })
}

fn action(path: &str) -> Value {
    json!({ "target": format!("/redfish/v1/{path}") })
}
