//! Which hosts their users have changed, and when: what the oracles about unwanted changes forgive.

use std::collections::BTreeMap;

use wire::{Entry, Instant};

/// When each host was last created, edited or deleted by a user.
#[derive(Debug, Default)]
pub(super) struct Touched(BTreeMap<String, Instant>);

impl Touched {
    /// Takes one fact in.
    pub(super) fn apply(&mut self, at: Instant, entry: &Entry) {
        let by_user = matches!(
            entry.data.get("action").and_then(|action| action.as_str()),
            Some("create" | "delete" | "edit")
        );
        if entry.topic != "step" || !by_user {
            return;
        }
        let hosts = entry.data.get("hosts").and_then(|hosts| hosts.as_array()).into_iter().flatten();
        for host in hosts.filter_map(|host| host.as_str()) {
            self.0.insert(host.to_owned(), at);
        }
    }

    /// Whether a user has changed a host at a moment or after it.
    pub(super) fn since(&self, host: &str, moment: Instant) -> bool {
        self.0.get(host).is_some_and(|at| *at >= moment)
    }
}
