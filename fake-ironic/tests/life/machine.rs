//! A small machine behind a small Redfish BMC: it boots the deploy agent from the disc that is in it when it is
//! powered on, and keeps what the agent writes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    response::{IntoResponse as _, Response},
};
use fake_ironic::agent::{self, Hardware};
use http::{Method, StatusCode, Uri};
use serde_json::{Value, json};
use wire::{
    BoxFuture, Host, Scope,
    http::{Client, Fate, Timeouts},
};

pub(super) const MAC: &str = "00:5c:52:31:00:02";

/// How long the machine takes until its agent runs.
const BOOT: Duration = Duration::from_secs(60);

/// Clones are the same machine.
#[derive(Clone)]
pub(super) struct Machine(Arc<Inner>);

struct Inner {
    host: Host,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) on: bool,
    pub(super) disk: String,
    pub(super) target: String,
    disc: Option<String>,
    /// The BMC answers this instead, if set; 0 closes the connection.
    pub(super) status: Option<u16>,
    /// What is booted does nothing.
    pub(super) hangs: bool,
    life: Option<Scope>,
}

impl Machine {
    /// A machine that is off, on its own host, with a BMC on another.
    pub(super) fn start(bmc: &Host, machine: Host) -> Self {
        let this = Self(Arc::new(Inner { host: machine, state: Mutex::default() }));
        this.state().disk = "blank".to_owned();
        let service = this.clone();
        let app = Router::new().fallback(move |method, uri, body| {
            let service = service.clone();
            async move { service.answer(&method, &uri, &body) }
        });
        let bmc = bmc.clone();
        drop(bmc.clone().spawn(async move { wire::http::serve(&bmc, 80, app).await }));
        this
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no test panicked while it held the machine")
    }

    fn answer(&self, method: &Method, uri: &Uri, body: &Bytes) -> Response {
        let status = self.state().status;
        match status {
            None => self.obey(method, uri.path(), &serde_json::from_slice(body).unwrap_or_default()),
            Some(0) => {
                let mut response = Response::default();
                response.extensions_mut().insert(Fate::Close);
                response
            }
            Some(status) => {
                let status = StatusCode::from_u16(status).expect("tests name real statuses");
                let error = json!({ "error": { "code": "Base.1.0.GeneralError", "message": "injected" } });
                (status, axum::Json(error)).into_response()
            }
        }
    }

    fn obey(&self, method: &Method, path: &str, body: &Value) -> Response {
        let link = |path: &str| json!({ "@odata.id": format!("/redfish/v1/{path}") });
        let action = |path: &str| json!({ "target": format!("/redfish/v1/{path}") });
        let mut state = self.state();
        let answer = match (method.as_str(), path.strip_prefix("/redfish/v1/").unwrap_or("?")) {
            ("GET", "") => json!({ "Id": "Root", "Systems": link("Systems") }),
            ("GET", "Systems/1") => json!({
                "Id": "1",
                "PowerState": if state.on { "On" } else { "Off" },
                "Boot": {
                    "BootSourceOverrideTarget": state.target, "BootSourceOverrideEnabled": "Continuous",
                    "BootSourceOverrideMode": "UEFI",
                },
                "VirtualMedia": link("Systems/1/VirtualMedia"),
                "Actions": { "#ComputerSystem.Reset": action("Systems/1/Actions/ComputerSystem.Reset") },
            }),
            ("GET", "Systems/1/VirtualMedia") => json!({ "Members": [link("Systems/1/VirtualMedia/Cd")] }),
            ("GET", "Systems/1/VirtualMedia/Cd") => json!({
                "MediaTypes": ["CD"], "Image": state.disc, "Inserted": state.disc.is_some(),
                "Actions": {
                    "#VirtualMedia.InsertMedia": action("Insert"), "#VirtualMedia.EjectMedia": action("Eject"),
                },
            }),
            ("PATCH", "Systems/1") => {
                if let Some(target) = body["Boot"]["BootSourceOverrideTarget"].as_str() {
                    target.clone_into(&mut state.target);
                }
                json!({})
            }
            ("POST", "Insert") => {
                state.disc = body["Image"].as_str().map(str::to_owned);
                json!({})
            }
            ("POST", "Eject") => {
                state.disc = None;
                json!({})
            }
            ("POST", "Systems/1/Actions/ComputerSystem.Reset") => {
                drop(state);
                self.power(body["ResetType"] == "On");
                json!({})
            }
            _ => return StatusCode::NOT_FOUND.into_response(),
        };
        axum::Json(answer).into_response()
    }

    pub(super) fn power(&self, on: bool) {
        let mut state = self.state();
        if state.on == on {
            return;
        }
        state.on = on;
        if let Some(life) = state.life.take() {
            life.end();
        }
        if on && !state.hangs && state.target == "Cd" {
            let (host, life) = self.0.host.scoped();
            state.life = Some(life);
            let disc = state.disc.clone();
            drop(host.clone().spawn(self.clone().boot(host, disc)));
        }
    }

    async fn boot(self, host: Host, disc: Option<String>) {
        let client = Client::new(&host, Timeouts::default());
        let request = http::Request::get(disc.expect("a disc is in the drive")).body(Bytes::new());
        let disc =
            client.send(request.expect("the disc has an address")).await.expect("the disc can be read");
        let text = String::from_utf8(disc.into_body().to_vec()).expect("the disc is text");
        host.sleep(BOOT).await;
        let line = text.lines().find(|line| line.starts_with("linux ")).expect("the disc boots a kernel");
        let parameters: BTreeMap<String, String> = line
            .split(' ')
            .filter_map(|word| word.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let address = host.address().to_string();
        agent::run(host, Arc::new(Board { machine: self, address }), parameters).await;
    }
}

/// The machine as its agent sees it.
struct Board {
    machine: Machine,
    address: String,
}

impl Hardware for Board {
    fn inventory(&self) -> Value {
        json!({
            "interfaces": [
                { "name": "eth0", "mac_address": MAC, "ipv4_address": self.address, "has_carrier": true },
                { "name": "eth1", "mac_address": "00:5c:52:31:01:02", "ipv4_address": null, "has_carrier": false },
            ],
            "cpu": { "architecture": "x86_64", "count": 4 },
            "memory": { "physical_mb": 8192 },
            "disks": [{ "name": "/dev/sda", "size": 107_374_182_400_u64 }],
            "system_vendor": { "manufacturer": "Sim", "product_name": "Box", "serial_number": "1" },
            "boot": { "current_boot_mode": "uefi", "pxe_interface": MAC },
            "bmc_address": "0.0.0.0",
            "hostname": "agent",
        })
    }

    fn write_disk(&self, digest: String, _url: String) -> BoxFuture<'_, ()> {
        self.machine.state().disk = digest;
        Box::pin(std::future::ready(()))
    }

    fn wipe_disk(&self) -> BoxFuture<'_, ()> {
        self.machine.state().disk = "wiped".to_owned();
        Box::pin(std::future::ready(()))
    }

    fn power_off(&self) {
        self.machine.power(false);
    }

    fn reboot(&self) {
        self.machine.power(false);
        self.machine.power(true);
    }
}
