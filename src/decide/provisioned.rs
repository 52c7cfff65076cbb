//! Provisioned and externally provisioned: the machine is in use. Only its user's wish ends that; whatever goes wrong
//! in Ironic or with the image is an error to be shown, never a reason to touch the machine.

use super::{
    adopt::adopt,
    pass::{Outcome, Pass},
    power,
};
use crate::{
    bmh::ProvisioningState,
    regression::Regression,
};

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
    let step = |custom: Option<&crate::bmh::CustomDeploy>| custom.map_or("", |custom| &custom.method).to_owned();
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
