//! What the database keeps about a machine: the node and its ports.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;
use wire::Instant;

use crate::{
    driver::{BootMode, PowerState, Target},
    hardware::{HardwareType, Interfaces},
    state::{ProvisionState, words},
};

words! {
    /// Why Ironic put a node into maintenance by itself.
    pub(crate) Fault {
        Power = "power failure",
        Clean = "clean failure",
        RescueAbort = "rescue abort failure",
        Service = "service failure",
    }
}

/// A machine as Ironic knows it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The database's own number, which shows in one error text.
    pub(crate) id: u64,
    pub(crate) uuid: Uuid,
    pub(crate) name: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Option<Timestamp>,
    pub(crate) driver: String,
    pub(crate) interfaces: Interfaces,
    pub(crate) driver_info: Map<String, Value>,
    pub(crate) properties: Map<String, Value>,
    pub(crate) extra: Map<String, Value>,
    pub(crate) instance_info: Map<String, Value>,
    pub(crate) instance_uuid: Option<Uuid>,
    pub(crate) network_data: Map<String, Value>,
    pub(crate) raid_config: Map<String, Value>,
    pub(crate) target_raid_config: Map<String, Value>,
    /// What clients may write but nothing here acts on: owner, description, resource class and so on.
    pub(crate) labels: Map<String, Value>,
    pub(crate) automated_clean: Option<bool>,
    pub(crate) disable_power_off: bool,
    pub(crate) provision_state: ProvisionState,
    pub(crate) target_provision_state: Option<ProvisionState>,
    pub(crate) provision_updated_at: Option<Timestamp>,
    /// The same moment on the world's clock, by which callback timeouts are counted.
    pub(crate) provision_touched: Instant,
    pub(crate) power_state: Option<PowerState>,
    pub(crate) target_power_state: Option<PowerState>,
    /// When the power was last changed, by which network boots are tried again.
    pub(crate) power_touched: Instant,
    pub(crate) last_error: Option<String>,
    pub(crate) maintenance: bool,
    pub(crate) maintenance_reason: Option<String>,
    pub(crate) fault: Option<Fault>,
    /// The conductor that holds the exclusive lock.
    pub(crate) reservation: Option<String>,
    pub(crate) inspection_started_at: Option<Timestamp>,
    pub(crate) inspection_finished_at: Option<Timestamp>,
    pub(crate) agent: AgentSession,
    pub(crate) work: Work,
}

/// What Ironic knows about the agent that runs on the machine, if one does.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentSession {
    pub(crate) url: Option<String>,
    pub(crate) token: Option<String>,
    /// Whether the token went to the machine with its boot image, so that a lookup must not tell it.
    pub(crate) token_pregenerated: bool,
    pub(crate) last_heartbeat: Option<Timestamp>,
    pub(crate) version: Option<String>,
}

/// The steps that a node is going through.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// What kind of steps they are.
    pub(crate) kind: Option<WorkKind>,
    /// Steps that a client asked for, before the agent has said which it has.
    pub(crate) wanted: Vec<Step>,
    /// All steps in order, once they are known.
    pub(crate) steps: Option<Vec<Step>>,
    /// How many of them have been begun.
    pub(crate) begun: usize,
    /// The one that runs or ran last.
    pub(crate) current: Option<Step>,
    /// The versions of the agent's hardware managers, to be sent back with each step.
    pub(crate) hardware_manager_version: Value,
    /// Whether to stop after the current step.
    pub(crate) abort_after: bool,
}

/// What kind of steps a node goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkKind {
    /// Cleaning before the node becomes available.
    AutomatedClean,
    /// Cleaning with the steps that a client named.
    ManualClean,
    /// Deployment.
    Deploy,
}

/// One step of cleaning or deployment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Step {
    pub(crate) interface: String,
    pub(crate) step: String,
    pub(crate) priority: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) args: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) abortable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reboot_requested: Option<bool>,
}

impl Step {
    /// `interface.step`, as error texts name it.
    pub(crate) fn full_name(&self) -> String {
        format!("{}.{}", self.interface, self.step)
    }

    pub(crate) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl Node {
    /// A node that nobody has done anything with. Its number is the database's to give.
    pub(crate) fn new(uuid: Uuid, hardware: HardwareType, created_at: Timestamp) -> Self {
        Self {
            id: 0,
            uuid,
            name: None,
            created_at,
            updated_at: None,
            driver: hardware.name().to_owned(),
            interfaces: hardware.defaults(),
            driver_info: Map::new(),
            properties: Map::new(),
            extra: Map::new(),
            instance_info: Map::new(),
            instance_uuid: None,
            network_data: Map::new(),
            raid_config: Map::new(),
            target_raid_config: Map::new(),
            labels: Map::new(),
            automated_clean: None,
            disable_power_off: false,
            provision_state: ProvisionState::Enroll,
            target_provision_state: None,
            provision_updated_at: None,
            provision_touched: Instant::default(),
            power_state: None,
            target_power_state: None,
            power_touched: Instant::default(),
            last_error: None,
            maintenance: false,
            maintenance_reason: None,
            fault: None,
            reservation: None,
            inspection_started_at: None,
            inspection_finished_at: None,
            agent: AgentSession::default(),
            work: Work::default(),
        }
    }

    /// The name if it has one, else the UUID.
    pub(crate) fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.uuid.to_string())
    }

    /// What the drivers need to know.
    pub(crate) fn target(&self, macs: Vec<String>) -> Target {
        Target {
            uuid: self.uuid,
            driver: self.driver.clone(),
            driver_info: self.driver_info.clone(),
            boot_interface: self.interfaces.boot.clone(),
            boot_mode: self.boot_mode(),
            macs,
        }
    }

    fn boot_mode(&self) -> BootMode {
        match self.capability("boot_mode").as_deref() {
            Some("bios") => BootMode::Bios,
            Some(_) | None => BootMode::Uefi,
        }
    }

    /// One of the `key:value` pairs in `properties.capabilities`, or in `instance_info.capabilities`.
    pub(crate) fn capability(&self, key: &str) -> Option<String> {
        let pairs: BTreeMap<&str, &str> = self
            .properties
            .get("capabilities")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .split(',')
            .filter_map(|pair| pair.trim().split_once(':'))
            .collect();
        let of_instance =
            self.instance_info.get("capabilities").and_then(|all| all.get(key)).and_then(Value::as_str);
        of_instance.or_else(|| pairs.get(key).copied()).map(ToOwned::to_owned)
    }

    /// Whether the machine boots its ramdisks from virtual media.
    pub(crate) fn boots_from_virtual_media(&self) -> bool {
        self.interfaces.boot.ends_with("virtual-media")
    }

    /// Forgets the agent, because its machine is off or going there.
    pub(crate) fn forget_agent(&mut self) {
        self.agent = AgentSession::default();
    }

    /// Whether the node is cleaned automatically.
    pub(crate) fn is_cleaned(&self, by_default: bool) -> bool {
        self.automated_clean.unwrap_or(by_default)
    }

    /// Moves to a state and sets the target that goes with it.
    pub(crate) fn enter(&mut self, state: ProvisionState, now: Timestamp, clock: Instant) {
        self.provision_state = state;
        let manual = self.work.kind == Some(WorkKind::ManualClean);
        self.target_provision_state = match state.target() {
            Some(ProvisionState::Available) if manual => Some(ProvisionState::Manageable),
            target => target,
        };
        self.provision_updated_at = Some(now);
        self.provision_touched = clock;
    }
}

/// A network interface of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) uuid: Uuid,
    pub(crate) node: Uuid,
    /// Lower case, with colons.
    pub(crate) address: String,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Option<Timestamp>,
    pub(crate) name: Option<String>,
    pub(crate) pxe_enabled: bool,
    pub(crate) is_smartnic: bool,
    pub(crate) physical_network: Option<String>,
    pub(crate) local_link_connection: Map<String, Value>,
    pub(crate) extra: Map<String, Value>,
}

/// A line of a node's history.
#[derive(Clone, Debug)]
pub(crate) struct HistoryEntry {
    pub(crate) uuid: Uuid,
    pub(crate) created_at: Timestamp,
    pub(crate) event_type: &'static str,
    pub(crate) event: String,
    pub(crate) conductor: String,
}

/// Reads a MAC address: six pairs of hexadecimal digits with colons or dashes. Gives it in lower case with colons.
pub(crate) fn mac(text: &str) -> Option<String> {
    let address = text.replace('-', ":").to_ascii_lowercase();
    let pairs: Vec<&str> = address.split(':').collect();
    let fine = pairs.len() == 6
        && pairs.iter().all(|pair| pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit()));
    fine.then_some(address)
}

#[cfg(test)]
mod tests {
    use super::mac;

    #[test]
    fn mac_addresses_are_made_uniform() {
        assert_eq!(mac("AA:BB:cc:00:00:01").as_deref(), Some("aa:bb:cc:00:00:01"));
        assert_eq!(mac("AA-BB-CC-00-00-01").as_deref(), Some("aa:bb:cc:00:00:01"));
        for bad in ["", "zz", "aa:bb:cc:00:00", "aa:bb:cc:00:00:0g", "aabbcc000001", "aa:bb:cc:00:00:001"] {
            assert_eq!(mac(bad), None, "{bad}");
        }
    }
}
