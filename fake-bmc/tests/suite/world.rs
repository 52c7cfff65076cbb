//! A world with one BMC, one machine and a client.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::Engine as _;
use bytes::Bytes;
use fake_bmc::{Bmc, Config, Credentials, DiskContent, MacAddress, Power, Protocol, Software};
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use wire::{
    BoxFuture, Host,
    http::{Client, Error, Timeouts},
};

pub(crate) const USER: &str = "admin";
pub(crate) const PASSWORD: &str = "password";

pub(crate) fn config() -> Config {
    let mac = MacAddress::new([0x52, 0x54, 0x00, 0x00, 0x00, 0x01]);
    let mut config = Config::new("machine-0", mac, Credentials::new(USER, PASSWORD));
    config.protocol = Protocol::Both;
    config
}

pub(crate) fn installed() -> DiskContent {
    DiskContent::Image { digest: "sha256:1".to_owned(), url: "http://images/os".to_owned() }
}

/// A world, its BMC, and what the journal said.
pub(crate) struct World {
    pub(crate) net: engine::Network,
    pub(crate) bmc: Bmc,
    pub(crate) client: Host,
    pub(crate) software: Arc<dyn Software>,
    journal: Arc<Mutex<Vec<(String, Value)>>>,
}

/// Runs `story` in a world with a served BMC, and gives the hash of all that happened.
pub(crate) fn world<F, Fut>(config: Config, software: impl Software, story: F) -> String
where
    F: FnOnce(World) -> Fut + Send + 'static,
    Fut: Future<Output = ()>,
{
    let software: Arc<dyn Software> = Arc::new(software);
    let outcome = engine::run(engine::Config::default(), |net| async move {
        let journal = Arc::new(Mutex::new(Vec::new()));
        net.observe({
            let journal = Arc::clone(&journal);
            move |_, entry| {
                if entry.subject == "machine-0" {
                    journal.lock().unwrap().push((entry.topic.clone(), entry.data.clone()));
                }
            }
        });
        let world = World { bmc: Bmc::new(config), client: net.host("client"), net, software, journal };
        world.serve();
        story(world).await;
    });
    if let Some(failure) = outcome.failure {
        panic!("{failure}");
    }
    outcome.hash
}

impl World {
    /// Has the BMC served on its host, as it is now.
    pub(crate) fn serve(&self) {
        let (bmc_host, machine_host) = (self.net.host("bmc"), self.net.host("machine"));
        drop(self.bmc.serve(bmc_host, machine_host, Arc::clone(&self.software)));
    }

    pub(crate) async fn sleep(&self, seconds: u64) {
        self.client.sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits for a power state and gives the time that it took.
    pub(crate) async fn wait_for(&self, power: Power) -> Duration {
        let began = self.client.now();
        while self.bmc.power() != power {
            assert!(self.client.now() - began < Duration::from_secs(600), "{power:?} never comes");
            self.client.sleep(Duration::from_millis(100)).await;
        }
        self.client.now() - began
    }

    /// What the journal said about the machine on one topic.
    pub(crate) fn journal(&self, topic: &str) -> Vec<Value> {
        let journal = self.journal.lock().unwrap();
        journal.iter().filter(|(has, _)| has == topic).map(|(_, data)| data.clone()).collect()
    }

    /// A Redfish client with the BMC's credentials.
    pub(crate) fn redfish(&self) -> Redfish {
        Redfish::new(&self.client, USER, PASSWORD)
    }

    pub(crate) fn system(&self) -> String {
        self.bmc.system_path()
    }
}

/// An answer, read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The message of an error body.
    pub(crate) fn message_id(&self) -> String {
        let error = &self.json()["error"];
        let id = error["@Message.ExtendedInfo"][0]["MessageId"].as_str().expect("the error says what it is");
        assert_eq!(error["code"], id);
        id.rsplit('.').next().unwrap().to_owned()
    }
}

/// A Redfish client.
pub(crate) struct Redfish {
    client: Client,
    headers: Vec<(&'static str, String)>,
}

impl Redfish {
    pub(crate) fn new(host: &Host, user: &str, password: &str) -> Self {
        let login = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        Self::with_headers(host, vec![("authorization", format!("Basic {login}"))])
    }

    pub(crate) fn with_headers(host: &Host, headers: Vec<(&'static str, String)>) -> Self {
        Self { client: Client::without_keep_alive(host, Timeouts::default()), headers }
    }

    pub(crate) fn and(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) async fn try_send(
        &self,
        method: &str,
        path: &str,
        body: impl ToString,
    ) -> Result<Answer, Error> {
        let mut request = http::Request::builder().method(method).uri(format!("http://bmc{path}"));
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let (head, body) =
            self.client.send(request.body(body.to_string().into()).unwrap()).await?.into_parts();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: impl ToString) -> Answer {
        self.try_send(method, path, body).await.expect("an answer")
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "").await
    }

    pub(crate) async fn reset(&self, system: &str, kind: &str) -> Answer {
        let body = serde_json::json!({ "ResetType": kind });
        self.send("POST", &format!("{system}/Actions/ComputerSystem.Reset"), body).await
    }
}

/// A ramdisk that tells its parameters, serves HTTP on port 9999 and lives for ever; and a world that tells when it
/// gave and took power.
#[derive(Clone, Default)]
pub(crate) struct Recorder(
    pub(crate) Arc<Mutex<Vec<BTreeMap<String, String>>>>,
    pub(crate) Arc<Mutex<Vec<bool>>>,
);

impl Software for Recorder {
    fn power(&self, host: &Host, on: bool) {
        assert_eq!(host.name(), "machine");
        self.1.lock().unwrap().push(on);
    }

    fn ramdisk(
        &self,
        machine: fake_bmc::MachineHandle,
        host: Host,
        parameters: BTreeMap<String, String>,
    ) -> BoxFuture<'static, ()> {
        let started = Arc::clone(&self.0);
        Box::pin(async move {
            match parameters.get("do").map(String::as_str) {
                Some("install") => machine.write_disk("/dev/sda", "sha256:1", "http://images/os").unwrap(),
                Some("wipe") => machine.wipe_disk("/dev/sda").unwrap(),
                Some("off") => machine.power_off().unwrap(),
                Some(_) | None => {}
            }
            started.lock().unwrap().push(parameters);
            wire::http::serve(&host, 9999, axum::Router::new()).await.unwrap();
        })
    }
}
