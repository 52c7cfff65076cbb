//! Deleting: finalizers, and what goes with an object: its dependents, a namespace's content.
//!
//! Kubernetes leaves dependents to a controller that follows within a second or so; here they go in the same instant.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Change, Happening, Key, Moment, Store, bump_generation};
use crate::{object, resource::DEFINITIONS, status::Failure};

/// What becomes of an object's dependents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They go after it.
    #[default]
    Background,
    /// They go before it.
    Foreground,
    /// They stay, without the reference.
    Orphan,
}

/// How an object is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    /// Only if it has this uid.
    pub(crate) uid: Option<String>,
    /// Only at this revision.
    pub(crate) revision: Option<String>,
    /// What becomes of its dependents.
    pub(crate) propagation: Propagation,
}

/// How long an event is kept after it was written last.
const EVENT_TTL_SECONDS: i64 = 3600;

/// Foreground deletion waits behind this finalizer until the dependents are gone.
const FOREGROUND: &str = "foregroundDeletion";

impl Store {
    /// Deletes an object, or marks it for deletion while finalizers hold it. Returns the object as it is then, and
    /// whether it is gone.
    pub(crate) fn delete(
        &mut self,
        key: &Key,
        options: &DeleteOptions,
        moment: Moment,
    ) -> Result<(Arc<Value>, bool), Failure> {
        let about = key.about();
        let old = Arc::clone(self.get(key).ok_or_else(|| Failure::not_found(about))?);
        if let Some(wanted) = options.uid.as_deref().filter(|uid| *uid != object::uid(&old)) {
            return Err(Failure::precondition(about, "UID", wanted, object::uid(&old)));
        }
        let revision = object::text(&old, &["metadata", "resourceVersion"]);
        if let Some(wanted) = options.revision.as_deref().filter(|wanted| *wanted != revision) {
            return Err(Failure::precondition(about, "ResourceVersion", wanted, revision));
        }
        if key.resource == "namespaces"
            && matches!(key.name.as_str(), "default" | "kube-system" | "kube-public")
        {
            return Err(Failure::forbidden(about, "this namespace may not be deleted"));
        }
        Ok(self.delete_with(key, old, options.propagation, moment.now))
    }

    fn delete_with(
        &mut self,
        key: &Key,
        old: Arc<Value>,
        propagation: Propagation,
        now: Timestamp,
    ) -> (Arc<Value>, bool) {
        let mut new = (*old).clone();
        if propagation == Propagation::Foreground
            && !self.blocking_dependents(key, object::uid(&old)).is_empty()
        {
            let finalizers = object::metadata(&mut new).entry("finalizers").or_insert_with(|| json!([]));
            if let Value::Array(list) = finalizers
                && !list.contains(&FOREGROUND.into())
            {
                list.push(FOREGROUND.into());
            }
        }
        if object::finalizers(&new).is_empty() && key.resource != "namespaces" {
            return (self.remove(key, None, propagation, now), true);
        }
        if !object::is_deleting(&new) {
            let metadata = object::metadata(&mut new);
            metadata.insert("deletionTimestamp".into(), object::time(now));
            metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
            // A watcher that looks for changed generations must notice.
            bump_generation(&mut new);
            if key.resource == "namespaces" {
                object::members(&mut new, "status").insert("phase".into(), "Terminating".into());
            }
        }
        let marked = if new == *old { old } else { self.put(key.clone(), new, now) };
        if key.resource == "namespaces" {
            self.empty_namespace(&key.name, now);
        }
        if propagation == Propagation::Foreground {
            for dependent in self.blocking_dependents(key, object::uid(&marked)) {
                self.delete_dependent(&dependent, now);
            }
            self.end_foreground(key, now);
        }
        match self.get(key) {
            Some(left) => (Arc::clone(left), false),
            None => (marked, true),
        }
    }

    /// Takes an object out; `last` is its final form if it differs from what is stored.
    pub(super) fn remove(
        &mut self,
        key: &Key,
        last: Option<Value>,
        propagation: Propagation,
        now: Timestamp,
    ) -> Arc<Value> {
        let Some(before) = self.objects.remove(key) else {
            return Arc::new(last.unwrap_or_default());
        };
        self.revision += 1;
        let mut gone = last.unwrap_or_else(|| (*before).clone());
        object::set_revision(&mut gone, self.revision);
        let object = Arc::new(gone);
        self.remember(Change {
            revision: self.revision,
            at: now,
            happening: Happening::Deleted,
            key: key.clone(),
            object: Arc::clone(&object),
            before: Some(before),
        });
        if key.resource == DEFINITIONS {
            self.forget_kind(&key.name, now);
        }
        self.release_dependents(key, &object, propagation, now);
        if !key.namespace.is_empty() {
            self.end_namespace(&key.namespace, now);
        }
        object
    }

    /// All objects that refer to an owner, in its namespace or, for an owner without one, anywhere.
    fn dependents(&self, owner: &Key, uid: &str) -> Vec<Key> {
        self.objects
            .iter()
            .filter(|(key, _)| owner.namespace.is_empty() || key.namespace == owner.namespace)
            .filter(|(_, object)| references(object).any(|r| object::text(r, &["uid"]) == uid))
            .map(|(key, _)| key.clone())
            .collect()
    }

    fn blocking_dependents(&self, owner: &Key, uid: &str) -> Vec<Key> {
        let blocks = |reference: &Value| {
            object::text(reference, &["uid"]) == uid
                && reference.get("blockOwnerDeletion") == Some(&Value::Bool(true))
        };
        let mut found = self.dependents(owner, uid);
        found.retain(|key| self.get(key).is_some_and(|object| references(object).any(blocks)));
        found
    }

    /// An owner is gone: dependents without another living owner go too, the others lose the reference.
    fn release_dependents(&mut self, owner: &Key, gone: &Value, propagation: Propagation, now: Timestamp) {
        let uid = object::uid(gone).to_owned();
        for key in self.dependents(owner, &uid) {
            let Some(dependent) = self.get(&key).map(Arc::clone) else { continue };
            let others: Vec<Value> = references(&dependent)
                .filter(|r| {
                    let other = object::text(r, &["uid"]);
                    other != uid && self.objects.values().any(|object| object::uid(object) == other)
                })
                .cloned()
                .collect();
            if others.is_empty() && propagation != Propagation::Orphan {
                self.delete_dependent(&key, now);
            } else {
                let mut freed = (*dependent).clone();
                let metadata = object::metadata(&mut freed);
                if others.is_empty() {
                    metadata.remove("ownerReferences");
                } else {
                    metadata.insert("ownerReferences".into(), others.into());
                }
                self.put(key, freed, now);
            }
        }
        // What the dead object blocked may go on.
        for reference in references(gone) {
            let uid = object::text(reference, &["uid"]).to_owned();
            let owner = self
                .objects
                .iter()
                .find(|(_, object)| object::uid(object) == uid)
                .map(|(key, _)| key.clone());
            if let Some(owner) = owner {
                self.end_foreground(&owner, now);
            }
        }
    }

    fn delete_dependent(&mut self, key: &Key, now: Timestamp) {
        if let Some(old) = self.get(key).map(Arc::clone)
            && !object::is_deleting(&old)
        {
            self.delete_with(key, old, Propagation::Background, now);
        }
    }

    /// Takes the foreground finalizer off once no dependent blocks any more.
    fn end_foreground(&mut self, key: &Key, now: Timestamp) {
        let Some(owner) = self.get(key).map(Arc::clone) else { return };
        let waits = object::is_deleting(&owner) && object::finalizers(&owner).contains(&FOREGROUND);
        if !waits || !self.blocking_dependents(key, object::uid(&owner)).is_empty() {
            return;
        }
        let mut freed = (*owner).clone();
        if let Some(Value::Array(list)) = object::metadata(&mut freed).get_mut("finalizers") {
            list.retain(|name| name != FOREGROUND);
        }
        if object::finalizers(&freed).is_empty() {
            self.remove(key, Some(freed), Propagation::Background, now);
        } else {
            self.put(key.clone(), freed, now);
        }
    }

    /// Deletes all that is in a namespace, then the namespace.
    fn empty_namespace(&mut self, namespace: &str, now: Timestamp) {
        let content: Vec<Key> =
            self.objects.keys().filter(|key| key.namespace == namespace).cloned().collect();
        for key in content {
            self.delete_dependent(&key, now);
        }
        self.end_namespace(namespace, now);
    }

    /// A namespace that is ending goes with its last object.
    pub(super) fn end_namespace(&mut self, namespace: &str, now: Timestamp) {
        let key = Key { resource: "namespaces".into(), namespace: String::new(), name: namespace.to_owned() };
        let ends = self
            .get(&key)
            .is_some_and(|object| object::is_deleting(object) && object::finalizers(object).is_empty());
        if ends && !self.objects.keys().any(|key| key.namespace == namespace) {
            self.remove(&key, None, Propagation::Background, now);
        }
    }

    /// A definition is gone, and all objects of its kind with it, whatever their finalizers say.
    fn forget_kind(&mut self, resource: &str, now: Timestamp) {
        let objects: Vec<Key> = self.objects.keys().filter(|key| key.resource == resource).cloned().collect();
        for key in objects {
            self.remove(&key, None, Propagation::Background, now);
        }
    }

    /// Removes events that nobody has repeated for an hour, as the API server's `--event-ttl` does.
    pub(crate) fn expire_events(&mut self, now: Timestamp) {
        while let Some((since, _)) = self.event_writes.front()
            && now.duration_since(*since).as_secs() >= EVENT_TTL_SECONDS
        {
            let Some((since, key)) = self.event_writes.pop_front() else { return };
            // A later write of the same event has its own entry.
            if self.event_written.get(&key) == Some(&since) {
                self.event_written.remove(&key);
                self.remove(&key, None, Propagation::Background, now);
            }
        }
    }
}

fn references(object: &Value) -> impl Iterator<Item = &Value> {
    object::at(object, &["metadata", "ownerReferences"]).and_then(Value::as_array).into_iter().flatten()
}
