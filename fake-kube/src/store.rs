//! The objects and their history: what etcd and the API server's storage layer do.
//!
//! A plain value. Time and new ids come with each call ([`Moment`]), so the same calls give the same bytes. One revision
//! counts all changes; a bounded history of changes serves watches, older reads and continued lists.

mod delete;
mod history;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::{Map, Value};
use uuid::Uuid;

pub(crate) use delete::{DeleteOptions, Propagation};
pub(crate) use history::{Change, Happening};

use crate::{
    object,
    resource::Resource,
    status::{About, Failure},
};

/// When something is done, and the id that a new object gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The calendar time.
    pub(crate) now: Timestamp,
    /// Fresh for each call.
    pub(crate) uid: Uuid,
}

/// Where an object is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// `PLURAL.GROUP`, or the plural alone for core.
    pub(crate) resource: String,
    /// Empty for objects without a namespace.
    pub(crate) namespace: String,
    /// The object's name.
    pub(crate) name: String,
}

impl Key {
    /// The key of an object of a resource.
    pub(crate) fn of(resource: &Resource, namespace: &str, name: &str) -> Self {
        Self { resource: resource.stored_as(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Names the object in an error.
    fn about(&self) -> About<'_> {
        let (kind, group) = self.resource.split_once('.').unwrap_or((&self.resource, ""));
        About { group, kind, name: &self.name }
    }
}

/// Which half of an object a write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything but the status.
    Main,
    /// The status alone.
    Status,
}

/// All objects and what happened to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    revision: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    history: history::History,
    /// When each event was written last, and all such writes, oldest first.
    event_written: BTreeMap<Key, Timestamp>,
    event_writes: VecDeque<(Timestamp, Key)>,
    /// Changes that nobody has taken yet.
    fresh: Vec<Change>,
}

impl Store {
    /// An empty store.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The revision of the latest change.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The object at a key.
    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// The objects of a resource, of one namespace or (empty) of all, by namespace and name.
    pub(crate) fn list<'a>(
        &'a self,
        resource: &'a str,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> {
        let start =
            Key { resource: resource.to_owned(), namespace: namespace.to_owned(), name: String::new() };
        self.objects.range(start..).take_while(move |(key, _)| {
            key.resource == resource && (namespace.is_empty() || key.namespace == namespace)
        })
    }

    /// The changes since the last call, oldest first.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.fresh)
    }

    /// Adds an object. Its name may come from `generateName`; a status is dropped if it is written separately.
    pub(crate) fn create(
        &mut self,
        resource: &Resource,
        mut new: Value,
        moment: Moment,
    ) -> Result<Arc<Value>, Failure> {
        if resource.is_custom() && resource.has_status {
            object::as_members(&mut new).remove("status");
        }
        let metadata = object::metadata(&mut new);
        if metadata.get("resourceVersion").and_then(Value::as_str).is_some_and(|text| !text.is_empty()) {
            return Err(Failure::internal("resourceVersion should not be set on objects to be created"));
        }
        for set_by_server in [
            "uid",
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "resourceVersion",
        ] {
            metadata.remove(set_by_server);
        }
        metadata.insert("uid".into(), moment.uid.to_string().into());
        metadata.insert("creationTimestamp".into(), object::time(moment.now));
        if resource.counts_generations() {
            metadata.insert("generation".into(), 1.into());
        }
        let namespace = object::namespace(&new).to_owned();
        self.check_namespace(resource, &namespace, object::name(&new))?;
        if object::name(&new).is_empty() {
            let base = object::text(&new, &["metadata", "generateName"]).to_owned();
            if !base.is_empty() {
                let name = self.free_name(resource, &namespace, &base, moment.uid);
                object::metadata(&mut new).insert("name".into(), name.into());
            }
        }
        let name = object::name(&new).to_owned();
        let causes = resource.faults_of(&new, None);
        if !causes.is_empty() {
            return Err(resource.invalid(&name, &causes));
        }
        let key = Key::of(resource, &namespace, &name);
        if self.objects.contains_key(&key) {
            return Err(Failure::already_exists(resource.about(&name)));
        }
        let stored = self.put(key, new, moment.now);
        Ok(stored)
    }

    /// Replaces one half of an object: the other half, and what the server keeps of the metadata, stays. Returns the
    /// object as it is then; a write that changes nothing leaves the revision alone.
    pub(crate) fn update(
        &mut self,
        resource: &Resource,
        key: &Key,
        part: Part,
        mut new: Value,
        moment: Moment,
    ) -> Result<Arc<Value>, Failure> {
        let old =
            Arc::clone(self.objects.get(key).ok_or_else(|| Failure::not_found(resource.about(&key.name)))?);
        let based_on = object::text(&new, &["metadata", "resourceVersion"]);
        let blind = based_on.is_empty() || based_on == "0";
        if blind && !resource.allows_blind_update() {
            let cause = crate::status::Cause::no_revision();
            return Err(resource.invalid(&key.name, &[cause]));
        }
        if !blind && based_on != object::text(&old, &["metadata", "resourceVersion"]) {
            return Err(Failure::conflict(resource.about(&key.name)));
        }
        let uid = object::uid(&new);
        if !uid.is_empty() && uid != object::uid(&old) {
            return Err(Failure::precondition(resource.about(&key.name), "UID", uid, object::uid(&old)));
        }
        merge(resource, part, &mut new, &old);
        if new == *old {
            return Ok(old);
        }
        let causes = resource.faults_of(&new, Some(&old));
        if !causes.is_empty() {
            return Err(resource.invalid(&key.name, &causes));
        }
        if object::is_deleting(&new) && object::finalizers(&new).is_empty() && !holds_content(&new) {
            return Ok(self.remove(key, Some(new), Propagation::Background, moment.now));
        }
        let stored = self.put(key.clone(), new, moment.now);
        if key.resource == "namespaces" {
            self.end_namespace(&key.name, moment.now);
        }
        Ok(stored)
    }

    /// Objects of namespaces that are missing or ending cannot be created.
    fn check_namespace(&self, resource: &Resource, namespace: &str, name: &str) -> Result<(), Failure> {
        if !resource.namespaced {
            return Ok(());
        }
        let key = Key { resource: "namespaces".into(), namespace: String::new(), name: namespace.to_owned() };
        match self.objects.get(&key) {
            None => Err(Failure::not_found(key.about())),
            Some(found) if object::is_deleting(found) => {
                let why = format!(
                    "unable to create new content in namespace {namespace} because it is being terminated"
                );
                Err(Failure::forbidden(resource.about(name), &why))
            }
            Some(_) => Ok(()),
        }
    }

    /// A name made of a base and five random characters (`k8s.io/apiserver/pkg/storage/names`).
    fn free_name(&self, resource: &Resource, namespace: &str, base: &str, uid: Uuid) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let longest = 63 - 5;
        let base: String = base.chars().take(longest).collect();
        let mut number = uid.as_u128();
        loop {
            let mut suffix = String::new();
            for _ in 0..5 {
                let index = usize::try_from(number % LETTERS.len() as u128).unwrap_or_default();
                suffix.push(char::from(LETTERS[index]));
                number /= LETTERS.len() as u128;
            }
            let name = format!("{base}{suffix}");
            // An id is used up after five tries: then a taken name is as good as any, and refused.
            if number == 0 || !self.objects.contains_key(&Key::of(resource, namespace, &name)) {
                return name;
            }
        }
    }

    /// Stores an object at a new revision.
    fn put(&mut self, key: Key, mut new: Value, now: Timestamp) -> Arc<Value> {
        self.revision += 1;
        object::set_revision(&mut new, self.revision);
        let object = Arc::new(new);
        let before = self.objects.insert(key.clone(), Arc::clone(&object));
        if key.resource == "events" {
            self.event_written.insert(key.clone(), now);
            self.event_writes.push_back((now, key.clone()));
        }
        let happening = if before.is_some() { Happening::Modified } else { Happening::Added };
        self.remember(Change {
            revision: self.revision,
            at: now,
            happening,
            key,
            object: Arc::clone(&object),
            before,
        });
        object
    }
}

/// Whether something else than finalizers still holds an object: a namespace ends when its content is gone.
fn holds_content(object: &Value) -> bool {
    object::text(object, &["kind"]) == "Namespace"
        && !object::texts(object, &["spec", "finalizers"]).is_empty()
}

/// Makes `new` what is stored when a client writes it over `old`.
fn merge(resource: &Resource, part: Part, new: &mut Value, old: &Value) {
    let split = resource.has_status;
    match part {
        Part::Status => {
            let status = new.get("status").cloned();
            // What others may have written meanwhile cannot differ: the revision was compared.
            let managed = object::at(new, &["metadata", "managedFields"]).cloned();
            *new = old.clone();
            match status {
                Some(status) => object::as_members(new).insert("status".into(), status),
                None => object::as_members(new).remove("status"),
            };
            if let Some(managed) = managed {
                object::metadata(new).insert("managedFields".into(), managed);
            }
        }
        Part::Main => {
            if split {
                object::carry(object::as_members(new), old, "status");
            }
            let before = old.get("metadata").unwrap_or(&Value::Null);
            let metadata = object::metadata(new);
            // Clients that do not know of field ownership do not end it.
            if !metadata.contains_key("managedFields") {
                object::carry(metadata, before, "managedFields");
            }
            for kept in [
                "uid",
                "name",
                "namespace",
                "generateName",
                "creationTimestamp",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "generation",
                "selfLink",
            ] {
                object::carry(metadata, before, kept);
            }
        }
    }
    let metadata = object::metadata(new);
    object::carry(metadata, old.get("metadata").unwrap_or(&Value::Null), "resourceVersion");
    if resource.counts_generations() && wish(new, split) != wish(old, split) {
        bump_generation(new);
    }
}

/// The part of an object that says what users want: a change of it is a new generation.
fn wish(object: &Value, split: bool) -> Map<String, Value> {
    let mut members = object.as_object().cloned().unwrap_or_default();
    for key in ["metadata", "apiVersion", "kind"] {
        members.remove(key);
    }
    if split {
        members.remove("status");
    }
    members
}

fn bump_generation(object: &mut Value) {
    let metadata = object::metadata(object);
    if let Some(generation) = metadata.get("generation").and_then(Value::as_u64) {
        metadata.insert("generation".into(), (generation + 1).into());
    }
}
