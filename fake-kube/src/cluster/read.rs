//! Reading: get, list, and the beginning of a watch.

use std::{sync::Arc, time::Duration};

use base64::Engine as _;
use serde_json::{Value, json};

use super::{Call, Cluster, Reply};
use crate::{
    object,
    request::Form,
    resource::{Resource, list as list_object},
    selector::Selector,
    status::Failure,
    store::{Key, Moment},
    table::{self, Include},
};

/// A watch that may begin.
#[derive(Debug)]
pub(crate) struct WatchStart {
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: String,
    pub(crate) selector: Selector,
    /// Objects that are told as added before anything else.
    pub(crate) initial: Vec<Arc<Value>>,
    /// The changes after this revision are told.
    pub(crate) after: u64,
    /// Whether a bookmark says when the objects of the beginning are through.
    pub(crate) marks_initial: bool,
    pub(crate) bookmarks: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) form: Form,
    pub(crate) include: Include,
    /// Why it cannot begin, which is told within the stream.
    pub(crate) refused: Option<Failure>,
}

/// Where a continued list goes on.
struct Continuation {
    revision: u64,
    namespace: String,
    name: String,
}

impl Continuation {
    fn encode(&self) -> String {
        let text = json!({
            "v": "meta.k8s.io/v1", "rv": self.revision, "start": format!("{}/{}", self.namespace, self.name),
        });
        base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(text.to_string())
    }

    fn decode(text: &str) -> Result<Self, Failure> {
        let read = || -> Option<Self> {
            let bytes = base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
            let token: Value = serde_json::from_slice(&bytes).ok()?;
            let (namespace, name) = token.get("start")?.as_str()?.split_once('/')?;
            Some(Self {
                revision: token.get("rv")?.as_u64()?,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })
        };
        read().ok_or_else(|| Failure::bad_request("continue key is not valid"))
    }
}

impl Cluster {
    pub(super) fn get(&self, resource: &Resource, call: &Call, moment: Moment) -> Result<Reply, Failure> {
        let key = Key::of(resource, &call.target.namespace, &call.target.name);
        let wanted = parse_revision(&call.query.resource_version)?.unwrap_or_default();
        if wanted > self.store.revision() {
            return Err(Failure::too_new(wanted, self.store.revision()));
        }
        let found = match call.behind {
            0 => self.store.get(&key).map(Arc::clone),
            behind => self
                .store
                .as_of(&key.resource, &key.namespace, self.behind(&key.resource, behind))
                .remove(&key),
        };
        let found = found.ok_or_else(|| Failure::not_found(resource.about(&key.name)))?;
        Ok(Reply::ok(one(resource, &found, call, moment)))
    }

    pub(super) fn list(&self, resource: &Resource, call: &Call, moment: Moment) -> Result<Reply, Failure> {
        let query = &call.query;
        let stored_as = resource.stored_as();
        let selector = selector(resource, call)?;
        let current = self.store.revision();
        let wanted = parse_revision(&query.resource_version)?;
        if let Some(wanted) = wanted.filter(|wanted| *wanted > current) {
            return Err(Failure::too_new(wanted, current));
        }
        let (revision, start) = if query.continues.is_empty() {
            let revision = match (query.resource_version_match.as_str(), wanted) {
                ("Exact", Some(exact)) if exact > 0 => exact,
                ("" | "Exact" | "NotOlderThan", _) => self.behind(&stored_as, call.behind),
                (other, _) => {
                    let rule = format!(
                        "resourceVersionMatch {other:?} is forbidden: supported values: \"Exact\", \"NotOlderThan\""
                    );
                    return Err(Failure::bad_request(rule));
                }
            };
            self.store.check_known(&stored_as, revision)?;
            (revision, None)
        } else {
            let token = Continuation::decode(&query.continues)?;
            if token.revision > current || self.store.check_known(&stored_as, token.revision).is_err() {
                return Err(Failure::continue_expired());
            }
            (token.revision, Some((token.namespace, token.name)))
        };
        let objects = self.store.as_of(&stored_as, &call.target.namespace, revision);
        let mut selected = objects
            .iter()
            .filter(|(key, _)| {
                start.as_ref().is_none_or(|start| (&key.namespace, &key.name) > (&start.0, &start.1))
            })
            .filter(|(_, object)| selector.matches(object));
        let limit = if query.limit == 0 { usize::MAX } else { query.limit };
        let page: Vec<(&Key, &Arc<Value>)> = selected.by_ref().take(limit).collect();
        let left = selected.count();
        let mut metadata = json!({ "resourceVersion": revision.to_string() });
        if left > 0
            && let Some((last, _)) = page.last()
        {
            let token = Continuation { revision, namespace: last.namespace.clone(), name: last.name.clone() };
            metadata["continue"] = token.encode().into();
            if selector.is_empty() {
                metadata["remainingItemCount"] = left.into();
            }
        }
        let page: Vec<&Value> = page.into_iter().map(|(_, object)| &**object).collect();
        Ok(Reply::ok(many(resource, &page, metadata, call, moment)))
    }

    pub(super) fn watch(&self, resource: &Arc<Resource>, call: &Call) -> Result<WatchStart, Failure> {
        let query = &call.query;
        let stored_as = resource.stored_as();
        let mut selector = selector(resource, call)?;
        if !call.target.name.is_empty() {
            let fields = format!("metadata.name={}", call.target.name);
            selector = Selector::parse(&query.label_selector, &fields, &|_| true)
                .map_err(|error| Failure::bad_request(error.to_string()))?;
        }
        let wanted = parse_revision(&query.resource_version)?.unwrap_or_default();
        let streams_list = query.initial_events == Some(true);
        if query.initial_events.is_some() && query.resource_version_match != "NotOlderThan" {
            let cause = crate::status::Cause::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is required when sendInitialEvents is set: it must be NotOlderThan",
            );
            let about = crate::status::About { group: "meta.k8s.io", kind: "ListOptions", name: "" };
            return Err(Failure::invalid(about, &[cause]));
        }
        // Without a revision a watch begins with what is there.
        let from_now = wanted == 0 && query.initial_events != Some(false);
        let now = self.behind(&stored_as, call.behind);
        let initial = if streams_list || from_now {
            self.store
                .as_of(&stored_as, &call.target.namespace, now)
                .into_values()
                .filter(|object| selector.matches(object))
                .collect()
        } else {
            Vec::new()
        };
        let after = if streams_list || wanted == 0 { now } else { wanted };
        let refused = if streams_list && wanted > self.store.revision() {
            Some(Failure::too_new(wanted, self.store.revision()))
        } else {
            self.store.check_known(&stored_as, after).err()
        };
        Ok(WatchStart {
            resource: Arc::clone(resource),
            namespace: call.target.namespace.clone(),
            selector,
            initial,
            after,
            marks_initial: streams_list && query.bookmarks,
            bookmarks: query.bookmarks,
            timeout: query.timeout,
            form: call.form,
            include: query.include,
            refused,
        })
    }

    /// The revision that a read shows which is behind by some.
    fn behind(&self, stored_as: &str, by: u64) -> u64 {
        self.store.revision().saturating_sub(by).max(self.store.oldest(stored_as))
    }
}

pub(super) fn selector(resource: &Resource, call: &Call) -> Result<Selector, Failure> {
    let known = |field: &str| resource.is_selectable(field);
    Selector::parse(&call.query.label_selector, &call.query.field_selector, &known)
        .map_err(|error| Failure::bad_request(error.to_string()))
}

fn parse_revision(text: &str) -> Result<Option<u64>, Failure> {
    if text.is_empty() {
        return Ok(None);
    }
    let bad = || Failure::bad_request(format!("invalid resource version {text:?}: must be a number"));
    text.parse().map(Some).map_err(|_| bad())
}

/// One object in the form that the client wants.
pub(super) fn one(resource: &Resource, stored: &Value, call: &Call, moment: Moment) -> Value {
    match call.form {
        Form::Table => {
            let metadata =
                json!({ "resourceVersion": object::text(stored, &["metadata", "resourceVersion"]) });
            table::to_value(resource, &[stored], metadata, moment.now, call.query.include, true)
        }
        Form::Partial => table::partial(stored),
        Form::Plain | Form::Discovery(_) | Form::OpenApiProto => resource.show(stored),
    }
}

/// Objects in the form that the client wants.
pub(super) fn many(
    resource: &Resource,
    page: &[&Value],
    metadata: Value,
    call: &Call,
    moment: Moment,
) -> Value {
    match call.form {
        Form::Table => table::to_value(resource, page, metadata, moment.now, call.query.include, true),
        Form::Partial => {
            let items = page.iter().map(|object| table::partial(object)).collect();
            list_object("meta.k8s.io/v1", "PartialObjectMetadataList", items, metadata)
        }
        Form::Plain | Form::Discovery(_) | Form::OpenApiProto => {
            let items = page.iter().map(|object| resource.show(object)).collect();
            list_object(&resource.api_version(), &resource.list_kind, items, metadata)
        }
    }
}
