//! A Kubernetes API server, as far as an operator, kubectl and kube-rs need one.
//!
//! ```text
//! server   HTTP, faults             ── one loop on a wire::Host
//! cluster  verbs on a store         ── plain values: a call and a moment in, a reply out
//! store    objects and history
//! ```
//!
//! Resources are core Namespaces, Secrets, ConfigMaps and Events, Leases, and whatever CustomResourceDefinitions define;
//! those of metal3.io are there from the beginning (`crds/`). There is no scheduler, no kubelet and no authentication:
//! whoever reaches the port is the administrator.
//!
//! [`KubeApi`] is the handle. What it holds is what etcd would: it outlives a crash of the host that serves it.

mod apply;
mod cluster;
mod definitions;
mod discovery;
mod fault;
mod journal;
mod jsonpath;
mod kinds;
mod object;
mod openapi;
mod patch;
mod protobuf;
mod request;
mod resource;
mod schema;
mod selector;
mod server;
mod status;
mod store;
mod table;
mod watch;

use std::{
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::Router;
use serde_json::{Value, json};
use tokio::sync::Notify;
use wire::{Host, Task};

pub use fault::{Fault, FaultId, Matching};
pub use request::Verb;
pub use table::Table;

use cluster::Cluster;
use fault::Faults;
use store::{Change, Key, Moment};

/// Where an API server listens. Plain HTTP here.
pub const PORT: u16 = 6443;

/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// A Kubernetes API: its objects, its history, its faults. Clones are the same one.
#[derive(Clone)]
pub struct KubeApi(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Told when an object or the set of faults changes.
    changed: Notify,
}

struct State {
    cluster: Cluster,
    faults: Faults,
    /// How often a fault has begun.
    fault_count: u64,
}

impl fmt::Debug for KubeApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeApi").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

impl Default for KubeApi {
    fn default() -> Self {
        Self::new()
    }
}

impl KubeApi {
    /// An API without any objects; the ones that are always there are made when it is served first.
    pub fn new() -> Self {
        let state = State { cluster: Cluster::new(), faults: Faults::default(), fault_count: 0 };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Notify::new() }))
    }

    /// Serves on [`PORT`] for as long as the host lives. The task ends only if the port cannot be had; dropping it lets
    /// it go on. After a crash of the host serve again: objects and revisions are kept, the history for watches is not,
    /// as in a restarted API server.
    pub fn serve(&self, host: Host) -> Task<io::Result<()>> {
        self.serve_at(host, PORT)
    }

    /// Serves on another port.
    pub fn serve_at(&self, host: Host, port: u16) -> Task<io::Result<()>> {
        self.start(&host);
        let server = server::Server { api: self.clone(), host: host.clone() };
        let app = Router::new().fallback(server::handle).with_state(server);
        host.clone().spawn(async move { wire::http::serve(&host, port, app).await })
    }

    /// Makes what is always there, or forgets what a restart forgets.
    fn start(&self, host: &Host) {
        let now = host.date();
        let mut state = self.state();
        if state.cluster.store.revision() > 0 {
            state.cluster.store.forget_history();
            return;
        }
        let seeds =
            NAMESPACES
                .iter()
                .map(|name| ("", "v1", "namespaces", json!({ "metadata": { "name": name } })))
                .chain(definitions::metal3().into_iter().map(|definition| {
                    ("apiextensions.k8s.io", "v1", "customresourcedefinitions", definition)
                }));
        for (group, version, plural, object) in seeds {
            let resource = state
                .cluster
                .registry
                .get(group, version, plural)
                .unwrap_or_else(|| unreachable!("{plural} are built in"));
            let moment = Moment { now, uid: host.uuid("kube object") };
            state
                .cluster
                .seed(&resource, object, moment)
                .unwrap_or_else(|error| unreachable!("our own {plural} are valid: {error}"));
        }
        let changes = state.cluster.take_changes();
        drop(state);
        self.tell(host, &changes);
    }

    /// The revision of the latest change of any object.
    pub fn revision(&self) -> u64 {
        self.state().cluster.store.revision()
    }

    /// An object as clients get it. `resource` is a plural, singular or short name, e.g. `bmh`; the namespace of things
    /// without one is "". For reading only: whoever acts in a world acts over its network.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let state = self.state();
        let resource = state.cluster.registry.called(resource)?;
        let stored = state.cluster.store.get(&Key::of(&resource, namespace, name))?;
        Some(resource.show(stored))
    }

    /// All objects of a resource, of one namespace or (empty) of all, by namespace and name.
    pub fn list(&self, resource: &str, namespace: &str) -> Vec<Value> {
        let state = self.state();
        let Some(resource) = state.cluster.registry.called(resource) else { return Vec::new() };
        let stored_as = resource.stored_as();
        state.cluster.store.list(&stored_as, namespace).map(|(_, stored)| resource.show(stored)).collect()
    }

    /// What `kubectl get RESOURCE` prints at a time; `None` if there is no such resource.
    pub fn table(&self, resource: &str, namespace: &str, now: jiff::Timestamp) -> Option<Table> {
        let state = self.state();
        let resource = state.cluster.registry.called(resource)?;
        let stored_as = resource.stored_as();
        let objects: Vec<&Value> =
            state.cluster.store.list(&stored_as, namespace).map(|(_, stored)| &**stored).collect();
        Some(Table::of(&resource, &objects, now))
    }

    /// Begins a fault.
    pub fn begin(&self, fault: Fault) -> FaultId {
        let mut state = self.state();
        state.fault_count += 1;
        let id = state.faults.begin(fault);
        drop(state);
        self.0.changed.notify_waiters();
        id
    }

    /// Ends a fault, and says how many requests or watch events it has touched; `None` if it had ended before.
    /// Requests that it stalled stay without an answer.
    pub fn end(&self, id: FaultId) -> Option<u64> {
        self.state().faults.end(id)
    }

    /// How many requests or watch events a fault has touched so far; `None` if it has ended.
    pub fn touched(&self, id: FaultId) -> Option<u64> {
        self.state().faults.touched(id)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) -> &Notify {
        &self.0.changed
    }

    /// Notes changes and wakes the watchers.
    fn tell(&self, host: &Host, changes: &[Change]) {
        for change in changes {
            let (subject, data) = journal::entry(change);
            host.note("kube", &subject, data);
        }
        if !changes.is_empty() {
            self.0.changed.notify_waiters();
        }
    }

    /// A number from 0 to 1 that differs from watch to watch.
    fn spread(&self, host: &Host) -> f64 {
        f64::from(host.uuid("kube watch").as_fields().0) / f64::from(u32::MAX)
    }
}
