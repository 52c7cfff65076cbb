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
