//! Powering off before delete: a machine that leaves must not go on running unseen.

use super::{
    LookAgain,
    guards::DELETE_PATIENCE,
    pass::{Outcome, Pass},
    power::{Powered, Strength, power_off},
};
use crate::bmh::{ErrorType, ProvisioningState};

pub(super) fn handle(pass: &mut Pass<'_>) -> Outcome {
    if pass.spec().disable_power_off {
        return pass.enter(ProvisioningState::Deleting);
    }
    if pass.credentials.is_none() && pass.find_own()?.is_none() {
        return pass.enter(ProvisioningState::Deleting);
    }
    let force = pass.failed_with(ErrorType::PowerManagement);
    let node = pass.node()?;
    match power_off(pass, node, Strength::Hard, force) {
        Powered::AlreadySo => {
            pass.status.powered_on = false;
            pass.status.error_count = 0;
            pass.clear_error();
            pass.enter(ProvisioningState::Deleting)
        }
        Powered::Changing(look_again) => Ok(pass.working(look_again)),
        Powered::Failed(message) => {
            let look_again: LookAgain = pass.fail(ErrorType::PowerManagement, message);
            if pass.status.error_count > DELETE_PATIENCE {
                return pass.enter(ProvisioningState::Deleting);
            }
            Ok(look_again)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{change_node, check, delete, failed};
    use super::*;
    use crate::bmh::ProvisioningState as State;

    #[test]
    fn a_machine_is_off_before_it_leaves() {
        check(
            State::PoweringOffBeforeDelete,
            &[
                ("on", delete, "power off, PowerOff, now"),
                (
                    "on its way",
                    |s| {
                        delete(s);
                        change_node(s, |n| n.target_power_state = Some("power off".into()));
                    },
                    "3s",
                ),
                (
                    "off",
                    |s| {
                        delete(s);
                        change_node(s, |n| n.power_state = Some("power off".into()));
                    },
                    "save Deleting, now",
                ),
                (
                    "it did not go off",
                    |s| {
                        delete(s);
                        change_node(s, |n| n.last_error = "no answer".into());
                    },
                    "save Error 1, PowerManagementError, 120s",
                ),
                (
                    "tried again",
                    |s| {
                        delete(s);
                        failed(s, ErrorType::PowerManagement, 1);
                        change_node(s, |n| n.last_error = "no answer".into());
                    },
                    "power off, save Ok 1, PowerOff, now",
                ),
                (
                    "it did not go off for the fourth time",
                    |s| {
                        delete(s);
                        failed(s, ErrorType::Provisioning, 3);
                        change_node(s, |n| n.last_error = "no answer".into());
                    },
                    "save Deleting Error 4, PowerManagementError, now",
                ),
                (
                    "never to be off",
                    |s| {
                        delete(s);
                        s.host.spec.disable_power_off = true;
                        change_node(s, |n| n.disable_power_off = true);
                    },
                    "save Deleting, now",
                ),
            ],
        );
    }
}
