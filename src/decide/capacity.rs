//! Keeps hosts from working all at once: agents are booted over one network, and Ironic's memory is finite.

use super::{
    LookAgain, Undecided, backoff,
    pass::{Pass, Progress},
};
use crate::{
    bmh::{OperationalStatus, ProvisioningState},
    observe::Question,
    provisioner::Node,
};

/// Holds a host back while its state means work and there is no capacity; lets it go again when there is.
pub(super) fn guard(pass: &mut Pass<'_>) -> Progress {
    if let Some(look_again) = delay(pass, pass.state())? {
        return Ok(Some(look_again));
    }
    if pass.status.operational_status != OperationalStatus::Delayed {
        return Ok(None);
    }
    if !is_work(pass.state()) && !has_capacity(pass)? {
        return Ok(Some(hold(pass)));
    }
    // Upstream also forgets the error that the host had before it was delayed.
    pass.status.operational_status = pass.status_after_pause();
    Ok(Some(LookAgain::Now))
}

/// Marks the host as delayed if `state` means work for which there is no capacity.
pub(super) fn delay(pass: &mut Pass<'_>, state: ProvisioningState) -> Progress {
    if is_work(state) && !has_capacity(pass)? { Ok(Some(hold(pass))) } else { Ok(None) }
}

fn hold(pass: &mut Pass<'_>) -> LookAgain {
    pass.status.operational_status = OperationalStatus::Delayed;
    LookAgain::After(backoff::after_errors(1, pass.seen.jitter))
}

fn is_work(state: ProvisioningState) -> bool {
    match state {
        ProvisioningState::Inspecting
        | ProvisioningState::Provisioning
        | ProvisioningState::Deprovisioning => true,
        ProvisioningState::New
        | ProvisioningState::Unmanaged
        | ProvisioningState::Registering
        | ProvisioningState::MatchProfile
        | ProvisioningState::Preparing
        | ProvisioningState::Available
        | ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::PoweringOffBeforeDelete
        | ProvisioningState::Deleting => false,
    }
}

/// Whether one more host may be busy. A host that is busy already stays so; one that boots from a virtual CD needs no
/// capacity.
fn has_capacity(pass: &Pass<'_>) -> Result<bool, Undecided> {
    if pass.address().is_some_and(|address| address.kind.boots_iso()) {
        return Ok(true);
    }
    let nodes = pass.seen.facts.nodes.as_ref().ok_or(Undecided::Needs(Question::Nodes))?;
    let name = pass.node_name();
    let counts = |node: &Node| {
        let virtual_media = node.boot_interface.as_deref().is_some_and(|boot| boot.contains("virtual-media"));
        node.provision_state.is_busy() && !virtual_media
    };
    if nodes.iter().any(|node| node.provision_state.is_busy() && node.name.as_deref() == Some(&name)) {
        return Ok(true);
    }
    Ok(nodes.iter().filter(|node| counts(node)).count() < pass.seen.options.provisioning_limit)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, failed, node, status};
    use super::*;
    use crate::{
        bmh::{ErrorType, ProvisioningState as State},
        observe::Observation,
        provisioner::ProvisionState,
    };

    /// A host that boots over the network, and this many others that clean.
    fn crowd(seen: &mut Observation, others: usize) {
        seen.host.spec.bmc.address = "ipmi://bmc-0".into();
        let other = Node {
            name: Some("metal3~other".into()),
            boot_interface: None,
            ..node(ProvisionState::Cleaning)
        };
        seen.facts.nodes = Some(vec![other; others]);
    }

    #[test]
    fn work_waits_for_others() {
        check(
            State::Inspecting,
            &[
                ("nobody looked", |s| s.host.spec.bmc.address = "ipmi://bmc-0".into(), "? nodes"),
                ("too many at work", |s| crowd(s, 20), "save Delayed 0, 120s"),
                (
                    "still too many",
                    |s| {
                        crowd(s, 20);
                        status(s).operational_status = OperationalStatus::Delayed;
                    },
                    "120s",
                ),
                (
                    "one is done",
                    |s| {
                        crowd(s, 19);
                        status(s).operational_status = OperationalStatus::Delayed;
                    },
                    "save Ok 0, now",
                ),
                (
                    "one is done, and an error was pending",
                    |s| {
                        crowd(s, 19);
                        failed(s, ErrorType::Inspection, 1);
                        status(s).operational_status = OperationalStatus::Delayed;
                    },
                    "save Error 1, now",
                ),
                (
                    "it is at work itself",
                    |s| {
                        crowd(s, 20);
                        s.facts.inventory = Some(None);
                        let own = Node {
                            provision_state: ProvisionState::InspectWait,
                            ..node(ProvisionState::Manageable)
                        };
                        s.facts.nodes.iter_mut().for_each(|nodes| nodes.push(own.clone()));
                    },
                    "patch /driver_info, inspect, InspectionStarted, 3s",
                ),
                (
                    "it boots from a virtual CD",
                    |s| {
                        crowd(s, 20);
                        s.host.spec.bmc.address =
                            "redfish-virtualmedia+http://bmc-0:8000/redfish/v1/Systems/1".into();
                        s.facts.inventory = Some(None);
                    },
                    "inspect, InspectionStarted, 3s",
                ),
            ],
        );
        check(
            State::Provisioned,
            &[(
                "taking the image off waits too",
                |s| {
                    crowd(s, 20);
                    s.host.spec.image = None;
                },
                "patch /driver_info, save Delayed 0, 120s",
            )],
        );
    }
}
