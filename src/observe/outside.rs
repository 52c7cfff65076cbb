//! Finds out what a decision asks for.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use k8s_openapi::api::core::v1::Secret;
use rand::RngExt as _;
use wire::{Dice, Host};

use super::{Facts, FoundBy, IronicFound, NodeFound, Observation, Question, Search};
use crate::{
    bmh::BareMetalHost,
    cluster::{Cluster, ClusterError, Key},
    ironic::{Ironic, IronicError, Session},
    options::Options,
    provisioner::{Node, Port},
};

/// Everything outside of the operator that a pass may look at and change. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Outside {
    pub(crate) cluster: Cluster,
    host: Host,
    ironic: Ironic,
    options: Arc<Options>,
    /// One stream for each host, so that hosts do not disturb each other's draws.
    dice: Arc<Mutex<BTreeMap<Key, Dice>>>,
}

/// Why a fact could not be found out.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// Kubernetes did not tell.
    #[error("look something up in the cluster")]
    Cluster(#[from] ClusterError),
    /// Ironic did not tell.
    #[error("look something up in Ironic")]
    Ironic(#[from] IronicError),
    /// Something was asked of an Ironic that was not found ready.
    #[error("look something up in an Ironic that is not ready")]
    NotReady,
}

impl Outside {
    /// The outside of an operator on `host`.
    pub fn new(host: Host, cluster: Cluster, ironic: Ironic, options: Arc<Options>) -> Self {
        Self { cluster, host, ironic, options, dice: Arc::default() }
    }

    /// The host as last heard of.
    pub(crate) fn get_host(&self, key: &Key) -> Option<BareMetalHost> {
        self.cluster.get_host(key)
    }

    /// Looks at a host, without yet looking anything up.
    pub(crate) fn look_at(&self, key: &Key, host: BareMetalHost) -> Observation {
        let hardware_data = self.cluster.get_hardware_data(key);
        let jitter = {
            let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
            dice.entry(key.clone())
                .or_insert_with(|| self.host.dice(&format!("reconcile/{key}")))
                .random_range(0.0..1.0)
        };
        Observation::new(host, hardware_data, self.host.date(), jitter, Arc::clone(&self.options))
    }

    /// Finds out one thing and adds it to the facts. `session` is kept for the rest of the reconcile once Ironic has
    /// been found ready.
    pub(crate) async fn learn(
        &self,
        namespace: &str,
        facts: &mut Facts,
        session: &mut Option<Session>,
        question: Question,
    ) -> Result<(), LookupError> {
        let ironic = || session.as_ref().ok_or(LookupError::NotReady);
        match question {
            Question::Secret(name) => facts.secret = Some(self.secret(namespace, name).await?),
            Question::Ironic => {
                facts.ironic = Some(match self.ironic.ready().await {
                    Ok(ready) => {
                        let version = ready.version();
                        *session = Some(ready);
                        IronicFound::Ready(version)
                    }
                    Err(error) => {
                        let error: &(dyn std::error::Error + 'static) = &error;
                        tracing::warn!(error, "wait for Ironic");
                        IronicFound::NotReady
                    }
                });
            }
            Question::Node(search) => facts.node = Some(find(ironic()?, &search).await?),
            Question::Ports { node } => facts.ports = Some(ironic()?.ports_of(&node).await?),
            Question::PortOwners(addresses) => {
                let mut owners = BTreeMap::new();
                for address in addresses {
                    let ports: Vec<Port> = ironic()?.ports_at(&address).await?;
                    owners.insert(address, ports.into_iter().next().map(|port| port.node_uuid));
                }
                facts.port_owners = Some(owners);
            }
            Question::Inventory { node } => {
                facts.inventory = Some(known(ironic()?.inventory(&node).await)?);
            }
            Question::Nodes => facts.nodes = Some(ironic()?.list_nodes().await?),
            Question::Validation { node } => {
                facts.validation = Some(ironic()?.validate(&node).await?);
            }
            Question::UserSecrets(names) => {
                let mut secrets = BTreeMap::new();
                for name in names {
                    secrets.insert(name.clone(), self.secret(namespace, name).await?);
                }
                facts.user_secrets = Some(secrets);
            }
        }
        Ok(())
    }

    async fn secret(&self, namespace: &str, name: String) -> Result<Option<Secret>, ClusterError> {
        match self.cluster.get_secret(&Key::new(namespace, name)).await {
            Ok(secret) => Ok(Some(secret)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Looks for a node in each way that the search names.
async fn find(ironic: &Session, search: &Search) -> Result<NodeFound, IronicError> {
    let found = |node, by| NodeFound::Found { node: Box::new(node), by };
    if !search.id.is_empty()
        && let Some(node) = known(ironic.get_node(&search.id).await)?
    {
        return Ok(found(node, FoundBy::Id));
    }
    for name in &search.names {
        if let Some(node) = known(ironic.get_node(name).await)? {
            return Ok(found(node, FoundBy::Name));
        }
    }
    if search.mac.is_empty() {
        return Ok(NodeFound::Absent);
    }
    // A failure here counts as "no such port", as it does upstream.
    let ports: Vec<Port> = ironic.ports_at(&search.mac).await.unwrap_or_default();
    match ports.into_iter().next() {
        Some(port) => {
            let node: Node = ironic.get_node(&port.node_uuid).await?;
            Ok(found(node, FoundBy::Mac))
        }
        None => Ok(NodeFound::Absent),
    }
}

/// Tells "there is none" from failures.
fn known<T>(answer: Result<T, IronicError>) -> Result<Option<T>, IronicError> {
    match answer {
        Ok(thing) => Ok(Some(thing)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
