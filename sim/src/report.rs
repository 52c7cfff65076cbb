//! Puts a run into words, for people and for tools.

use baremetal_operator::regression::Regressions;
use wire::Seed;

use crate::{scenario::Scenario, trace::Trace, verdict::Verdict};

/// What is to be told of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The scenario's name.
    pub name: String,
    /// The seed.
    pub seed: Seed,
    /// Which historic bugs the operator had.
    pub regressions: Regressions,
    /// What happened.
    pub trace: Trace,
    /// What it is worth.
    pub verdict: Verdict,
}

impl Report {
    /// Puts together what is to be told.
    pub fn new(
        scenario: &Scenario,
        seed: Seed,
        regressions: &Regressions,
        trace: Trace,
        verdict: Verdict,
    ) -> Self {
        Self { name: scenario.name.clone(), seed, regressions: regressions.clone(), trace, verdict }
    }
}
