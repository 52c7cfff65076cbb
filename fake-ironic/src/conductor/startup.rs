//! What a conductor does when it starts: it ends what its predecessor left.
//!
//! Work that the conductor did itself can't be resumed and fails. Work that waits for an agent goes on with the agent's
//! next heartbeat. A lock under another host's name stays, because nobody knows whether that host is gone.

use super::Conductor;
use crate::state::{Event, ProvisionState};

impl Conductor {
    /// Cleans up before anything is served.
    pub(crate) fn start_up(&self) {
        for node in self.database().nodes() {
            let ours = node.reservation.as_deref() == Some(self.name());
            if node.reservation.is_some() && !ours {
                continue;
            }
            let outcome = self.change(node.uuid, |node| {
                node.reservation = None;
                if ours && node.target_power_state.take().is_some() {
                    node.last_error =
                        Some("Pending power operation was aborted due to conductor restart".to_owned());
                }
            });
            let outcome = outcome.and_then(|()| self.fail_if_stuck(node.uuid, node.provision_state));
            if outcome.is_err() {
                tracing::debug!(node = %node.uuid, "the node went away");
            }
        }
    }

    fn fail_if_stuck(
        &self,
        uuid: uuid::Uuid,
        state: ProvisionState,
    ) -> Result<(), crate::database::NotFound> {
        if !state.is_stuck_after_restart() {
            return Ok(());
        }
        let text =
            format!("The {state} state can't be resumed by conductor {}. Moving to fail state.", self.name());
        self.remember(uuid, "provisioning", &text);
        self.advance(uuid, Event::Fail, |node| {
            node.last_error = Some(text);
            node.work = crate::node::Work::default();
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wire::Seed;

    use super::*;
    use crate::{
        Database, Faults, Settings, driver::PowerState, hardware::HardwareType, node::Node,
        state::ProvisionState as S,
    };

    /// What a restarted Ironic 39.0.0 made of a node in a state, with a pending power change, whose lock was held by
    /// this conductor, by another, or by nobody.
    #[test]
    fn a_restart_as_a_real_one_was_seen_to_be() {
        const POWER: &str = "Pending power operation was aborted due to conductor restart";
        engine::simulate(Seed(1), |net| async move {
            let settings = Arc::new(Settings { host: Some("here".to_owned()), ..Settings::default() });
            let database = Database::new();
            let conductor = Conductor::new(net.host("ironic"), settings, database.clone(), Faults::default());
            let ends = |state: S| match state {
                S::Verifying => S::Enroll,
                S::Inspecting => S::InspectFailed,
                S::Cleaning => S::CleanFailed,
                S::Deploying => S::DeployFailed,
                S::Deleting => S::Error,
                S::Adopting => S::AdoptFailed,
                S::Rescuing => S::RescueFailed,
                S::Unrescuing => S::UnrescueFailed,
                S::Servicing => S::ServiceFailed,
                other => other,
            };
            for state in S::ALL.iter().copied() {
                for holder in [Some("here"), Some("elsewhere"), None] {
                    let uuid = conductor.host().uuid("node");
                    let mut node = Node::new(uuid, HardwareType::Redfish, conductor.host().date());
                    node.provision_state = state;
                    node.target_provision_state = state.target();
                    node.target_power_state = Some(PowerState::On);
                    node.reservation = holder.map(ToOwned::to_owned);
                    let id = database.tables().next_id();
                    database.tables().nodes.insert(id, node);
                    conductor.start_up();

                    let node = database.node(uuid).expect("the node is there");
                    let seen = (
                        node.provision_state,
                        node.reservation.as_deref(),
                        node.target_power_state,
                        node.last_error,
                    );
                    let stuck = format!(
                        "The {state} state can't be resumed by conductor here. Moving to fail state."
                    );
                    let stuck = (ends(state) != state).then_some(stuck);
                    let wanted = match holder {
                        Some("here") => (ends(state), None, None, stuck.or(Some(POWER.to_owned()))),
                        Some(other) => (state, Some(other), Some(PowerState::On), None),
                        None => (ends(state), None, Some(PowerState::On), stuck),
                    };
                    assert_eq!(seen, wanted, "{state}, held by {holder:?}");
                    assert!(!node.maintenance);
                }
            }
        });
    }
}
