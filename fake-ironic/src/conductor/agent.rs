//! What agents ask and tell: which node am I, and I am alive.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::Conductor;
use crate::{database::NotFound, failure::Failure, node::Node, state::ProvisionState};

/// The answer to an agent's look-up.
pub(crate) struct Lookup {
    /// The node that the agent runs on.
    pub(crate) node: Node,
    /// The agent's token, if it is to be told now.
    pub(crate) token: Option<String>,
}

impl Conductor {
    /// Finds the node with one of these MAC addresses or this UUID, if its state lets agents look it up. Whoever looks
    /// a node up first gets its token; nobody gets it again.
    pub(crate) fn look_up(&self, addresses: &[String], uuid: Option<Uuid>) -> Result<Lookup, Failure> {
        let node = {
            let tables = self.database().tables();
            let by_port = || {
                let ports = tables.ports.values().filter(|port| addresses.contains(&port.address));
                let owners: BTreeSet<Uuid> = ports.map(|port| port.node).collect();
                // Two machines can't be one.
                owners.first().copied().filter(|_| owners.len() == 1)
            };
            let uuid = uuid.or_else(by_port).ok_or_else(Failure::no_resource)?;
            tables.node(uuid).map_err(|_| Failure::no_resource())?.clone()
        };
        if !node.provision_state.allows_lookup() {
            return Err(Failure::no_resource());
        }
        if node.agent.token.is_some() {
            return Ok(Lookup { node, token: None });
        }
        let lock = self.lock_now(node.uuid)?;
        let token = self.new_token(node.uuid);
        let changed = self.change(node.uuid, |node| {
            node.agent.token = Some(token.clone());
            node.clone()
        });
        lock.release();
        Ok(Lookup { node: changed?, token: Some(token) })
    }

    /// Takes a heartbeat. What it leads to happens in the background; while the node is locked it leads to nothing.
    pub(crate) fn heartbeat(
        &self,
        uuid: Uuid,
        callback_url: String,
        token: &str,
        version: Option<String>,
    ) -> Result<(), Failure> {
        let node = self.database().node(uuid).map_err(|_| Failure::no_node(uuid))?;
        if node.agent.token.as_deref() != Some(token) {
            return Err(Failure::invalid("Invalid or missing agent token received."));
        }
        if self.settings().agent.require_tls && !callback_url.starts_with("https://") {
            return Err(Failure::invalid("TLS is required by configuration"));
        }
        let lock = match self.lock_now(uuid) {
            Ok(lock) => lock,
            // An agent that is known already is not told that its heartbeat is dropped.
            Err(_) if node.agent.url.is_some() => return Ok(()),
            Err(failure) => return Err(failure),
        };
        lock.start(self.clone().process_heartbeat(uuid, callback_url, version))
    }

    async fn process_heartbeat(
        self,
        uuid: Uuid,
        callback_url: String,
        version: Option<String>,
    ) -> Result<(), NotFound> {
        let (now, clock) = (self.host().date(), self.host().now());
        let node = self.change(uuid, |node| {
            node.agent.url = Some(callback_url);
            node.agent.version = version;
            node.agent.last_heartbeat = Some(now);
            // The agent lives, so its time starts anew.
            node.provision_updated_at = Some(now);
            node.provision_touched = clock;
            node.clone()
        })?;
        if node.maintenance {
            return Ok(());
        }
        use ProvisionState as S;
        match node.provision_state {
            S::WaitCallBack => self.continue_deploying(uuid).await,
            S::CleanWait => self.continue_cleaning(uuid).await,
            S::Enroll
            | S::Verifying
            | S::Manageable
            | S::Inspecting
            | S::InspectWait
            | S::InspectFailed
            | S::Cleaning
            | S::CleanHold
            | S::CleanFailed
            | S::Available
            | S::Deploying
            | S::DeployHold
            | S::DeployFailed
            | S::Active
            | S::Deleting
            | S::Error
            | S::Adopting
            | S::AdoptFailed
            | S::Rescuing
            | S::RescueWait
            | S::Rescue
            | S::RescueFailed
            | S::Unrescuing
            | S::UnrescueFailed
            | S::Servicing
            | S::ServiceWait
            | S::ServiceHold
            | S::ServiceFailed => Ok(()),
        }
    }
}
