//! Preparing: the hardware is set up before use. There is nothing to set up yet (RAID and firmware settings are not
//! part of this operator), so what remains is to lead the node to where it can be provisioned from.

use super::{
    Undecided,
    pass::{Outcome, Pass, Progress},
};
use crate::{
    bmh::{ErrorType, ProvisioningState},
    provisioner::{Node, ProvisionState},
};

pub(super) fn handle(pass: &mut Pass<'_>) -> Outcome {
    let node = pass.node()?;
    if let Some(look_again) = prepare(pass, node)? {
        return Ok(look_again);
    }
    pass.clear_error();
    pass.status.error_count = 0;
    pass.enter(ProvisioningState::Available)
}

/// `None` once the node is set up. A manageable node counts as that: it is wiped on its way to being provisioned.
fn prepare(pass: &mut Pass<'_>, node: &Node) -> Progress {
    let look_again = match node.provision_state {
        ProvisionState::Available | ProvisionState::Manageable => return Ok(None),
        ProvisionState::CleanFailed => {
            if !pass.failed_with(ErrorType::Preparation) {
                return Ok(Some(pass.fail(ErrorType::Preparation, node.last_error.clone())));
            }
            pass.recover(node)
        }
        ProvisionState::Cleaning | ProvisionState::CleanWait => pass.later(),
        ProvisionState::Enroll
        | ProvisionState::Verifying
        | ProvisionState::Inspecting
        | ProvisionState::InspectWait
        | ProvisionState::InspectFailed
        | ProvisionState::Adopting
        | ProvisionState::AdoptFailed
        | ProvisionState::Deploying
        | ProvisionState::DeployWait
        | ProvisionState::DeployFailed
        | ProvisionState::Active
        | ProvisionState::Deleting
        | ProvisionState::Error
        | ProvisionState::Servicing
        | ProvisionState::ServiceWait
        | ProvisionState::ServiceFailed
        | ProvisionState::Other => {
            let state = node.provision_state;
            return Err(Undecided::Fails(format!("prepare a node in the unexpected state {state:?}")));
        }
    };
    Ok(Some(pass.working(look_again)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{change_node, check, failed};
    use super::*;
    use crate::bmh::ProvisioningState as State;

    #[test]
    fn the_node_is_led_to_where_it_can_be_provisioned_from() {
        check(
            State::Preparing,
            &[
                ("manageable", |_| {}, "save Available, now"),
                (
                    "available",
                    |s| change_node(s, |n| n.provision_state = ProvisionState::Available),
                    "save Available, now",
                ),
                ("cleaning", |s| change_node(s, |n| n.provision_state = ProvisionState::CleanWait), "10s"),
                (
                    "failed",
                    |s| change_node(s, |n| n.provision_state = ProvisionState::CleanFailed),
                    "save Error 1, PreparationError, 120s",
                ),
                (
                    "tried again",
                    |s| {
                        failed(s, ErrorType::Preparation, 1);
                        change_node(s, |n| {
                            n.provision_state = ProvisionState::CleanFailed;
                            n.maintenance = true;
                        });
                    },
                    "unset maintenance, manage, save Ok 1, 3s",
                ),
                (
                    "in use",
                    |s| change_node(s, |n| n.provision_state = ProvisionState::Active),
                    "fails to prepare a node in the unexpected state Active",
                ),
            ],
        );
    }
}
