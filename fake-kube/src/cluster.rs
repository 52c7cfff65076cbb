//! The verbs: what each request does to the store, and what it answers.
//!
//! A plain value like the store: a call and a moment go in, a reply comes out.

mod read;
mod write;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

pub(crate) use read::WatchStart;

use crate::{
    object,
    request::{Form, Query, Target, Verb},
    resource::{DEFINITIONS, Registry, Resource},
    status::Failure,
    store::{Change, Moment, Store},
};

/// All that the API server serves.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
}

/// One request, read.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) target: Target,
    pub(crate) query: Query,
    pub(crate) form: Form,
    /// Media type of the body, without parameters.
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
    /// By how many revisions reads are behind; a fault.
    pub(crate) behind: u64,
}

/// What a call answers.
#[derive(Debug)]
pub(crate) enum Reply {
    Object { code: u16, value: Value, warnings: Vec<String> },
    Watch(WatchStart),
}

impl Reply {
    fn ok(value: Value) -> Self {
        Self::Object { code: 200, value, warnings: Vec::new() }
    }
}

impl Cluster {
    pub(crate) fn new() -> Self {
        Self { store: Store::new(), registry: Registry::new() }
    }

    /// Carries out a call.
    pub(crate) fn handle(&mut self, call: &Call, moment: Moment) -> Result<Reply, Failure> {
        let target = &call.target;
        let resource = self
            .registry
            .get(&target.group, &target.version, &target.resource)
            .filter(|resource| resource.namespaced || target.namespace.is_empty())
            .ok_or_else(Failure::no_such_path)?;
        match target.subresource.as_str() {
            "" => {}
            "status" if resource.has_status => match call.verb {
                Verb::Get | Verb::Update | Verb::Patch => {}
                Verb::List | Verb::Watch | Verb::Create | Verb::Delete | Verb::DeleteCollection => {
                    return Err(Failure::method_not_allowed());
                }
            },
            _ => return Err(Failure::no_such_path()),
        }
        if resource.namespaced && target.namespace.is_empty() && !target.name.is_empty() {
            return Err(Failure::no_such_path());
        }
        self.store.expire_events(moment.now);
        match call.verb {
            Verb::Get => self.get(&resource, call, moment),
            Verb::List => self.list(&resource, call, moment),
            Verb::Watch => self.watch(&resource, call).map(Reply::Watch),
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => {
                self.write(&resource, call, moment)
            }
        }
    }

    /// Carries out a write, or only tries it if it is a dry run.
    fn write(&mut self, resource: &Arc<Resource>, call: &Call, moment: Moment) -> Result<Reply, Failure> {
        let dry = match &call.query.dry_run[..] {
            [] => None,
            all if all.iter().all(|value| value == "All") => Some(self.store.clone()),
            other => {
                return Err(Failure::bad_request(format!(
                    "invalid dryRun: {other:?}: supported values: \"All\""
                )));
            }
        };
        let reply = match call.verb {
            Verb::Create => self.create(resource, call, moment),
            Verb::Update => self.update(resource, call, moment),
            Verb::Patch => self.patch(resource, call, moment),
            Verb::Delete => self.delete(resource, call, moment),
            Verb::DeleteCollection => self.delete_collection(resource, call, moment),
            Verb::Get | Verb::List | Verb::Watch => unreachable!("reads do not come here"),
        };
        if let Some(before) = dry {
            self.store = before;
        }
        reply
    }

    /// What has changed since the last call. New definitions are taken into use.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        let changes = self.store.take_changes();
        if changes.iter().any(|change| change.key.resource == DEFINITIONS) {
            let definitions = self.store.list(DEFINITIONS, "").map(|(_, definition)| &**definition);
            self.registry = Registry::with(definitions);
        }
        changes
    }

    /// Creates an object that is there from the beginning.
    pub(crate) fn seed(
        &mut self,
        resource: &Resource,
        mut new: Value,
        moment: Moment,
    ) -> Result<(), Failure> {
        resource.stamp(&mut new);
        resource.normalize(&mut new);
        self.store.create(resource, new, moment).map(drop)
    }
}

/// The object of a call's path, or what a client is told if the body is of another one.
fn check_identity(call: &Call, body: &mut Value) -> Result<(), Failure> {
    let target = &call.target;
    let namespace = object::namespace(body);
    if !namespace.is_empty() && namespace != target.namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let name = object::name(body);
    if !target.name.is_empty() && !name.is_empty() && name != target.name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    let metadata = object::metadata(body);
    if !target.namespace.is_empty() {
        metadata.insert("namespace".into(), target.namespace.clone().into());
    }
    if !target.name.is_empty() {
        metadata.insert("name".into(), target.name.clone().into());
    }
    Ok(())
}
