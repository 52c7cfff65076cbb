//! Power changes, and booting what a piece of work needs.

use std::time::Duration;

use uuid::Uuid;
use wire::Instant;

use super::{Conductor, Stop};
use crate::{
    database::NotFound,
    driver::{PowerChange, PowerState},
    failure::Failure,
    node::Node,
};

/// How many random bytes make an agent's token: 43 letters in base 64.
const TOKEN_BYTES: usize = 32;

/// What an agent is booted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To report what the machine is made of.
    Inspection,
    /// To take commands.
    Commands,
}

impl Conductor {
    /// Changes a node's power in the background, as `PUT states/power` asks.
    pub(crate) async fn set_power(
        &self,
        uuid: Uuid,
        change: PowerChange,
        timeout: Option<Duration>,
    ) -> Result<(), Failure> {
        let lock = self.lock(uuid).await?;
        let begun = self.begin_power(uuid, change);
        let (worker, conductor) = match begun {
            Ok(worker) => (worker, self.clone()),
            Err(failure) => {
                lock.release();
                return Err(failure);
            }
        };
        lock.hand_over(worker, async move {
            match conductor.change_power(uuid, change, timeout).await {
                Ok(()) | Err(Stop::Failed { .. }) => Ok(()),
                Err(Stop::Gone) => Err(NotFound),
            }
        });
        Ok(())
    }

    fn begin_power(&self, uuid: Uuid, change: PowerChange) -> Result<super::Worker, Failure> {
        let node = self.database().node(uuid).map_err(|_| Failure::no_node(uuid))?;
        if node.provision_state.forbids_power_changes() {
            return Err(Failure::invalid(format!(
                "The requested action \"{change}\" can not be performed on node \"{uuid}\" while it is in state \"{}\".",
                node.provision_state
            )));
        }
        self.driver().validate(&self.target(&node)).map_err(|error| Failure::invalid(error.to_string()))?;
        let worker = self.worker()?;
        // Whoever asks next sees at once that a change is going on.
        self.change(uuid, |node| begin(node, change))?;
        Ok(worker)
    }

    /// Changes a node's power and records it. The caller holds the lock.
    pub(super) async fn change_power(
        &self,
        uuid: Uuid,
        change: PowerChange,
        timeout: Option<Duration>,
    ) -> Result<(), Stop> {
        let node = self.database().node(uuid)?;
        let (target, end) = (self.target(&node), change.result());
        let actual = match self.driver().power_state(&target).await {
            Ok(actual) => actual,
            Err(error) => {
                let text = format!("Failed to change power state to '{end}'. Error: {error}");
                self.change(uuid, |node| {
                    node.target_power_state = None;
                    node.last_error = Some(text);
                })?;
                return Err(error.into());
            }
        };
        let restarts = matches!(change, PowerChange::Reboot | PowerChange::SoftReboot);
        if actual == end && !restarts {
            self.change(uuid, |node| settle(node, end, None))?;
            return Ok(());
        }
        self.change(uuid, |node| begin(node, change))?;
        match self.driver().change_power(&target, change, timeout).await {
            Ok(reached) => {
                let clock = self.host().now();
                self.change(uuid, |node| {
                    settle(node, reached, Some(clock));
                    if restarts {
                        node.forget_agent();
                    }
                })?;
                Ok(())
            }
            Err(error) => {
                let text = format!("Failed to change power state to '{end}' by '{change}': {error}");
                self.change(uuid, |node| {
                    node.target_power_state = None;
                    node.last_error = Some(text);
                })?;
                Err(error.into())
            }
        }
    }

    /// Powers a node off, if it is not known to be off.
    pub(super) async fn power_off(&self, uuid: Uuid) -> Result<(), Stop> {
        self.change_power(uuid, PowerChange::Off, None).await
    }

    /// Boots the agent. The machine is off before that, whatever it was.
    pub(super) async fn boot_agent(&self, uuid: Uuid, purpose: Purpose) -> Result<(), Stop> {
        self.power_off(uuid).await?;
        let token = self.new_token(uuid);
        let node = self.change(uuid, |node| {
            node.forget_agent();
            // A disc that is ready to boot can't hold a token, nor can what everybody may fetch over TFTP.
            let ready_made = node.driver_info.get("deploy_iso").is_some_and(|iso| iso.as_str() != Some(""));
            if node.boots_from_virtual_media() && !ready_made {
                node.agent.token = Some(token);
                node.agent.token_pregenerated = true;
            }
            node.target_power_state = Some(PowerState::On);
            node.clone()
        })?;
        let api = format!("http://{}:{}", self.host().name(), crate::server::API_PORT);
        let mut parameters = std::collections::BTreeMap::from([("ipa-api-url".to_owned(), api.clone())]);
        if let (Some(token), true) = (&node.agent.token, node.agent.token_pregenerated) {
            parameters.insert("ipa-agent-token".to_owned(), token.clone());
        }
        if purpose == Purpose::Inspection {
            parameters
                .insert("ipa-inspection-callback-url".to_owned(), format!("{api}/v1/continue_inspection"));
            parameters.insert("ipa-inspection-collectors".to_owned(), "default,logs".to_owned());
        }
        match self.driver().boot_ramdisk(&self.target(&node), &parameters).await {
            Ok(()) => {
                let clock = self.host().now();
                self.change(uuid, |node| settle(node, PowerState::On, Some(clock)))?;
                Ok(())
            }
            Err(error) => {
                self.change(uuid, |node| node.target_power_state = None)?;
                Err(error.into())
            }
        }
    }

    /// Takes the agent off a machine again: powers it off and ejects what it booted from.
    pub(super) async fn take_agent_down(&self, uuid: Uuid) -> Result<(), Stop> {
        self.power_off(uuid).await?;
        self.eject_agent(uuid).await
    }

    /// Ejects what the agent booted from.
    pub(super) async fn eject_agent(&self, uuid: Uuid) -> Result<(), Stop> {
        let node = self.database().node(uuid)?;
        self.driver().clean_up_ramdisk(&self.target(&node)).await?;
        Ok(())
    }

    /// A new agent token.
    pub(super) fn new_token(&self, uuid: Uuid) -> String {
        use base64::Engine as _;
        use rand::Rng as _;
        // Each token of a node comes from a stream of its own.
        let purpose = format!("agent token {uuid} {}", self.host().uuid("agent token"));
        let mut bytes = [0; TOKEN_BYTES];
        self.host().dice(&purpose).fill_bytes(&mut bytes);
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
    }
}

/// A power change begins: the old error is of no interest any more, unless it is why the node failed.
fn begin(node: &mut Node, change: PowerChange) {
    node.target_power_state = Some(change.result());
    if !node.provision_state.is_failure() {
        node.last_error = None;
    }
}

/// A power state is reached, by a change at this moment if there was one.
fn settle(node: &mut Node, reached: PowerState, changed: Option<Instant>) {
    node.power_state = Some(reached);
    node.power_touched = changed.unwrap_or(node.power_touched);
    node.target_power_state = None;
    if reached == PowerState::Off {
        node.forget_agent();
    }
}
