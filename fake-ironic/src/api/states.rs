//! `/v1/nodes/U/states` and `/v1/nodes/U/maintenance`.

use std::time::Duration;

use http::Method;
use serde_json::{Map, Value};

use super::{Answer, Api, Outcome, Request, list::only, version::Version};
use crate::{
    conductor::ProvisionRequest, driver::PowerChange, failure::Failure, node::Node, python, state::Verb,
};

/// What `GET states` shows.
const STATES: [&str; 11] = [
    "boot_mode",
    "console_enabled",
    "last_error",
    "power_state",
    "provision_state",
    "provision_updated_at",
    "raid_config",
    "secure_boot",
    "target_power_state",
    "target_provision_state",
    "target_raid_config",
];

impl Api {
    pub(super) async fn states(&self, request: &Request, ident: &str, rest: &[&str]) -> Outcome {
        match (&request.method, rest) {
            (&Method::GET, []) => {
                let mut states = only(self.node_view(request, &self.find_node(ident)?), &STATES);
                states.remove("links");
                Ok(Answer::ok(states))
            }
            (&Method::PUT, ["provision"]) => self.set_provision_state(request, ident).await,
            (&Method::PUT, ["power"]) => self.set_power_state(request, ident).await,
            (&Method::PUT, ["raid"]) => self.set_raid(request, ident).await,
            (_, [] | ["provision" | "power" | "raid"]) => Err(Failure::no_method()),
            (_, _) => Err(Failure::no_route()),
        }
    }

    async fn set_provision_state(&self, request: &Request, ident: &str) -> Outcome {
        let body = request.object(&[
            "target",
            "configdrive",
            "clean_steps",
            "deploy_steps",
            "service_steps",
            "rescue_password",
            "disable_ramdisk",
            "runbook",
        ])?;
        let target = target(&body)?;
        let node = self.find_node(ident)?;
        let verb: Verb =
            target.parse().map_err(|_| impossible(&node, &target, node.provision_state.as_str()))?;
        if Version(verb.since(node.provision_state)) > request.version {
            return Err(Failure::not_acceptable());
        }
        let deploys = matches!(verb, Verb::Active | Verb::Deploy | Verb::Rebuild);
        let list = |key: &str| body.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let asked = ProvisionRequest {
            verb,
            configdrive: body.get("configdrive").filter(|drive| !drive.is_null()).cloned(),
            deploy_steps: list("deploy_steps"),
            clean_steps: list("clean_steps"),
        };
        if node.provision_state.after(crate::state::Event::Verb(verb)).is_some() {
            if asked.configdrive.is_some() && !deploys {
                return Err(Failure::invalid(
                    "Adding a config drive is only supported when setting provision state to active, rebuild",
                ));
            }
            if verb == Verb::Clean && asked.clean_steps.is_empty() {
                return Err(Failure::invalid(
                    "\"clean_steps\" is required when setting target provision state to clean",
                ));
            }
        }
        self.conductor.provision(node.uuid, asked).await?;
        Ok(Answer::accepted().at(self.states_of(request, &node)))
    }

    async fn set_power_state(&self, request: &Request, ident: &str) -> Outcome {
        let body = request.object(&["target", "timeout"])?;
        let target = target(&body)?;
        let node = self.find_node(ident)?;
        let timeout = match body.get("timeout") {
            None | Some(Value::Null) => None,
            Some(value) => {
                let seconds = value.as_i64().or_else(|| value.as_str()?.parse().ok()).ok_or_else(|| {
                    let shown = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
                    Failure::invalid(format!("Expected an integer for timeout: {shown}"))
                })?;
                match u64::try_from(seconds) {
                    Ok(seconds) if seconds > 0 => Some(Duration::from_secs(seconds)),
                    Ok(_) | Err(_) => return Err(Failure::invalid("timeout has to be positive integer")),
                }
            }
        };
        let change = match target.as_str() {
            "power on" => PowerChange::On,
            "power off" => PowerChange::Off,
            "rebooting" => PowerChange::Reboot,
            "soft power off" => PowerChange::SoftOff,
            "soft rebooting" => PowerChange::SoftReboot,
            other => {
                return Err(impossible(
                    &node,
                    other,
                    node.power_state.map_or("None", |state| state.as_str()),
                ));
            }
        };
        let soft = matches!(change, PowerChange::SoftOff | PowerChange::SoftReboot);
        if (soft || timeout.is_some()) && request.version < Version(27) {
            return Err(Failure::not_acceptable());
        }
        if node.provision_state.forbids_power_changes() {
            return Err(impossible(&node, &target, node.provision_state.as_str()));
        }
        self.conductor.set_power(node.uuid, change, timeout).await?;
        Ok(Answer::accepted().at(self.states_of(request, &node)))
    }

    async fn set_raid(&self, request: &Request, ident: &str) -> Outcome {
        if request.version < Version(12) {
            return Err(Failure::not_acceptable());
        }
        let config = request.json()?.as_object().cloned().unwrap_or_default();
        let uuid = self.find_node(ident)?.uuid;
        let lock = self.conductor.lock(uuid).await?;
        let wrong = match config.get("logical_disks") {
            _ if config.is_empty() => None,
            None => Some("'logical_disks' is a required property"),
            Some(Value::Array(disks)) if disks.is_empty() => Some("[] should be non-empty"),
            Some(_) => None,
        };
        let outcome = match wrong {
            Some(text) => Err(Failure::invalid(format!("RAID config validation error: {text}"))),
            None => {
                self.conductor.change(uuid, |node| node.target_raid_config = config).map_err(Failure::from)
            }
        };
        lock.release();
        outcome.map(|()| Answer::nothing())
    }

    pub(super) async fn maintenance(&self, request: &Request, ident: &str) -> Outcome {
        let on = match request.method {
            Method::PUT => true,
            Method::DELETE => false,
            _ => return Err(Failure::no_method()),
        };
        let body = if on { request.object(&["reason"])? } else { Map::new() };
        let reason = body.get("reason").and_then(Value::as_str).map(ToOwned::to_owned);
        let uuid = self.find_node(ident)?.uuid;
        let lock = self.conductor.lock(uuid).await?;
        let outcome = self.conductor.change(uuid, |node| {
            node.maintenance = on;
            node.maintenance_reason = reason;
            if !on {
                node.fault = None;
            }
        });
        lock.release();
        outcome?;
        Ok(Answer::accepted())
    }

    fn states_of(&self, request: &Request, node: &Node) -> String {
        format!("{}/v1/nodes/{}/states", request.base, node.uuid)
    }
}

/// What is asked for, which need not be anything that exists.
fn target(body: &Map<String, Value>) -> Result<String, Failure> {
    let target = body.get("target").ok_or_else(|| Failure::invalid("Missing mandatory parameter: target"))?;
    Ok(target.as_str().map_or_else(|| python::repr(target), ToOwned::to_owned))
}

/// What is asked for can't be done now, or never.
fn impossible(node: &Node, action: &str, state: impl std::fmt::Display) -> Failure {
    Failure::invalid(format!(
        "The requested action \"{action}\" can not be performed on node \"{}\" while it is in state \"{state}\".",
        node.uuid
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::ProvisionState;

    #[test]
    fn verbs_have_their_version() {
        for (verb, state, since) in [
            (Verb::Active, ProvisionState::Available, 1),
            (Verb::Abort, ProvisionState::WaitCallBack, 110),
            (Verb::Abort, ProvisionState::InspectWait, 41),
            (Verb::Abort, ProvisionState::CleanWait, 13),
            (Verb::Service, ProvisionState::Active, 87),
        ] {
            assert_eq!(verb.since(state), since);
        }
    }
}
