//! `inspect`: boot the agent and keep what it finds.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Conductor, Stop, power::Purpose};
use crate::{
    database::{NotFound, Tables},
    failure::Failure,
    node::{Node, Port, mac},
    settings::{AddPorts, KeepPorts},
    state::{Event, ProvisionState},
};

/// What `last_error` says when the agent was silent for too long.
pub(super) const TIMEOUT: &str = "Timeout reached while inspecting the node. Please check if the ramdisk responsible \
                                  for the inspection is running on the node.";

/// What `last_error` says after an abort.
const ABORTED: &str = "Inspection was aborted by request.";

impl Conductor {
    /// Begins the inspection of a node in `inspecting`.
    pub(super) async fn inspect(self, uuid: Uuid) -> Result<(), NotFound> {
        let now = self.host().date();
        self.change(uuid, |node| {
            node.inspection_started_at = Some(now);
            node.inspection_finished_at = None;
        })?;
        match self.boot_agent(uuid, Purpose::Inspection).await {
            Ok(()) => self.advance(uuid, Event::Wait, |_| {}),
            Err(Stop::Gone) => Err(NotFound),
            Err(Stop::Failed { text, unexpected }) => {
                let text = if unexpected {
                    format!(
                        "Failed to inspect hardware. Reason: Unexpected exception of type HTTPError: {text}"
                    )
                } else {
                    format!("Failed to inspect hardware. Reason: {text}")
                };
                self.fail(uuid, "introspection", &text)
            }
        }
    }

    /// Takes what an agent found. Gives the node that it found itself to be.
    pub(crate) async fn continue_inspection(&self, report: Map<String, Value>) -> Result<Node, Failure> {
        let uuid = self.inspected(&report).ok_or_else(Failure::no_resource)?;
        let lock = self.lock(uuid).await?;
        let begun = self.database().node(uuid).map_err(Failure::from).and_then(|node| {
            if node.provision_state != ProvisionState::InspectWait {
                return Err(Failure::no_resource());
            }
            self.worker()
        });
        let worker = match begun {
            Ok(worker) => worker,
            Err(failure) => {
                lock.release();
                return Err(failure);
            }
        };
        let token = self.new_token(uuid);
        let outcome = self.advance(uuid, Event::Resume, |node| {
            node.agent.token.get_or_insert(token);
        });
        let node = match outcome.and_then(|()| self.database().node(uuid)) {
            Ok(node) => node,
            Err(gone) => {
                lock.release();
                return Err(gone.into());
            }
        };
        lock.hand_over(worker, self.clone().finish_inspection(uuid, report));
        Ok(node)
    }

    /// The node that a report is about: one that waits for it and has a port with one of its MAC addresses, or a BMC
    /// at its BMC's address.
    fn inspected(&self, report: &Map<String, Value>) -> Option<Uuid> {
        let inventory = report.get("inventory")?;
        let macs: Vec<String> = interfaces(inventory).filter_map(mac_of).collect();
        let bmc = inventory.get("bmc_address").and_then(Value::as_str).unwrap_or_default();
        let tables = self.database().tables();
        let waiting = |node: &&Node| node.provision_state == ProvisionState::InspectWait;
        let by_port = |node: &&Node| tables.ports_of(node.uuid).any(|port| macs.contains(&port.address));
        let by_bmc = |node: &&Node| !bmc.is_empty() && bmc_host(node).as_deref() == Some(bmc);
        let nodes = || tables.nodes.values().filter(waiting);
        nodes().find(by_port).or_else(|| nodes().find(by_bmc)).map(|node| node.uuid)
    }

    async fn finish_inspection(self, uuid: Uuid, report: Map<String, Value>) -> Result<(), NotFound> {
        if let Some(error) = report.get("error").and_then(Value::as_str).filter(|error| !error.is_empty()) {
            return self.fail_inspection(uuid, &format!("Ramdisk reported error: {error}")).await;
        }
        if let Err(text) = self.keep_findings(uuid, &report)? {
            return self.fail_inspection(uuid, &text).await;
        }
        let down = if self.settings().inspector.power_off {
            self.take_agent_down(uuid).await
        } else {
            self.eject_agent(uuid).await
        };
        match down {
            Ok(()) => {
                let now = self.host().date();
                self.advance(uuid, Event::Done, |node| node.inspection_finished_at = Some(now))
            }
            Err(Stop::Gone) => Err(NotFound),
            Err(Stop::Failed { text, .. }) => {
                self.fail(uuid, "introspection", &format!("Failed to finish inspection: {text}"))
            }
        }
    }

    async fn fail_inspection(&self, uuid: Uuid, text: &str) -> Result<(), NotFound> {
        match self.take_agent_down(uuid).await {
            Ok(()) | Err(Stop::Failed { .. }) => self.fail(uuid, "introspection", text),
            Err(Stop::Gone) => Err(NotFound),
        }
    }

    /// Writes the findings down: the inventory, the processor's architecture, and ports.
    fn keep_findings(&self, uuid: Uuid, report: &Map<String, Value>) -> Result<Result<(), String>, NotFound> {
        let inventory = report.get("inventory").cloned().unwrap_or_default();
        let settings = &self.settings().inspector;
        let boot_mac = report.get("boot_interface").and_then(Value::as_str).and_then(boot_interface_mac);
        let valid: Vec<&Value> =
            interfaces(&inventory).filter(|interface| mac_of(interface).is_some()).collect();
        if valid.is_empty() {
            let setting = match settings.add_ports {
                AddPorts::All => "all",
                AddPorts::Active => "active",
                AddPorts::Pxe => "pxe",
                AddPorts::Disabled => "disabled",
            };
            return Ok(Err(format!(
                "Inspection failed on node {uuid}: no network interfaces match the configuration (add_ports set to \"{setting}\")"
            )));
        }
        let boots = |mac: &str| boot_mac.as_deref().is_none_or(|boot| boot == mac);
        let wanted = |interface: &Value, mac: &str| match settings.add_ports {
            AddPorts::All => true,
            AddPorts::Active => interface.get("ipv4_address").is_some_and(Value::is_string),
            AddPorts::Pxe => boots(mac),
            AddPorts::Disabled => false,
        };
        let now = self.host().date();
        let all: Vec<String> = valid.iter().filter_map(|interface| mac_of(interface)).collect();
        let added: Vec<String> = valid
            .iter()
            .filter_map(|interface| mac_of(interface).filter(|mac| wanted(interface, mac)))
            .collect();
        let mut tables = self.database().tables();
        tables.node(uuid)?;
        let keep = |port: &Port| match settings.keep_ports {
            KeepPorts::All => true,
            KeepPorts::Present => all.contains(&port.address),
            KeepPorts::Added => added.contains(&port.address),
        };
        tables.ports.retain(|_, port| port.node != uuid || keep(port));
        for address in &added {
            let uuid_of_port = self.host().uuid("port");
            add_port(&mut tables, uuid, address, boots(address), uuid_of_port, now);
        }
        for port in tables.ports.values_mut().filter(|port| port.node == uuid) {
            port.pxe_enabled = boots(&port.address);
        }
        let plugin_data = plugin_data(report, &valid, boots);
        tables.inventories.insert(uuid, json!({ "inventory": inventory, "plugin_data": plugin_data }));
        drop(tables);
        self.change(uuid, |node| {
            if let Some(architecture) = inventory.pointer("/cpu/architecture").filter(|it| it.is_string()) {
                node.properties.insert("cpu_arch".to_owned(), architecture.clone());
            }
        })?;
        Ok(Ok(()))
    }

    /// Aborts an inspection that waits for its agent. The machine is powered off before the failure shows.
    pub(super) async fn abort_inspection(self, uuid: Uuid) -> Result<(), NotFound> {
        match self.take_agent_down(uuid).await {
            Ok(()) | Err(Stop::Failed { .. }) => {
                self.remember(uuid, "introspection", ABORTED);
                self.advance(uuid, Event::Fail, |node| node.last_error = Some(ABORTED.to_owned()))
            }
            Err(Stop::Gone) => Err(NotFound),
        }
    }

    /// Gives up on an agent that does not report. With virtual media, releases that power off in between lose the text.
    pub(super) async fn time_inspection_out(self, uuid: Uuid) -> Result<(), NotFound> {
        self.fail(uuid, "introspection", TIMEOUT)?;
        match self.take_agent_down(uuid).await {
            Ok(()) | Err(Stop::Failed { .. }) => {}
            Err(Stop::Gone) => return Err(NotFound),
        }
        let loses = self.settings().release.clean_up_ramdisk_powers_off;
        self.change(uuid, |node| {
            let lost = loses && node.boots_from_virtual_media();
            node.last_error = (!lost).then(|| TIMEOUT.to_owned());
        })
    }
}

fn interfaces(inventory: &Value) -> impl Iterator<Item = &Value> {
    inventory.get("interfaces").and_then(Value::as_array).into_iter().flatten()
}

fn mac_of(interface: &Value) -> Option<String> {
    mac(interface.get("mac_address")?.as_str()?)
}

/// The MAC address in PXELINUX's form: `01-` for Ethernet, then the pairs with dashes.
fn boot_interface_mac(text: &str) -> Option<String> {
    mac(text.strip_prefix("01-").filter(|_| text.len() == 20).unwrap_or(text))
}

/// The host in a node's BMC address.
fn bmc_host(node: &Node) -> Option<String> {
    let text =
        ["redfish_address", "ipmi_address"].iter().find_map(|key| node.driver_info.get(*key)?.as_str())?;
    let uri: http::Uri = text.parse().ok()?;
    Some(uri.host().unwrap_or(text).trim_matches(['[', ']']).to_owned())
}

fn add_port(
    tables: &mut Tables,
    node: Uuid,
    address: &str,
    pxe_enabled: bool,
    uuid: Uuid,
    created_at: jiff::Timestamp,
) {
    // Another node's port of that address stays where it is, as in Ironic.
    if tables.ports.values().any(|port| port.address == address) {
        return;
    }
    let id = tables.next_id();
    let port = Port {
        uuid,
        node,
        address: address.to_owned(),
        created_at,
        updated_at: None,
        name: None,
        pxe_enabled,
        is_smartnic: false,
        physical_network: None,
        local_link_connection: Map::new(),
        extra: Map::new(),
    };
    tables.ports.insert(id, port);
}

/// What Ironic's own inspection hooks make of the report.
fn plugin_data(report: &Map<String, Value>, valid: &[&Value], boots: impl Fn(&str) -> bool) -> Value {
    let mut data = report.clone();
    data.remove("inventory");
    let described: Map<String, Value> = valid
        .iter()
        .filter_map(|interface| {
            let name = interface.get("name")?.as_str()?.to_owned();
            let mac = mac_of(interface)?;
            let mut described = interface.as_object()?.clone();
            described.insert("pxe_enabled".to_owned(), Value::Bool(boots(&mac)));
            Some((name, Value::Object(described)))
        })
        .collect();
    let macs: Vec<Value> =
        valid.iter().filter_map(|interface| mac_of(interface)).map(Value::String).collect();
    data.insert("all_interfaces".to_owned(), Value::Object(described.clone()));
    data.insert("valid_interfaces".to_owned(), Value::Object(described));
    data.insert("macs".to_owned(), Value::Array(macs));
    Value::Object(data)
}
