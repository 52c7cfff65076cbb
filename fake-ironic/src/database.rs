//! What survives a crash of Ironic, until the world loses it: nodes, ports, inventories and histories.
//!
//! A [`Database`] is a handle; all its clones are the same database. Each access is one transaction. With metal3's
//! defaults the real one is an SQLite file in the pod, so rescheduling the pod loses it: [`Database::lose`].

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use uuid::Uuid;

use crate::node::{HistoryEntry, Node, Port};

/// A handle to the database of one Ironic.
#[derive(Clone, Default)]
pub struct Database(Arc<Mutex<Tables>>);

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Nodes hold passwords and tokens.
        f.debug_struct("Database").field("nodes", &self.tables().nodes.len()).finish_non_exhaustive()
    }
}

/// The tables. Nodes are kept in the order of their numbers, as a listing without `sort_key` gives them.
#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) nodes: BTreeMap<u64, Node>,
    pub(crate) ports: BTreeMap<u64, Port>,
    pub(crate) inventories: BTreeMap<Uuid, Value>,
    pub(crate) histories: BTreeMap<Uuid, Vec<HistoryEntry>>,
    last_id: u64,
}

/// The database knows no such thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("find it in the database")]
pub(crate) struct NotFound;

impl Database {
    /// An empty database.
    pub fn new() -> Self {
        Self::default()
    }

    /// Loses everything, as when the file is gone. What Ironic has begun goes on until it needs what is lost.
    pub fn lose(&self) {
        *self.tables() = Tables::default();
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.tables().nodes.len()
    }

    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of a node.
    pub(crate) fn node(&self, uuid: Uuid) -> Result<Node, NotFound> {
        self.tables().node(uuid).cloned()
    }

    /// Copies of all nodes, in the order of their numbers.
    pub(crate) fn nodes(&self) -> Vec<Node> {
        self.tables().nodes.values().cloned().collect()
    }

    /// The MAC addresses of a node's ports that boot from the network.
    pub(crate) fn boot_macs(&self, node: Uuid) -> Vec<String> {
        let tables = self.tables();
        tables.ports_of(node).filter(|port| port.pxe_enabled).map(|port| port.address.clone()).collect()
    }
}

impl Tables {
    /// The next number.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn node(&self, uuid: Uuid) -> Result<&Node, NotFound> {
        self.nodes.values().find(|node| node.uuid == uuid).ok_or(NotFound)
    }

    pub(crate) fn node_mut(&mut self, uuid: Uuid) -> Result<&mut Node, NotFound> {
        self.nodes.values_mut().find(|node| node.uuid == uuid).ok_or(NotFound)
    }

    /// The node with this UUID or name.
    pub(crate) fn find_node(&self, ident: &str) -> Result<&Node, NotFound> {
        let uuid: Option<Uuid> = ident.parse().ok();
        let by_name = |node: &&Node| node.name.as_deref() == Some(ident);
        self.nodes.values().find(|node| Some(node.uuid) == uuid || by_name(node)).ok_or(NotFound)
    }

    pub(crate) fn ports_of(&self, node: Uuid) -> impl Iterator<Item = &Port> {
        self.ports.values().filter(move |port| port.node == node)
    }

    /// The port with this UUID or name.
    pub(crate) fn find_port(&self, ident: &str) -> Result<&Port, NotFound> {
        let uuid: Option<Uuid> = ident.parse().ok();
        let by_name = |port: &&Port| port.name.as_deref() == Some(ident);
        self.ports.values().find(|port| Some(port.uuid) == uuid || by_name(port)).ok_or(NotFound)
    }

    /// Removes a node with all that belongs to it.
    pub(crate) fn remove_node(&mut self, uuid: Uuid) {
        self.nodes.retain(|_, node| node.uuid != uuid);
        self.ports.retain(|_, port| port.node != uuid);
        self.inventories.remove(&uuid);
        self.histories.remove(&uuid);
    }
}
