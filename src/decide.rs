//! What to do with a host, given what is known of it. No I/O, no clock, no chance.
//!
//! [`decide`] follows upstream's order (`internal/controller/metal3.io`, `Reconcile` and `ReconcileState`): things to be
//! tidied on the host itself, its credentials, Ironic's readiness, then the guards that hold in every state, the
//! registration, and at last the state's own handler. Requests to Ironic are upstream's in order and body; a pass may
//! end where upstream's goes on, so that the next one sees what came of it.

mod adopt;
mod available;
mod backoff;
mod capacity;
mod credentials;
mod deleting;
mod deprovisioning;
mod detached;
mod guards;
mod image;
mod inspecting;
mod leaving;
mod pass;
mod power;
mod preparing;
mod profile;
mod provisioned;
mod provisioning;
mod reboot;
mod register;
#[cfg(test)]
mod tests;
mod tidy;

use std::time::Duration;

use crate::{
    bmh::{BareMetalHostStatus, HardwareDetails, ProvisioningState},
    observe::{IronicFound, Observation, Question},
    provisioner::Request,
};
use pass::{Outcome, Pass};

/// What to do, and when to look again.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// To be carried out in order, up to the first that fails.
    pub effects: Vec<Effect>,
    /// When the host is to be looked at again if all went well.
    pub look_again: LookAgain,
    /// What to do in place of the remaining effects when Ironic says that the node is busy (409). Upstream forgets the
    /// host's error then, as if the request had been accepted.
    pub when_busy: Busy,
}

/// What to do when Ironic says that a node is busy.
#[derive(Clone, Debug, PartialEq)]
pub struct Busy {
    /// The status to save, if it differs from the one that was read.
    pub save: Option<Box<BareMetalHostStatus>>,
    /// How long to wait.
    pub wait: Duration,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Asks Ironic for a change.
    Ironic(Request),
    /// Changes the host's metadata or spec, in one write.
    EditHost(Vec<HostEdit>),
    /// Writes the host's status.
    SaveStatus(Box<BareMetalHostStatus>),
    /// Marks the credentials' Secret as used by this host.
    ClaimSecret {
        /// Also keeps it from being removed.
        finalizer: bool,
    },
    /// Lets the credentials' Secret be removed.
    ReleaseSecret,
    /// Stores what an inspection found.
    CreateHardwareData(Box<HardwareDetails>),
    /// Lets the HardwareData be removed.
    ReleaseHardwareData,
    /// Removes the HardwareData.
    DeleteHardwareData,
    /// Tells the user. A failure to do so is ignored.
    Event {
        /// One word in upper camel case.
        reason: &'static str,
        /// A sentence.
        message: String,
    },
}

/// A change of a host's metadata or spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEdit {
    /// Adds the operator's finalizer.
    AddFinalizer,
    /// Removes the operator's finalizer.
    RemoveFinalizer,
    /// Removes an annotation.
    RemoveAnnotation(&'static str),
    /// Sets `spec.architecture`.
    SetArchitecture(String),
}

/// When a host is to be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookAgain {
    /// When something changes.
    Never,
    /// Through the queue, at once, though each time in a row a little later.
    Now,
    /// Within the same reconcile, with the host as the last write returned it.
    Continue,
    /// After a while.
    After(Duration),
}

/// Why no decision could be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// Something must be looked up first.
    Needs(Question),
    /// The pass fails: nothing is saved, and the queue tries again, each time in a row later.
    Fails(String),
}

/// Decides what to do next with a host.
pub fn decide(seen: &Observation) -> Result<Decision, Undecided> {
    let mut pass = Pass::new(seen);
    let look_again = run(&mut pass)?;
    Ok(pass.finish(look_again))
}

fn run(pass: &mut Pass<'_>) -> Outcome {
    if pass.seen.host.annotation(crate::bmh::PAUSED_ANNOTATION).is_some() {
        return Ok(LookAgain::Never);
    }
    if let Some(look_again) = tidy::tidy(pass)? {
        return Ok(look_again);
    }
    if let Some(look_again) = credentials::read(pass)? {
        return Ok(look_again);
    }
    if pass.ironic()? == IronicFound::NotReady {
        return Ok(LookAgain::After(backoff::IRONIC_NOT_READY));
    }
    for guard in [capacity::guard, guards::deletion, detached::guard, register::register] {
        if let Some(look_again) = guard(pass)? {
            return Ok(look_again);
        }
    }
    match pass.state() {
        ProvisioningState::New => guards::begin(pass),
        ProvisioningState::Unmanaged => guards::unmanaged(pass),
        ProvisioningState::Registering => guards::registered(pass),
        ProvisioningState::MatchProfile => pass.enter(ProvisioningState::Preparing),
        ProvisioningState::Inspecting => inspecting::handle(pass),
        ProvisioningState::Preparing => preparing::handle(pass),
        ProvisioningState::Available => available::handle(pass),
        ProvisioningState::Provisioning => provisioning::handle(pass),
        ProvisioningState::Provisioned => provisioned::handle(pass),
        ProvisioningState::ExternallyProvisioned => provisioned::handle_external(pass),
        ProvisioningState::Deprovisioning => deprovisioning::handle(pass),
        ProvisioningState::PoweringOffBeforeDelete => leaving::handle(pass),
        ProvisioningState::Deleting => deleting::handle(pass),
    }
}
