//! The conductor: does the work on nodes, in the background, one piece of work per node at a time.
//!
//! This module holds what all work needs: the exclusive lock, changes to a node that the journal hears of, and workers.
//! The work itself is in the modules below. All of it may end at any waiting point because Ironic crashes; what the
//! database then says is what the next start finds, a held lock included.

mod adopt;
mod agent;
mod clean;
mod deploy;
mod inspect;
mod periodic;
mod power;
mod provision;
mod startup;
mod validate;
mod verify;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::json;
use uuid::Uuid;
use wire::Host;

pub(crate) use self::{agent::Lookup, provision::ProvisionRequest};
use crate::{
    agent_client::AgentClient,
    database::{Database, NotFound},
    driver::{Driver, PowerState, Target},
    failure::Failure,
    fault::Faults,
    images::Images,
    node::{HistoryEntry, Node},
    settings::Settings,
    state::{Event, ProvisionState},
};

/// The host that holds a lock under the fault [`LockHeld`](crate::fault::Fault::LockHeld).
const LOST_CONDUCTOR: &str = "lost-conductor";

/// A conductor. Cheap to clone; all clones are the same one.
#[derive(Clone)]
pub(crate) struct Conductor(Arc<Inner>);

struct Inner {
    host: Host,
    name: String,
    started_at: jiff::Timestamp,
    settings: Arc<Settings>,
    database: Database,
    faults: Faults,
    driver: Driver,
    images: Images,
    agents: AgentClient,
    workers: AtomicUsize,
    /// How often in a row power sync failed, by node. Lost on restart.
    sync_failures: Mutex<BTreeMap<Uuid, u32>>,
}

/// Why work on a node stopped early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The node is no more, so that nobody needs to be told.
    Gone,
    /// The work failed; this is what Ironic says.
    Failed {
        text: String,
        /// Whether the real Ironic has no exception of its own for it, which changes some texts.
        unexpected: bool,
    },
}

impl Stop {
    fn failed(text: impl Into<String>) -> Self {
        Self::Failed { text: text.into(), unexpected: false }
    }
}

impl From<NotFound> for Stop {
    fn from(NotFound: NotFound) -> Self {
        Self::Gone
    }
}

impl From<crate::driver::DriverError> for Stop {
    fn from(error: crate::driver::DriverError) -> Self {
        use crate::driver::DriverError as E;
        let unexpected = match &error {
            E::Sushy(_) | E::TimedOut { .. } => true,
            E::Invalid(_)
            | E::RedfishConnection { .. }
            | E::Redfish(_)
            | E::Ipmi { .. }
            | E::PowerState(_)
            | E::Image(_) => false,
        };
        Self::Failed { text: error.to_string(), unexpected }
    }
}

impl From<crate::agent_client::AgentError> for Stop {
    fn from(error: crate::agent_client::AgentError) -> Self {
        Self::failed(error.to_string())
    }
}

impl Conductor {
    pub(crate) fn new(host: Host, settings: Arc<Settings>, database: Database, faults: Faults) -> Self {
        Self(Arc::new(Inner {
            name: settings.host.clone().unwrap_or_else(|| host.name().to_owned()),
            started_at: host.date(),
            driver: Driver::new(host.clone(), Arc::clone(&settings)),
            images: Images::new(host.clone(), Arc::clone(&settings)),
            agents: AgentClient::new(host.clone(), Arc::clone(&settings)),
            workers: AtomicUsize::new(0),
            sync_failures: Mutex::default(),
            host,
            settings,
            database,
            faults,
        }))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// When this conductor started.
    pub(crate) fn started_at(&self) -> jiff::Timestamp {
        self.0.started_at
    }

    pub(crate) fn host(&self) -> &Host {
        &self.0.host
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn database(&self) -> &Database {
        &self.0.database
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.0.faults
    }

    pub(crate) fn driver(&self) -> &Driver {
        &self.0.driver
    }

    fn images(&self) -> &Images {
        &self.0.images
    }

    fn agents(&self) -> &AgentClient {
        &self.0.agents
    }

    fn sync_failures(&self) -> MutexGuard<'_, BTreeMap<Uuid, u32>> {
        self.0.sync_failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the drivers need to know of a node.
    pub(crate) fn target(&self, node: &Node) -> Target {
        node.target(self.database().boot_macs(node.uuid))
    }

    /// Changes a node. What a client could see of it goes to the journal.
    pub(crate) fn change<T>(&self, uuid: Uuid, edit: impl FnOnce(&mut Node) -> T) -> Result<T, NotFound> {
        let now = self.host().date();
        let mut tables = self.database().tables();
        let node = tables.node_mut(uuid)?;
        let before = Seen::of(node);
        let value = edit(node);
        node.updated_at = Some(now);
        let after = Seen::of(node);
        let label = node.label();
        drop(tables);
        if before != after {
            after.note(self.host(), &label);
        }
        Ok(value)
    }

    /// Removes a node.
    pub(crate) fn remove(&self, node: &Node) {
        self.database().tables().remove_node(node.uuid);
        self.host().note("node", &node.label(), json!({ "event": "deleted" }));
    }

    /// Notes a node that is new.
    pub(crate) fn note_new(&self, node: &Node) {
        Seen::of(node).note(self.host(), &node.label());
    }

    /// Moves a node by an event, and edits it in the same transaction.
    fn advance(&self, uuid: Uuid, event: Event, edit: impl FnOnce(&mut Node)) -> Result<(), NotFound> {
        let (now, clock) = (self.host().date(), self.host().now());
        self.change(uuid, |node| {
            match node.provision_state.after(event) {
                Some(next) => node.enter(next, now, clock),
                None => tracing::warn!(node = %node.uuid, state = %node.provision_state, ?event, "no such transition"),
            }
            edit(node);
        })
    }

    /// Moves a node to a failed state and says why, also in its history.
    fn fail(&self, uuid: Uuid, event_type: &'static str, text: &str) -> Result<(), NotFound> {
        self.remember(uuid, event_type, text);
        self.advance(uuid, Event::Fail, |node| node.last_error = Some(text.to_owned()))
    }

    /// Adds a line to a node's history, if that is kept.
    fn remember(&self, uuid: Uuid, event_type: &'static str, text: &str) {
        if self.settings().conductor.node_history {
            let entry = HistoryEntry {
                uuid: self.host().uuid("history"),
                created_at: self.host().date(),
                event_type,
                event: text.to_owned(),
                conductor: self.name().to_owned(),
            };
            self.database().tables().histories.entry(uuid).or_default().push(entry);
        }
    }

    /// Who holds a node's lock.
    pub(crate) fn holder(&self, node: &Node) -> Option<String> {
        let lost = self.faults().holds_lock(&node.label(), false).then(|| LOST_CONDUCTOR.to_owned());
        node.reservation.clone().or(lost)
    }

    /// Takes a node's exclusive lock; tries again a few times, as Ironic does, while another holds it.
    pub(crate) async fn lock(&self, uuid: Uuid) -> Result<Lock, Failure> {
        let settings = &self.settings().conductor;
        for _ in 1..settings.node_locked_retry_attempts {
            match self.lock_now(uuid) {
                Err(failure) if failure.status == http::StatusCode::CONFLICT => {}
                outcome => return outcome,
            }
            self.host().sleep(settings.node_locked_retry_interval).await;
        }
        self.lock_now(uuid)
    }

    /// Takes a node's exclusive lock, or fails at once.
    pub(crate) fn lock_now(&self, uuid: Uuid) -> Result<Lock, Failure> {
        let mut tables = self.database().tables();
        let node = tables.node_mut(uuid).map_err(|_| Failure::no_node(uuid))?;
        if let Some(holder) = &node.reservation {
            return Err(Failure::locked(uuid, holder));
        }
        if self.faults().holds_lock(&node.label(), true) {
            return Err(Failure::locked(uuid, LOST_CONDUCTOR));
        }
        node.reservation = Some(self.name().to_owned());
        Ok(Lock { conductor: self.clone(), node: uuid })
    }

    /// Takes one of the background workers.
    pub(crate) fn worker(&self) -> Result<Worker, Failure> {
        let limit = self.settings().conductor.workers_pool_size;
        if self.0.workers.fetch_add(1, Ordering::Relaxed) >= limit {
            self.0.workers.fetch_sub(1, Ordering::Relaxed);
            return Err(Failure::no_free_worker());
        }
        Ok(Worker(self.clone()))
    }
}

/// What the journal hears of a node.
#[derive(Clone, PartialEq)]
struct Seen {
    provision_state: ProvisionState,
    target: Option<ProvisionState>,
    power_state: Option<&'static str>,
    last_error: Option<String>,
    maintenance: bool,
    fault: Option<crate::node::Fault>,
}

impl Seen {
    fn of(node: &Node) -> Self {
        Self {
            provision_state: node.provision_state,
            target: node.target_provision_state,
            power_state: node.power_state.map(PowerState::as_str),
            last_error: node.last_error.clone(),
            maintenance: node.maintenance,
            fault: node.fault,
        }
    }

    fn note(&self, host: &Host, label: &str) {
        let data = json!({
            "provision_state": self.provision_state,
            "target": self.target,
            "power_state": self.power_state,
            "last_error": self.last_error,
            "maintenance": self.maintenance,
            "fault": self.fault,
        });
        host.note("node", label, data);
    }
}

/// A node's exclusive lock. It is not given back by being dropped: a conductor that dies keeps it.
#[must_use = "a lock that is not released is held for ever"]
pub(crate) struct Lock {
    conductor: Conductor,
    node: Uuid,
}

impl Lock {
    /// Gives the lock back.
    pub(crate) fn release(self) {
        // Without the node there is no lock.
        let _ = self.conductor.database().tables().node_mut(self.node).map(|node| node.reservation = None);
    }

    /// Runs work in the background with a worker of its own; without one, gives the lock back at once.
    pub(crate) fn start(
        self,
        work: impl Future<Output = Result<(), NotFound>> + Send + 'static,
    ) -> Result<(), Failure> {
        match self.conductor.worker() {
            Ok(worker) => {
                self.hand_over(worker, work);
                Ok(())
            }
            Err(failure) => {
                self.release();
                Err(failure)
            }
        }
    }

    /// Runs work in the background and gives the lock back when it has ended.
    pub(crate) fn hand_over(
        self,
        worker: Worker,
        work: impl Future<Output = Result<(), NotFound>> + Send + 'static,
    ) {
        let host = self.conductor.host().clone();
        drop(host.spawn(async move {
            if work.await.is_err() {
                tracing::debug!(node = %self.node, "the node went away while it was worked on");
            }
            self.release();
            drop(worker);
        }));
    }
}

/// One of the conductor's background workers, taken.
pub(crate) struct Worker(Conductor);

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.0.workers.fetch_sub(1, Ordering::Relaxed);
    }
}
