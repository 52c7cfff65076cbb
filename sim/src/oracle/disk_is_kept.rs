//! Always: the disks of a machine change only while its host is not provisioned, or after its user asked for it.
//!
//! A host that was provisioned and then torn down without a user's wish still counts as provisioned: the state may
//! be lost by mistake, the data must not be.

use std::collections::BTreeMap;

use wire::Instant;

use super::{Violation, provisioned_stays::is_provisioned, touched::Touched};
use crate::trace::{
    Trace,
    view::{View, host_of},
};

pub(super) fn judge(trace: &Trace) -> Vec<Violation> {
    let mut view = View::default();
    let mut touched = Touched::default();
    // Since when each host has something to lose.
    let mut keeps: BTreeMap<String, Instant> = BTreeMap::new();
    let mut violations = Vec::new();
    for (at, entry) in trace.entries() {
        touched.apply(at, entry);
        if let Some(name) = view.apply(at, entry) {
            let state = view.host(&name).resource.map(|resource| resource.state).unwrap_or_default();
            if is_provisioned(&state) {
                keeps.entry(name).or_insert(at);
            }
        }
        let Some(name) = host_of(entry).filter(|_| entry.topic == "disk") else { continue };
        match keeps.get(name) {
            Some(since) if !touched.since(name, *since) => {
                let seen = format!("a disk of {name} changed by itself: {}", entry.data);
                violations.push(Violation { at: at.0, seen });
            }
            Some(_) => drop(keeps.remove(name)),
            None => {}
        }
    }
    violations
}
