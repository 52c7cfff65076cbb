//! What is done on the host itself before anything else: restoring a moved status, taking hardware details over,
//! adding the finalizer.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    Effect, HostEdit, LookAgain, Undecided,
    pass::{Pass, Progress},
};
use crate::bmh::{
    BareMetalHostStatus, FINALIZER, HARDWARE_DATA_FINALIZER, HARDWARE_DETAILS_ANNOTATION, HardwareDetails,
    INSPECT_ANNOTATION, InspectionMode, STATUS_ANNOTATION,
};

pub(super) fn tidy(pass: &mut Pass<'_>) -> Progress {
    let host = &pass.seen.host;
    let hardware = pass.seen.hardware_data.as_ref();
    if pass.is_being_deleted()
        && hardware.is_some_and(|data| {
            data.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == HARDWARE_DATA_FINALIZER)
        })
    {
        pass.effect(Effect::ReleaseHardwareData);
    }
    if let Some(text) = host.annotation(STATUS_ANNOTATION) {
        if pass.status.last_updated.is_none() {
            let mut status: BareMetalHostStatus = parse(STATUS_ANNOTATION, text)?;
            if let Some(details) = hardware.and_then(|data| data.spec.hardware.clone()) {
                status.hardware = Some(details);
            }
            // Set also when nothing else differs: a status that was never saved would be restored again and again.
            status.last_updated = Some(Time(pass.seen.now));
            pass.status = status;
        } else {
            pass.edit(vec![HostEdit::RemoveAnnotation(STATUS_ANNOTATION)]);
        }
        return Ok(Some(LookAgain::Now));
    }
    let inspected =
        hardware.and_then(|data| data.spec.hardware.as_ref()).map_or("", |details| &details.cpu.arch);
    if host.spec.architecture.is_empty() && !inspected.is_empty() && !pass.is_being_deleted() {
        pass.edit(vec![HostEdit::SetArchitecture(inspected.to_owned())]);
        return Ok(Some(LookAgain::Now));
    }
    if let Some(text) = host.annotation(HARDWARE_DETAILS_ANNOTATION) {
        let wanted = pass.status.hardware.is_none() || inspection_is_disabled(pass);
        let details: HardwareDetails = parse(HARDWARE_DETAILS_ANNOTATION, text)?;
        if wanted && pass.status.hardware.as_ref() != Some(&details) {
            pass.status.hardware = Some(details);
            pass.event("UpdateHardwareDetails", "Set hardware details from the annotation");
        } else {
            pass.edit(vec![HostEdit::RemoveAnnotation(HARDWARE_DETAILS_ANNOTATION)]);
            pass.event("RemoveAnnotation", "Removed the annotation with hardware details");
        }
        return Ok(Some(LookAgain::Now));
    }
    if !pass.is_being_deleted() && !host.has_finalizer(FINALIZER) {
        pass.edit(vec![HostEdit::AddFinalizer]);
        return Ok(Some(LookAgain::Now));
    }
    Ok(None)
}

/// Whether the user wants no inspection, by spec or by annotation.
pub(super) fn inspection_is_disabled(pass: &Pass<'_>) -> bool {
    pass.spec().inspection_mode == Some(InspectionMode::Disabled)
        || pass.seen.host.annotation(INSPECT_ANNOTATION) == Some("disabled")
}

/// Whether the user wants an inspected host to be inspected again.
pub(super) fn inspection_is_wanted(pass: &Pass<'_>) -> bool {
    !inspection_is_disabled(pass) && pass.seen.host.annotation(INSPECT_ANNOTATION).is_some()
}

fn parse<T: serde::de::DeserializeOwned>(annotation: &str, text: &str) -> Result<T, Undecided> {
    serde_json::from_str(text)
        .map_err(|error| Undecided::Fails(format!("read the annotation {annotation}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{annotate, check, delete, status};
    use crate::{
        bmh::{
            HARDWARE_DATA_FINALIZER, HardwareData, HardwareDataSpec, HardwareDetails,
            ProvisioningState as State,
        },
        observe::{NodeFound, Observation},
    };

    fn inspected(seen: &mut Observation) {
        let mut details = HardwareDetails::default();
        details.cpu.arch = "x86_64".to_owned();
        let mut data = HardwareData::new("worker-0", HardwareDataSpec { hardware: Some(details) });
        data.metadata.finalizers = Some(vec![HARDWARE_DATA_FINALIZER.to_owned()]);
        seen.hardware_data = Some(data);
    }

    #[test]
    fn what_the_host_carries_with_it_comes_first() {
        check(
            State::New,
            &[
                (
                    "a moved host",
                    |s| {
                        status(s).last_updated = None;
                        annotate(
                            s,
                            "baremetalhost.metal3.io/status",
                            r#"{"provisioning": {"state": "provisioned"}, "poweredOn": true}"#,
                        );
                    },
                    "save Provisioned, now",
                ),
                (
                    "a host that was moved before anyone looked at it",
                    |s| {
                        s.host.status = None;
                        annotate(s, "baremetalhost.metal3.io/status", "{}");
                    },
                    "save, now",
                ),
                (
                    "a moved host, restored",
                    |s| annotate(s, "baremetalhost.metal3.io/status", "{}"),
                    r#"edit [RemoveAnnotation("baremetalhost.metal3.io/status")], now"#,
                ),
                (
                    "hardware details by hand",
                    |s| annotate(s, "inspect.metal3.io/hardwaredetails", r#"{"hostname": "a"}"#),
                    "save, UpdateHardwareDetails, now",
                ),
                (
                    "hardware details by hand, stored",
                    |s| {
                        annotate(s, "inspect.metal3.io/hardwaredetails", r#"{"hostname": "a"}"#);
                        status(s).hardware =
                            Some(HardwareDetails { hostname: "a".into(), ..HardwareDetails::default() });
                    },
                    r#"edit [RemoveAnnotation("inspect.metal3.io/hardwaredetails")], RemoveAnnotation, now"#,
                ),
            ],
        );
        check(
            State::Preparing,
            &[("an architecture that was found out", inspected, r#"edit [SetArchitecture("x86_64")], now"#)],
        );
        check(
            State::Deleting,
            &[(
                "what was found out goes with its host",
                |s| {
                    inspected(s);
                    delete(s);
                    s.facts.node = Some(NodeFound::Absent);
                },
                "release hardware data, release secret, edit [RemoveFinalizer], never",
            )],
        );
    }
}
