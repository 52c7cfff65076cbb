//! The histories of hosts.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;

use crate::{
    scenario::{history::Standing, time::Span},
    trace::{Trace, is_zero, view::View},
};

/// How a host stood, from the timeline's zero to the end of the run: each change with its moment since zero. A host
/// that had no state yet at zero begins with its first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct History(Vec<Chapter>);

/// One element of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chapter {
    /// When it began.
    pub since: Duration,
    /// How the host stood.
    pub standing: Standing,
}

impl History {
    /// The elements.
    pub fn chapters(&self) -> &[Chapter] {
        &self.0
    }

    /// The standings alone.
    pub fn standings(&self) -> impl Iterator<Item = &Standing> {
        self.0.iter().map(|chapter| &chapter.standing)
    }

    fn add(&mut self, since: Duration, standing: Standing) {
        if self.0.last().is_none_or(|last| last.standing != standing) {
            self.0.push(Chapter { since, standing });
        }
    }
}

/// One line for each element.
impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|chapter| writeln!(f, "{:>14}  {}", Span(chapter.since), chapter.standing))
    }
}

/// The history of every host that there was, by name.
pub fn histories(trace: &Trace) -> BTreeMap<String, History> {
    let zero = trace.zero();
    let mut view = View::default();
    let mut histories: BTreeMap<String, History> = BTreeMap::new();
    let mut begun = !trace.entries().any(|(_, entry)| is_zero(entry));
    for (at, entry) in trace.entries() {
        let changed = view.apply(at, entry);
        if is_zero(entry) {
            begun = true;
            for (name, host) in &view.hosts {
                if let Some(standing) = host.standing() {
                    histories.entry(name.clone()).or_default().add(Duration::ZERO, standing);
                }
            }
        } else if let (true, Some(name)) = (begun, changed)
            && let Some(standing) = view.host(&name).standing()
        {
            histories.entry(name).or_default().add(at.since(zero), standing);
        }
    }
    histories
}
