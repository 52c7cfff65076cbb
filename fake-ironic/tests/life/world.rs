//! A world of one Ironic, one machine and one image cache, and a client that asks Ironic.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use engine::Network;
use fake_ironic::{Database, Faults, Ironic, Settings};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use wire::{
    Host, Seed,
    http::{Client, Error, Timeouts},
};

use super::machine::{MAC, Machine};

/// The image that the cache holds, and its SHA-256.
pub(super) const IMAGE: &str = "raw bytes of an operating system";
pub(super) const IMAGE_URL: &str = "http://cache/images/disk.raw";
pub(super) const IMAGE_SHA256: &str = "84af230af371c3f62591e1510c7a924a8864d019f9ece9122d708fe9571d764b";

/// What the journal said about the node: at which moment, and what.
pub(super) type Journal = Arc<Mutex<Vec<(Duration, Value)>>>;

pub(super) struct World {
    pub(super) net: Network,
    pub(super) client: Host,
    pub(super) machine: Machine,
    pub(super) ironic: Ironic,
    pub(super) database: Database,
    pub(super) faults: Faults,
    pub(super) journal: Journal,
    /// Whether the cache has its image.
    pub(super) cache: Arc<Mutex<bool>>,
}

/// Tells a story in a world.
pub(super) fn tell<F, Fut>(settings: Settings, story: F)
where
    F: FnOnce(World) -> Fut + Send + 'static,
    Fut: Future<Output = ()>,
{
    engine::simulate(Seed(7), |net| async move { story(World::start(net, settings)).await });
}

/// The settings that the recorded Ironic ran with, as far as texts depend on them.
pub(super) fn settings(changes: Value) -> Settings {
    let mut settings = json!({ "host": "sim-conductor" });
    for (key, value) in changes.as_object().into_iter().flatten() {
        settings[key] = value.clone();
    }
    serde_json::from_value(settings).expect("these are settings")
}

impl World {
    fn start(net: Network, settings: Settings) -> Self {
        let machine = Machine::start(&net.host("bmc"), net.host("machine"));
        let cache = Arc::new(Mutex::new(true));
        serve_cache(&net.host("cache"), Arc::clone(&cache));
        let (database, faults) = (Database::new(), Faults::default());
        let ironic = Ironic::new(settings, database.clone()).with_faults(faults.clone());
        ironic.serve(net.host("ironic"));
        let journal = Journal::default();
        let keep = Arc::clone(&journal);
        net.observe(move |at, entry| {
            if entry.topic == "node" {
                keep.lock().expect("nobody panicked").push((at.0, entry.data.clone()));
            }
        });
        Self { client: net.host("client"), net, machine, ironic, database, faults, journal, cache }
    }

    pub(super) async fn try_to_ask(
        &self,
        method: Method,
        path: &str,
        body: Value,
    ) -> Result<(StatusCode, Value), Error> {
        let client =
            Client::new(&self.client, Timeouts { read: Duration::from_secs(30), ..Timeouts::default() });
        let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = http::Request::builder()
            .method(method)
            .uri(format!("http://ironic:6385/v1/{path}"))
            .header("X-OpenStack-Ironic-API-Version", "1.110")
            .body(bytes)
            .expect("a request");
        let answer = client.send(request).await?;
        Ok((answer.status(), serde_json::from_slice(answer.body()).unwrap_or_default()))
    }

    pub(super) async fn ask(&self, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
        self.try_to_ask(method, path, body).await.expect("Ironic answers")
    }

    /// The text of a refusal.
    pub(super) async fn refusal(&self, method: Method, path: &str, body: Value) -> (u16, String) {
        let (status, body) = self.ask(method, path, body).await;
        let inner: Value =
            serde_json::from_str(body["error_message"].as_str().unwrap_or("{}")).unwrap_or_default();
        (status.as_u16(), inner["faultstring"].as_str().unwrap_or_default().to_owned())
    }

    /// Creates the node with its port.
    pub(super) async fn enroll(&self) -> String {
        let node = json!({
            "driver": "redfish", "name": "ns~host", "boot_interface": "redfish-virtual-media",
            "driver_info": {
                "redfish_address": "http://bmc", "redfish_system_id": "/redfish/v1/Systems/1",
                "redfish_username": "admin", "redfish_password": "secret",
                "deploy_kernel": "http://cache/ipa.kernel", "deploy_ramdisk": "http://cache/ipa.initramfs",
            },
        });
        let (status, node) = self.ask(Method::POST, "nodes", node).await;
        assert_eq!(status, StatusCode::CREATED, "{node}");
        let uuid = node["uuid"].as_str().expect("a UUID").to_owned();
        let port = json!({ "node_uuid": uuid, "address": MAC });
        let (status, port) = self.ask(Method::POST, "ports", port).await;
        assert_eq!(status, StatusCode::CREATED, "{port}");
        uuid
    }

    pub(super) async fn node(&self) -> Value {
        self.ask(Method::GET, "nodes/ns~host", Value::Null).await.1
    }

    pub(super) async fn provision(&self, body: Value) -> StatusCode {
        self.ask(Method::PUT, "nodes/ns~host/states/provision", body).await.0
    }

    pub(super) async fn patch(&self, patch: Value) {
        let (status, body) = self.ask(Method::PATCH, "nodes/ns~host", patch).await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }

    /// Waits until the node is in a state and nobody works on it.
    pub(super) async fn reach(&self, state: &str) -> Value {
        for _ in 0..20_000 {
            let node = self.node().await;
            if node["provision_state"] == state && node["reservation"].is_null() {
                return node;
            }
            self.client.sleep(Duration::from_secs(1)).await;
        }
        panic!("the node is still {} instead of {state}", self.node().await);
    }

    /// Begins what `verb` asks and waits for where it leads.
    pub(super) async fn go(&self, verb: &str, state: &str) -> Value {
        assert_eq!(self.provision(json!({ "target": verb })).await, StatusCode::ACCEPTED, "{verb}");
        self.reach(state).await
    }

    /// A node that is `manageable`.
    pub(super) async fn managed(&self) -> String {
        let uuid = self.enroll().await;
        self.go("manage", "manageable").await;
        uuid
    }

    /// A node that is `available` without having been cleaned.
    pub(super) async fn available(&self) -> String {
        let uuid = self.managed().await;
        self.patch(json!([{ "op": "add", "path": "/automated_clean", "value": false }])).await;
        self.go("provide", "available").await;
        uuid
    }

    pub(super) async fn set_image(&self, sha256: &str) {
        self.patch(json!([{ "op": "add", "path": "/instance_info", "value": {
            "image_source": IMAGE_URL, "image_os_hash_algo": "sha256", "image_os_hash_value": sha256,
            "image_disk_format": "raw",
        } }]))
        .await;
    }

    /// The provision states that the node went through since the last call, each once.
    pub(super) fn states(&self) -> Vec<String> {
        let mut states: Vec<String> = self
            .journal
            .lock()
            .expect("nobody panicked")
            .drain(..)
            .map(|(_, data)| data["provision_state"].as_str().unwrap_or("none").to_owned())
            .collect();
        states.dedup();
        states
    }

    /// What happened to `last_error` since the last call.
    pub(super) fn errors(&self) -> Vec<Option<String>> {
        let mut errors: Vec<Option<String>> = self
            .journal
            .lock()
            .expect("nobody panicked")
            .drain(..)
            .map(|(_, data)| data["last_error"].as_str().map(str::to_owned))
            .collect();
        errors.dedup();
        errors
    }
}

fn serve_cache(host: &Host, has_image: Arc<Mutex<bool>>) {
    let app = axum::Router::new().fallback(move |uri: http::Uri| {
        let has_image = *has_image.lock().expect("nobody panicked");
        async move {
            match uri.path() {
                "/images/disk.raw" if has_image => (StatusCode::OK, IMAGE.to_owned()),
                "/images/disk.raw" => (StatusCode::NOT_FOUND, String::new()),
                other => (StatusCode::OK, format!("bmsim ramdisk image 1\n{other}\n")),
            }
        }
    });
    let host = host.clone();
    drop(host.clone().spawn(async move { wire::http::serve(&host, 80, app).await }));
}
