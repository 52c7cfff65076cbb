//! What is done on the host itself before anything else: restoring a moved status, taking hardware details over,
//! adding the finalizer.

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
            pass.status = status;
        } else {
            pass.edit(vec![HostEdit::RemoveAnnotation(STATUS_ANNOTATION)]);
        }
        return Ok(Some(LookAgain::Now));
    }
    let inspected = hardware.and_then(|data| data.spec.hardware.as_ref()).map_or("", |details| &details.cpu.arch);
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
    serde_json::from_str(text).map_err(|error| Undecided::Fails(format!("read the annotation {annotation}: {error}")))
}
