//! A Kubernetes API for tests: objects of any kind, lists, watches that go on from a version, conflicts. No more.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::Request,
    response::{IntoResponse as _, Response},
};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Notify;
use wire::Host;

/// A server. Cheap to clone; all clones are the same one.
#[derive(Clone)]
pub(crate) struct Api(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    written: Notify,
}

#[derive(Default)]
struct State {
    version: u64,
    /// By plural, namespace and name.
    objects: BTreeMap<(String, String, String), Value>,
    /// What watches tell: version, plural, event.
    log: Vec<(u64, String, Value)>,
    /// Watches from before this version are told that it is too old.
    oldest: u64,
    /// Watches end when this changes.
    epoch: u64,
    /// Requests get no answer.
    silent: bool,
    requests: Vec<String>,
}

impl Api {
    /// Serves on port 80 of a host.
    pub(crate) fn start(host: &Host) -> Self {
        let api = Self(Arc::new(Shared { state: Mutex::default(), written: Notify::new() }));
        let answering = api.clone();
        let app = Router::new().fallback(async move |request: Request| answering.answer(request).await);
        let host = host.clone();
        drop(host.clone().spawn(async move { wire::http::serve(&host, 80, app).await }));
        api
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no test panicked")
    }

    /// Creates or replaces an object of the namespace `metal3`, as if another client did.
    pub(crate) fn put(&self, plural: &str, name: &str, object: Value) {
        self.state().store(plural, "metal3", name, object);
        self.0.written.notify_waiters();
    }

    /// Changes an object of the namespace `metal3`, as if another client did.
    pub(crate) fn change(&self, plural: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(plural, name);
        change(&mut object);
        self.put(plural, name, object);
    }

    /// Removes an object of the namespace `metal3`.
    pub(crate) fn remove(&self, plural: &str, name: &str) {
        self.state().remove(plural, "metal3", name);
        self.0.written.notify_waiters();
    }

    pub(crate) fn get(&self, plural: &str, name: &str) -> Value {
        self.state().objects[&(plural.to_owned(), "metal3".to_owned(), name.to_owned())].clone()
    }

    /// Ends all watches, and lets none go on from where it was if `forget`.
    pub(crate) fn end_watches(&self, forget: bool) {
        let mut state = self.state();
        state.epoch += 1;
        if forget {
            state.version += 1;
            state.oldest = state.version;
        }
        self.0.written.notify_waiters();
    }

    /// From now on no request gets an answer.
    pub(crate) fn fall_silent(&self) {
        self.state().silent = true;
    }

    /// The requests since the last call, as method and target.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state().requests)
    }

    async fn answer(&self, request: Request) -> Response {
        let (head, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.expect("the body arrives");
        self.state().requests.push(format!("{} {}", head.method, head.uri));
        if self.state().silent {
            return std::future::pending().await;
        }
        let path: Vec<&str> = head.uri.path().split('/').skip(1).collect();
        let resource = if path[0] == "api" { &path[2..] } else { &path[3..] };
        let query = head.uri.query().unwrap_or_default();
        let query: BTreeMap<&str, &str> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
        match resource {
            ["namespaces", _, plural] | [plural] if head.method == Method::GET => match query.get("watch") {
                Some(_) => self.watch(plural, query["resourceVersion"].parse().expect("a version")),
                None => self.list(plural),
            },
            ["namespaces", namespace, plural, rest @ ..] => {
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let response = self.state().one(&head.method, namespace, plural, rest, body);
                self.0.written.notify_waiters();
                response
            }
            _ => failure(StatusCode::NOT_FOUND, "NotFound"),
        }
    }

    fn list(&self, plural: &str) -> Response {
        let state = self.state();
        let items: Vec<&Value> =
            state.objects.iter().filter(|((p, _, _), _)| p == plural).map(|(_, object)| object).collect();
        Json(json!({
            "apiVersion": "v1", "kind": "List", "items": items,
            "metadata": {"resourceVersion": state.version.to_string()},
        }))
        .into_response()
    }

    fn watch(&self, plural: &str, from: u64) -> Response {
        if from < self.state().oldest {
            let status = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"});
            return format!("{}\n", json!({"type": "ERROR", "object": status})).into_response();
        }
        let (api, plural, epoch) = (self.clone(), plural.to_owned(), self.state().epoch);
        let events = futures::stream::unfold(from, move |told| {
            let (api, plural) = (api.clone(), plural.clone());
            async move {
                loop {
                    let written = api.0.written.notified();
                    {
                        let state = api.state();
                        if state.epoch != epoch {
                            return None;
                        }
                        let mut log = state.log.iter();
                        if let Some((version, _, event)) = log.find(|(v, p, _)| *v > told && *p == plural) {
                            return Some((Ok::<_, Infallible>(Bytes::from(format!("{event}\n"))), *version));
                        }
                    }
                    written.await;
                }
            }
        });
        Body::from_stream(events).into_response()
    }
}

impl State {
    fn store(&mut self, plural: &str, namespace: &str, name: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["namespace"] = json!(namespace);
        object["metadata"]["name"] = json!(name);
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let key = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        let kind = if self.objects.insert(key, object.clone()).is_some() { "MODIFIED" } else { "ADDED" };
        self.log.push((self.version, plural.to_owned(), json!({"type": kind, "object": object})));
        object
    }

    fn remove(&mut self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let mut object = self.objects.remove(&(plural.to_owned(), namespace.to_owned(), name.to_owned()))?;
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.log.push((self.version, plural.to_owned(), json!({"type": "DELETED", "object": object})));
        Some(object)
    }

    /// Serves a request for one object.
    fn one(
        &mut self,
        method: &Method,
        namespace: &str,
        plural: &str,
        rest: &[&str],
        body: Value,
    ) -> Response {
        let named = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let name = rest.first().copied().unwrap_or(&named);
        let key = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        let known = self.objects.get(&key).cloned();
        let stale =
            |known: &Value| known["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"];
        match (method.as_str(), known) {
            ("POST", Some(_)) => failure(StatusCode::CONFLICT, "AlreadyExists"),
            ("POST", None) => {
                (StatusCode::CREATED, Json(self.store(plural, namespace, name, body.clone()))).into_response()
            }
            (_, None) => failure(StatusCode::NOT_FOUND, "NotFound"),
            ("GET", Some(known)) => Json(known).into_response(),
            ("DELETE", Some(_)) => Json(self.remove(plural, namespace, name)).into_response(),
            ("PUT", Some(known)) if stale(&known) => failure(StatusCode::CONFLICT, "Conflict"),
            ("PUT", Some(known)) => {
                // Status and the rest are written apart.
                let (mut object, other) = if rest.len() > 1 { (known, body) } else { (body.clone(), known) };
                object["status"] = other["status"].clone();
                Json(self.store(plural, namespace, name, object)).into_response()
            }
            (_, Some(_)) => failure(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
        }
    }
}

fn failure(code: StatusCode, reason: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(), "reason": reason,
        "message": format!("the server says {reason}"),
    });
    (code, Json(status)).into_response()
}

/// A host that the user has just made.
pub(crate) fn bare_metal_host() -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"generation": 1, "uid": "uid-1"}, "spec": {"online": true},
    })
}

/// A Secret that a host owns.
pub(crate) fn secret_of(host: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "labels": {"environment.metal3.io": "baremetal"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": "1"},
                {"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "name": host, "uid": "2"},
            ],
        },
        "data": {"password": "aHVudGVyMg=="},
    })
}
