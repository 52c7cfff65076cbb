//! Inspecting: Ironic looks at the hardware, and the operator keeps what it found.

use super::{
    Effect, HostEdit, LookAgain, Undecided, image,
    pass::{Outcome, Pass, Progress, Sent},
    reboot, register,
    tidy::{inspection_is_disabled, inspection_is_wanted},
};
use crate::{
    bmh::{ErrorType, INSPECT_ANNOTATION, InspectionMode, ProvisioningState, REBOOT_ANNOTATION},
    hardware,
    observe::Question,
    provisioner::{Node, Patch, ProvisionState, ProvisionTarget},
};

pub(super) fn handle(pass: &mut Pass<'_>) -> Outcome {
    if inspection_is_disabled(pass) {
        pass.event("InspectionSkipped", "disabled by annotation or spec");
        pass.status.error_count = 0;
        pass.clear_error();
        return pass.enter(ProvisioningState::Preparing);
    }
    let node = pass.node()?;
    if let Some(look_again) = inspect(pass, node)? {
        return Ok(look_again);
    }
    pass.event("InspectionComplete", "Hardware inspection completed");
    pass.status.error_count = 0;
    pass.clear_error();
    pass.enter(ProvisioningState::Preparing)
}

/// `None` once the hardware is known and stored.
fn inspect(pass: &mut Pass<'_>, node: &Node) -> Progress {
    let look_again = match node.provision_state {
        ProvisionState::Available => pass.send_to(node, ProvisionTarget::Manage).look_again(),
        ProvisionState::InspectWait => match reboot::wanted(pass, true) {
            Some(_) => {
                let sent = pass.send_to(node, ProvisionTarget::Abort);
                started(pass, sent)
            }
            None => pass.later(),
        },
        ProvisionState::Inspecting => match pass.spec().inspection_mode {
            Some(InspectionMode::Fast) => pass.soon(),
            Some(InspectionMode::Disabled | InspectionMode::Agent) | None => pass.later(),
        },
        ProvisionState::InspectFailed => {
            let retry = pass.failed_with(ErrorType::Inspection) || node.last_error.contains("aborted");
            if !retry {
                return Ok(Some(pass.fail(ErrorType::Inspection, node.last_error.clone())));
            }
            start(pass, node)
        }
        ProvisionState::Manageable if inspection_is_wanted(pass) => start(pass, node),
        ProvisionState::Manageable => {
            let question = || Undecided::Needs(Question::Inventory { node: node.uuid.clone() });
            match pass.seen.facts.inventory.as_ref().ok_or_else(question)? {
                None => start(pass, node),
                Some(inventory) => {
                    keep(pass, inventory)?;
                    return Ok(None);
                }
            }
        }
        ProvisionState::Enroll
        | ProvisionState::Verifying
        | ProvisionState::Adopting
        | ProvisionState::AdoptFailed
        | ProvisionState::Deploying
        | ProvisionState::DeployWait
        | ProvisionState::DeployFailed
        | ProvisionState::Active
        | ProvisionState::Deleting
        | ProvisionState::Cleaning
        | ProvisionState::CleanWait
        | ProvisionState::CleanFailed
        | ProvisionState::Error
        | ProvisionState::Servicing
        | ProvisionState::ServiceWait
        | ProvisionState::ServiceFailed
        | ProvisionState::Other => {
            let state = node.provision_state;
            return Err(Undecided::Fails(format!("inspect a node in the unexpected state {state:?}")));
        }
    };
    Ok(Some(pass.working(look_again)))
}

fn start(pass: &mut Pass<'_>, node: &Node) -> LookAgain {
    let mut patch = Patch::default();
    let current = node.properties.get("capabilities").and_then(serde_json::Value::as_str).unwrap_or_default();
    let capabilities = image::capabilities(current, pass);
    patch.want_in("properties", &node.properties, "capabilities", Some(capabilities.into()));
    patch.want_in("properties", &node.properties, "cpu_arch", Some(pass.seen.host.architecture().into()));
    if let Some(address) = pass.address() {
        let wanted = register::inspect_interface(pass, &address);
        patch.want(
            "/inspect_interface",
            node.inspect_interface.clone().map(Into::into).as_ref(),
            Some(wanted.into()),
        );
    }
    pass.patch(node, patch);
    let sent = pass.send_to(node, ProvisionTarget::Inspect);
    if matches!(sent, Sent::Yes(_)) {
        pass.event("InspectionStarted", "Hardware inspection started");
    }
    started(pass, sent)
}

/// Once the wish is with Ironic, the annotations that asked for it have done their duty.
fn started(pass: &mut Pass<'_>, sent: Sent) -> LookAgain {
    match sent {
        Sent::Yes(look_again) => {
            let asked =
                [(inspection_is_wanted(pass), INSPECT_ANNOTATION), (reboot::plain(pass), REBOOT_ANNOTATION)];
            let edits = asked.into_iter().filter(|(present, _)| *present);
            pass.edit(edits.map(|(_, annotation)| HostEdit::RemoveAnnotation(annotation)).collect());
            look_again
        }
        Sent::NotYet(look_again) => look_again,
    }
}

/// Stores what was found, in place of what was found before.
fn keep(pass: &mut Pass<'_>, inventory: &serde_json::Value) -> Result<(), Undecided> {
    let details = hardware::details(inventory)
        .map_err(|error| Undecided::Fails(format!("read the node's inventory: {error}")))?;
    match pass.seen.hardware_data.as_ref().map(|data| data.spec.hardware.as_ref() == Some(&details)) {
        // A pass that died after storing it left this behind.
        Some(true) => {}
        Some(false) => {
            pass.effect(Effect::ReleaseHardwareData);
            pass.effect(Effect::DeleteHardwareData);
            pass.effect(Effect::CreateHardwareData(Box::new(details.clone())));
        }
        None => pass.effect(Effect::CreateHardwareData(Box::new(details.clone()))),
    }
    pass.status.hardware = Some(details);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{annotate, change_node, check, failed, patch, settled, with_node};
    use super::*;
    use crate::bmh::{HardwareData, HardwareDataSpec, HardwareDetails, ProvisioningState as State};

    fn inventory() -> serde_json::Value {
        json!({"inventory": {"cpu": {"architecture": "x86_64"}, "memory": {"physical_mb": 8192}}})
    }

    #[test]
    fn hardware_is_looked_at_and_kept() {
        check(
            State::Inspecting,
            &[
                ("nothing is known", |_| {}, "? inventory"),
                (
                    "there is no inventory",
                    |s| s.facts.inventory = Some(None),
                    "inspect, InspectionStarted, 3s",
                ),
                ("at work", |s| change_node(s, |n| n.provision_state = ProvisionState::Inspecting), "10s"),
                (
                    "the agent is at work",
                    |s| change_node(s, |n| n.provision_state = ProvisionState::InspectWait),
                    "10s",
                ),
                (
                    "done",
                    |s| s.facts.inventory = Some(Some(inventory())),
                    "create hardware data, save Preparing, InspectionComplete, now",
                ),
                (
                    "done, with something else known before",
                    |s| {
                        s.facts.inventory = Some(Some(inventory()));
                        s.hardware_data = Some(HardwareData::new(
                            "worker-0",
                            HardwareDataSpec { hardware: Some(HardwareDetails::default()) },
                        ));
                    },
                    "release hardware data, delete hardware data, create hardware data, save Preparing, InspectionComplete, now",
                ),
                (
                    "failed",
                    |s| {
                        change_node(s, |n| {
                            n.provision_state = ProvisionState::InspectFailed;
                            n.last_error = "timeout".into();
                        })
                    },
                    "save Error 1, InspectionError, 120s",
                ),
                (
                    "tried again",
                    |s| {
                        change_node(s, |n| n.provision_state = ProvisionState::InspectFailed);
                        failed(s, ErrorType::Inspection, 1);
                    },
                    "inspect, save Ok 1, InspectionStarted, 3s",
                ),
                (
                    "aborted, then tried again",
                    |s| {
                        change_node(s, |n| {
                            n.provision_state = ProvisionState::InspectFailed;
                            n.last_error = "Inspection was aborted by request.".into();
                        })
                    },
                    "inspect, InspectionStarted, 3s",
                ),
                (
                    "a reboot is forced",
                    |s| {
                        change_node(s, |n| n.provision_state = ProvisionState::InspectWait);
                        annotate(s, "reboot.metal3.io", r#"{"force": true}"#);
                    },
                    r#"abort, edit [RemoveAnnotation("reboot.metal3.io")], 3s"#,
                ),
                (
                    "wanted anew",
                    |s| annotate(s, "inspect.metal3.io", ""),
                    r#"inspect, edit [RemoveAnnotation("inspect.metal3.io")], InspectionStarted, 3s"#,
                ),
                (
                    "disabled",
                    |s| s.host.spec.inspection_mode = Some(InspectionMode::Disabled),
                    "save Preparing, InspectionSkipped, now",
                ),
                (
                    "from available",
                    |s| change_node(s, |n| n.provision_state = ProvisionState::Available),
                    "manage, 3s",
                ),
                (
                    "in use",
                    |s| change_node(s, |n| n.provision_state = ProvisionState::Active),
                    "fails to inspect a node in the unexpected state Active",
                ),
                (
                    "a fault of Ironic's finding",
                    |s| {
                        s.facts.inventory = Some(None);
                        change_node(s, |n| n.fault = "power failure".into());
                    },
                    "10s",
                ),
                (
                    "maintenance set by hand",
                    |s| {
                        s.facts.inventory = Some(None);
                        change_node(s, |n| n.maintenance = true);
                    },
                    "unset maintenance, now",
                ),
            ],
        );
    }

    #[test]
    fn a_fast_inspection_goes_through_the_bmc() {
        let mut seen = settled(State::Inspecting);
        seen.host.spec.inspection_mode = Some(InspectionMode::Fast);
        seen.facts.inventory = Some(None);
        with_node(&mut seen, super::super::tests::node(ProvisionState::Manageable));
        assert_eq!(patch(&seen), json!([{"op": "add", "path": "/inspect_interface", "value": "redfish"}]));
    }
}
