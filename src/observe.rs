//! What one pass may know.
//!
//! [`Observation`] begins with what is at hand: the host, the time, a number for jitter. Everything else is a fact
//! that costs a request, and is looked up only when the decision asks for it: [`crate::decide`] says which fact it
//! lacks, `Outside::learn` finds it out, and the decision is made again. So requests come in upstream's order,
//! and a decision never rests on something that was not looked at.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use crate::{
    bmh::{BareMetalHost, HardwareData},
    ironic::Microversion,
    options::Options,
    provisioner::{Node, Port, Validation},
};

mod outside;

pub use outside::{LookupError, Outside};

/// All that one pass knows. A fact that was not asked for is `None`.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The host, as last read or written.
    pub host: BareMetalHost,
    /// What an earlier inspection found.
    pub hardware_data: Option<HardwareData>,
    /// The calendar time.
    pub now: Timestamp,
    /// A number from 0 up to 1, drawn for this pass.
    pub jitter: f64,
    /// What the operator was told when it started.
    pub options: Arc<Options>,
    /// What was looked up.
    pub facts: Facts,
}

/// What was looked up so far.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The Secret with the BMC's credentials; `Some(None)` if there is none.
    pub secret: Option<Option<Secret>>,
    /// Whether Ironic can work, and in which version.
    pub ironic: Option<IronicFound>,
    /// The host's node.
    pub node: Option<NodeFound>,
    /// The node's ports.
    pub ports: Option<Vec<Port>>,
    /// For MAC addresses that the node lacks: the node that has them, if any.
    pub port_owners: Option<BTreeMap<String, Option<String>>>,
    /// The inventory of the last inspection; `Some(None)` if there is none.
    pub inventory: Option<Option<Value>>,
    /// All nodes of Ironic, with what tells how busy it is.
    pub nodes: Option<Vec<Node>>,
    /// What Ironic says about deploying the node.
    pub validation: Option<Validation>,
    /// The Secrets with user, network and meta data, by name. `None` if there is none.
    pub user_secrets: Option<BTreeMap<String, Option<Secret>>>,
}

/// Whether Ironic can work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IronicFound {
    /// It can, and speaks this version.
    Ready(Microversion),
    /// It cannot.
    NotReady,
}

/// The result of looking for a node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeFound {
    /// There is none.
    Absent,
    /// There is one.
    Found {
        /// The node.
        node: Box<Node>,
        /// What it was found by.
        by: FoundBy,
    },
}

/// What a node was found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// The id in the host's status.
    Id,
    /// Its name.
    Name,
    /// The MAC address that the host boots from.
    Mac,
}

/// Something that a decision needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The Secret with the BMC's credentials, by name.
    Secret(String),
    /// Whether Ironic can work.
    Ironic,
    /// The host's node.
    Node(Search),
    /// The ports of a node.
    Ports {
        /// Its id.
        node: String,
    },
    /// Who has these MAC addresses.
    PortOwners(Vec<String>),
    /// What the last inspection of a node found.
    Inventory {
        /// Its id.
        node: String,
    },
    /// How busy Ironic is.
    Nodes,
    /// Whether a node can be deployed.
    Validation {
        /// Its id.
        node: String,
    },
    /// These Secrets of the host's namespace.
    UserSecrets(Vec<String>),
}

/// How to look for a node, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// By id, unless empty.
    pub id: String,
    /// By these names.
    pub names: Vec<String>,
    /// By the MAC address of a port, unless empty.
    pub mac: String,
}

impl Observation {
    /// An observation of a host of which nothing has been looked up.
    pub fn new(
        host: BareMetalHost,
        hardware_data: Option<HardwareData>,
        now: Timestamp,
        jitter: f64,
        options: Arc<Options>,
    ) -> Self {
        Self { host, hardware_data, now, jitter, options, facts: Facts::default() }
    }
}
