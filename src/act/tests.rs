//! Decisions carried out against a small Kubernetes API and an Ironic that answers as each test says.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Json, Router, extract::Request as Received, response::IntoResponse as _};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use wire::{Host, Seed};

use super::*;
use crate::{
    bmh::{BareMetalHostStatus, OperationalStatus},
    cluster::{Cluster, fixture::Api, plain_client},
    decide::Busy,
    ironic::Ironic,
    options::Options,
    provisioner::{PowerTarget, ProvisionTarget, SetPower},
};

/// How Ironic answers a request that would change something.
type Script = fn(&str, &Value) -> u16;

/// What Ironic was asked: method, path and body.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// An Ironic that answers changes by a script, and knows the node that was created, if any.
fn ironic(host: &Host, script: Script) -> Asked {
    let asked = Asked::default();
    let remembering = asked.clone();
    let app = Router::new().fallback(async move |request: Received| {
        let (head, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.expect("the body arrives");
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let line = format!("{} {}", head.method, head.uri);
        let before = remembering.lock().expect("no test panicked").clone();
        remembering.lock().expect("no test panicked").push((line.clone(), body.clone()));
        let created = before.iter().find(|(line, _)| line == "POST /v1/nodes").cloned();
        let managed = before.iter().any(|(line, _)| line.ends_with("/states/provision"));
        let node = |(_, mut node): (String, Value)| {
            node["uuid"] = json!("n");
            node["provision_state"] = json!(if managed { "verifying" } else { "enroll" });
            node
        };
        let (status, answer) = match (&head.method, head.uri.path()) {
            (&Method::GET, "/v1/") => (200, json!({"version": {"id": "v1", "version": "1.110"}})),
            (&Method::GET, "/v1/drivers") => (200, json!({"drivers": [{"name": "redfish"}]})),
            (&Method::GET, "/v1/ports") => (200, json!({"ports": []})),
            (&Method::GET, _) => {
                created.map_or((404, json!({"error_message": "no"})), |created| (200, node(created)))
            }
            (&Method::POST, "/v1/nodes") => (201, node((line, body))),
            _ => (script(&line, &body), json!({"error_message": "as the test says"})),
        };
        let status = StatusCode::from_u16(status).expect("a status");
        if status == StatusCode::ACCEPTED {
            status.into_response()
        } else {
            (status, Json(answer)).into_response()
        }
    });
    let host = host.clone();
    drop(host.clone().spawn(async move { wire::http::serve(&host, 6385, app).await }));
    asked
}

fn accepted(_: &str, _: &Value) -> u16 {
    202
}

fn options() -> Options {
    let uri = |text: &str| text.parse().expect("a URI");
    let mut options = Options::new(uri("http://kube:80"), uri("http://ironic:6385/v1/"));
    options.namespace = Some("metal3".to_owned());
    options
}

fn bare_metal_host() -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"generation": 1, "uid": "uid-1"},
        "spec": {
            "online": true, "bootMACAddress": "00:11:22:33:44:55",
            "bmc": {"address": "redfish-virtualmedia+http://bmc-0:8000/redfish/v1/Systems/1", "credentialsName": "bmc"},
        },
    })
}

/// Carries effects out on a host, and tells what came of it, what Ironic was asked to change, and the host's status.
fn carry_out(script: Script, effects: Vec<Effect>) -> (Result<LookAgain, String>, Vec<String>, Value) {
    engine::simulate(Seed(1), move |net| async move {
        let api = Api::start(&net.host("kube"));
        let asked = ironic(&net.host("ironic"), script);
        let operator = net.host("operator");
        let cluster = Cluster::new(plain_client(&operator, &options().kube), &operator, &options());
        let ironic = Ironic::new(&operator, &options()).expect("an endpoint");
        let session = ironic.ready().await.expect("Ironic is ready");
        let outside = Outside::new(operator, cluster, ironic, Arc::new(options()));
        api.put("baremetalhosts", "host-0", bare_metal_host());
        let host = serde_json::from_value(api.get("baremetalhosts", "host-0")).expect("a host");
        let seen = outside.look_at(&Key::new("metal3", "host-0"), host);
        let busy = BareMetalHostStatus {
            operational_status: OperationalStatus::Ok,
            ..BareMetalHostStatus::default()
        };
        let decision = Decision {
            effects,
            look_again: LookAgain::Never,
            when_busy: Busy { save: Some(Box::new(busy)), wait: Duration::from_secs(3) },
        };
        let acted = act(&outside, &seen, Some(&session), decision).await;
        let changes = asked
            .lock()
            .expect("no test panicked")
            .iter()
            .filter(|(line, _)| !line.starts_with("GET"))
            .map(|(line, body)| format!("{line} {}", body["target"].as_str().unwrap_or_default()))
            .collect();
        let status = api.get("baremetalhosts", "host-0")["status"].clone();
        (acted.map(|acted| acted.look_again).map_err(|error| error.to_string()), changes, status)
    })
}

fn manage() -> Effect {
    let (configdrive, deploy_steps) = (None, Vec::new());
    Effect::Ironic(Request::Provision {
        node: "n".into(),
        target: ProvisionTarget::Manage,
        configdrive,
        deploy_steps,
    })
}

fn save(count: u32) -> Effect {
    Effect::SaveStatus(Box::new(BareMetalHostStatus { error_count: count, ..BareMetalHostStatus::default() }))
}

#[test]
fn effects_are_carried_out_in_order() {
    let (ended, asked, status) =
        carry_out(accepted, vec![manage(), Effect::EditHost(vec![HostEdit::AddFinalizer]), save(7)]);
    assert_eq!(ended, Ok(LookAgain::Never));
    assert_eq!(asked, ["PUT /v1/nodes/n/states/provision manage"]);
    assert_eq!(status["errorCount"], 7);
}

#[test]
fn a_busy_node_ends_the_pass_and_clears_the_error() {
    let (ended, asked, status) = carry_out(|_, _| 409, vec![manage(), manage(), save(7)]);
    assert_eq!(ended, Ok(LookAgain::After(Duration::from_secs(3))));
    assert_eq!(asked.len(), 1);
    assert_eq!((&status["operationalStatus"], &status["errorCount"]), (&json!("OK"), &json!(0)));
}

#[test]
fn a_refusal_fails_the_pass_and_nothing_is_saved() {
    let (ended, asked, status) = carry_out(|_, _| 503, vec![manage(), save(7)]);
    assert_eq!(ended, Err("manage in Ironic".to_owned()));
    assert_eq!(asked.len(), 1);
    assert_eq!(status, Value::Null);
}

#[test]
fn a_driver_without_soft_power_off_is_told_to_do_it_at_once() {
    let refuse_soft: Script = |_, body| if body["target"] == "soft power off" { 400 } else { 202 };
    let power = SetPower {
        target: PowerTarget::SoftOff,
        timeout: Some(Duration::from_secs(180)),
        otherwise: Some(PowerTarget::Off),
    };
    let (ended, asked, status) =
        carry_out(refuse_soft, vec![Effect::Ironic(Request::Power { node: "n".into(), power }), save(7)]);
    assert_eq!(ended, Ok(LookAgain::Never));
    assert_eq!(
        asked,
        ["PUT /v1/nodes/n/states/power soft power off", "PUT /v1/nodes/n/states/power power off"]
    );
    assert_eq!(status["errorCount"], 7);
}

#[test]
fn a_node_that_is_gone_is_deleted() {
    let (ended, _, status) =
        carry_out(|_, _| 404, vec![Effect::Ironic(Request::DeleteNode { node: "n".into() }), save(7)]);
    assert_eq!((ended, &status["errorCount"]), (Ok(LookAgain::Never), &json!(7)));
}

/// The order is that recorded from the Go operator, with a look at the ports more, as newer ones have it.
#[test]
fn a_new_host_is_registered_with_the_requests_of_upstream() {
    engine::simulate(Seed(1), move |net| async move {
        let api = Api::start(&net.host("kube"));
        let asked = ironic(&net.host("ironic"), |line, _| if line.starts_with("POST") { 201 } else { 202 });
        api.put("baremetalhosts", "host-0", bare_metal_host());
        let data = json!({"username": "YWRtaW4=", "password": "cGFzcw=="});
        api.put("secrets", "bmc", json!({"apiVersion": "v1", "kind": "Secret", "data": data}));
        let operator = net.host("operator");
        let running = operator.clone();
        drop(operator.spawn(async move { crate::run(running, options()).await }));
        operator.sleep(Duration::from_secs(2)).await;

        let asked = asked.lock().expect("no test panicked").clone();
        let lines: Vec<&str> = asked.iter().map(|(line, _)| line.as_str()).collect();
        // What the operator itself wrote makes it look once more, at a node that is at work by then.
        let (first, again) = lines.split_at(11);
        assert!(again.iter().all(|line| line.starts_with("GET /v1/nodes/")), "{again:?}");
        assert_eq!(
            first,
            [
                "GET /v1/",
                "GET /v1/drivers",
                "GET /v1/nodes/metal3~host-0",
                "GET /v1/nodes/host-0",
                "GET /v1/ports?address=00:11:22:33:44:55&fields=node_uuid,uuid,address",
                "POST /v1/nodes",
                "GET /v1/nodes/metal3~host-0",
                "GET /v1/ports?node_uuid=n&fields=node_uuid,uuid,address",
                "GET /v1/ports?address=00:11:22:33:44:55&fields=node_uuid,uuid,address",
                "POST /v1/ports",
                "PUT /v1/nodes/n/states/provision",
            ]
        );
        assert_eq!(asked[10].1, json!({"target": "manage"}));
        let host = api.get("baremetalhosts", "host-0");
        assert_eq!(host["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!(host["status"]["provisioning"]["ID"], "n");
        assert_eq!(host["status"]["provisioning"]["state"], "registering");
        assert_eq!(host["status"]["triedCredentials"]["credentials"]["name"], "bmc");
        let secret = api.get("secrets", "bmc");
        assert_eq!(secret["metadata"]["finalizers"], json!([SECRET_FINALIZER]));
        assert_eq!(secret["metadata"]["labels"][SECRET_LABEL], SECRET_LABEL_VALUE);
        assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], "uid-1");
    });
}
