//! Judges a run: every expectation of the scenario, and every oracle. Pure folds over the trace.

pub mod expectation;
pub mod history;
pub mod table;
#[cfg(test)]
mod tests;
mod walk;

use std::time::Duration;

use baremetal_operator::regression::Regressions;
use serde::Serialize;

use crate::{
    oracle,
    scenario::{Scenario, expect::Table, history::Standing, plan::HostPlan, step::Action},
    trace::Trace,
};

use history::History;

/// What became of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// What was found wrong; empty if the run passed.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// Whether nothing was found.
    pub fn passed(&self) -> bool {
        self.findings.is_empty()
    }

    /// Whether a bug was found, which is not the case if the run merely showed nothing, or failed to look like a
    /// report.
    pub fn found_bug(&self) -> bool {
        self.findings.iter().any(|finding| match finding.by {
            By::Expectation { of_report, .. } => !of_report,
            By::Oracle(_) => true,
            By::World | By::Vacuous { .. } => false,
        })
    }

    /// Whether the run came to its end, did what it says, and looked like the report where the scenario shows one.
    pub fn sound(&self) -> bool {
        self.findings.iter().all(|finding| match finding.by {
            By::Expectation { of_report, .. } => !of_report,
            By::Oracle(_) => true,
            By::World | By::Vacuous { .. } => false,
        })
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
        /// What was seen.
        actual: History,
    },
    /// Another table.
    Table {
        /// What was expected.
        expected: Table,
        /// What was seen.
        actual: Table,
    },
}

/// Judges a run.
pub fn judge(scenario: &Scenario, regressions: &Regressions, trace: &Trace) -> Verdict {
    if let Some(failure) = &trace.failure {
        // What a world that broke off did not show says nothing.
        return Verdict { findings: vec![of_world("the world runs to its end", failure.clone(), trace)] };
    }
    if !trace.began() {
        let view = walk::view_at(trace, trace.zero());
        let there = |host: &&HostPlan| {
            let state = view.host(&host.name).resource.map(|resource| resource.state);
            host.initial.state().is_none_or(|wanted| state.as_deref() == Some(wanted))
        };
        let missing: Vec<_> = scenario.plan.hosts.iter().filter(|host| !there(host)).collect();
        let seen = missing
            .iter()
            .map(|host| expectation::describe(&host.name, &view))
            .collect::<Vec<_>>()
            .join("; ");
        return Verdict {
            findings: vec![of_world("every host comes to the state in which it begins", seen, trace)],
        };
    }
    let mut findings = vacuous(scenario, trace);
    let asked = scenario.expect.iter().filter(|expect| expect.with.is_none_or(|with| regressions.has(with)));
    findings.extend(asked.flat_map(|expect| expectation::judge(expect, trace)));
    findings.extend(oracle::ALL.iter().flat_map(|oracle| oracle.judge(trace)));
    Verdict { findings }
}

fn of_world(wanted: &str, seen: String, trace: &Trace) -> Finding {
    let at = trace.on_timeline(trace.end);
    Finding { by: By::World, wanted: wanted.to_owned(), seen: Seen::Words(seen), at }
}

/// Steps that did not happen, and faults that changed nothing.
fn vacuous(scenario: &Scenario, trace: &Trace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for step in &scenario.steps {
        let line = step.line.to_string();
        let finding = |wanted: String, seen: &str| Finding {
            by: By::Vacuous { line: step.line },
            wanted,
            seen: Seen::Words(seen.to_owned()),
            at: None,
        };
        if !trace.about("step").any(|(_, entry)| entry.subject == line) {
            findings.push(finding("every step happens".to_owned(), "its moment never came"));
            continue;
        }
        let Action::Fault(fault) = &step.action else { continue };
        let touched = trace.about("fault").filter(|(_, entry)| entry.subject == line);
        let touched: u64 = touched.filter_map(|(_, entry)| entry.data.get("touched")?.as_u64()).sum();
        if touched == 0 {
            findings.push(finding(
                format!("{} is felt", fault.trouble),
                "it touched nothing, so the run shows nothing",
            ));
        }
    }
    findings
}
