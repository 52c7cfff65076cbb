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

    fn fail_if_stuck(&self, uuid: uuid::Uuid, state: ProvisionState) -> Result<(), crate::database::NotFound> {
        if !state.is_stuck_after_restart() {
            return Ok(());
        }
        let text = format!(
            "The {state} state can't be resumed by conductor {}. Moving to fail state.",
            self.name()
        );
        self.remember(uuid, "provisioning", &text);
        self.advance(uuid, Event::Fail, |node| {
            node.last_error = Some(text);
            node.work = crate::node::Work::default();
        })
    }
}
