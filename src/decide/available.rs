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
    let image =
        spec.image.as_ref().is_some_and(|image| !image.url.is_empty()) && present.image.url.is_empty();
    let custom = spec.custom_deploy.as_ref().is_some_and(|custom| {
        !custom.method.is_empty()
            && present.custom_deploy.as_ref().map(|custom| &custom.method) != Some(&custom.method)
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
        let message =
            format!("provisioning failed {failed} times with this image: change the image to try again");
        return Ok(pass.fail(ErrorType::Provisioning, message));
    }
    pass.enter(ProvisioningState::Provisioning)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{IMAGE, annotate, check, status};
    use crate::{
        bmh::{CustomDeploy, Image, ProvisioningState as State},
        observe::Observation,
    };

    fn wants_image(seen: &mut Observation) {
        seen.host.spec.image = Some(Image { url: IMAGE.into(), checksum: "abc".into(), ..Image::default() });
    }

    fn failed_before(seen: &mut Observation, times: u32) {
        wants_image(seen);
        let image = seen.host.spec.image.clone();
        status(seen).last_attempted_image = image;
        status(seen).provisioning_fail_count = times;
    }

    #[test]
    fn a_free_host_waits_for_a_wish() {
        check(
            State::Available,
            &[
                ("nothing is wanted", |_| {}, "60s"),
                ("an image is wanted", wants_image, "save Provisioning, now"),
                (
                    "an image is wanted, but not that the machine is on",
                    |s| {
                        wants_image(s);
                        s.host.spec.online = false;
                        status(s).powered_on = false;
                        super::super::tests::change_node(s, |n| n.power_state = Some("power off".into()));
                    },
                    "60s",
                ),
                (
                    "a custom deploy step is wanted",
                    |s| {
                        s.host.spec.custom_deploy = Some(CustomDeploy { method: "install".into() });
                    },
                    "save Provisioning, now",
                ),
                ("it failed four times", |s| failed_before(s, 4), "save Provisioning, now"),
                ("it failed too often", |s| failed_before(s, 5), "save Error 1, ProvisioningError, 120s"),
                (
                    "another image failed too often",
                    |s| {
                        failed_before(s, 5);
                        s.host.spec.image.iter_mut().for_each(|image| image.url.push('2'));
                    },
                    "save Provisioning, now",
                ),
                (
                    "it failed too often, and nobody counts",
                    |s| {
                        failed_before(s, 50);
                        std::sync::Arc::make_mut(&mut s.options).max_provisioning_retries = 0;
                    },
                    "save Provisioning, now",
                ),
                (
                    "it is in use after all",
                    |s| s.host.spec.externally_provisioned = true,
                    "save ExternallyProvisioned, now",
                ),
                ("an inspection is wanted", |s| annotate(s, "inspect.metal3.io", ""), "save Inspecting, now"),
                ("no inspection is wanted", |s| annotate(s, "inspect.metal3.io", "disabled"), "60s"),
            ],
        );
    }
}
