//! Provisioned and externally provisioned: the machine is in use. Only its user's wish ends that; whatever goes wrong
//! in Ironic or with the image is an error to be shown, never a reason to touch the machine.

use super::{
    adopt::adopt,
    pass::{Outcome, Pass},
    power,
};
use crate::{bmh::ProvisioningState, regression::Regression};

pub(super) fn handle(pass: &mut Pass<'_>) -> Outcome {
    if is_cancelled(pass) {
        return pass.enter(ProvisioningState::Deprovisioning);
    }
    keep(pass)
}

pub(super) fn handle_external(pass: &mut Pass<'_>) -> Outcome {
    if pass.spec().externally_provisioned {
        return keep(pass);
    }
    // Its user gives the machine to the operator with what is on it.
    pass.status.provisioning.image = pass.spec().image.clone().unwrap_or_default();
    pass.status.provisioning.custom_deploy = pass.spec().custom_deploy.clone();
    pass.enter(ProvisioningState::Provisioned)
}

fn keep(pass: &mut Pass<'_>) -> Outcome {
    let node = pass.node()?;
    match adopt(pass, node)? {
        Some(look_again) => Ok(look_again),
        None => power::manage(pass, node),
    }
}

/// Whether the user no longer wants what is on the machine, or is being put there. Images are told apart by URL only.
pub(super) fn is_cancelled(pass: &Pass<'_>) -> bool {
    if pass.has(Regression::Rhbz1972430) && !pass.status.error_message.is_empty() {
        // As it was: an error, such as an adoption that failed because an image server was down, ends the use.
        return true;
    }
    let wanted = pass.spec().image.as_ref().map_or("", |image| &image.url);
    let present = &pass.status.provisioning.image.url;
    let step =
        |custom: Option<&crate::bmh::CustomDeploy>| custom.map_or("", |custom| &custom.method).to_owned();
    let wanted_step = step(pass.spec().custom_deploy.as_ref());
    let present_step = step(pass.status.provisioning.custom_deploy.as_ref());
    if !wanted_step.is_empty() {
        let other_step = !present_step.is_empty() && present_step != wanted_step;
        return other_step || (!present.is_empty() && present != wanted);
    }
    if !present_step.is_empty() || wanted.is_empty() {
        return true;
    }
    !present.is_empty() && present != wanted
}

#[cfg(test)]
mod tests {
    use super::super::tests::{IMAGE, change_node, check, failed, regress, status};
    use crate::{
        bmh::{CustomDeploy, ErrorType, Image, ProvisioningState as State},
        observe::Observation,
        provisioner::ProvisionState,
        regression::Regression,
    };

    fn adoption_failed(seen: &mut Observation) {
        change_node(seen, |node| {
            node.provision_state = ProvisionState::AdoptFailed;
            node.last_error = "the image is away".into();
            node.power_state = None;
        });
    }

    #[test]
    fn only_its_user_ends_the_use_of_a_machine() {
        check(
            State::Provisioned,
            &[
                ("nothing changed", |_| {}, "60s"),
                ("the image is no longer wanted", |s| s.host.spec.image = None, "save Deprovisioning, now"),
                (
                    "another image is wanted",
                    |s| s.host.spec.image.iter_mut().for_each(|image| image.url.push('2')),
                    "save Deprovisioning, now",
                ),
                (
                    "another checksum is wanted",
                    |s| s.host.spec.image.iter_mut().for_each(|image| image.checksum.push('2')),
                    "60s",
                ),
                (
                    "a custom step is wanted besides",
                    |s| s.host.spec.custom_deploy = Some(CustomDeploy { method: "a".into() }),
                    "60s",
                ),
                (
                    "a custom step is no longer wanted",
                    |s| status(s).provisioning.custom_deploy = Some(CustomDeploy { method: "a".into() }),
                    "save Deprovisioning, now",
                ),
                (
                    "Ironic forgot, and knows the BMC again",
                    |s| change_node(s, |n| n.provision_state = ProvisionState::Manageable),
                    "patch /instance_uuid /instance_info/image_source /instance_info/image_disk_format \
/instance_info/image_os_hash_algo /instance_info/image_os_hash_value, adopt, 3s",
                ),
                (
                    "it is being adopted",
                    |s| change_node(s, |n| n.provision_state = ProvisionState::Adopting),
                    "3s",
                ),
                ("adoption failed", adoption_failed, "save Error 1, ProvisionedRegistrationError, 120s"),
                (
                    "after that",
                    |s| {
                        adoption_failed(s);
                        failed(s, ErrorType::ProvisionedRegistration, 3);
                    },
                    "patch /instance_uuid /instance_info/image_source /instance_info/image_disk_format \
/instance_info/image_os_hash_algo /instance_info/image_os_hash_value, adopt, save Ok 3, 3s",
                ),
                (
                    "after that, as rhbz-1972430 had it",
                    |s| {
                        adoption_failed(s);
                        failed(s, ErrorType::ProvisionedRegistration, 3);
                        regress(s, Regression::Rhbz1972430);
                    },
                    "save Deprovisioning, now",
                ),
                ("rhbz-1972430 without an error", |s| regress(s, Regression::Rhbz1972430), "60s"),
                (
                    "adopted in the end",
                    |s| failed(s, ErrorType::ProvisionedRegistration, 3),
                    "save Ok 0, 60s",
                ),
                (
                    "maintenance set by hand",
                    |s| change_node(s, |n| n.maintenance = true),
                    "unset maintenance, now",
                ),
                (
                    "a fault of Ironic's finding",
                    |s| {
                        change_node(s, |n| {
                            n.maintenance = true;
                            n.fault = "power failure".into();
                        })
                    },
                    "60s",
                ),
            ],
        );
    }

    #[test]
    fn a_machine_with_its_own_system_is_only_adopted() {
        check(
            State::ExternallyProvisioned,
            &[
                ("nothing changed", |_| {}, "60s"),
                (
                    "its image is another",
                    |s| s.host.spec.image = Some(Image { url: IMAGE.into(), ..Image::default() }),
                    "60s",
                ),
                (
                    "its user gives it up",
                    |s| s.host.spec.externally_provisioned = false,
                    "save Provisioned, now",
                ),
                (
                    "adoption failed, as rhbz-1972430 had it",
                    |s| {
                        adoption_failed(s);
                        failed(s, ErrorType::ProvisionedRegistration, 1);
                        regress(s, Regression::Rhbz1972430);
                    },
                    "patch /instance_uuid /instance_info/image_source /instance_info/image_disk_format \
/instance_info/image_os_hash_algo /instance_info/image_os_hash_value, adopt, save Ok 1, 3s",
                ),
            ],
        );
    }
}
