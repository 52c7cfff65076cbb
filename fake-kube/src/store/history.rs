//! The recent past: changes for watches, and the objects as they were.
//!
//! Kept per resource like the API server's watch cache: the last hundred changes, and more while they are young. After a
//! restart of the server it is empty, so clients that ask for changes since before must list anew.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::Value;

use super::{Key, Store};
use crate::{object, selector::Selector, status::Failure};

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// It is new.
    Added,
    /// It is different.
    Modified,
    /// It is gone.
    Deleted,
}

impl Happening {
    /// The word in watch events.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The store's revision after it.
    pub(crate) revision: u64,
    /// When.
    pub(crate) at: Timestamp,
    /// What.
    pub(crate) happening: Happening,
    /// Of which object.
    pub(crate) key: Key,
    /// The object afterwards; of a deleted one, its last form.
    pub(crate) object: Arc<Value>,
    /// The object before.
    pub(crate) before: Option<Arc<Value>>,
}

/// Changes of all resources.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    windows: BTreeMap<String, VecDeque<Change>>,
    /// Changes up to this revision are forgotten, by resource.
    forgotten: BTreeMap<String, u64>,
    /// Changes up to this revision are forgotten for all resources.
    floor: u64,
}

impl History {
    fn forgotten(&self, resource: &str) -> u64 {
        self.forgotten.get(resource).copied().unwrap_or_default().max(self.floor)
    }

    fn window(&self, resource: &str) -> impl DoubleEndedIterator<Item = &Change> {
        self.windows.get(resource).into_iter().flatten()
    }
}

/// The watch cache holds this many changes of a resource however old they are.
const KEPT: usize = 100;

/// And all that are younger than this (`eventFreshDuration`).
const FRESH_SECONDS: i64 = 75;

impl Store {
    pub(super) fn remember(&mut self, change: Change) {
        let window = self.history.windows.entry(change.key.resource.clone()).or_default();
        while window.len() >= KEPT
            && let Some(oldest) = window.front()
            && change.at.duration_since(oldest.at).as_secs() > FRESH_SECONDS
        {
            self.history.forgotten.insert(change.key.resource.clone(), oldest.revision);
            window.pop_front();
        }
        window.push_back(change.clone());
        self.fresh.push(change);
    }

    /// Forgets all changes, as a restarted API server has.
    pub(crate) fn forget_history(&mut self) {
        self.history = History { floor: self.revision, ..History::default() };
    }

    /// The oldest revision from which the changes of a resource are known.
    pub(crate) fn oldest(&self, resource: &str) -> u64 {
        self.history.forgotten(resource)
    }

    /// Refuses a revision whose later changes are no longer known.
    pub(crate) fn check_known(&self, resource: &str, revision: u64) -> Result<(), Failure> {
        let oldest = self.oldest(resource);
        if revision < oldest { Err(Failure::too_old(revision, oldest)) } else { Ok(()) }
    }

    /// What a watcher of some objects sees after a revision: what happened, the object, and the revision. Objects that
    /// come to be selected are added, those that cease to be are deleted.
    pub(crate) fn seen_since<'a>(
        &'a self,
        resource: &'a str,
        namespace: &'a str,
        selector: &'a Selector,
        after: u64,
    ) -> impl Iterator<Item = (Happening, &'a Change)> {
        self.history
            .window(resource)
            .filter(move |change| {
                change.revision > after && (namespace.is_empty() || change.key.namespace == namespace)
            })
            .filter_map(move |change| {
                let was = change.before.as_ref().is_some_and(|before| selector.matches(before));
                let is = change.happening != Happening::Deleted && selector.matches(&change.object);
                match (was, is) {
                    (false, false) => None,
                    (false, true) => Some((Happening::Added, change)),
                    (true, true) => Some((Happening::Modified, change)),
                    (true, false) => Some((Happening::Deleted, change)),
                }
            })
    }

    /// The objects of a resource as they were at a revision, by namespace and name. The revision must be known
    /// ([`Self::check_known`]).
    pub(crate) fn as_of(&self, resource: &str, namespace: &str, revision: u64) -> BTreeMap<Key, Arc<Value>> {
        let mut objects: BTreeMap<Key, Arc<Value>> =
            self.list(resource, namespace).map(|(key, object)| (key.clone(), Arc::clone(object))).collect();
        let later = self
            .history
            .window(resource)
            .rev()
            .take_while(|change| change.revision > revision)
            .filter(|change| namespace.is_empty() || change.key.namespace == namespace);
        for change in later {
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), Arc::clone(before)),
                None => objects.remove(&change.key),
            };
        }
        objects
    }
}

impl Change {
    /// The object as a watcher is told of it. Of one that is no longer selected, the last form that was, at the
    /// revision at which it ceased to be.
    pub(crate) fn told(&self, happening: Happening) -> Value {
        match (happening, &self.before) {
            (Happening::Deleted, Some(before)) if self.happening != Happening::Deleted => {
                let mut last = (**before).clone();
                object::set_revision(&mut last, self.revision);
                last
            }
            (Happening::Added | Happening::Modified | Happening::Deleted, _) => (*self.object).clone(),
        }
    }
}
