//! Which hosts their users have changed, and when: what the oracles about unwanted changes forgive.

use std::collections::BTreeMap;

use serde_json::Value;
use wire::{Entry, Instant};

use crate::trace::view::host_of;

/// What of a BareMetalHost only its user changes, and what decides whether it stays provisioned.
const WISHES: [&str; 4] = ["deleting", "image", "customDeploy", "externallyProvisioned"];

/// When each host was last created, edited or deleted by a user.
#[derive(Debug, Default)]
pub(super) struct Touched(BTreeMap<String, Wishes>);

#[derive(Debug)]
struct Wishes {
    last: [Option<Value>; 4],
    changed: Instant,
}

impl Touched {
    /// Takes one fact in.
    pub(super) fn apply(&mut self, at: Instant, entry: &Entry) {
        if entry.topic != "kube" {
            return;
        }
        let Some(host) = host_of(entry) else { return };
        let wishes = WISHES.map(|wish| entry.data.get(wish).cloned());
        match self.0.get_mut(host) {
            Some(known) if known.last == wishes => {}
            Some(_) | None => {
                self.0.insert(host.to_owned(), Wishes { last: wishes, changed: at });
            }
        }
    }

    /// Whether a user has changed a host at a moment or after it.
    pub(super) fn since(&self, host: &str, moment: Instant) -> bool {
        self.0.get(host).is_some_and(|wishes| wishes.changed >= moment)
    }
}
