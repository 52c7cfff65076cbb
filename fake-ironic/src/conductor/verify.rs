//! `manage` from `enroll`: is there a BMC, and may we speak to it?

use uuid::Uuid;

use super::Conductor;
use crate::{database::NotFound, state::Event};

impl Conductor {
    /// Verifies a node in `verifying`. One failure puts it back to `enroll`; Ironic itself tries no second time.
    pub(super) async fn verify(self, uuid: Uuid) -> Result<(), NotFound> {
        let node = self.database().node(uuid)?;
        let target = self.target(&node);
        if let Err(error) = self.driver().validate(&target) {
            let text = format!("Failed to validate power driver interface for node {uuid}. Error: {error}");
            return self.fail(uuid, "verify", &text);
        }
        match self.driver().verify(&target).await {
            Ok(state) => self.advance(uuid, Event::Done, |node| node.power_state = Some(state)),
            Err(error) => {
                let text = format!("Failed to get power state for node {uuid}. Error: {error}");
                self.fail(uuid, "verify", &text)
            }
        }
    }
}
