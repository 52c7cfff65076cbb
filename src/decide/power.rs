//! Power: what it should be, what it is, and how to get from one to the other.

use std::time::Duration;

use super::{
    HostEdit, LookAgain, backoff,
    pass::{Outcome, Pass, Sent},
    reboot::{self, Reboot},
};
use crate::{
    bmh::{ErrorType, OperationalStatus, ProvisioningState, REBOOT_ANNOTATION},
    provisioner::{Node, PowerTarget, ProvisionState, ProvisionTarget, Request, SetPower},
};

/// How long an operating system may take to shut down before Ironic gives up on it.
const SOFT_LIMIT: Duration = Duration::from_secs(180);

/// How a machine is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strength {
    /// By asking its operating system.
    Soft,
    /// At once.
    Hard,
}

/// What came of a wish for power.
pub(super) enum Powered {
    /// The machine is as wished.
    AlreadySo,
    /// It will be.
    Changing(LookAgain),
    /// The last attempt failed.
    Failed(String),
}

/// Keeps the power of a host as its user wants it.
pub(super) fn manage(pass: &mut Pass<'_>, node: &Node) -> Outcome {
    if let Some(on) = node.is_on()
        && on != pass.status.powered_on
    {
        pass.status.powered_on = on;
        if pass.failed_with(ErrorType::PowerManagement) {
            pass.clear_error();
        }
        return Ok(LookAgain::Now);
    }
    if !pass.status.powered_on && reboot::plain(pass) {
        // It is off: half of the reboot is done, and the other half is the ordinary work below.
        pass.edit(vec![HostEdit::RemoveAnnotation(REBOOT_ANNOTATION)]);
        return Ok(LookAgain::Now);
    }
    let in_use = match pass.state() {
        ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned => true,
        ProvisioningState::New
        | ProvisioningState::Unmanaged
        | ProvisioningState::Registering
        | ProvisioningState::MatchProfile
        | ProvisioningState::Inspecting
        | ProvisioningState::Preparing
        | ProvisioningState::Available
        | ProvisioningState::Provisioning
        | ProvisioningState::Deprovisioning
        | ProvisioningState::PoweringOffBeforeDelete
        | ProvisioningState::Deleting => false,
    };
    let reboot = reboot::wanted(pass, !in_use);
    let wanted = pass.spec().online && reboot.is_none();
    if wanted == pass.status.powered_on {
        return Ok(steady(pass));
    }
    change(pass, node, wanted, reboot)
}

fn change(pass: &mut Pass<'_>, node: &Node, wanted: bool, reboot: Option<Reboot>) -> Outcome {
    let force = pass.failed_with(ErrorType::PowerManagement);
    let strength = match reboot {
        _ if pass.status.error_count > 0 => Strength::Hard,
        Some(reboot) => reboot.strength(),
        None => Strength::Soft,
    };
    let powered = if wanted { power_on(pass, node, force) } else { power_off(pass, node, strength, force) };
    match powered {
        Powered::AlreadySo => Ok(steady(pass)),
        Powered::Changing(look_again) => {
            if pass.spec().disable_power_off && !wanted && look_again == LookAgain::Now && reboot::plain(pass)
            {
                // The machine will never be seen to be off, so the request itself is all there is of this reboot.
                pass.edit(vec![HostEdit::RemoveAnnotation(REBOOT_ANNOTATION)]);
            }
            Ok(pass.working(look_again))
        }
        Powered::Failed(message) => {
            let first_soft = !wanted && strength == Strength::Soft;
            let message = match first_soft {
                true => format!("continuing with hard poweroff after soft poweroff fails: {message}"),
                false => message,
            };
            Ok(pass.fail(ErrorType::PowerManagement, message))
        }
    }
}

/// Everything is as it should be.
fn steady(pass: &mut Pass<'_>) -> LookAgain {
    pass.status.error_count = 0;
    if pass.failed_with(ErrorType::PowerManagement)
        || pass.status.operational_status == OperationalStatus::Unknown
    {
        pass.clear_error();
    }
    LookAgain::After(backoff::STEADY)
}

pub(super) fn power_on(pass: &mut Pass<'_>, node: &Node, force: bool) -> Powered {
    if node.is_on() == Some(true) {
        return Powered::AlreadySo;
    }
    if node.target_power_state.as_deref() == Some(PowerTarget::On.as_str()) {
        return Powered::Changing(pass.soon());
    }
    if !node.last_error.is_empty() && !force {
        return Powered::Failed(format!("PowerOn operation failed: {}", node.last_error));
    }
    let power = SetPower { target: PowerTarget::On, timeout: None, otherwise: None };
    Powered::Changing(set(pass, node, power, "PowerOn", "Host powered on"))
}

pub(super) fn power_off(pass: &mut Pass<'_>, node: &Node, strength: Strength, force: bool) -> Powered {
    if let Some(look_again) = end_agent_work(pass, node) {
        return Powered::Changing(look_again);
    }
    if node.is_on() == Some(false) {
        return Powered::AlreadySo;
    }
    let target = node.target_power_state.as_deref();
    if [PowerTarget::Off, PowerTarget::SoftOff].into_iter().any(|off| target == Some(off.as_str())) {
        return Powered::Changing(pass.soon());
    }
    if target.is_none() && !node.last_error.is_empty() && !force && !node.last_error.contains("aborted") {
        return Powered::Failed(format!("PowerOff operation failed: {}", node.last_error));
    }
    let hard = if node.disable_power_off { PowerTarget::Reboot } else { PowerTarget::Off };
    let soft = if node.disable_power_off { PowerTarget::SoftReboot } else { PowerTarget::SoftOff };
    let (power, message) = match strength {
        Strength::Soft if !force => {
            // A driver without soft power-off answers 400.
            (
                SetPower { target: soft, timeout: Some(SOFT_LIMIT), otherwise: Some(hard) },
                "Host soft powered off",
            )
        }
        Strength::Soft | Strength::Hard => {
            (SetPower { target: hard, timeout: None, otherwise: None }, "Host powered off")
        }
    };
    Powered::Changing(set(pass, node, power, "PowerOff", message))
}

fn set(pass: &mut Pass<'_>, node: &Node, power: SetPower, reason: &'static str, message: &str) -> LookAgain {
    if node.target_provision_state.is_some() {
        // The node is on its way somewhere and would refuse.
        return pass.soon();
    }
    pass.ironic_request(Request::Power { node: node.uuid.clone(), power });
    pass.event(reason, message);
    LookAgain::Now
}

/// Stops an agent at work, which switching off would pull the plug on; `None` if there is none.
fn end_agent_work(pass: &mut Pass<'_>, node: &Node) -> Option<LookAgain> {
    let target = match node.provision_state {
        ProvisionState::InspectWait => ProvisionTarget::Abort,
        ProvisionState::InspectFailed if node.target_provision_state.is_some() => ProvisionTarget::Manage,
        ProvisionState::CleanWait => {
            let manual = node.target_provision_state.as_deref() == Some("manageable");
            if !manual && super::register::automated_clean(pass) {
                return Some(pass.later());
            }
            ProvisionTarget::Abort
        }
        ProvisionState::Inspecting | ProvisionState::Cleaning => return Some(pass.later()),
        ProvisionState::Enroll
        | ProvisionState::Verifying
        | ProvisionState::Manageable
        | ProvisionState::Available
        | ProvisionState::InspectFailed
        | ProvisionState::Adopting
        | ProvisionState::AdoptFailed
        | ProvisionState::Deploying
        | ProvisionState::DeployWait
        | ProvisionState::DeployFailed
        | ProvisionState::Active
        | ProvisionState::Deleting
        | ProvisionState::CleanFailed
        | ProvisionState::Error
        | ProvisionState::Servicing
        | ProvisionState::ServiceWait
        | ProvisionState::ServiceFailed
        | ProvisionState::Other => return None,
    };
    match pass.send_to(node, target) {
        Sent::Yes(look_again) | Sent::NotYet(look_again) => Some(look_again),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{annotate, change_node, check, failed, request, settled, status};
    use super::*;
    use crate::{bmh::ProvisioningState as State, observe::Observation};

    fn off(seen: &mut Observation) {
        status(seen).powered_on = false;
        change_node(seen, |node| node.power_state = Some("power off".into()));
    }

    #[test]
    fn power_follows_the_wish() {
        check(
            State::Provisioned,
            &[
                ("on as wanted", |_| {}, "60s"),
                ("found off", |s| change_node(s, |n| n.power_state = Some("power off".into())), "save, now"),
                ("not known", |s| change_node(s, |n| n.power_state = None), "60s"),
                ("off, wanted on", off, "power on, PowerOn, now"),
                (
                    "going on",
                    |s| {
                        off(s);
                        change_node(s, |n| n.target_power_state = Some("power on".into()));
                    },
                    "3s",
                ),
                (
                    "it did not go on",
                    |s| {
                        off(s);
                        change_node(s, |n| n.last_error = "no answer".into());
                    },
                    "save Error 1, PowerManagementError, 120s",
                ),
                (
                    "tried again",
                    |s| {
                        off(s);
                        failed(s, ErrorType::PowerManagement, 1);
                        change_node(s, |n| n.last_error = "no answer".into());
                    },
                    "power on, save Ok 1, PowerOn, now",
                ),
                ("it went on in the end", |s| failed(s, ErrorType::PowerManagement, 2), "save Ok 0, 60s"),
                ("on, wanted off", |s| s.host.spec.online = false, "soft power off, PowerOff, now"),
                (
                    "on, wanted off, after an error",
                    |s| {
                        s.host.spec.online = false;
                        status(s).error_count = 1;
                    },
                    "power off, PowerOff, now",
                ),
                (
                    "on, wanted off, but never to be off",
                    |s| {
                        s.host.spec.online = false;
                        s.host.spec.disable_power_off = true;
                        change_node(s, |n| n.disable_power_off = true);
                    },
                    "soft rebooting, PowerOff, now",
                ),
                (
                    "off, wanted on, and the node is on its way elsewhere",
                    |s| {
                        off(s);
                        change_node(s, |n| n.target_provision_state = Some("active".into()));
                    },
                    "3s",
                ),
            ],
        );
    }

    #[test]
    fn a_reboot_is_one_power_cycle() {
        check(
            State::Provisioned,
            &[
                ("asked for", |s| annotate(s, "reboot.metal3.io", ""), "soft power off, PowerOff, now"),
                (
                    "asked for, at once",
                    |s| annotate(s, "reboot.metal3.io", r#"{"mode": "hard"}"#),
                    "power off, PowerOff, now",
                ),
                (
                    "asked for in words that nobody knows",
                    |s| annotate(s, "reboot.metal3.io", "please"),
                    "soft power off, InvalidAnnotationValue, PowerOff, now",
                ),
                (
                    "half done",
                    |s| {
                        off(s);
                        annotate(s, "reboot.metal3.io", "");
                    },
                    r#"edit [RemoveAnnotation("reboot.metal3.io")], now"#,
                ),
                (
                    "kept off by another",
                    |s| {
                        off(s);
                        annotate(s, "reboot.metal3.io/remediation", "");
                    },
                    "60s",
                ),
                (
                    "never to be off",
                    |s| {
                        annotate(s, "reboot.metal3.io", "");
                        s.host.spec.disable_power_off = true;
                        change_node(s, |n| n.disable_power_off = true);
                    },
                    r#"soft rebooting, edit [RemoveAnnotation("reboot.metal3.io")], PowerOff, now"#,
                ),
            ],
        );
        check(
            State::Available,
            &[
                ("a free host does not care", |s| annotate(s, "reboot.metal3.io/x", ""), "60s"),
                (
                    "unless it is forced",
                    |s| annotate(s, "reboot.metal3.io/x", r#"{"force": true}"#),
                    "soft power off, PowerOff, now",
                ),
            ],
        );
    }

    #[test]
    fn an_operating_system_gets_three_minutes_and_then_none() {
        let mut seen = settled(State::Provisioned);
        seen.host.spec.online = false;
        let Request::Power { power, .. } = request(&seen, "soft power off") else {
            panic!("it is about power")
        };
        assert_eq!((power.timeout, power.otherwise), (Some(SOFT_LIMIT), Some(PowerTarget::Off)));
    }
}
