//! One decision in the making: what is known, the status as it will be, and the effects so far.

use std::time::Duration;

use jiff::{Timestamp, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Busy, Decision, Effect, HostEdit, LookAgain, Undecided, backoff};
use crate::{
    bmh::{
        BareMetalHostSpec, BareMetalHostStatus, CustomDeploy, ErrorType, Image, OperationMetric,
        OperationalStatus, ProvisioningState,
    },
    names::{BmcAddress, node_name},
    observe::{FoundBy, IronicFound, NodeFound, Observation, Question, Search},
    provisioner::{ConfigDrive, Node, Patch, ProvisionTarget, Request},
    regression::Regression,
};

/// When to look again, or why nothing could be decided.
pub(super) type Outcome = Result<LookAgain, Undecided>;
/// The same for a step after which the pass may go on (`None`).
pub(super) type Progress = Result<Option<LookAgain>, Undecided>;

/// The BMC's credentials and which version of which Secret they are.
pub(super) struct Credentials {
    pub(super) username: String,
    pub(super) password: String,
    pub(super) version: crate::bmh::CredentialsStatus,
}

/// One decision in the making.
pub(super) struct Pass<'a> {
    pub(super) seen: &'a Observation,
    /// The status as it will be saved.
    pub(super) status: BareMetalHostStatus,
    /// `None` when the state needs none, or when a host that is being deleted has none.
    pub(super) credentials: Option<Credentials>,
    before: BareMetalHostStatus,
    effects: Vec<Effect>,
    events: Vec<Effect>,
    /// The credentials are on their way to Ironic in this pass.
    sends_credentials: bool,
}

impl<'a> Pass<'a> {
    pub(super) fn new(seen: &'a Observation) -> Self {
        let before = seen.host.status.clone().unwrap_or_default();
        Self {
            seen,
            status: before.clone(),
            credentials: None,
            before,
            effects: Vec::new(),
            events: Vec::new(),
            sends_credentials: false,
        }
    }

    /// Closes the pass. A status that differs from what was read is saved after all requests; events come last, as
    /// nobody should hear of what was not saved.
    pub(super) fn finish(self, look_again: LookAgain) -> Decision {
        let Self { seen, mut status, before, mut effects, events, sends_credentials, .. } = self;
        let mut busy = before.clone();
        clear_error(&mut busy);
        if !sends_credentials {
            // Upstream also stores credentials that a busy node did not take, and then never sends them again.
            busy.tried_credentials = status.tried_credentials.clone();
        }
        let when_busy = Busy {
            save: (busy != before).then(|| {
                busy.last_updated = Some(whole_seconds(seen.now));
                Box::new(busy)
            }),
            wait: backoff::spread(backoff::SHORT, seen.jitter),
        };
        if status != before {
            status.last_updated = Some(whole_seconds(seen.now));
            effects.push(Effect::SaveStatus(Box::new(status)));
        }
        effects.extend(events);
        Decision { effects, look_again, when_busy }
    }

    // What is known.

    pub(super) fn spec(&self) -> &'a BareMetalHostSpec {
        &self.seen.host.spec
    }

    /// The state at the start of the pass.
    pub(super) fn state(&self) -> ProvisioningState {
        self.before.provisioning.state
    }

    pub(super) fn is_being_deleted(&self) -> bool {
        self.seen.host.is_being_deleted()
    }

    /// The error at the start of the pass is of this type, so that its work is to be done anew.
    pub(super) fn failed_with(&self, error: ErrorType) -> bool {
        self.before.error_type == Some(error)
    }

    pub(super) fn has(&self, regression: Regression) -> bool {
        self.seen.options.regressions.has(regression)
    }

    /// The status as it differs from what was read.
    pub(super) fn is_dirty(&self) -> bool {
        self.status != self.before
    }

    /// The BMC's address. The registration has made sure that it can be read.
    pub(super) fn address(&self) -> Option<BmcAddress> {
        self.spec().bmc.address.parse().ok()
    }

    pub(super) fn node_name(&self) -> String {
        node_name(self.seen.host.namespace(), self.seen.host.name())
    }

    /// What is, or shortly will be, on the machine: the image and custom deploy step that count for its node.
    pub(super) fn current(&self) -> (Option<&Image>, Option<&CustomDeploy>) {
        let (image, custom) = match self.state() {
            ProvisioningState::Provisioning | ProvisioningState::ExternallyProvisioned => {
                (self.spec().image.as_ref(), self.spec().custom_deploy.as_ref())
            }
            ProvisioningState::New
            | ProvisioningState::Unmanaged
            | ProvisioningState::Registering
            | ProvisioningState::MatchProfile
            | ProvisioningState::Inspecting
            | ProvisioningState::Preparing
            | ProvisioningState::Available
            | ProvisioningState::Provisioned
            | ProvisioningState::Deprovisioning
            | ProvisioningState::PoweringOffBeforeDelete
            | ProvisioningState::Deleting => {
                (Some(&self.before.provisioning.image), self.before.provisioning.custom_deploy.as_ref())
            }
        };
        (image.filter(|image| !image.url.is_empty()), custom.filter(|custom| !custom.method.is_empty()))
    }

    // What must be looked up.

    pub(super) fn ironic(&self) -> Result<IronicFound, Undecided> {
        self.seen.facts.ironic.ok_or(Undecided::Needs(Question::Ironic))
    }

    /// The host's node, searched for in every way that can find it.
    pub(super) fn find(&self) -> Result<&'a NodeFound, Undecided> {
        let host = &self.seen.host;
        let mut names = vec![self.node_name()];
        if !host.name().contains('~') {
            names.push(host.name().to_owned());
        }
        self.ask(Search {
            id: self.before.provisioning.id.clone(),
            names,
            mac: self.spec().boot_mac_address.clone(),
        })
    }

    /// The node that is certainly this host's own. Upstream goes by the stored id alone and so forgets a node whose id
    /// it did not come to store.
    pub(super) fn find_own(&self) -> Result<Option<&'a Node>, Undecided> {
        let search = Search {
            id: self.before.provisioning.id.clone(),
            names: vec![self.node_name()],
            mac: String::new(),
        };
        Ok(match self.ask(search)? {
            NodeFound::Absent | NodeFound::Found { by: FoundBy::Mac, .. } => None,
            NodeFound::Found { node, by: FoundBy::Id | FoundBy::Name } => Some(node),
        })
    }

    /// The registered node, or a failed pass: the next one registers it again.
    pub(super) fn node(&self) -> Result<&'a Node, Undecided> {
        self.find_own()?
            .ok_or_else(|| Undecided::Fails("find the host's node: it is not registered".to_owned()))
    }

    fn ask(&self, search: Search) -> Result<&'a NodeFound, Undecided> {
        self.seen.facts.node.as_ref().ok_or(Undecided::Needs(Question::Node(search)))
    }

    // Waits.

    /// Ironic is in a short step, or a request was just made.
    pub(super) fn soon(&self) -> LookAgain {
        self.after(backoff::SHORT)
    }

    /// Ironic is in the middle of long work.
    pub(super) fn later(&self) -> LookAgain {
        self.after(backoff::LONG)
    }

    fn after(&self, wait: Duration) -> LookAgain {
        LookAgain::After(backoff::spread(wait, self.seen.jitter))
    }

    // Effects.

    pub(super) fn ironic_request(&mut self, request: Request) {
        self.effects.push(Effect::Ironic(request));
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(super) fn edit(&mut self, edits: Vec<HostEdit>) {
        if !edits.is_empty() {
            self.effects.push(Effect::EditHost(edits));
        }
    }

    pub(super) fn event(&mut self, reason: &'static str, message: impl Into<String>) {
        self.events.push(Effect::Event { reason, message: message.into() });
    }

    /// Sends a patch unless there is nothing to change that this pass has not sent already.
    pub(super) fn patch(&mut self, node: &Node, mut patch: Patch) {
        for effect in &self.effects {
            if let Effect::Ironic(Request::PatchNode { patch: sent, .. }) = effect {
                patch.0.retain(|op| !sent.0.contains(op));
            }
        }
        if !patch.is_empty() {
            self.ironic_request(Request::PatchNode { node: node.uuid.clone(), patch });
        }
    }

    /// Remembers that the credentials are sent in this pass.
    pub(super) fn sends_credentials(&mut self) {
        self.sends_credentials = true;
    }

    /// Asks for another provision state; see [`Self::send_to_with`].
    pub(super) fn send_to(&mut self, node: &Node, target: ProvisionTarget) -> Sent {
        self.send_to_with(node, target, None, Vec::new())
    }

    /// Asks for another provision state, unless Ironic would not listen: after a fault of its own finding the node
    /// must recover first; maintenance set by others is ended.
    pub(super) fn send_to_with(
        &mut self,
        node: &Node,
        target: ProvisionTarget,
        configdrive: Option<Box<ConfigDrive>>,
        deploy_steps: Vec<serde_json::Value>,
    ) -> Sent {
        if !node.fault.is_empty() {
            return Sent::NotYet(self.later());
        }
        if node.maintenance {
            self.ironic_request(Request::UnsetMaintenance { node: node.uuid.clone() });
            return Sent::NotYet(LookAgain::Now);
        }
        self.ironic_request(Request::Provision {
            node: node.uuid.clone(),
            target,
            configdrive,
            deploy_steps,
        });
        Sent::Yes(self.soon())
    }

    /// Leads a node out of a failed state back to manageable. A failed clean step has set maintenance; ending it and
    /// going on in one pass keeps the reason for going on, which upstream loses in between.
    pub(super) fn recover(&mut self, node: &Node) -> LookAgain {
        if !node.fault.is_empty() {
            return self.later();
        }
        if node.maintenance {
            self.ironic_request(Request::UnsetMaintenance { node: node.uuid.clone() });
        }
        self.ironic_request(Request::Provision {
            node: node.uuid.clone(),
            target: ProvisionTarget::Manage,
            configdrive: None,
            deploy_steps: Vec::new(),
        });
        self.soon()
    }

    // The status.

    /// Work goes on: the error of the last attempt is past.
    pub(super) fn working(&mut self, look_again: LookAgain) -> LookAgain {
        self.clear_error();
        look_again
    }

    /// Forgets the error, but not how many there were.
    pub(super) fn clear_error(&mut self) {
        clear_error(&mut self.status);
    }

    /// How a host is doing that was set aside and now goes on.
    pub(super) fn status_after_pause(&self) -> OperationalStatus {
        match self.status.error_type {
            Some(_) => OperationalStatus::Error,
            None => OperationalStatus::Ok,
        }
    }

    /// Records an error without an event.
    pub(super) fn set_error(&mut self, error: ErrorType, message: impl Into<String>) {
        self.status.operational_status = OperationalStatus::Error;
        self.status.error_type = Some(error);
        self.status.error_message = message.into();
        self.status.error_count = self.status.error_count.saturating_add(1);
    }

    /// Records an error, tells of it, and waits: longer with each error in a row.
    pub(super) fn fail(&mut self, error: ErrorType, message: impl Into<String>) -> LookAgain {
        let message = message.into();
        self.event(error.event_reason(), message.clone());
        self.set_error(error, message);
        LookAgain::After(backoff::after_errors(self.status.error_count, self.seen.jitter))
    }

    /// Moves the host to another state, unless that means work that must wait for other hosts.
    pub(super) fn enter(&mut self, next: ProvisioningState) -> Outcome {
        if let Some(look_again) = super::capacity::delay(self, next)? {
            return Ok(look_again);
        }
        let now = whole_seconds(self.seen.now);
        if let Some(metric) = self.metric(self.state()) {
            metric.close(now.clone());
        }
        if let Some(metric) = self.metric(next) {
            metric.open(now);
        }
        match next {
            ProvisioningState::Registering
            | ProvisioningState::Inspecting
            | ProvisioningState::Provisioning => {
                self.status.provisioning.boot_mode =
                    Some(self.spec().boot_mode.unwrap_or(crate::bmh::BootMode::Uefi));
            }
            ProvisioningState::New
            | ProvisioningState::Unmanaged
            | ProvisioningState::MatchProfile
            | ProvisioningState::Preparing
            | ProvisioningState::Available
            | ProvisioningState::Provisioned
            | ProvisioningState::ExternallyProvisioned
            | ProvisioningState::Deprovisioning
            | ProvisioningState::PoweringOffBeforeDelete
            | ProvisioningState::Deleting => {}
        }
        self.status.provisioning.state = next;
        Ok(LookAgain::Now)
    }

    /// The part of the operation history that a state belongs to.
    fn metric(&mut self, state: ProvisioningState) -> Option<&mut OperationMetric> {
        let history = &mut self.status.operation_history;
        match state {
            ProvisioningState::Registering => Some(&mut history.register),
            ProvisioningState::Inspecting => Some(&mut history.inspect),
            ProvisioningState::Provisioning => Some(&mut history.provision),
            ProvisioningState::Deprovisioning => Some(&mut history.deprovision),
            ProvisioningState::New
            | ProvisioningState::Unmanaged
            | ProvisioningState::MatchProfile
            | ProvisioningState::Preparing
            | ProvisioningState::Available
            | ProvisioningState::Provisioned
            | ProvisioningState::ExternallyProvisioned
            | ProvisioningState::PoweringOffBeforeDelete
            | ProvisioningState::Deleting => None,
        }
    }

    /// Notes that the host is being registered again though it is past that state.
    pub(super) fn reopen_registration(&mut self) {
        let now = whole_seconds(self.seen.now);
        self.status.operation_history.register.open(now);
    }

    /// Notes that the registration is complete.
    pub(super) fn close_registration(&mut self) {
        let now = whole_seconds(self.seen.now);
        self.status.operation_history.register.close(now);
    }
}

/// Whether a request for another provision state is on its way.
pub(super) enum Sent {
    /// It is.
    Yes(LookAgain),
    /// It must wait.
    NotYet(LookAgain),
}

impl Sent {
    pub(super) fn look_again(self) -> LookAgain {
        match self {
            Self::Yes(look_again) | Self::NotYet(look_again) => look_again,
        }
    }
}

impl OperationMetric {
    fn open(&mut self, now: Time) {
        if self.start.is_none() || self.end.is_some() {
            *self = Self { start: Some(now), end: None };
        }
    }

    fn close(&mut self, now: Time) {
        if self.start.is_some() && self.end.is_none() {
            self.end = Some(now);
        }
    }
}

fn clear_error(status: &mut BareMetalHostStatus) {
    status.operational_status = OperationalStatus::Ok;
    status.error_type = None;
    status.error_message.clear();
}

/// Kubernetes keeps whole seconds.
fn whole_seconds(now: Timestamp) -> Time {
    // Truncating to seconds cannot leave the range of a timestamp, so the fallback is never taken.
    Time(
        now.round(jiff::TimestampRound::new().smallest(Unit::Second).mode(jiff::RoundMode::Trunc))
            .unwrap_or(now),
    )
}
