//! Always: no host is reconciled more often than its work can need.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use wire::Instant;

use super::Violation;
use crate::trace::Trace;

/// Passes for one host within [`WINDOW`], twice what any work needs: registering a host takes about twenty of them with
/// Ironic's short waits, and a queue that tries again at once, doubling its wait from 5 ms, makes 14.
const MOST: usize = 60;

/// The time over which passes are counted.
const WINDOW: Duration = Duration::from_secs(60);

pub(super) fn judge(trace: &Trace) -> Vec<Violation> {
    let mut recent: BTreeMap<&str, VecDeque<Instant>> = BTreeMap::new();
    let mut violations: BTreeMap<&str, Violation> = BTreeMap::new();
    for (at, entry) in trace.about("reconcile") {
        let passes = recent.entry(&entry.subject).or_default();
        passes.push_back(at);
        while passes.front().is_some_and(|first| at.since(*first) >= WINDOW) {
            passes.pop_front();
        }
        if passes.len() > MOST {
            // Once for each host is enough.
            violations.entry(&entry.subject).or_insert_with(|| Violation {
                at: at.0,
                seen: format!("{} was reconciled {} times within a minute", entry.subject, passes.len()),
            });
        }
    }
    violations.into_values().collect()
}
