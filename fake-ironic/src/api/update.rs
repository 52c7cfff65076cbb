//! `PATCH /v1/nodes/U`.

use serde_json::{Map, Value};

use super::{
    Answer, Api, Outcome, Request,
    nodes::{is_name, no_conductor, parse_uuid, unique},
    patch,
    version::node_field_since,
};
use crate::{
    failure::Failure,
    hardware::{HardwareType, Kind},
    node::Node,
    python,
    state::ProvisionState,
    view,
};

/// What a client may patch, as the refusal lists it.
const PATCHABLE: [&str; 36] = [
    "automated_clean",
    "bios_interface",
    "boot_interface",
    "chassis_uuid",
    "conductor_group",
    "console_interface",
    "deploy_interface",
    "description",
    "disable_power_off",
    "driver",
    "driver_info",
    "extra",
    "inspect_interface",
    "instance_info",
    "instance_name",
    "instance_uuid",
    "lessee",
    "maintenance",
    "management_interface",
    "name",
    "network_data",
    "network_interface",
    "owner",
    "power_interface",
    "properties",
    "protected",
    "protected_reason",
    "raid_interface",
    "rescue_interface",
    "resource_class",
    "retired",
    "retired_reason",
    "shard",
    "storage_interface",
    "vendor_interface",
    "parent_node",
];

impl Api {
    pub(super) async fn update_node(&self, request: &Request, ident: &str) -> Outcome {
        request.expect_arguments(&["reset_interfaces"])?;
        let operations = patch::read(&request.json()?)?;
        for operation in &operations {
            let attribute = operation.attribute();
            if !PATCHABLE.contains(&attribute) && attribute != "firmware_interface" {
                return Err(Failure::invalid(format!(
                    "Cannot patch /{}. Only the following can be updated: {}, firmware_interface",
                    operation.path.join("/"),
                    PATCHABLE.join(", ")
                )));
            }
            if node_field_since(attribute).is_some_and(|since| since > request.version) {
                return Err(Failure::not_acceptable());
            }
        }
        let node = self.find_node(ident)?;
        let frees = node.maintenance && operations.len() == 1 && operations[0].removes("instance_uuid");
        if !frees {
            refuse_in_transition(&node, ident)?;
        }
        // What is wrong with the patch itself is said before anybody waits for the lock.
        patched(&node, &operations, request.flag("reset_interfaces"))?;
        let lock = self.conductor.lock(node.uuid).await?;
        let outcome = self.write(&node, &operations, request.flag("reset_interfaces"));
        // The answer is written while the lock is held, and shows it.
        let outcome = outcome.and_then(|()| self.find_node(&node.uuid.to_string()));
        lock.release();
        Ok(Answer::ok(self.node_view(request, &outcome?)))
    }

    fn write(&self, node: &Node, operations: &[patch::Operation], reset: bool) -> Result<(), Failure> {
        let fresh = self.conductor.database().node(node.uuid).map_err(|_| Failure::no_node(node.uuid))?;
        let changed = patched(&fresh, operations, reset)?;
        refuse_interface_changes(&fresh, &changed)?;
        unique(&self.conductor.database().tables(), &changed)?;
        self.conductor.change(node.uuid, |node| *node = changed)?;
        Ok(())
    }
}

fn refuse_in_transition(node: &Node, ident: &str) -> Result<(), Failure> {
    let state = node.provision_state;
    if state == ProvisionState::Inspecting {
        return Err(Failure::conflict(format!(
            "Cannot update node \"{ident}\" while it is in state \"{state}\"."
        )));
    }
    if node.target_provision_state.is_some() && !state.is_updatable() {
        return Err(Failure::conflict(format!(
            "Node {ident} can not be updated while a state transition is in progress."
        )));
    }
    Ok(())
}

fn refuse_interface_changes(before: &Node, after: &Node) -> Result<(), Failure> {
    use ProvisionState as S;
    let free = matches!(
        before.provision_state,
        S::Enroll | S::Manageable | S::Inspecting | S::InspectWait | S::Available
    );
    if free || before.maintenance {
        return Ok(());
    }
    let changed =
        Kind::ALL.into_iter().find(|kind| before.interfaces.get(*kind) != after.interfaces.get(*kind));
    let field = match changed {
        Some(kind) => kind.field(),
        None if before.driver != after.driver => "driver".to_owned(),
        None => return Ok(()),
    };
    Err(Failure::conflict(format!(
        "Node {} can not have {field} updated unless it is in one of allowed (available, enroll, inspect wait, \
         inspecting, manageable) states or in maintenance mode.",
        before.uuid
    )))
}

/// The node after a patch.
fn patched(node: &Node, operations: &[patch::Operation], reset: bool) -> Result<Node, Failure> {
    let mut document = document(node);
    patch::apply(&mut document, operations)?;
    let mut changed = node.clone();
    let driver = document.get("driver").and_then(Value::as_str);
    let driver =
        driver.ok_or_else(|| Failure::invalid("Schema error for patch: 'driver' is a required property"))?;
    let hardware = HardwareType::of(driver).ok_or_else(|| no_conductor(driver, ""))?;
    driver.clone_into(&mut changed.driver);
    if reset {
        if !operations.iter().any(|operation| operation.attribute() == "driver") {
            return Err(Failure::invalid(
                "The reset_interfaces parameter can only be used when changing the node's driver.",
            ));
        }
        changed.interfaces = hardware.defaults();
    }
    for operation in operations {
        let key = operation.attribute();
        let value = document.get(key).cloned().unwrap_or_default();
        match Kind::of_field(key) {
            Some(kind) => {
                let name = value.as_str();
                hardware
                    .set(&mut changed.interfaces, kind, name)
                    .map_err(|error| Failure::invalid(error.to_string()))?;
            }
            None if key == "driver" => {}
            None => set(&mut changed, key, &value, "patch")?,
        }
    }
    hardware.accepts(&changed.interfaces).map_err(|error| Failure::invalid(error.to_string()))?;
    if let Some(name) = changed.name.as_ref().filter(|name| !is_name(name)) {
        return Err(Failure::invalid(format!(
            "Node {}: Cannot change name to invalid name '{name}'",
            node.uuid
        )));
    }
    if let (Some(before), Some(after)) = (node.instance_uuid, changed.instance_uuid)
        && before != after
    {
        return Err(Failure::conflict(format!("Node {} is associated with instance {before}.", node.uuid)));
    }
    Ok(changed)
}

/// A node's patchable attributes, with their secrets, as the document that a patch is applied to.
fn document(node: &Node) -> Map<String, Value> {
    let mut document = view::node_fields(node, None);
    for (key, map) in [("driver_info", &node.driver_info), ("instance_info", &node.instance_info)] {
        document.insert(key.to_owned(), Value::Object(map.clone()));
    }
    document
}

/// Writes one field of a node; `what` is the schema that a wrong type offends. Interfaces and the driver are for
/// others.
pub(super) fn set(node: &mut Node, key: &str, value: &Value, what: &str) -> Result<(), Failure> {
    let wrong = |wanted: &str| {
        Failure::invalid(format!("Schema error for {what}: {} is not of type {wanted}", python::repr(value)))
    };
    let object = || match value {
        Value::Object(map) => Ok(map.clone()),
        Value::Null => Ok(Map::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(wrong("'object', 'null'"))
        }
    };
    let maybe_flag = || match value {
        Value::Bool(flag) => Ok(Some(*flag)),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
        Value::Null => Ok(None),
        Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            Err(wrong("'string', 'boolean'"))
        }
    };
    match key {
        "name" => {
            node.name = match value {
                Value::Null => None,
                Value::String(text) if text.is_empty() => None,
                Value::String(text) => Some(text.clone()),
                Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    return Err(wrong("'string', 'null'"));
                }
            }
        }
        "driver_info" => node.driver_info = object()?,
        "properties" => node.properties = object()?,
        "extra" => node.extra = object()?,
        "instance_info" => node.instance_info = object()?,
        "network_data" => node.network_data = object()?,
        "instance_uuid" => {
            node.instance_uuid = match value {
                Value::Null => None,
                value => Some(parse_uuid("instance_uuid", value)?),
            }
        }
        "automated_clean" => node.automated_clean = maybe_flag()?,
        "disable_power_off" => node.disable_power_off = maybe_flag()?.unwrap_or_default(),
        "maintenance" => {
            node.maintenance = maybe_flag()?.unwrap_or_default();
            if !node.maintenance {
                node.maintenance_reason = None;
                node.fault = None;
            }
        }
        "conductor_group" if value.as_str().is_some_and(|group| !group.is_empty()) => {
            return Err(no_conductor(&node.driver, value.as_str().unwrap_or_default()));
        }
        "resource_class" if value.as_str().is_some_and(|class| class.len() > 80) => {
            return Err(Failure::invalid(format!(
                "Schema error for {what}: {} is too long",
                python::repr(value)
            )));
        }
        "protected" if maybe_flag()? == Some(true) && node.provision_state != ProvisionState::Active => {
            return Err(Failure::conflict(format!(
                "Node {} can only be made protected in provision states 'active' or 'rescue', the current state is \
                 '{}'",
                node.uuid, node.provision_state
            )));
        }
        label if view::LABELS.iter().any(|(name, _)| *name == label) => {
            if value.is_array() || value.is_object() {
                return Err(wrong("'string', 'null'"));
            }
            if value.is_null() {
                node.labels.remove(label);
            } else {
                node.labels.insert(label.to_owned(), value.clone());
            }
        }
        // Interfaces and the driver; and a chassis, of which there is none.
        _ => {}
    }
    Ok(())
}
