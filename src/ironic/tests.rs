//! The client against a server that answers what each test tells it to, on a simulated network.

use std::{
    error::Error as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::Request as Received,
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use serde_json::{Value, json};
use wire::{Host, Seed};

use super::*;
use crate::provisioner::{
    Answer, ConfigDrive, DriverInfo, NewNode, Patch, PowerTarget, ProvisionTarget, Request, SetPower,
};

/// What the server saw of a request.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    line: String,
    version: Option<String>,
    authorization: Option<String>,
    body: Value,
}

/// How the server answers: a status and a body; `None` never answers.
type Script = fn(&Seen) -> Option<(u16, Value)>;

/// A server that follows a script and remembers what it saw.
#[derive(Clone)]
struct Server {
    script: Arc<Mutex<Script>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    fn start(host: &Host, script: Script) -> Self {
        let server = Self { script: Arc::new(Mutex::new(script)), seen: Arc::default() };
        let answering = server.clone();
        let app = Router::new().fallback(async move |request: Received| answering.answer(request).await);
        let host = host.clone();
        drop(host.clone().spawn(async move { wire::http::serve(&host, 6385, app).await }));
        server
    }

    async fn answer(&self, request: Received) -> Response {
        let (head, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.expect("the body arrives");
        let header = |name| head.headers.get(name).map(|v| v.to_str().expect("a header is text").to_owned());
        let seen = Seen {
            line: format!("{} {}", head.method, head.uri),
            version: header("X-OpenStack-Ironic-API-Version"),
            authorization: header("Authorization"),
            body: if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).expect("JSON") },
        };
        let script = *self.script.lock().expect("no test panicked");
        self.seen.lock().expect("no test panicked").push(seen.clone());
        match script(&seen) {
            Some((status, body)) => {
                let status = StatusCode::from_u16(status).expect("a status");
                let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
                (status, body).into_response()
            }
            None => std::future::pending().await,
        }
    }

    fn follow(&self, script: Script) {
        *self.script.lock().expect("no test panicked") = script;
    }

    fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().expect("no test panicked"))
    }

    fn take_lines(&self) -> Vec<String> {
        self.take().into_iter().map(|seen| seen.line).collect()
    }
}

/// An Ironic of version 1.110 with one driver, in which every node exists and everything is accepted.
fn healthy(seen: &Seen) -> Option<(u16, Value)> {
    let (method, target) = seen.line.split_once(' ')?;
    Some(match (method, target) {
        (_, "/v1/") => (200, json!({"id": "v1", "version": {"min_version": "1.1", "version": "1.110"}})),
        (_, "/v1/drivers") => (200, json!({"drivers": [{"name": "redfish"}]})),
        ("POST", _) => (201, json!({"uuid": "u", "provision_state": "enroll"})),
        ("PATCH", _) => (200, json!({"uuid": "u", "provision_state": "manageable"})),
        ("DELETE", "/v1/nodes/u") => (204, Value::Null),
        ("PUT" | "DELETE", _) => (202, Value::Null),
        (_, "/v1/nodes/u/validate") => (
            200,
            json!({"boot": {"result": true}, "deploy": {"result": false, "reason": "no image"}, "bios": {"result": null}}),
        ),
        _ => (200, json!({"uuid": "u", "name": null, "provision_state": "clean wait", "last_error": null})),
    })
}

/// Runs a test with a server and a client of it.
fn with<F>(
    script: Script,
    change: fn(&mut Options),
    test: impl FnOnce(Server, Ironic, Host) -> F + Send + 'static,
) where
    F: Future<Output = ()>,
{
    engine::simulate(Seed(1), move |net| async move {
        let server = Server::start(&net.host("ironic"), script);
        let host = net.host("operator");
        let mut options = Options::new(
            "http://kube:80".parse().expect("a URL"),
            "http://ironic:6385/v1/".parse().expect("a URL"),
        );
        change(&mut options);
        let ironic = Ironic::new(&host, &options).expect("the options are good");
        test(server, ironic, host).await;
    });
}

fn chain(error: &dyn std::error::Error) -> String {
    let texts: Vec<String> =
        std::iter::successors(Some(error), |&error| error.source()).map(ToString::to_string).collect();
    texts.join(": ")
}

#[test]
fn readiness_is_asked_for_and_lasts_five_seconds() {
    with(
        healthy,
        |_| {},
        async |server, ironic, host| {
            let session = ironic.ready().await.expect("it is ready");
            assert_eq!(session.version(), Microversion::ABORT_DEPLOY);
            let seen = server.take();
            let asked: Vec<_> =
                seen.iter().map(|seen| (seen.line.as_str(), seen.version.as_deref())).collect();
            assert_eq!(asked, [("GET /v1/", None), ("GET /v1/drivers", Some("1.110"))]);

            host.sleep(Duration::from_millis(4900)).await;
            ironic.ready().await.expect("it was ready");
            assert_eq!(server.take_lines(), [""; 0]);
            host.sleep(Duration::from_millis(200)).await;
            ironic.ready().await.expect("it is ready");
            assert_eq!(server.take_lines(), ["GET /v1/", "GET /v1/drivers"]);
        },
    );
}

#[test]
fn reconciles_that_ask_at_once_share_one_answer() {
    with(
        healthy,
        |_| {},
        async |server, ironic, _| {
            let (one, two) = futures::join!(ironic.ready(), ironic.ready());
            assert!(one.is_ok() && two.is_ok());
            assert_eq!(server.take_lines().len(), 2);
        },
    );
}

#[test]
fn an_ironic_that_cannot_work_is_asked_again_each_time() {
    let unready: [(Script, &str); 4] = [
        (|_| Some((503, json!({"error_message": "down"}))), "find Ironic ready: GET /: down (status 503)"),
        (
            |_| Some((200, json!({"version": {"version": "1.88"}}))),
            "use an Ironic whose newest API version is 1.88: at least 1.89 is needed",
        ),
        (
            |_| Some((200, json!({"versions": []}))),
            "find Ironic ready: GET /: understand Ironic's API versions: choose among 0 APIs: exactly one was expected",
        ),
        (
            |seen| match seen.line.as_str() {
                "GET /v1/drivers" => Some((200, json!({"drivers": []}))),
                _ => healthy(seen),
            },
            "find a driver in Ironic: no conductor is alive",
        ),
    ];
    for (script, expected) in unready {
        with(
            script,
            |_| {},
            async move |server, ironic, _| {
                for _ in 0..2 {
                    let error = ironic.ready().await.expect_err("it is not ready");
                    assert_eq!(chain(&error), expected);
                    assert!(!server.take_lines().is_empty());
                }
                server.follow(healthy);
                ironic.ready().await.expect("it is ready now");
            },
        );
    }
}

#[test]
fn a_request_ends_after_its_time() {
    with(
        |_| None,
        |_| {},
        async |_, ironic, host| {
            let began = host.now();
            let error = ironic.ready().await.expect_err("nobody answers");
            assert_eq!(chain(&error), "find Ironic ready: GET /: get an answer within 30s");
            assert_eq!(host.now() - began, Duration::from_secs(30));
        },
    );
}

#[test]
fn requests_are_written_as_upstream_writes_them() {
    let node = || "u".to_owned();
    let mut patch = Patch::default();
    patch.want("/automated_clean", None, Some(json!(true)));
    patch.want("/instance_uuid", Some(&json!("x")), None);
    let provision = |target, configdrive, deploy_steps| Request::Provision {
        node: node(),
        target,
        configdrive,
        deploy_steps,
    };
    let power = |target, timeout| Request::Power {
        node: node(),
        power: SetPower { target, timeout, otherwise: None },
    };
    let drive = ConfigDrive { user_data: Some("#cloud-config".to_owned()), ..ConfigDrive::default() };
    let new = NewNode {
        name: "metal3~host-0".to_owned(),
        driver: "redfish".to_owned(),
        boot_interface: "ipxe",
        ..NewNode::default()
    };
    // request, what the server must see, its body
    let cases = [
        (
            Request::CreateNode(Box::new(new)),
            "POST /v1/nodes",
            json!({"name": "metal3~host-0", "driver": "redfish", "driver_info": {}, "properties": {}, "boot_interface": "ipxe"}),
        ),
        (
            Request::PatchNode { node: node(), patch },
            "PATCH /v1/nodes/u",
            json!([{"op": "add", "path": "/automated_clean", "value": true}, {"op": "remove", "path": "/instance_uuid"}]),
        ),
        (
            Request::CreatePort { node: node(), address: "00:11:22:33:44:55".to_owned(), pxe_enabled: true },
            "POST /v1/ports",
            json!({"node_uuid": "u", "address": "00:11:22:33:44:55", "pxe_enabled": true}),
        ),
        (
            provision(ProvisionTarget::Manage, None, vec![]),
            "PUT /v1/nodes/u/states/provision",
            json!({"target": "manage"}),
        ),
        (
            provision(ProvisionTarget::Active, Some(Box::new(drive)), vec![json!({"step": "s"})]),
            "PUT /v1/nodes/u/states/provision",
            json!({"target": "active", "configdrive": {"user_data": "#cloud-config"}, "deploy_steps": [{"step": "s"}]}),
        ),
        (power(PowerTarget::On, None), "PUT /v1/nodes/u/states/power", json!({"target": "power on"})),
        (
            power(PowerTarget::SoftOff, Some(Duration::from_secs(180))),
            "PUT /v1/nodes/u/states/power",
            json!({"target": "soft power off", "timeout": 180}),
        ),
        (
            Request::SetMaintenance { node: node(), reason: "r" },
            "PUT /v1/nodes/u/maintenance",
            json!({"reason": "r"}),
        ),
        (Request::UnsetMaintenance { node: node() }, "DELETE /v1/nodes/u/maintenance", Value::Null),
        (Request::DeleteNode { node: node() }, "DELETE /v1/nodes/u", Value::Null),
    ];
    with(
        healthy,
        |_| {},
        async move |server, ironic, _| {
            let session = ironic.ready().await.expect("it is ready");
            server.take();
            for (request, line, body) in cases {
                let answer = session.execute(&request).await.expect("it is accepted");
                let seen = server.take();
                assert_eq!(
                    seen,
                    [Seen {
                        line: line.to_owned(),
                        version: Some("1.110".to_owned()),
                        authorization: None,
                        body
                    }]
                );
                let has_node = matches!(request, Request::CreateNode(_) | Request::PatchNode { .. });
                assert_eq!(matches!(answer, Answer::Node(_)), has_node, "{line}");
            }
        },
    );
}

#[test]
fn success_is_only_what_upstream_takes_for_it() {
    // Everything answers 200, which is right for a read and a patch alone.
    let script: Script = |seen| match healthy(seen)? {
        (200, body) => Some((200, body)),
        (_, _) => Some((200, json!({"uuid": "u"}))),
    };
    with(
        script,
        |_| {},
        async |_, ironic, _| {
            let session = ironic.ready().await.expect("it is ready");
            let delete = Request::DeleteNode { node: "u".to_owned() };
            let error = session.execute(&delete).await.expect_err("200 is no answer to a deletion");
            assert_eq!(error.status(), Some(StatusCode::OK));
            session.get_node("u").await.expect("200 is right for a read");
        },
    );
}

#[test]
fn reads_come_out_as_what_they_are() {
    with(
        healthy,
        |_| {},
        async |server, ironic, _| {
            let session = ironic.ready().await.expect("it is ready");
            server.take();
            let node = session.get_node("metal3~host-0").await.expect("it is there");
            assert_eq!((node.uuid.as_str(), node.name, node.last_error.as_str()), ("u", None, ""));
            let validation = session.validate("u").await.expect("it is there");
            assert_eq!((validation.boot, validation.deploy), (None, Some("no image".to_owned())));
            assert_eq!(server.take_lines(), ["GET /v1/nodes/metal3~host-0", "GET /v1/nodes/u/validate"]);
        },
    );
}

#[test]
fn a_list_in_pages_comes_out_whole() {
    let script: Script = |seen| match seen.line.split_once("/v1/nodes?") {
        None => healthy(seen),
        Some((_, query)) if query.contains("marker=b") => Some((200, json!({"nodes": [{"uuid": "c"}]}))),
        Some((_, _)) => {
            Some((200, json!({"nodes": [{"uuid": "a"}, {"uuid": "b"}], "next": "http://elsewhere/"})))
        }
    };
    with(
        script,
        |_| {},
        async |server, ironic, _| {
            let session = ironic.ready().await.expect("it is ready");
            server.take();
            let nodes = session.list_nodes().await.expect("they are there");
            assert_eq!(nodes.iter().map(|node| node.uuid.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
            let fields = "fields=uuid,name,provision_state,boot_interface";
            assert_eq!(
                server.take_lines(),
                [format!("GET /v1/nodes?{fields}"), format!("GET /v1/nodes?{fields}&marker=b")]
            );
        },
    );
}

#[test]
fn no_password_shows_in_an_error_or_in_debug_output() {
    let script: Script = |seen| match seen.line.as_str() {
        "POST /v1/nodes" => Some((400, json!({"error_message": {"faultstring": "no such driver"}}))),
        _ => healthy(seen),
    };
    let change = |options: &mut Options| {
        options.credentials =
            Some(Credentials { username: "ironic".to_owned(), password: "hunter2".to_owned() });
        assert!(!format!("{options:?}").contains("hunter2"));
    };
    with(script, change, async |server, ironic, _| {
        let session = ironic.ready().await.expect("it is ready");
        assert!(
            server
                .take()
                .iter()
                .all(|seen| seen.authorization.as_deref() == Some("Basic aXJvbmljOmh1bnRlcjI="))
        );
        let secret = serde_json::Map::from_iter([("redfish_password".to_owned(), json!("hunter3"))]);
        let node = NewNode { driver_info: DriverInfo(secret), ..NewNode::default() };
        let error = session.execute(&Request::CreateNode(Box::new(node))).await.expect_err("it is refused");
        assert_eq!(chain(&error), "POST /nodes: no such driver (status 400)");
        for text in [format!("{error:?}"), format!("{session:?}"), chain(&error)] {
            assert!(!text.contains("hunter"), "{text}");
        }
        assert!(error.is_bad_request() && !error.is_conflict());
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("no such driver (status 400)"));
    });
}

#[test]
fn an_endpoint_that_cannot_be_spoken_to_is_refused_at_the_start() {
    engine::simulate(Seed(1), |net| async move {
        for endpoint in ["https://ironic/v1/", "/v1/", "ironic:6385", "http://ironic/v1/?a=b"] {
            let options =
                Options::new("http://kube".parse().expect("a URL"), endpoint.parse().expect("a URL"));
            let refused = Ironic::new(&net.host("operator"), &options);
            assert!(matches!(refused, Err(EndpointError::NotHttp(_))), "{endpoint}");
        }
    });
}
