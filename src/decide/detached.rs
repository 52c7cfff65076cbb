//! Hosts that their user has taken out of Ironic, to keep them running untouched.

use serde::Deserialize;

use super::{
    LookAgain, backoff,
    deleting::{Removal, remove_node},
    pass::{Pass, Progress},
};
use crate::bmh::{DETACHED_ANNOTATION, ErrorType, OperationalStatus, ProvisioningState};

/// What happens when a detached host is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DeleteAction {
    /// It goes at once.
    #[default]
    Delete,
    /// It waits until it is attached again.
    Delay,
}

/// What the detached annotation says; the defaults if it says nothing that can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Wish {
    #[serde(rename = "deleteAction")]
    pub(super) delete: DeleteAction,
    pub(super) force: bool,
}

pub(super) fn wish(pass: &Pass<'_>) -> Option<Wish> {
    let text = pass.seen.host.annotation(DETACHED_ANNOTATION)?;
    Some(serde_json::from_str(text).unwrap_or_default())
}

/// Takes the node out of Ironic, or, once the annotation is gone, lets the host be registered again.
pub(super) fn guard(pass: &mut Pass<'_>) -> Progress {
    let is_detached = pass.status.operational_status == OperationalStatus::Detached;
    let Some(wish) = wish(pass) else {
        if is_detached {
            pass.status.operational_status = pass.status_after_pause();
            return Ok(Some(LookAgain::Now));
        }
        return Ok(None);
    };
    let allowed = match pass.state() {
        ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned
        | ProvisioningState::Available => true,
        ProvisioningState::Deleting => false,
        ProvisioningState::New
        | ProvisioningState::Unmanaged
        | ProvisioningState::Registering
        | ProvisioningState::MatchProfile
        | ProvisioningState::Inspecting
        | ProvisioningState::Preparing
        | ProvisioningState::Provisioning
        | ProvisioningState::Deprovisioning
        | ProvisioningState::PoweringOffBeforeDelete => wish.force,
    };
    if !allowed {
        return Ok(None);
    }
    if is_detached {
        return Ok(Some(LookAgain::After(backoff::UNATTENDED)));
    }
    if let Removal::Wait(look_again) = remove_node(pass, wish.force)? {
        return Ok(Some(look_again));
    }
    if pass.failed_with(ErrorType::Detach) {
        pass.clear_error();
        pass.status.error_count = 0;
    }
    pass.status.operational_status = OperationalStatus::Detached;
    Ok(Some(LookAgain::After(backoff::UNATTENDED)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{annotate, change_node, check, delete, status};
    use super::*;
    use crate::{
        bmh::ProvisioningState as State,
        observe::{NodeFound, Observation},
        provisioner::ProvisionState,
    };

    fn detached(seen: &mut Observation, value: &str) {
        annotate(seen, DETACHED_ANNOTATION, value);
        status(seen).operational_status = OperationalStatus::Detached;
        seen.facts.node = Some(NodeFound::Absent);
    }

    #[test]
    fn a_detached_host_is_left_alone() {
        check(
            State::Provisioned,
            &[
                ("its node goes", |s| annotate(s, DETACHED_ANNOTATION, ""), "set maintenance, now"),
                (
                    "its node is gone",
                    |s| {
                        annotate(s, DETACHED_ANNOTATION, "");
                        s.facts.node = Some(NodeFound::Absent);
                    },
                    "save Detached 0, 600s",
                ),
                ("left alone", |s| detached(s, ""), "600s"),
                (
                    "attached again",
                    |s| status(s).operational_status = OperationalStatus::Detached,
                    "save Ok 0, now",
                ),
                (
                    "deleted",
                    |s| {
                        detached(s, "");
                        delete(s);
                    },
                    "save Deleting, now",
                ),
                (
                    "deleted, to wait",
                    |s| {
                        detached(s, r#"{"deleteAction": "delay"}"#);
                        delete(s);
                    },
                    "600s",
                ),
            ],
        );
        check(
            State::Provisioning,
            &[
                (
                    "not while it is being provisioned",
                    |s| {
                        annotate(s, DETACHED_ANNOTATION, "");
                        change_node(s, |n| n.provision_state = ProvisionState::Deploying);
                    },
                    "save, 10s",
                ),
                (
                    "unless it is forced",
                    |s| annotate(s, DETACHED_ANNOTATION, r#"{"force": true}"#),
                    "delete node, now",
                ),
            ],
        );
    }
}
