//! The server: HTTP requests in, answers out, and the faults between.

use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};
use serde_json::Value;
use wire::{Host, http::Fate};

use crate::{
    KubeApi, PORT,
    cluster::{Call, Reply},
    discovery,
    fault::{Blow, Sight},
    openapi,
    request::{self, Form, Query, Target, Verb},
    status::Failure,
    store::Moment,
    watch,
};

/// The largest body that is read: etcd's limit with room for what JSON adds (`--max-request-bytes`).
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// What a handler needs.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) api: KubeApi,
    pub(crate) host: Host,
}

/// Answers one request.
pub(crate) async fn handle(State(server): State<Server>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, BODY_LIMIT).await else {
        return refusal(&Failure::too_large(&format!("limit is {BODY_LIMIT}")));
    };
    let path = parts.uri.path();
    match Target::parse(path) {
        Some(target) if !is_group_path(path) => server.resource(&parts, body, target).await,
        Some(_) | None => server.document(&parts),
    }
}

/// `/api/v1` and `/apis/GROUP/VERSION` are documents, what is below are resources.
fn is_group_path(path: &str) -> bool {
    let depth = path.trim_matches('/').split('/').count();
    if path.starts_with("/apis") { depth <= 3 } else { depth <= 2 }
}

impl Server {
    async fn resource(&self, parts: &Parts, body: Bytes, target: Target) -> Response {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let Some(verb) = Verb::of(&parts.method, &target, &query) else {
            return refusal(&Failure::method_not_allowed());
        };
        let form =
            match choose(&parts.headers, |form| matches!(form, Form::Plain | Form::Table | Form::Partial)) {
                Ok(form) => form,
                Err(failure) => return refusal(&failure),
            };
        let client = text(&parts.headers, header::USER_AGENT);
        let (plural, name, subresource) =
            (target.resource.clone(), target.name.clone(), target.subresource.clone());
        let sight =
            Sight { verb, resource: &plural, subresource: &subresource, name: &name, client: &client };
        let (blow, behind) = {
            let mut state = self.api.state();
            let behind = if verb.writes() { 0 } else { state.faults.staleness(sight) };
            (state.faults.on_request(sight), behind)
        };
        match blow {
            None | Some(Blow::LoseAnswer) => {}
            Some(Blow::Refuse(code)) => return refusal(&Failure::injected(code)),
            Some(Blow::Conflict) => {
                let about = crate::status::About { group: &target.group, kind: &plural, name: &name };
                return refusal(&Failure::conflict(about));
            }
            Some(Blow::Reset) => return with_fate(Fate::Reset),
            Some(Blow::Stall) => {
                self.host.note("fault", "kube", serde_json::json!({ "stalled": parts.uri.path() }));
                std::future::pending::<()>().await;
            }
        }
        let content_type = text(&parts.headers, header::CONTENT_TYPE);
        let call = Call {
            verb,
            target,
            query,
            form,
            content_type: content_type.split(';').next().unwrap_or_default().trim().to_owned(),
            body,
            behind,
        };
        let reply = self.api.perform(&self.host, &call);
        if blow == Some(Blow::LoseAnswer) {
            return with_fate(Fate::Reset);
        }
        match reply {
            Err(failure) => refusal(&failure),
            Ok(Reply::Object { code, value, warnings }) => {
                let mut response = answer(StatusCode::from_u16(code).unwrap_or_default(), &value);
                for warning in warnings {
                    let text = format!("299 - \"{}\"", warning.replace('\\', "\\\\").replace('"', "\\\""));
                    if let Ok(value) = HeaderValue::from_str(&text) {
                        response.headers_mut().append(header::WARNING, value);
                    }
                }
                response
            }
            Ok(Reply::Watch(start)) => {
                let spread = self.api.spread(&self.host);
                let body = watch::body(self.api.clone(), self.host.clone(), start, client, spread);
                let mut response = Response::new(body);
                common_headers(response.headers_mut(), JSON);
                response
            }
        }
    }

    /// Everything that is not about resources: discovery, OpenAPI, versions, health.
    fn document(&self, parts: &Parts) -> Response {
        if parts.method != http::Method::GET {
            return refusal(&Failure::method_not_allowed());
        }
        let state = self.api.state();
        let registry = &state.cluster.registry;
        let path = parts.uri.path().trim_matches('/');
        let steps: Vec<&str> = path.split('/').collect();
        let json = |document: Result<Value, Failure>| match document {
            Ok(document) => answer(StatusCode::OK, &document),
            Err(failure) => refusal(&failure),
        };
        match steps[..] {
            ["healthz" | "livez" | "readyz", ..] => plain(StatusCode::OK, "ok"),
            ["version"] => json(Ok(discovery::version())),
            ["api"] | ["apis"] => {
                match choose(&parts.headers, |form| matches!(form, Form::Plain | Form::Discovery(_))) {
                    Err(failure) => refusal(&failure),
                    Ok(Form::Discovery(version)) => {
                        let document = discovery::aggregated(registry, path == "api", version);
                        let mut response = answer(StatusCode::OK, &document);
                        let kind = match version {
                            request::DiscoveryVersion::V2 => "v2",
                            request::DiscoveryVersion::V2Beta1 => "v2beta1",
                        };
                        let kind = format!("{JSON};g=apidiscovery.k8s.io;v={kind};as=APIGroupDiscoveryList");
                        common_headers(response.headers_mut(), &kind);
                        response
                    }
                    Ok(Form::Plain | Form::Table | Form::Partial | Form::OpenApiProto) if path == "api" => {
                        json(Ok(discovery::core_versions(self.host.address(), PORT)))
                    }
                    Ok(Form::Plain | Form::Table | Form::Partial | Form::OpenApiProto) => {
                        json(Ok(discovery::groups(registry)))
                    }
                }
            }
            ["api", version] => json(discovery::resources(registry, "", version)),
            ["apis", group] => json(discovery::group(registry, group)),
            ["apis", group, version] => json(discovery::resources(registry, group, version)),
            ["openapi", "v2"] => {
                match choose(&parts.headers, |form| matches!(form, Form::Plain | Form::OpenApiProto)) {
                    Err(failure) => refusal(&failure),
                    Ok(Form::OpenApiProto) => {
                        let bytes = openapi::proto::encode(&openapi::v2(registry));
                        let mut response = Response::new(Body::from(bytes));
                        common_headers(
                            response.headers_mut(),
                            "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
                        );
                        response
                    }
                    Ok(Form::Plain | Form::Table | Form::Partial | Form::Discovery(_)) => {
                        json(Ok(openapi::v2(registry)))
                    }
                }
            }
            ["openapi", "v3"] => json(Ok(openapi::v3_index(registry))),
            ["openapi", "v3", "api", version] => json(openapi::v3(registry, "", version)),
            ["openapi", "v3", "apis", group, version] => json(openapi::v3(registry, group, version)),
            _ => plain(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }
}

impl KubeApi {
    /// Carries a call out, notes what it changed, and wakes the watchers.
    fn perform(&self, host: &Host, call: &Call) -> Result<Reply, Failure> {
        let uid = if call.verb == Verb::Create || call.verb == Verb::Patch || call.verb == Verb::Update {
            host.uuid("kube object")
        } else {
            uuid::Uuid::nil()
        };
        let moment = Moment { now: host.date(), uid };
        let mut state = self.state();
        let reply = state.cluster.handle(call, moment);
        let changes = state.cluster.take_changes();
        drop(state);
        self.tell(host, &changes);
        reply
    }
}

const JSON: &str = "application/json";

/// The best form that is accepted and served.
fn choose(headers: &HeaderMap, served: impl Fn(&Form) -> bool) -> Result<Form, Failure> {
    let accept: Vec<&str> =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    request::accepted(&accept.join(","))
        .into_iter()
        .find(served)
        .ok_or_else(|| Failure::not_acceptable(&[JSON]))
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

fn common_headers(headers: &mut HeaderMap, content_type: &str) {
    if let Ok(value) = HeaderValue::from_str(content_type) {
        headers.insert(header::CONTENT_TYPE, value);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
}

fn answer(code: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(format!("{value}\n")));
    *response.status_mut() = code;
    common_headers(response.headers_mut(), JSON);
    response
}

fn plain(code: StatusCode, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    common_headers(response.headers_mut(), "text/plain; charset=utf-8");
    response
}

fn refusal(failure: &Failure) -> Response {
    let code = StatusCode::from_u16(failure.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = answer(code, &failure.to_value());
    if let Some(seconds) = failure.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn with_fate(fate: Fate) -> Response {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(fate);
    response
}
