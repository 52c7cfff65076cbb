//! Always: the operator does not forget a host that has somewhere to go.
//!
//! A pass that ends with `done` leaves nothing pending. That is right for a host that is gone or unmanaged, and for one
//! whose own change will wake the operator at once; it is wrong when nothing follows.

use std::{collections::BTreeMap, time::Duration};

use wire::Instant;

use super::Violation;
use crate::{
    scenario::time::Span,
    trace::{Trace, view::View},
};

/// A change that wakes the operator does so within moments; a minute is far more.
const MOMENTS: Duration = Duration::from_secs(60);

/// How the operator says that a host lacks what only its user can give; the user's edit will wake it.
const WAITS_FOR_USER: &str = "Missing BMC connection detail";

pub(super) fn judge(trace: &Trace) -> Vec<Violation> {
    let mut view = View::default();
    let mut last: BTreeMap<String, (Instant, bool)> = BTreeMap::new();
    for (at, entry) in trace.entries() {
        view.apply(at, entry);
        if entry.topic == "reconcile" {
            let name = entry.subject.rsplit('/').next().unwrap_or_default();
            let done = entry.data.get("result").and_then(|result| result.as_str()) == Some("done");
            last.insert(name.to_owned(), (at, done));
        }
        // Who starts anew looks at everything.
        if entry.topic == "step"
            && entry.data.get("action").and_then(|action| action.as_str()) == Some("restart")
        {
            last.clear();
        }
    }
    let forgotten = |(name, (at, done)): (&String, &(Instant, bool))| {
        let resource = view.host(name).resource?;
        let idle = trace.end.since(*at);
        let waits_for_user = resource.message.starts_with(WAITS_FOR_USER);
        if !done || idle < MOMENTS || waits_for_user || matches!(resource.state.as_str(), "" | "unmanaged") {
            return None;
        }
        let state = &resource.state;
        Some(Violation {
            at: at.0,
            seen: format!("{name} is {state}, and was not looked at for the last {}", Span(idle)),
        })
    };
    last.iter().filter_map(forgotten).collect()
}
