//! What the conductor does by the clock: comparing power states, looking for nodes that waited too long, and for BMCs
//! that have come back.
//!
//! A round begins one interval after the last one began, or at once if that one took longer.

use std::time::Duration;

use uuid::Uuid;
use wire::{Instant, Task};

use super::{Conductor, Stop, power::Purpose};
use crate::{
    database::NotFound,
    driver::{PowerChange, PowerState},
    failure::Failure,
    node::{Fault, Node},
    state::ProvisionState,
};

impl Conductor {
    /// Starts the rounds. They end with the host.
    pub(crate) fn start_rounds(&self) {
        let settings = &self.settings().conductor;
        self.every(settings.sync_power_state_interval, |conductor| async move {
            conductor.sync_power_states().await
        });
        self.every(settings.power_failure_recovery_interval, |conductor| async move {
            conductor.recover_from_power_failures().await;
        });
        self.every(settings.check_provision_state_interval, |conductor| async move {
            conductor.check_call_backs();
        });
        if !self.settings().pxe.boot_retry_timeout.is_zero() {
            self.every(self.settings().pxe.boot_retry_check_interval, |conductor| async move {
                conductor.check_network_boots();
            });
        }
    }

    fn every<F>(&self, interval: Duration, round: impl Fn(Self) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if interval.is_zero() {
            return;
        }
        let conductor = self.clone();
        drop(self.host().spawn(async move {
            let mut next = conductor.host().now() + interval;
            loop {
                conductor.host().sleep_until(next).await;
                next = next + interval;
                round(conductor.clone()).await;
                next = next.max(conductor.host().now());
            }
        }));
    }

    /// Compares all nodes' power with what is recorded, some nodes side by side.
    async fn sync_power_states(&self) {
        let mut nodes: Vec<Uuid> =
            self.database().nodes().iter().filter(|node| is_synced(node)).map(|n| n.uuid).collect();
        nodes.reverse();
        let queue = std::sync::Arc::new(std::sync::Mutex::new(nodes));
        let next = |queue: &std::sync::Mutex<Vec<Uuid>>| {
            queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop()
        };
        let workers = self.settings().conductor.sync_power_state_workers.max(1);
        let tasks: Vec<Task<()>> = (0..workers)
            .map(|_| {
                let (conductor, queue) = (self.clone(), std::sync::Arc::clone(&queue));
                self.host().spawn(async move {
                    while let Some(uuid) = next(&queue) {
                        match conductor.sync_power_state(uuid).await {
                            Ok(()) | Err(Stop::Failed { .. }) => {}
                            Err(Stop::Gone) => drop(conductor.sync_failures().remove(&uuid)),
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
    }

    async fn sync_power_state(&self, uuid: Uuid) -> Result<(), Stop> {
        let node = self.database().node(uuid)?;
        // Much may have happened since the round began.
        if !is_synced(&node) {
            return Ok(());
        }
        let target = self.target(&node);
        if node.power_state.is_none() && self.driver().validate(&target).is_err() {
            return Ok(());
        }
        let settings = &self.settings().conductor;
        let count = self.sync_failures().get(&uuid).copied().unwrap_or_default() + 1;
        let seen = self.driver().power_state(&target).await;
        let fresh = self.database().node(uuid)?;
        if !is_synced(&fresh) {
            return Ok(());
        }
        match (seen, node.power_state) {
            (Err(error), recorded) => {
                self.sync_failures().insert(uuid, count);
                if count > settings.power_state_sync_max_retries {
                    self.give_up_on_power(uuid, None, recorded, Some(&error.to_string()))?;
                }
            }
            (Ok(actual), None) => {
                self.sync_failures().remove(&uuid);
                self.change_locked(uuid, |node| node.power_state = Some(actual))?;
            }
            (Ok(actual), Some(recorded)) if actual == recorded => {
                self.sync_failures().remove(&uuid);
                // With a history, the texts are thought to be kept there.
                if settings.node_history && fresh.last_error.is_some() {
                    self.change_locked(uuid, |node| node.last_error = None)?;
                }
            }
            (Ok(actual), Some(recorded)) => {
                self.sync_failures().insert(uuid, count);
                if count > settings.power_state_sync_max_retries {
                    self.give_up_on_power(uuid, Some(actual), Some(recorded), None)?;
                } else if settings.force_power_state_during_sync && !fresh.disable_power_off {
                    self.drive_power_back(uuid, recorded).await?;
                } else {
                    self.sync_failures().remove(&uuid);
                    self.change_locked(uuid, |node| node.power_state = Some(actual))?;
                }
            }
        }
        Ok(())
    }

    async fn drive_power_back(&self, uuid: Uuid, recorded: PowerState) -> Result<(), Stop> {
        let Ok(lock) = self.lock_now(uuid) else { return Ok(()) };
        let change = match recorded {
            PowerState::On => PowerChange::On,
            PowerState::Off => PowerChange::Off,
        };
        let outcome = self.change_power(uuid, change, None).await;
        lock.release();
        outcome
    }

    /// Changes a node under its lock, unless another holds that.
    fn change_locked(&self, uuid: Uuid, edit: impl FnOnce(&mut Node)) -> Result<(), NotFound> {
        let Ok(lock) = self.lock_now(uuid) else { return Ok(()) };
        let outcome = self.change(uuid, edit);
        lock.release();
        outcome
    }

    /// Puts a node into maintenance whose power can't be told or does not obey.
    fn give_up_on_power(
        &self,
        uuid: Uuid,
        actual: Option<PowerState>,
        recorded: Option<PowerState>,
        error: Option<&str>,
    ) -> Result<(), NotFound> {
        let word = |state: Option<PowerState>| state.map_or("None", PowerState::as_str);
        let error = error.map(|error| format!(" Error: {error}")).unwrap_or_default();
        let text = format!(
            "During sync_power_state, max retries exceeded for node {uuid}, node state {actual} does not match expected \
             state '{recorded}'. Updating DB state to '{actual}' Switching node to maintenance mode.{error}",
            actual = word(actual),
            recorded = word(recorded),
        );
        self.sync_failures().remove(&uuid);
        self.remember(uuid, "monitoring", &text);
        self.change_locked(uuid, |node| {
            node.power_state = actual;
            node.last_error = Some(text.clone());
            node.maintenance = true;
            node.maintenance_reason = Some(text);
            node.fault = Some(Fault::Power);
        })
    }

    /// Takes nodes out of maintenance whose BMC answers again.
    async fn recover_from_power_failures(&self) {
        for node in self.database().nodes() {
            if !node.maintenance || node.fault != Some(Fault::Power) || node.reservation.is_some() {
                continue;
            }
            let Ok(actual) = self.driver().power_state(&self.target(&node)).await else { continue };
            let outcome = self.change_locked(node.uuid, |node| {
                // Somebody may have been faster.
                if node.fault == Some(Fault::Power) {
                    node.maintenance = false;
                    node.maintenance_reason = None;
                    node.fault = None;
                    node.power_state = Some(actual);
                }
            });
            if outcome.is_err() {
                tracing::debug!(node = %node.uuid, "the node went away");
            }
        }
    }

    /// Ends the waiting of nodes whose agent does not come. Nodes in maintenance wait for ever.
    fn check_call_backs(&self) {
        let settings = &self.settings().conductor;
        let now = self.host().now();
        for node in self.database().nodes() {
            let Some(waiting) = Waiting::of(node.provision_state) else { continue };
            let limit = match waiting {
                Waiting::Deployment => settings.deploy_callback_timeout,
                Waiting::Cleaning => settings.clean_callback_timeout,
                Waiting::Inspection => settings.inspect_wait_timeout,
            };
            if node.maintenance || node.reservation.is_some() || !is_over(&node, limit, now) {
                continue;
            }
            if let Err(failure) = self.time_out(node.uuid, waiting) {
                tracing::debug!(node = %node.uuid, %failure, "not timed out now");
            }
        }
    }

    fn time_out(&self, uuid: Uuid, waiting: Waiting) -> Result<(), Failure> {
        let (lock, conductor) = (self.lock_now(uuid)?, self.clone());
        match waiting {
            Waiting::Deployment => lock.start(conductor.time_deploying_out(uuid)),
            Waiting::Cleaning => lock.start(conductor.time_cleaning_out(uuid)),
            Waiting::Inspection => lock.start(conductor.time_inspection_out(uuid)),
        }
    }

    /// Boots machines again that were to boot the agent from the network and are not heard of.
    fn check_network_boots(&self) {
        let limit = self.settings().pxe.boot_retry_timeout;
        let now = self.host().now();
        for node in self.database().nodes() {
            let Some(waiting) = Waiting::of(node.provision_state) else { continue };
            let by_network = matches!(node.interfaces.boot.as_str(), "pxe" | "ipxe");
            // An agent that has its token is on its way.
            let silent = node.agent.token.is_none() && now.since(node.power_touched) > limit;
            if !by_network || !silent || node.maintenance {
                continue;
            }
            let Ok(lock) = self.lock_now(node.uuid) else { continue };
            let (conductor, uuid) = (self.clone(), node.uuid);
            let purpose = match waiting {
                Waiting::Inspection => Purpose::Inspection,
                Waiting::Deployment | Waiting::Cleaning => Purpose::Commands,
            };
            let started = lock.start(async move {
                match conductor.boot_agent(uuid, purpose).await {
                    // The callback timeout is what ends it.
                    Ok(()) | Err(Stop::Failed { .. }) => Ok(()),
                    Err(Stop::Gone) => Err(NotFound),
                }
            });
            if let Err(failure) = started {
                tracing::debug!(node = %node.uuid, %failure, "not booted again now");
            }
        }
    }
}

/// What a node waits for its agent to go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Deployment,
    Cleaning,
    Inspection,
}

impl Waiting {
    fn of(state: ProvisionState) -> Option<Self> {
        let table = [
            (ProvisionState::WaitCallBack, Self::Deployment),
            (ProvisionState::CleanWait, Self::Cleaning),
            (ProvisionState::InspectWait, Self::Inspection),
        ];
        table.into_iter().find(|(waits, _)| *waits == state).map(|(_, waiting)| waiting)
    }
}

fn is_over(node: &Node, limit: Duration, now: Instant) -> bool {
    !limit.is_zero() && now.since(node.provision_touched) > limit
}

/// Whether power sync looks at a node.
fn is_synced(node: &Node) -> bool {
    !node.maintenance
        && node.reservation.is_none()
        && node.target_power_state.is_none()
        && !node.provision_state.skips_power_sync()
}
