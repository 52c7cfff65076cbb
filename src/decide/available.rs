//! Available: the host is free, until someone wants an image on it.

use super::{
    pass::{Outcome, Pass},
    power, tidy,
};
use crate::bmh::{ErrorType, ProvisioningState};

pub(super) fn handle(pass: &mut Pass<'_>) -> Outcome {
    if pass.spec().externally_provisioned {
        pass.status.provisioning.root_device_hints = None;
        return pass.enter(ProvisioningState::ExternallyProvisioned);
    }
    if tidy::inspection_is_wanted(pass) {
        return pass.enter(ProvisioningState::Inspecting);
    }
    let image = pass.spec().image.as_ref().filter(|image| !image.url.is_empty());
    let custom = pass.spec().custom_deploy.as_ref().filter(|custom| !custom.method.is_empty());
    if image.is_none() && custom.is_none() {
        pass.status.provisioning_fail_count = 0;
        pass.status.last_attempted_image = None;
    }
    if wants_provisioning(pass) {
        return provision(pass);
    }
    let node = pass.node()?;
    power::manage(pass, node)
}

/// Whether something is wanted on the machine that is not there. A host that should be off is left alone.
fn wants_provisioning(pass: &Pass<'_>) -> bool {
    let spec = pass.spec();
    let present = &pass.status.provisioning;
    let image = spec.image.as_ref().is_some_and(|image| !image.url.is_empty()) && present.image.url.is_empty();
    let custom = spec.custom_deploy.as_ref().is_some_and(|custom| {
        !custom.method.is_empty() && present.custom_deploy.as_ref().map(|custom| &custom.method) != Some(&custom.method)
    });
    spec.online && (image || custom)
}

/// Provisions, unless this image has failed too often: each attempt wears the disks and wipes them again.
fn provision(pass: &mut Pass<'_>) -> Outcome {
    if pass.status.last_attempted_image.as_ref() != pass.spec().image.as_ref() {
        pass.status.provisioning_fail_count = 0;
    }
    let (failed, limit) = (pass.status.provisioning_fail_count, pass.seen.options.max_provisioning_retries);
    if limit > 0 && failed >= limit {
        let message = format!("provisioning failed {failed} times with this image: change the image to try again");
        return Ok(pass.fail(ErrorType::Provisioning, message));
    }
    pass.enter(ProvisioningState::Provisioning)
}
