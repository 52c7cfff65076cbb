//! Someone with a kubeconfig in a simulated world, and what they send.

use std::time::Duration;

use bytes::Bytes;
use engine::Network;
use fake_kube::KubeApi;
use serde_json::{Value, json};
use wire::{
    Host, Seed,
    http::{Client, Pieces, Timeouts},
};

/// Someone with a kubeconfig, in one world.
pub(crate) struct User {
    pub(crate) api: KubeApi,
    pub(crate) client: Client,
}

pub(crate) const HOSTS: &str = "/apis/metal3.io/v1alpha1/namespaces/metal3/baremetalhosts";
pub(crate) const SECRETS: &str = "/api/v1/namespaces/metal3/secrets";

/// Runs a test in a world with an API and a namespace `metal3`.
pub(crate) fn with_api<T: Send + 'static, F: Future<Output = T>>(
    test: impl FnOnce(Network, User) -> F + Send + 'static,
) -> T {
    engine::simulate(Seed(7), |net| async move {
        let api = KubeApi::new();
        drop(api.serve(net.host("kube")));
        let timeouts = Timeouts { connect: Duration::from_secs(5), read: Duration::from_secs(3600) };
        let user = User { api, client: Client::without_keep_alive(&net.host("user"), timeouts) };
        pause(&net.host("user")).await;
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "metal3" } });
        user.ok("POST", "/api/v1/namespaces", &namespace).await;
        test(net, user).await
    })
}

pub(crate) async fn pause(host: &Host) {
    host.sleep(Duration::from_millis(50)).await;
}

impl User {
    pub(crate) async fn try_call(
        &self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<(u16, Value), wire::http::Error> {
        let kind = match (method, body) {
            ("PATCH", Value::Array(_)) => "application/json-patch+json",
            ("PATCH", _) if path.contains("fieldManager") => "application/apply-patch+yaml",
            ("PATCH", _) => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = http::Request::builder()
            .method(method)
            .uri(format!("http://kube:6443{path}"))
            .header("content-type", kind)
            .header("user-agent", "user/1")
            .body(body)
            .expect("a request");
        let answer = self.client.send(request).await?;
        Ok((answer.status().as_u16(), serde_json::from_slice(answer.body()).unwrap_or_default()))
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.try_call(method, path, body).await.expect("an answer")
    }

    pub(crate) async fn ok(&self, method: &str, path: &str, body: &Value) -> Value {
        let (code, value) = self.call(method, path, body).await;
        assert!(code < 300, "{method} {path}: {code} {value}");
        value
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.ok("GET", path, &Value::Null).await
    }

    pub(crate) async fn refused(&self, method: &str, path: &str, body: &Value) -> (u16, String, String) {
        let (code, status) = self.call(method, path, body).await;
        assert_eq!(status["kind"], "Status", "{method} {path}: {status}");
        assert_eq!(status["code"], code);
        let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
        (code, text("reason"), text("message"))
    }

    pub(crate) async fn watch(&self, path: &str) -> Watch {
        let request =
            http::Request::get(format!("http://kube:6443{path}")).body(Bytes::new()).expect("a request");
        let answer = self.client.open(request).await.expect("an answer");
        Watch { pieces: answer.into_body(), read: Vec::new() }
    }
}

pub(crate) struct Watch {
    pieces: Pieces,
    read: Vec<u8>,
}

impl Watch {
    /// The next event; `None` when the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("a JSON line"));
            }
            self.read.extend_from_slice(&self.pieces.next().await.expect("a piece")?);
        }
    }

    /// The next event as type and name.
    pub(crate) async fn told(&mut self) -> (String, String) {
        let event = self.next().await.expect("an event");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    }
}

pub(crate) fn host(name: &str) -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": { "name": name },
        "spec": { "online": true, "bmc": { "address": "ipmi://bmc", "credentialsName": format!("{name}-bmc") } },
    })
}

pub(crate) fn secret(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
        "stringData": { "username": "admin", "password": "pass" },
    })
}

pub(crate) fn status() -> Value {
    json!({
        "errorCount": 1, "errorMessage": "no answer", "errorType": "registration error",
        "operationalStatus": "error", "poweredOn": false, "provisioning": { "ID": "", "state": "registering" },
    })
}
