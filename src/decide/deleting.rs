//! Forgetting a host: its node leaves Ironic, and the finalizers that kept its objects are removed.

use super::{
    Effect, HostEdit, LookAgain, Undecided,
    pass::{Outcome, Pass},
};
use crate::{
    bmh::{FINALIZER, SECRET_FINALIZER},
    ironic::Microversion,
    observe::{IronicFound, Question},
    provisioner::{Patch, ProvisionState, ProvisionTarget, Request},
};

/// Why a node is in maintenance before it is deleted.
const REASON: &str = "forcing deletion in Baremetal Operator";

pub(super) fn handle(pass: &mut Pass<'_>) -> Outcome {
    if let Removal::Wait(look_again) = remove_node(pass, true)? {
        return Ok(look_again);
    }
    if !pass.spec().bmc.credentials_name.is_empty() {
        let name = || pass.spec().bmc.credentials_name.clone();
        let secret =
            pass.seen.facts.secret.as_ref().ok_or_else(|| Undecided::Needs(Question::Secret(name())))?;
        let held = secret.iter().any(|secret| {
            secret.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == SECRET_FINALIZER)
        });
        if held {
            pass.effect(Effect::ReleaseSecret);
        }
    }
    if pass.seen.host.has_finalizer(FINALIZER) {
        pass.edit(vec![HostEdit::RemoveFinalizer]);
    }
    Ok(LookAgain::Never)
}

/// Whether a node is out of Ironic.
pub(super) enum Removal {
    /// It is.
    Done,
    /// Not yet.
    Wait(LookAgain),
}

/// Takes the host's node out of Ironic, also when it is busy if `force`d.
pub(super) fn remove_node(pass: &mut Pass<'_>, force: bool) -> Result<Removal, Undecided> {
    let Some(node) = pass.find_own()? else {
        return Ok(Removal::Done);
    };
    let delete = Request::DeleteNode { node: node.uuid.clone() };
    let wait = match node.provision_state {
        ProvisionState::Verifying => pass.soon(),
        ProvisionState::Enroll => {
            pass.ironic_request(delete);
            LookAgain::Now
        }
        ProvisionState::Available | ProvisionState::Manageable => {
            if node.instance_uuid.is_some() {
                let mut patch = Patch::default();
                patch.want("/instance_uuid", node.instance_uuid.clone().map(Into::into).as_ref(), None);
                pass.patch(node, patch);
            }
            pass.ironic_request(delete);
            LookAgain::Now
        }
        ProvisionState::Deploying
        | ProvisionState::Cleaning
        | ProvisionState::Inspecting
        | ProvisionState::Servicing
        | ProvisionState::Deleting => pass.later(),
        ProvisionState::DeployWait if force => {
            let can_abort = matches!(pass.ironic()?, IronicFound::Ready(version) if version >= Microversion::ABORT_DEPLOY);
            let target = if can_abort { ProvisionTarget::Abort } else { ProvisionTarget::Deleted };
            pass.send_to(node, target).look_again()
        }
        ProvisionState::InspectWait | ProvisionState::CleanWait | ProvisionState::ServiceWait if force => {
            pass.send_to(node, ProvisionTarget::Abort).look_again()
        }
        ProvisionState::DeployWait
        | ProvisionState::InspectWait
        | ProvisionState::CleanWait
        | ProvisionState::ServiceWait => pass.later(),
        ProvisionState::InspectFailed
        | ProvisionState::Adopting
        | ProvisionState::AdoptFailed
        | ProvisionState::DeployFailed
        | ProvisionState::Active
        | ProvisionState::CleanFailed
        | ProvisionState::Error
        | ProvisionState::ServiceFailed
        | ProvisionState::Other => {
            if node.maintenance {
                pass.ironic_request(delete);
            } else {
                pass.ironic_request(Request::SetMaintenance { node: node.uuid.clone(), reason: REASON });
            }
            LookAgain::Now
        }
    };
    Ok(Removal::Wait(wait))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{change_node, check, delete};
    use super::*;
    use crate::{
        bmh::ProvisioningState as State,
        observe::{NodeFound, Observation},
    };

    fn leaving(seen: &mut Observation, state: ProvisionState) {
        delete(seen);
        change_node(seen, |node| node.provision_state = state);
    }

    #[test]
    fn a_node_leaves_ironic_before_its_host_goes() {
        check(
            State::Deleting,
            &[
                ("manageable", |s| leaving(s, ProvisionState::Manageable), "delete node, now"),
                (
                    "of an instance",
                    |s| {
                        leaving(s, ProvisionState::Available);
                        change_node(s, |n| n.instance_uuid = Some("a".into()));
                    },
                    "patch /instance_uuid, delete node, now",
                ),
                ("enroll", |s| leaving(s, ProvisionState::Enroll), "delete node, now"),
                ("verifying", |s| leaving(s, ProvisionState::Verifying), "3s"),
                ("deploying", |s| leaving(s, ProvisionState::Deploying), "10s"),
                ("the agent deploys", |s| leaving(s, ProvisionState::DeployWait), "abort, 3s"),
                (
                    "the agent deploys, with an old Ironic",
                    |s| {
                        leaving(s, ProvisionState::DeployWait);
                        s.facts.ironic = Some(IronicFound::Ready("1.109".parse().expect("a version")));
                    },
                    "deleted, 3s",
                ),
                ("the agent cleans", |s| leaving(s, ProvisionState::CleanWait), "abort, 3s"),
                ("active", |s| leaving(s, ProvisionState::Active), "set maintenance, now"),
                (
                    "active, in maintenance",
                    |s| {
                        leaving(s, ProvisionState::Active);
                        change_node(s, |n| n.maintenance = true);
                    },
                    "delete node, now",
                ),
                (
                    "gone",
                    |s| {
                        delete(s);
                        s.facts.node = Some(NodeFound::Absent);
                    },
                    "release secret, edit [RemoveFinalizer], never",
                ),
                (
                    "gone, and so is the secret",
                    |s| {
                        delete(s);
                        s.facts.secret = Some(None);
                        s.facts.node = Some(NodeFound::Absent);
                    },
                    "edit [RemoveFinalizer], never",
                ),
            ],
        );
    }
}
