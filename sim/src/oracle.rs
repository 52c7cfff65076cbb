//! What must hold in every world, whatever its scenario expects.
//!
//! One property, one file, one fold over the trace. An oracle reads the trace and nothing else; if it needs a fact,
//! the fact is recorded.

mod converges;
mod disk_is_kept;
mod is_looked_at_again;
mod no_hot_loop;
mod provisioned_stays;
#[cfg(test)]
mod tests;
mod touched;

use std::time::Duration;

use crate::{
    trace::Trace,
    verdict::{By, Finding, Seen},
};

/// All oracles, safety before liveness.
pub const ALL: &[Oracle] = &[
    Oracle {
        name: "provisioned-stays",
        always: "a provisioned host leaves that state only when its user asked for it",
        fold: provisioned_stays::judge,
    },
    Oracle {
        name: "disk-is-kept",
        always: "the disks of a provisioned host's machine change only when its user asked for it",
        fold: disk_is_kept::judge,
    },
    Oracle {
        name: "is-looked-at-again",
        always: "a host that has somewhere to go is looked at again",
        fold: is_looked_at_again::judge,
    },
    Oracle { name: "no-hot-loop", always: "no host is reconciled over and over", fold: no_hot_loop::judge },
    Oracle {
        name: "converges",
        always: "once every fault has healed, every host recovers",
        fold: converges::judge,
    },
];

/// A property of every run.
#[derive(Clone, Copy, Debug)]
pub struct Oracle {
    /// Its name.
    pub name: &'static str,
    /// What it says, in a sentence.
    pub always: &'static str,
    fold: fn(&Trace) -> Vec<Violation>,
}

impl Oracle {
    /// What contradicts it.
    pub fn judge(&self, trace: &Trace) -> Vec<Finding> {
        let finding = |violation: Violation| Finding {
            by: By::Oracle(self.name),
            wanted: self.always.to_owned(),
            seen: Seen::Words(violation.seen),
            at: trace.on_timeline(wire::Instant(violation.at)),
        };
        (self.fold)(trace).into_iter().map(finding).collect()
    }
}

/// One contradiction: what was seen, and when since the world began.
struct Violation {
    at: Duration,
    seen: String,
}
