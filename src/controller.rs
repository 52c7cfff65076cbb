//! What makes the operator look at a host, and what follows from a look.
//!
//! One loop hears of changes, keeps the [`Queue`], and hands keys to a few workers. Which events count and what
//! happens after each outcome are upstream's rules (baremetal-operator `SetupWithManager` and controller-runtime's
//! `reconcileHandler`).

use std::{convert::Infallible, error::Error as StdError, time::Duration};

use futures::{StreamExt as _, stream::FuturesUnordered};
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use rand::RngExt as _;
use serde_json::{Value, json};
use wire::{Dice, Host, Instant};

use crate::{
    bmh::BareMetalHost,
    cluster::{Cluster, Informers, Key, informer::Change},
    queue::Queue,
};

/// How long after one look at every host's Secret the next comes, changed or not; spread by a tenth either way
/// (controller-runtime's `SyncPeriod`).
const RESYNC: Duration = Duration::from_secs(10 * 60 * 60);

/// When a host that was looked at without an error is looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    Done,
    /// At once; but each time in a row a little later, as after errors.
    Again,
    /// After this long. Errors before are forgotten.
    After(Duration),
}

/// Calls `reconcile` for each host whenever it is due, for up to `concurrency` hosts at once and never twice at once
/// for one. Its errors are logged and make it run again, each time in a row later.
pub async fn control<F, W, E>(host: &Host, cluster: &Cluster, concurrency: usize, reconcile: F) -> Infallible
where
    F: Fn(Key) -> W,
    W: Future<Output = Result<Next, E>> + Send + 'static,
    E: StdError + Send + 'static,
{
    let Informers { mut hosts, mut secrets, mut hardware } = cluster.informers();
    let mut queue = Queue::<Key>::new();
    let mut working = FuturesUnordered::new();
    let mut resyncs = Resyncs::new(host);
    loop {
        // Workers start when all caches are filled: a look at half of the truth would find Secrets missing.
        if hosts.synced() && secrets.synced() && hardware.synced() {
            while working.len() < concurrency.max(1)
                && let Some(key) = queue.pop_due(host.now())
            {
                let task = host.spawn(reconcile(key.clone()));
                working.push(async move { (key, task.await) });
            }
        }
        let due = queue.next_due();
        tokio::select! {
            biased;
            change = hosts.next() => change.iter().filter_map(looked_for).for_each(|key| queue.add(key)),
            change = secrets.next() => change.iter().flat_map(owners).for_each(|key| queue.add(key)),
            _ = hardware.next() => {}
            Some((key, outcome)) = working.next() => {
                settle(host, &mut queue, &key, outcome);
                queue.done(&key);
            }
            () = reached(host, due) => queue.promote(host.now()),
            () = host.sleep_until(resyncs.next) => {
                resyncs.plan(host.now());
                secrets.cache().all().iter().flat_map(|secret| owners_of(secret)).for_each(|key| queue.add(key));
            }
        }
    }
}

/// Waits for a moment, for ever if there is none.
async fn reached(host: &Host, moment: Option<Instant>) {
    match moment {
        Some(moment) => host.sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Draws from an outcome when the host is looked at again. No outcome at all means that its task panicked, which
/// counts as an error.
fn settle<E: StdError + 'static>(
    host: &Host,
    queue: &mut Queue<Key>,
    key: &Key,
    outcome: Option<Result<Next, E>>,
) {
    let now = host.now();
    let fact = match outcome {
        Some(Ok(Next::Done)) => {
            queue.forget(key);
            json!({ "result": "done" })
        }
        Some(Ok(Next::Again)) => {
            queue.add_rate_limited(key.clone(), now);
            json!({ "result": "again" })
        }
        Some(Ok(Next::After(wait))) => {
            queue.forget(key);
            queue.add_after(key.clone(), now + wait);
            json!({ "result": "after", "seconds": wait.as_secs_f64() })
        }
        Some(Err(error)) => {
            queue.add_rate_limited(key.clone(), now);
            tracing::error!(host = %key, error = &error as &(dyn StdError + 'static), "reconcile");
            json!({ "result": "error", "error": chain(&error) })
        }
        None => {
            queue.add_rate_limited(key.clone(), now);
            tracing::error!(host = %key, "reconcile: the task panicked");
            json!({ "result": "panic" })
        }
    };
    host.note("reconcile", &key.to_string(), fact);
}

/// An error and its causes, outermost first.
fn chain(error: &dyn StdError) -> Value {
    std::iter::successors(Some(error), |&error| error.source()).map(ToString::to_string).collect()
}

/// The host to look at after a change of a host: not when only its status was written, which is the operator's own
/// doing most of the time.
fn looked_for(change: &Change<BareMetalHost>) -> Option<Key> {
    match change {
        Change::Added(host) | Change::Deleted(host) => Some(Key::of(&**host)),
        Change::Updated { old, new } => {
            let (before, after) = (old.meta(), new.meta());
            // The server counts the generation up when a deletion begins, so the time of it adds no event; it stands
            // here for servers that do not.
            let differs = before.generation != after.generation
                || before.deletion_timestamp != after.deletion_timestamp
                || before.finalizers.iter().flatten().ne(after.finalizers.iter().flatten())
                || before.annotations.iter().flatten().ne(after.annotations.iter().flatten());
            differs.then(|| Key::of(&**new))
        }
    }
}

/// The hosts to look at after a change of a Secret: all that own it or owned it. Any change counts.
fn owners(change: &Change<Secret>) -> Vec<Key> {
    match change {
        Change::Added(secret) | Change::Deleted(secret) => owners_of(secret),
        Change::Updated { old, new } => {
            let mut keys = owners_of(old);
            keys.extend(owners_of(new).into_iter().filter(|key| !owners_of(old).contains(key)));
            keys
        }
    }
}

/// The hosts among the owners of a Secret, whether or not they are its controller.
fn owners_of(secret: &Secret) -> Vec<Key> {
    let namespace = secret.metadata.namespace.clone().unwrap_or_default();
    let owners = secret.metadata.owner_references.iter().flatten();
    owners
        .filter(|owner| {
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            group == BareMetalHost::group(&()) && owner.kind == BareMetalHost::kind(&())
        })
        .map(|owner| Key::new(&namespace, &owner.name))
        .collect()
}

/// When everything is looked at although nothing changed.
struct Resyncs {
    dice: Dice,
    next: Instant,
}

impl Resyncs {
    fn new(host: &Host) -> Self {
        let mut resyncs = Self { dice: host.dice("resync"), next: host.now() };
        resyncs.plan(host.now());
        resyncs
    }

    fn plan(&mut self, now: Instant) {
        self.next = now + RESYNC.mul_f64(self.dice.random_range(0.9..1.1));
    }
}

#[cfg(test)]
mod tests;
