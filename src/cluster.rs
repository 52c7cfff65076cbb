//! The Kubernetes API, as the operator uses it.
//!
//! Reads of what is watched come from a local copy (see [`informer`]), which may lag behind the server, also behind
//! the operator's own writes: that is how upstream reads, and what some of its field bugs grew from. Writes send the
//! whole object with the resource version that was read, so whoever wrote meanwhile wins and this write is a conflict.

mod client;
mod error;
mod event;
#[cfg(test)]
pub(crate) mod fixture;
pub mod informer;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::{NamespaceResourceScope, api::core::v1::Secret};
use kube::{Api, Resource, api::PostParams, core::DeserializeGuard};
use serde::{Serialize, de::DeserializeOwned};
use wire::Host;

pub use client::plain_client;
pub use error::{Cause, ClusterError};

use crate::{
    bmh::{BareMetalHost, HardwareData},
    options::Options,
    queue::Bucket,
};
use informer::{Cache, Informer};

/// How long one request may take. Upstream's client notices a dead connection after 45 s, by its HTTP/2 pings.
const LIMIT: Duration = Duration::from_secs(45);

/// Only Secrets with this label are watched; the operator puts it on those that it uses.
const WATCHED_SECRETS: &str = "environment.metal3.io=baremetal";

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// The key of `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    pub fn of(object: &impl Resource) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What can be read and written in a namespace.
pub trait Object:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + fmt::Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + fmt::Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// A connection to the Kubernetes API. Cheap to clone; all clones share their caches and their request rate.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    client: kube::Client,
    host: Host,
    namespace: Option<String>,
    throttle: Mutex<Bucket>,
    hosts: Cache<BareMetalHost>,
    secrets: Cache<Secret>,
    hardware: Cache<HardwareData>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("namespace", &self.0.namespace).finish_non_exhaustive()
    }
}

/// The watches that keep a [`Cluster`]'s caches; whoever holds them must drive them.
pub(crate) struct Informers {
    pub(crate) hosts: Informer<BareMetalHost>,
    pub(crate) secrets: Informer<Secret>,
    pub(crate) hardware: Informer<HardwareData>,
}

impl Cluster {
    /// A cluster behind a client; its caches are empty until its informers run.
    pub fn new(client: kube::Client, host: &Host, options: &Options) -> Self {
        let rate =
            Bucket::new(Duration::from_secs(1) / options.kube_api_qps.max(1), options.kube_api_burst.max(1));
        Self(Arc::new(Inner {
            client,
            host: host.clone(),
            namespace: options.namespace.clone(),
            throttle: Mutex::new(rate),
            hosts: Cache::default(),
            secrets: Cache::default(),
            hardware: Cache::default(),
        }))
    }

    /// The watches that fill the caches.
    pub(crate) fn informers(&self) -> Informers {
        let Inner { host, hosts, secrets, hardware, .. } = &*self.0;
        Informers {
            hosts: Informer::new(self.watched(), None, hosts.clone(), host.dice("watch/hosts")),
            secrets: Informer::new(
                self.watched(),
                Some(WATCHED_SECRETS),
                secrets.clone(),
                host.dice("watch/secrets"),
            ),
            hardware: Informer::new(self.watched(), None, hardware.clone(), host.dice("watch/hardware")),
        }
    }

    /// The host as last heard of.
    pub fn get_host(&self, key: &Key) -> Option<BareMetalHost> {
        self.0.hosts.get(key).map(|host| (*host).clone())
    }

    /// Writes metadata and spec of a host that was read before; the answer holds the server's status.
    pub async fn update_host(&self, host: &BareMetalHost) -> Result<BareMetalHost, ClusterError> {
        self.replace(host).await
    }

    /// Writes the status of a host that was read before, and nothing else of it.
    pub async fn update_status(&self, host: &BareMetalHost) -> Result<BareMetalHost, ClusterError> {
        let key = Key::of(host);
        let api = self.api::<BareMetalHost>(&key.namespace);
        let params = PostParams::default();
        self.call::<BareMetalHost, _>(
            "update the status of",
            &key,
            api.replace_status(&key.name, &params, host),
        )
        .await
    }

    /// A Secret: as last heard of if it is watched, else from the server.
    pub async fn get_secret(&self, key: &Key) -> Result<Secret, ClusterError> {
        match self.0.secrets.get(key) {
            Some(secret) => Ok((*secret).clone()),
            None => {
                self.call::<Secret, _>("get", key, self.api::<Secret>(&key.namespace).get(&key.name)).await
            }
        }
    }

    /// Writes a Secret that was read before.
    pub async fn update_secret(&self, secret: &Secret) -> Result<Secret, ClusterError> {
        self.replace(secret).await
    }

    /// What an inspection found, as last heard of.
    pub fn get_hardware_data(&self, key: &Key) -> Option<HardwareData> {
        self.0.hardware.get(key).map(|data| (*data).clone())
    }

    /// Creates what an inspection found.
    pub async fn create_hardware_data(&self, data: &HardwareData) -> Result<HardwareData, ClusterError> {
        let key = Key::of(data);
        let api = self.api::<HardwareData>(&key.namespace);
        let params = PostParams::default();
        self.call::<HardwareData, _>("create", &key, api.create(&params, data)).await
    }

    /// Writes HardwareData that was read before.
    pub async fn update_hardware_data(&self, data: &HardwareData) -> Result<HardwareData, ClusterError> {
        self.replace(data).await
    }

    /// Deletes HardwareData. Its finalizers keep it until they are removed.
    pub async fn delete_hardware_data(&self, key: &Key) -> Result<(), ClusterError> {
        let api = self.api::<HardwareData>(&key.namespace);
        let params = kube::api::DeleteParams::default();
        self.call::<HardwareData, _>("delete", key, api.delete(&key.name, &params)).await.map(drop)
    }

    /// Records what happened to a host where `kubectl describe` shows it. `reason` is one word in upper camel case.
    pub async fn record_event(
        &self,
        about: &BareMetalHost,
        reason: &str,
        message: &str,
    ) -> Result<(), ClusterError> {
        let event = event::event(&self.0.host, about, reason, message);
        let key = Key::of(&event);
        let api = self.api::<k8s_openapi::api::core::v1::Event>(&key.namespace);
        let params = PostParams::default();
        self.call::<k8s_openapi::api::core::v1::Event, _>("create", &key, api.create(&params, &event))
            .await
            .map(drop)
    }

    async fn replace<K: Object>(&self, object: &K) -> Result<K, ClusterError> {
        let key = Key::of(object);
        let api = self.api::<K>(&key.namespace);
        let params = PostParams::default();
        self.call::<K, _>("update", &key, api.replace(&key.name, &params, object)).await
    }

    /// Waits for its turn, then for the answer.
    async fn call<K: Object, T>(
        &self,
        action: &'static str,
        key: &Key,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ClusterError> {
        let turn = {
            let mut throttle = self.0.throttle.lock().unwrap_or_else(PoisonError::into_inner);
            throttle.reserve(self.0.host.now())
        };
        if !turn.is_zero() {
            self.0.host.sleep(turn).await;
        }
        let cause = match wire::within(LIMIT, request).await {
            Some(Ok(value)) => return Ok(value),
            Some(Err(error)) => Cause::from(error),
            None => Cause::TimedOut(LIMIT),
        };
        Err(ClusterError { action, kind: K::kind(&()).into_owned(), key: key.clone(), cause })
    }

    fn api<K: Object>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.0.client.clone(), namespace)
    }

    /// The part of the cluster that the operator looks at.
    fn watched<K: Object>(&self) -> Api<DeserializeGuard<K>> {
        match &self.0.namespace {
            Some(namespace) => Api::namespaced(self.0.client.clone(), namespace),
            None => Api::all(self.0.client.clone()),
        }
    }
}
