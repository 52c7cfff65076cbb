//! Deterministic simulation and fault injection for bare-metal Kubernetes operators.
//!
//! One way through the house: a [`scenario::Scenario`] is text made valid; a [`schedule::Schedule`] is the scenario
//! with all dice thrown; [`run`] builds the world and lets time move; what happened is a [`trace::Trace`];
//! a [`verdict::Verdict`] judges it, and a [`report::Report`] puts it into words. Each is a value handed on to the next.

pub mod cli;
pub mod oracle;
pub mod report;
pub mod run;
pub mod scenario;
pub mod schedule;
pub mod serve;
pub mod trace;
pub mod verdict;
mod world;

use baremetal_operator::regression::Regressions;
use report::Report;
use run::Watch;
use scenario::Scenario;
use schedule::Schedule;

pub use wire::Seed;

/// Runs one world from beginning to end and judges it.
pub fn simulate(scenario: &Scenario, seed: Seed, regressions: &Regressions) -> Report {
    simulate_watched(scenario, seed, regressions, &Watch::default())
}

/// Like [`simulate`], with a say in what is kept and shown of the run.
pub fn simulate_watched(scenario: &Scenario, seed: Seed, regressions: &Regressions, watch: &Watch) -> Report {
    let schedule = Schedule::draw(scenario, seed, regressions);
    let trace = run::run(schedule, watch);
    let verdict = verdict::judge(scenario, regressions, &trace);
    Report::new(scenario, seed, regressions, trace, verdict)
}
