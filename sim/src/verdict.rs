//! Judges a run: every expectation of the scenario, and every oracle. Pure folds over the trace.

use std::time::Duration;

use baremetal_operator::regression::Regressions;
use serde::Serialize;

use crate::{
    scenario::{Scenario, history::Standing},
    trace::Trace,
};

/// What became of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// What was found wrong, worst first; empty if the run passed.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// Whether nothing was found.
    pub fn passed(&self) -> bool {
        self.findings.is_empty()
    }
}

/// One thing that was found wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Who found it.
    pub by: By,
    /// What should have been, in a few words.
    pub wanted: String,
    /// What was instead.
    pub seen: Seen,
    /// When, since the timeline's zero.
    pub at: Option<Duration>,
}

/// Who found something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The world itself: it did not come to its end, or not to its beginning.
    World,
    /// An expectation in this line of the scenario.
    Expectation {
        /// The line.
        line: usize,
        /// Whether it says what the bug looked like in the field.
        of_report: bool,
    },
    /// An oracle.
    Oracle(&'static str),
    /// A step in this line that did nothing: the run shows nothing.
    Vacuous {
        /// The line.
        line: usize,
    },
}

/// What was seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// In words.
    Words(String),
    /// Another history.
    History {
        /// Whose.
        host: String,
        /// What was expected.
        expected: Vec<Standing>,
        /// What was seen, with the moments since the timeline's zero.
        actual: Vec<(Duration, Standing)>,
    },
    /// Another table.
    Table {
        /// What was expected.
        expected: String,
        /// What was seen.
        actual: String,
    },
}

/// Judges a run.
pub fn judge(_scenario: &Scenario, _regressions: &Regressions, _trace: &Trace) -> Verdict {
    Verdict::default()
}
