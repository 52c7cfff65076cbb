//! `adopt`: take a machine that already runs its operating system for deployed.

use uuid::Uuid;

use super::{Conductor, Stop};
use crate::{database::NotFound, node::Node, state::Event};

impl Conductor {
    /// Adopts a node in `adopting`.
    pub(super) async fn adopt(self, uuid: Uuid) -> Result<(), NotFound> {
        match self.try_to_adopt(uuid).await {
            Ok(()) => self.advance(uuid, Event::Done, |_| {}),
            Err(Stop::Gone) => Err(NotFound),
            Err(Stop::Failed { text, .. }) => {
                let text = format!("Error while attempting to adopt node {uuid}: {text}.");
                // What was known of the power is not to be trusted either.
                self.change(uuid, |node| node.power_state = None)?;
                self.fail(uuid, "adoption", &text)
            }
        }
    }

    async fn try_to_adopt(&self, uuid: Uuid) -> Result<(), Stop> {
        let node = self.database().node(uuid)?;
        let target = self.target(&node);
        self.driver().validate(&target)?;
        if node.instance_info.get("image_source").is_some_and(|source| source.is_string()) {
            self.look_at_image(&node).await?;
        }
        self.driver().adopt(&target).await?;
        Ok(())
    }

    /// Ironic asks for the image's head to learn of what kind it is. Before 20.0.0 it also gave up on a machine that
    /// needs no image any more, when the image could not be had.
    async fn look_at_image(&self, node: &Node) -> Result<(), Stop> {
        let image = self.images().validate(&node.instance_info).await;
        match image {
            Ok(_) => Ok(()),
            Err(error) if self.settings().release.validate_image_on_adopt => {
                Err(Stop::failed(error.to_string()))
            }
            Err(error) => {
                tracing::debug!(node = %node.uuid, %error, "adopted all the same");
                Ok(())
            }
        }
    }
}
