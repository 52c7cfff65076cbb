//! How nodes and ports look in JSON: all their fields, with secrets masked.
//!
//! Which of the fields a client gets, and the links, are the API's matter.

use jiff::{Timestamp, fmt::strtime};
use serde_json::{Map, Value, json};

use crate::{
    driver::PowerState,
    hardware::Kind,
    node::{Node, Port},
};

/// What stands for a secret.
pub(crate) const MASK: &str = "******";

/// Fields that clients may write and that nothing here acts on, with their values before anybody writes them.
pub(crate) const LABELS: &[(&str, Label)] = &[
    ("conductor_group", Label::EmptyText),
    ("description", Label::Null),
    ("instance_name", Label::Null),
    ("lessee", Label::Null),
    ("owner", Label::Null),
    ("parent_node", Label::Null),
    ("protected", Label::False),
    ("protected_reason", Label::Null),
    ("resource_class", Label::Null),
    ("retired", Label::False),
    ("retired_reason", Label::Null),
    ("shard", Label::Null),
];

/// The value of a label that nobody wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    Null,
    False,
    EmptyText,
}

impl Label {
    pub(crate) fn value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::False => Value::Bool(false),
            Self::EmptyText => Value::from(""),
        }
    }
}

/// A moment as the API writes it, in microseconds.
pub(crate) fn moment(at: Timestamp) -> Value {
    strtime::format("%Y-%m-%dT%H:%M:%S.%6f+00:00", at).map_or(Value::Null, Value::from)
}

fn maybe_moment(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, moment)
}

fn power(state: Option<PowerState>) -> Value {
    state.map_or(Value::Null, |state| state.as_str().into())
}

/// A node's own fields. `holder` is who holds its lock.
pub(crate) fn node_fields(node: &Node, holder: Option<String>) -> Map<String, Value> {
    let step = node.work.current.as_ref().map_or_else(|| json!({}), crate::node::Step::to_value);
    let cleans = node.work.kind != Some(crate::node::WorkKind::Deploy);
    let (clean_step, deploy_step) = if cleans { (step, json!({})) } else { (json!({}), step) };
    let fields = json!({
        "uuid": node.uuid,
        "name": node.name,
        "created_at": moment(node.created_at),
        "updated_at": maybe_moment(node.updated_at),
        "driver": node.driver,
        "driver_info": masked(&node.driver_info),
        "driver_internal_info": internal_info(node),
        "properties": node.properties,
        "extra": node.extra,
        "instance_info": masked(&node.instance_info),
        "instance_uuid": node.instance_uuid,
        "network_data": node.network_data,
        "raid_config": node.raid_config,
        "target_raid_config": node.target_raid_config,
        "automated_clean": node.automated_clean,
        "disable_power_off": node.disable_power_off,
        "provision_state": node.provision_state,
        "target_provision_state": node.target_provision_state,
        "provision_updated_at": maybe_moment(node.provision_updated_at),
        "power_state": power(node.power_state),
        "target_power_state": power(node.target_power_state),
        "last_error": node.last_error,
        "maintenance": node.maintenance,
        "maintenance_reason": node.maintenance_reason,
        "fault": node.fault,
        "reservation": holder,
        "inspection_started_at": maybe_moment(node.inspection_started_at),
        "inspection_finished_at": maybe_moment(node.inspection_finished_at),
        "clean_step": clean_step,
        "deploy_step": deploy_step,
        "service_step": {},
        "boot_mode": null,
        "secure_boot": null,
        "console_enabled": false,
        "health": null,
        "traits": [],
    });
    let mut fields = match fields {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    for kind in Kind::ALL {
        fields.insert(kind.field(), node.interfaces.get(kind).into());
    }
    for (key, label) in LABELS {
        let value = node.labels.get(*key).cloned().unwrap_or_else(|| label.value());
        fields.insert((*key).to_owned(), value);
    }
    fields
}

/// What Ironic keeps in `driver_internal_info` of what it knows of the agent.
fn internal_info(node: &Node) -> Value {
    let mut info = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            info.insert(key.to_owned(), value);
        }
    };
    put("agent_url", node.agent.url.clone().map(Value::from));
    put("agent_version", node.agent.version.clone().map(Value::from));
    put("agent_last_heartbeat", node.agent.last_heartbeat.map(moment));
    put("agent_secret_token", node.agent.token.is_some().then(|| MASK.into()));
    put("agent_secret_token_pregenerated", node.agent.token_pregenerated.then_some(true.into()));
    Value::Object(info)
}

/// A copy without secrets, at any depth.
fn masked(map: &Map<String, Value>) -> Value {
    let pairs = map.iter().map(|(key, value)| {
        let is_empty = value.is_null() || value.as_str() == Some("");
        let value = match value {
            _ if is_secret(key) && !is_empty => MASK.into(),
            Value::Object(inner) => masked(inner),
            other => other.clone(),
        };
        (key.clone(), value)
    });
    Value::Object(pairs.collect())
}

fn is_secret(key: &str) -> bool {
    ["password", "secret", "token"].iter().any(|word| key.contains(word))
        || matches!(key, "configdrive" | "image_url")
}

/// A port's own fields.
pub(crate) fn port_fields(port: &Port) -> Map<String, Value> {
    let fields = json!({
        "uuid": port.uuid,
        "node_uuid": port.node,
        "address": port.address,
        "created_at": moment(port.created_at),
        "updated_at": maybe_moment(port.updated_at),
        "name": port.name,
        "pxe_enabled": port.pxe_enabled,
        "is_smartnic": port.is_smartnic,
        "physical_network": port.physical_network,
        "local_link_connection": port.local_link_connection,
        "extra": port.extra,
        "internal_info": {},
        "portgroup_uuid": null,
        "description": null,
        "vendor": null,
        "category": null,
    });
    match fields {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_at_any_depth() {
        let info = json!({
            "redfish_address": "http://bmc", "redfish_password": "hush", "ipmi_password": "",
            "configdrive": { "meta_data": {} }, "deep": { "snmp_auth_password": "hush" },
        });
        let info = info.as_object().expect("an object");
        let seen = masked(info);
        assert!(!seen.to_string().contains("hush"), "{seen}");
        assert_eq!(seen["redfish_password"], MASK);
        assert_eq!(seen["redfish_address"], "http://bmc");
        assert_eq!(seen["ipmi_password"], "");
    }

    #[test]
    fn moments_are_written_in_microseconds() {
        let at: Timestamp = "2026-11-30T22:10:35.043013999Z".parse().expect("a time");
        assert_eq!(moment(at), "2026-11-30T22:10:35.043013+00:00");
    }
}
