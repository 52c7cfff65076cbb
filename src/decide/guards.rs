//! Short handlers at the two ends of a host's life: new, unmanaged and registered hosts, and the wish to delete one.

use super::{
    LookAgain, backoff,
    detached::{self, DeleteAction},
    pass::{Outcome, Pass, Progress},
    tidy::inspection_is_disabled,
};
use crate::bmh::{ErrorType, OperationalStatus, ProvisioningState};

/// How often taking an image off, and then switching off, may fail before a host is deleted without it.
pub(super) const DELETE_PATIENCE: u32 = 3;

/// A host that was never looked at.
pub(super) fn begin(pass: &mut Pass<'_>) -> Outcome {
    if has_bmc_details(pass) {
        return pass.enter(ProvisioningState::Registering);
    }
    pass.event("Discovered", "Discovered host with unknown BMC details");
    pass.status.operational_status = OperationalStatus::Discovered;
    pass.status.error_type = None;
    pass.status.error_message.clear();
    pass.enter(ProvisioningState::Unmanaged)
}

/// A host without a BMC.
pub(super) fn unmanaged(pass: &mut Pass<'_>) -> Outcome {
    if has_bmc_details(pass) {
        return pass.enter(ProvisioningState::Registering);
    }
    Ok(LookAgain::After(backoff::UNATTENDED))
}

/// A host in the state registering whose registration is complete.
pub(super) fn registered(pass: &mut Pass<'_>) -> Outcome {
    pass.status.error_count = 0;
    let next = if pass.spec().externally_provisioned {
        ProvisioningState::ExternallyProvisioned
    } else if inspection_is_disabled(pass) {
        ProvisioningState::Preparing
    } else {
        ProvisioningState::Inspecting
    };
    pass.enter(next)
}

fn has_bmc_details(pass: &Pass<'_>) -> bool {
    let bmc = &pass.spec().bmc;
    !bmc.address.is_empty() || !bmc.credentials_name.is_empty()
}

/// Starts to delete a host that is to be deleted, unless that has begun.
pub(super) fn deletion(pass: &mut Pass<'_>) -> Progress {
    if !pass.is_being_deleted() {
        return Ok(None);
    }
    let wish = detached::wish(pass);
    let is_detached = pass.status.operational_status == OperationalStatus::Detached;
    if pass.state() != ProvisioningState::Deleting && (is_detached || wish.is_some()) {
        return match wish {
            None | Some(detached::Wish { delete: DeleteAction::Delay, .. }) => Ok(None),
            Some(detached::Wish { delete: DeleteAction::Delete, .. }) => {
                pass.enter(ProvisioningState::Deleting).map(Some)
            }
        };
    }
    let next = match pass.state() {
        ProvisioningState::Deleting => return Ok(None),
        ProvisioningState::New | ProvisioningState::Unmanaged | ProvisioningState::Registering => {
            ProvisioningState::Deleting
        }
        ProvisioningState::Provisioning | ProvisioningState::Provisioned => ProvisioningState::Deprovisioning,
        ProvisioningState::Deprovisioning | ProvisioningState::PoweringOffBeforeDelete => {
            let hopeless =
                pass.failed_with(ErrorType::Registration) && pass.status.error_count > DELETE_PATIENCE;
            if !hopeless {
                return Ok(None);
            }
            ProvisioningState::Deleting
        }
        ProvisioningState::MatchProfile
        | ProvisioningState::Inspecting
        | ProvisioningState::Preparing
        | ProvisioningState::Available
        | ProvisioningState::ExternallyProvisioned => ProvisioningState::PoweringOffBeforeDelete,
    };
    pass.enter(next).map(Some)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{annotate, change_node, check, delete, failed, status};
    use super::*;
    use crate::{bmh::ProvisioningState as State, provisioner::ProvisionState};

    #[test]
    fn a_host_begins_with_its_bmc() {
        check(
            State::New,
            &[
                ("with a BMC", |_| {}, "save Registering, now"),
                (
                    "without",
                    |s| s.host.spec.bmc = Default::default(),
                    "save Unmanaged Discovered 0, Discovered, now",
                ),
                ("without a finalizer", |s| s.host.metadata.finalizers = None, "edit [AddFinalizer], now"),
                (
                    "paused",
                    |s| {
                        s.host.metadata.finalizers = None;
                        annotate(s, "baremetalhost.metal3.io/paused", "");
                    },
                    "never",
                ),
                (
                    "Ironic cannot work",
                    |s| s.facts.ironic = Some(crate::observe::IronicFound::NotReady),
                    "30s",
                ),
                ("nobody asked whether Ironic can", |s| s.facts.ironic = None, "? ironic"),
            ],
        );
        check(
            State::Unmanaged,
            &[
                ("still without a BMC", |s| s.host.spec.bmc = Default::default(), "600s"),
                ("a BMC appears", |_| {}, "save Registering, now"),
            ],
        );
    }

    #[test]
    fn a_registered_host_goes_where_its_spec_says() {
        fn registered(seen: &mut crate::observe::Observation) {
            change_node(seen, |node| node.provision_state = ProvisionState::Manageable);
            let status = status(seen);
            status.good_credentials = status.tried_credentials.clone();
            status.hardware_profile = "unknown".to_owned();
            status.provisioning.root_device_hints =
                serde_json::from_str(r#"{"deviceName": "/dev/sda"}"#).ok();
        }
        check(
            State::Registering,
            &[
                ("to be inspected", registered, "save Inspecting, now"),
                (
                    "not to be inspected",
                    |s| {
                        registered(s);
                        annotate(s, "inspect.metal3.io", "disabled");
                    },
                    "save Preparing, now",
                ),
                (
                    "in use",
                    |s| {
                        registered(s);
                        s.host.spec.externally_provisioned = true;
                    },
                    "save ExternallyProvisioned, now",
                ),
            ],
        );
    }

    #[test]
    fn a_host_leaves_by_the_way_that_its_state_needs() {
        // state, first state on the way out
        for (state, next) in [
            (State::New, "save Deleting, now"),
            (State::Unmanaged, "save Deleting, now"),
            (State::Registering, "save Deleting, now"),
            (State::Inspecting, "save PoweringOffBeforeDelete, now"),
            (State::Preparing, "save PoweringOffBeforeDelete, now"),
            (State::Available, "save PoweringOffBeforeDelete, now"),
            (State::Provisioning, "save Deprovisioning, now"),
            (State::Provisioned, "save Deprovisioning, now"),
            (State::ExternallyProvisioned, "save PoweringOffBeforeDelete, now"),
        ] {
            check(state, &[("to be deleted", delete, next)]);
        }
        check(
            State::Deprovisioning,
            &[(
                "its BMC cannot be used",
                |s| {
                    delete(s);
                    failed(s, ErrorType::Registration, 4);
                },
                "save Deleting, now",
            )],
        );
    }
}
