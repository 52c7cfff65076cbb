//! Always: a provisioned or externally provisioned host leaves that state only after a user's edit or deletion.
//!
//! An edit counts from the moment at which the host began to be provisioned: one that comes while the image is being
//! written takes effect afterwards.

use std::collections::BTreeMap;

use wire::Instant;

use super::{Violation, touched::Touched};
use crate::trace::{Trace, view::View};

pub(super) fn judge(trace: &Trace) -> Vec<Violation> {
    let mut view = View::default();
    let mut touched = Touched::default();
    let mut states: BTreeMap<String, String> = BTreeMap::new();
    // When each host last came into a state other than the two, or first appeared.
    let mut since: BTreeMap<String, Instant> = BTreeMap::new();
    let mut violations = Vec::new();
    for (at, entry) in trace.entries() {
        touched.apply(at, entry);
        let Some(name) = view.apply(at, entry) else { continue };
        let Some(state) = view.host(&name).resource.map(|resource| resource.state) else {
            continue;
        };
        let before = states.insert(name.clone(), state.clone()).unwrap_or_default();
        if before == state {
            continue;
        }
        let began = since.get(&name).copied().unwrap_or_default();
        if is_provisioned(&before) && !touched.since(&name, began) {
            violations.push(Violation {
                at: at.0,
                seen: format!("{name} went from {before} to {state} by itself"),
            });
        }
        if !is_provisioned(&state) {
            since.insert(name, at);
        }
    }
    violations
}

/// Whether a host in this state runs what its user put on it.
pub(super) fn is_provisioned(state: &str) -> bool {
    matches!(state, "provisioned" | "externally provisioned")
}
