//! The people at the keyboard: what `kubectl` users do, done as they do it, through the API server.

use std::{net::IpAddr, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};
use wire::{
    Host,
    http::{Client, Timeouts},
};

use crate::scenario::{
    plan::{Checksum, HostPlan, ImageRef, Initial, Plan},
    step::Edit,
};

/// Where the API server is.
pub(super) const API: &str = "http://kube:6443";

/// How long a user waits before trying a failed command again.
const PAUSE: Duration = Duration::from_secs(1);

/// How often a user tries before giving up.
const TRIES: u32 = 600;

/// Someone with a kubeconfig.
#[derive(Clone)]
pub(super) struct User {
    host: Host,
    client: Client,
    namespace: String,
}

impl User {
    pub(super) fn new(host: Host, namespace: &str) -> Self {
        let client = Client::without_keep_alive(&host, Timeouts::default());
        Self { host, client, namespace: namespace.to_owned() }
    }

    /// Creates the namespace.
    pub(super) async fn create_namespace(&self) {
        let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": self.namespace } });
        self.send("POST", "/api/v1/namespaces", &body).await;
    }

    /// Creates a host's Secret and its BareMetalHost.
    pub(super) async fn create_host(&self, host: &HostPlan, bmc: IpAddr, plan: &Plan) {
        let secrets = format!("/api/v1/namespaces/{}/secrets", self.namespace);
        self.send("POST", &secrets, &secret(host, &self.namespace)).await;
        self.send("POST", &self.hosts(), &bare_metal_host(host, bmc, plan, &self.namespace)).await;
    }

    /// Deletes a BareMetalHost, without waiting until it is gone.
    pub(super) async fn delete_host(&self, name: &str) {
        self.send("DELETE", &format!("{}/{name}", self.hosts()), &json!({})).await;
    }

    /// Edits a BareMetalHost's spec.
    pub(super) async fn edit_host(&self, name: &str, edit: &Edit, plan: &Plan) {
        let mut spec = serde_json::Map::new();
        if let Some(online) = edit.online {
            spec.insert("online".to_owned(), online.into());
        }
        if let Some(image) = &edit.image {
            spec.insert(
                "image".to_owned(),
                image.as_ref().map_or(Value::Null, |image| image_spec(image, plan)),
            );
        }
        if let Some(external) = edit.externally_provisioned {
            spec.insert("externallyProvisioned".to_owned(), external.into());
        }
        self.patch(&format!("{}/{name}", self.hosts()), &json!({ "spec": spec })).await;
    }

    /// Sets an annotation of a BareMetalHost, or removes it.
    pub(super) async fn annotate_host(&self, name: &str, key: &str, value: Option<&str>) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.patch(&format!("{}/{name}", self.hosts()), &patch).await;
    }

    /// Edits a host's BMC Secret.
    pub(super) async fn edit_secret(&self, name: &str, username: Option<&str>, password: Option<&str>) {
        let mut data = serde_json::Map::new();
        for (key, value) in [("username", username), ("password", password)] {
            if let Some(value) = value {
                data.insert(key.to_owned(), value.into());
            }
        }
        let path = format!("/api/v1/namespaces/{}/secrets/{}", self.namespace, secret_name(name));
        self.patch(&path, &json!({ "stringData": data })).await;
    }

    fn hosts(&self) -> String {
        format!("/apis/metal3.io/v1alpha1/namespaces/{}/baremetalhosts", self.namespace)
    }

    async fn patch(&self, path: &str, patch: &Value) {
        self.send("PATCH", path, patch).await;
    }

    /// Sends a request, again and again until the API server takes it; as people do.
    async fn send(&self, method: &str, path: &str, body: &Value) {
        let kind = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        for _ in 0..TRIES {
            let request = http::Request::builder()
                .method(method)
                .uri(format!("{API}{path}"))
                .header(http::header::CONTENT_TYPE, kind)
                .header(http::header::ACCEPT, "application/json")
                .body(Bytes::from(body.to_string()));
            let request = match request {
                Ok(request) => request,
                Err(error) => panic!("{method} {path} is no request: {error}"),
            };
            match self.client.send(request).await {
                Ok(answer) if answer.status().is_success() => return,
                // There is nothing to change, and it does not come from asking again.
                Ok(answer)
                    if answer.status() == http::StatusCode::NOT_FOUND
                        && matches!(method, "PATCH" | "DELETE") =>
                {
                    return self.give_up(method, path, "there is no such object");
                }
                Ok(answer) if is_settled(answer.status()) => {
                    let text = String::from_utf8_lossy(answer.body()).into_owned();
                    panic!("{method} {path}: {} {text}", answer.status());
                }
                Ok(answer) => tracing::info!(method, path, status = %answer.status(), "will try again"),
                Err(error) => tracing::info!(method, path, %error, "will try again"),
            }
            self.host.sleep(PAUSE).await;
        }
        self.give_up(method, path, &format!("{TRIES} tries failed"));
    }

    /// Notes that a command came to nothing, so that a run in which it should have done something is seen to show
    /// nothing.
    fn give_up(&self, method: &str, path: &str, why: &str) {
        tracing::warn!(method, path, why, "gave up");
        self.host.note("user", &format!("{method} {path}"), json!({ "did_nothing": why }));
    }
}

/// Whether the answer stays the same however often one asks: then the scenario, or the API server, is wrong.
fn is_settled(status: http::StatusCode) -> bool {
    use http::StatusCode;
    matches!(
        status,
        StatusCode::BAD_REQUEST | StatusCode::METHOD_NOT_ALLOWED | StatusCode::UNPROCESSABLE_ENTITY
    )
}

fn secret_name(host: &str) -> String {
    format!("{host}-bmc-secret")
}

fn secret(host: &HostPlan, namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": secret_name(&host.name), "namespace": namespace },
        "type": "Opaque",
        "stringData": { "username": host.username, "password": host.password.expose() },
    })
}

fn bare_metal_host(host: &HostPlan, bmc: IpAddr, plan: &Plan, namespace: &str) -> Value {
    let mut spec = json!({
        "online": host.online,
        "bootMACAddress": host.mac,
        "bmc": { "address": address(host, bmc), "credentialsName": secret_name(&host.name) },
    });
    if let Some(image) = &host.image {
        spec["image"] = image_spec(image, plan);
    }
    if host.initial == Initial::ExternallyProvisioned {
        spec["externallyProvisioned"] = true.into();
    }
    if let Some(consumer) = &host.consumer {
        spec["consumerRef"] = json!({
            "apiVersion": "machine.openshift.io/v1beta1",
            "kind": "Machine",
            "name": consumer,
            "namespace": namespace,
        });
    }
    json!({
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": { "name": host.name, "namespace": namespace },
        "spec": spec,
    })
}

/// `spec.bmc.address`.
fn address(host: &HostPlan, bmc: IpAddr) -> String {
    use crate::scenario::plan::BmcKind;
    let scheme = match host.bmc {
        BmcKind::Ipmi => return format!("ipmi://{bmc}:623"),
        BmcKind::Redfish => "redfish+http",
        BmcKind::RedfishVirtualmedia => "redfish-virtualmedia+http",
    };
    format!("{scheme}://{bmc}{}", super::machines::system_path(&host.name))
}

fn image_spec(image: &ImageRef, plan: &Plan) -> Value {
    let url = format!("http://{}/{}", image.cache, image.image);
    let kind = plan.image(image).map(|image| image.checksum).unwrap_or_default();
    let (ending, name) = match kind {
        Checksum::Md5 => ("md5sum", "md5"),
        Checksum::Sha256 => ("sha256sum", "sha256"),
        Checksum::Sha512 => ("sha512sum", "sha512"),
    };
    json!({ "url": url, "checksum": format!("{url}.{ending}"), "checksumType": name })
}
