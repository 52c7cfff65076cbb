//! What is known of each host at a moment, folded from the facts up to it.
//!
//! The same fold serves the verdict, which has the whole trace, and the timeline, which waits for a condition while
//! the world runs.

use std::collections::BTreeMap;

use serde_json::Value;
use wire::{Entry, Instant};

use crate::scenario::history::Standing;

/// All that is known at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// By BareMetalHost name.
    pub hosts: BTreeMap<String, HostView>,
}

/// What is known of one host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostView {
    /// Its BareMetalHost; `None` before it is created and once it is gone.
    pub resource: Option<Resource>,
    /// When its BareMetalHost was created, the last time that it was.
    pub created: Option<Instant>,
    /// Whether there has been a BareMetalHost.
    pub existed: bool,
    /// Ironic's provision state of its node; `None` if there is no node.
    pub node: Option<String>,
    /// Whether the machine has power; `None` if nothing has been said of it.
    pub power: Option<bool>,
}

/// A BareMetalHost as the API server holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// `status.provisioning.state`.
    pub state: String,
    /// `status.operationalStatus`.
    pub status: String,
    /// `status.errorType`.
    pub error: String,
    /// `status.errorMessage`.
    pub message: String,
    /// `status.errorCount`.
    pub error_count: u64,
    /// `spec.online`.
    pub online: bool,
    /// `status.poweredOn`.
    pub powered_on: bool,
    /// The name in `spec.consumerRef`.
    pub consumer: String,
}

impl View {
    /// Takes one fact in. Returns the host that it is about, if it changed what is known of it.
    pub fn apply(&mut self, at: Instant, entry: &Entry) -> Option<String> {
        let name = host_of(entry)?.to_owned();
        let host = self.hosts.entry(name.clone()).or_default();
        let before = host.clone();
        match entry.topic.as_str() {
            "kube" => host.take_resource(at, &entry.data),
            "node" => host.node = text_at(&entry.data, "provision_state").filter(|_| !is_gone(&entry.data)),
            "power" => {
                if let Some(to) = text_at(&entry.data, "to") {
                    // On the way down it still has power, on the way up not yet.
                    host.power = Some(matches!(to.as_str(), "on" | "powering-off"));
                }
            }
            _ => return None,
        }
        (*host != before).then_some(name)
    }

    /// The host of that name; unknown hosts are known to be nothing yet.
    pub fn host(&self, name: &str) -> HostView {
        self.hosts.get(name).cloned().unwrap_or_default()
    }
}

impl HostView {
    /// What a history shows of the host now; `None` while it has no state yet.
    pub fn standing(&self) -> Option<Standing> {
        match &self.resource {
            Some(resource) if resource.state.is_empty() && resource.error.is_empty() => None,
            Some(resource) => Some(Standing::of(&resource.state, &resource.status, &resource.error)),
            None => self.existed.then(Standing::gone),
        }
    }

    fn take_resource(&mut self, at: Instant, data: &Value) {
        if is_gone(data) {
            self.resource = None;
            return;
        }
        if self.resource.is_none() {
            self.created = Some(at);
        }
        self.existed = true;
        let text = |key| text_at(data, key).unwrap_or_default();
        let flag = |key| data.get(key).and_then(Value::as_bool).unwrap_or_default();
        self.resource = Some(Resource {
            state: text("state"),
            status: text("operationalStatus"),
            error: text("errorType"),
            message: text("errorMessage"),
            error_count: data.get("errorCount").and_then(Value::as_u64).unwrap_or_default(),
            online: flag("online"),
            powered_on: flag("poweredOn"),
            consumer: text("consumer"),
        });
    }
}

/// The BareMetalHost that a fact is about.
pub fn host_of(entry: &Entry) -> Option<&str> {
    match entry.topic.as_str() {
        "kube" => entry.subject.strip_prefix("baremetalhosts/")?.split_once('/').map(|(_, name)| name),
        // Nodes are named NAMESPACE~NAME by the operator.
        "node" => Some(entry.subject.rsplit_once('~').map_or(entry.subject.as_str(), |(_, name)| name)),
        "power" | "disk" | "media" | "boot" => {
            Some(entry.subject.strip_suffix("-bmc").unwrap_or(&entry.subject))
        }
        _ => None,
    }
}

fn text_at(data: &Value, key: &str) -> Option<String> {
    data.get(key)?.as_str().map(str::to_owned)
}

fn is_gone(data: &Value) -> bool {
    matches!(data.get("event").and_then(Value::as_str), Some("DELETED" | "deleted"))
}
