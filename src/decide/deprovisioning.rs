//! Deprovisioning: the image is taken off and the disks are wiped.

use super::{
    HostEdit, LookAgain, Undecided,
    adopt::adopt,
    guards::DELETE_PATIENCE,
    pass::{Outcome, Pass, Sent},
    reboot, register,
};
use crate::{
    bmh::{ErrorType, Image, ProvisioningState, REBOOT_ANNOTATION},
    provisioner::{Node, Patch, ProvisionState, ProvisionTarget},
};

pub(super) fn handle(pass: &mut Pass<'_>) -> Outcome {
    if pass.credentials.is_none() && pass.is_being_deleted() && pass.find_own()?.is_none() {
        return pass.enter(ProvisioningState::Deleting);
    }
    let node = pass.node()?;
    let failures = pass.status.error_count;
    let provisioning = &pass.status.provisioning;
    if (!provisioning.image.url.is_empty() || provisioning.custom_deploy.is_some())
        && let Some(look_again) = adopt(pass, node)?
    {
        return give_up_or(pass, failures, look_again);
    }
    match deprovision(pass, node)? {
        Some(look_again) => give_up_or(pass, failures, look_again),
        None => complete(pass),
    }
}

/// A host that is being deleted does not insist on being wiped.
fn give_up_or(pass: &mut Pass<'_>, failures: u32, look_again: LookAgain) -> Outcome {
    let failed = pass.status.error_count > failures;
    if pass.is_being_deleted() && failed && pass.status.error_count > DELETE_PATIENCE {
        return pass.enter(ProvisioningState::PoweringOffBeforeDelete);
    }
    Ok(look_again)
}

/// `None` once the node holds nothing any more.
fn deprovision(pass: &mut Pass<'_>, node: &Node) -> super::pass::Progress {
    let retry = pass.failed_with(ErrorType::Provisioning);
    let look_again = match node.provision_state {
        ProvisionState::Error if !retry => {
            return Ok(Some(pass.fail(ErrorType::Provisioning, node.last_error.clone())));
        }
        ProvisionState::Error => pass.send_to(node, ProvisionTarget::Deleted).look_again(),
        ProvisionState::CleanFailed if !retry => {
            let message = format!("Cleaning failed: {}", node.last_error);
            return Ok(Some(pass.fail(ErrorType::Provisioning, message)));
        }
        ProvisionState::CleanFailed => pass.recover(node),
        ProvisionState::Manageable => pass.send_to(node, ProvisionTarget::Provide).look_again(),
        ProvisionState::Available => {
            pass.event("DeprovisioningComplete", "Image deprovisioning completed");
            return Ok(None);
        }
        ProvisionState::Deleting
        | ProvisionState::Cleaning
        | ProvisionState::CleanWait
        | ProvisionState::Deploying => pass.later(),
        ProvisionState::Active | ProvisionState::DeployFailed | ProvisionState::DeployWait => {
            let mut patch = Patch::default();
            let wanted = register::automated_clean(pass);
            patch.want(
                "/automated_clean",
                node.automated_clean.map(Into::into).as_ref(),
                Some(wanted.into()),
            );
            pass.patch(node, patch);
            match pass.send_to(node, ProvisionTarget::Deleted) {
                Sent::Yes(look_again) => {
                    pass.event("DeprovisioningStarted", "Image deprovisioning started");
                    look_again
                }
                Sent::NotYet(look_again) => look_again,
            }
        }
        ProvisionState::Enroll
        | ProvisionState::Verifying
        | ProvisionState::Inspecting
        | ProvisionState::InspectWait
        | ProvisionState::InspectFailed
        | ProvisionState::Adopting
        | ProvisionState::AdoptFailed
        | ProvisionState::Servicing
        | ProvisionState::ServiceWait
        | ProvisionState::ServiceFailed
        | ProvisionState::Other => {
            let state = node.provision_state;
            return Err(Undecided::Fails(format!("deprovision a node in the unexpected state {state:?}")));
        }
    };
    Ok(Some(pass.working(look_again)))
}

fn complete(pass: &mut Pass<'_>) -> Outcome {
    if reboot::plain(pass) {
        // A reboot that nobody came to do was for the image that is gone.
        pass.edit(vec![HostEdit::RemoveAnnotation(REBOOT_ANNOTATION)]);
    }
    pass.clear_error();
    let provisioning = &mut pass.status.provisioning;
    provisioning.image = Image::default();
    provisioning.custom_deploy = None;
    provisioning.root_device_hints = None;
    pass.status.error_count = 0;
    pass.enter(match pass.is_being_deleted() {
        true => ProvisioningState::PoweringOffBeforeDelete,
        false => ProvisioningState::Available,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{annotate, change_node, check, delete, failed, status};
    use super::*;
    use crate::{
        bmh::{AutomatedCleaning, ProvisioningState as State},
        observe::{NodeFound, Observation},
    };

    fn clean_failed(seen: &mut Observation) {
        change_node(seen, |node| {
            node.provision_state = ProvisionState::CleanFailed;
            node.maintenance = true;
        });
    }

    #[test]
    fn the_image_is_taken_off() {
        check(
            State::Deprovisioning,
            &[
                ("in use", |_| {}, "deleted, DeprovisioningStarted, 3s"),
                (
                    "in use, not to be wiped",
                    |s| {
                        s.host.spec.automated_cleaning_mode = Some(AutomatedCleaning::Disabled);
                    },
                    "patch /automated_clean, deleted, DeprovisioningStarted, 3s",
                ),
                ("at work", |s| change_node(s, |n| n.provision_state = ProvisionState::Cleaning), "10s"),
                (
                    "done",
                    |s| change_node(s, |n| n.provision_state = ProvisionState::Available),
                    "save Available, DeprovisioningComplete, now",
                ),
                (
                    "done, with a reboot left over",
                    |s| {
                        annotate(s, "reboot.metal3.io", "");
                        change_node(s, |n| n.provision_state = ProvisionState::Available);
                    },
                    r#"edit [RemoveAnnotation("reboot.metal3.io")], save Available, DeprovisioningComplete, now"#,
                ),
                (
                    "done, and to be deleted",
                    |s| {
                        delete(s);
                        change_node(s, |n| n.provision_state = ProvisionState::Available);
                    },
                    "save PoweringOffBeforeDelete, DeprovisioningComplete, now",
                ),
                (
                    "Ironic forgot",
                    |s| change_node(s, |n| n.provision_state = ProvisionState::Manageable),
                    "provide, 3s",
                ),
                ("wiping failed", clean_failed, "save Error 1, ProvisioningError, 120s"),
                (
                    "wiping is tried again",
                    |s| {
                        clean_failed(s);
                        failed(s, ErrorType::Provisioning, 1);
                    },
                    "unset maintenance, manage, save Ok 1, 3s",
                ),
                (
                    "tearing down failed",
                    |s| change_node(s, |n| n.provision_state = ProvisionState::Error),
                    "save Error 1, ProvisioningError, 120s",
                ),
                (
                    "adoption failed on the way here",
                    |s| {
                        change_node(s, |n| n.provision_state = ProvisionState::AdoptFailed);
                    },
                    "save Error 1, ProvisionedRegistrationError, 120s",
                ),
                (
                    "wiping failed for the third time, and to be deleted",
                    |s| {
                        delete(s);
                        clean_failed(s);
                        status(s).error_count = 2;
                    },
                    "save Error 3, ProvisioningError, 480s",
                ),
                (
                    "wiping failed for the fourth time, and to be deleted",
                    |s| {
                        delete(s);
                        clean_failed(s);
                        status(s).error_count = 3;
                    },
                    "save PoweringOffBeforeDelete Error 4, ProvisioningError, now",
                ),
                (
                    "to be deleted, without a node or credentials",
                    |s| {
                        delete(s);
                        s.facts.secret = Some(None);
                        s.facts.node = Some(NodeFound::Absent);
                    },
                    "save Deleting, now",
                ),
                (
                    "inspecting",
                    |s| {
                        status(s).provisioning.image = Image::default();
                        change_node(s, |n| n.provision_state = ProvisionState::Inspecting);
                    },
                    "fails to deprovision a node in the unexpected state Inspecting",
                ),
            ],
        );
    }
}
