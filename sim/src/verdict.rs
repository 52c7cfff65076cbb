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
use wire::Instant;

use crate::{
    oracle,
    scenario::{
        Scenario,
        expect::{Expect, Table, Wanted},
        history::Standing,
        plan::HostPlan,
        step::{Action, Step},
        time::Range,
    },
    trace::{Trace, is_zero},
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

/// Whether some expectation has no answer before the end of the run, whatever happens.
pub(crate) fn needs_the_end(scenario: &Scenario) -> bool {
    scenario.expect.iter().any(|expect| match &expect.what {
        Wanted::Eventually { .. } | Wanted::Table { at: Some(_), .. } => false,
        Wanted::Never { window, .. } | Wanted::Always { window, .. } | Wanted::Count { window, .. } => {
            window.until.is_none()
        }
        Wanted::History { .. } | Wanted::Stable { .. } | Wanted::Table { at: None, .. } => true,
    })
}

/// Whether a run that has come so far could end here: every step is over, every expectation has its answer, and the
/// oracles have nothing against it, or it has failed anyway.
pub(crate) fn is_decided(scenario: &Scenario, trace: &Trace) -> bool {
    let Some(now) = trace.on_timeline(trace.end).filter(|_| trace.entries().any(|(_, entry)| is_zero(entry)))
    else {
        return false;
    };
    let is_over = |step: &Step<Range>| {
        let topic = if matches!(step.action, Action::Fault(_)) { "fault" } else { "step" };
        trace.about(topic).any(|(_, entry)| entry.subject == step.line.to_string())
    };
    let is_answered = |expect: &Expect| match &expect.what {
        Wanted::Eventually { from, within, .. } => {
            // Time that has passed up to now is all there is, so that only a met one has no finding.
            now > *from + *within || (now >= *from && expectation::judge(expect, trace).is_empty())
        }
        Wanted::Never { window, .. } | Wanted::Always { window, .. } | Wanted::Count { window, .. } => {
            window.until.is_some_and(|until| now > until)
        }
        Wanted::Table { at, .. } => at.is_some_and(|at| now > at),
        Wanted::History { .. } | Wanted::Stable { .. } => false,
    };
    if !scenario.steps.iter().all(is_over) || !scenario.expect.iter().all(is_answered) {
        return false;
    }
    let findings = judge(scenario, &Regressions::default(), trace).findings;
    findings.is_empty() || findings.iter().any(|finding| !matches!(finding.by, By::Oracle(_)))
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
        if let Some(why) = did_nothing(&step.action, &line, trace) {
            findings.push(finding("every step does something".to_owned(), &why));
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

/// Why a step came to nothing: users gave up, or there were no files to move.
fn did_nothing(action: &Action<Range>, line: &str, trace: &Trace) -> Option<String> {
    let (taken, _) = trace.about("step").find(|(_, entry)| entry.subject == line)?;
    match action {
        Action::Create { hosts }
        | Action::Delete { hosts }
        | Action::Edit { hosts, .. }
        | Action::Annotate { hosts, .. }
        | Action::Secret { hosts, .. } => {
            let given_up = trace.about("user").filter(|(at, _)| *at >= taken);
            given_up.filter(|(_, entry)| is_of(action, hosts, &entry.subject)).find_map(|(_, entry)| {
                let why = entry.data.get("did_nothing")?.as_str()?;
                Some(format!("{}: {why}", entry.subject))
            })
        }
        Action::MoveAway { caches, .. } => no_files(trace, taken, caches, "moved-away"),
        Action::Restore { caches, .. } => no_files(trace, taken, caches, "restored"),
        Action::Fault(_) | Action::Restart(_) | Action::BmcPassword { .. } => None,
    }
}

/// Whether a request is one of those by which the step is taken.
fn is_of(action: &Action<Range>, hosts: &[String], request: &str) -> bool {
    let (method, path) = request.split_once(' ').unwrap_or_default();
    let wanted = match action {
        Action::Create { .. } => "POST",
        Action::Delete { .. } => "DELETE",
        Action::Edit { .. } | Action::Annotate { .. } | Action::Secret { .. } => "PATCH",
        Action::Fault(_)
        | Action::Restart(_)
        | Action::BmcPassword { .. }
        | Action::MoveAway { .. }
        | Action::Restore { .. } => return false,
    };
    let of_secret = matches!(action, Action::Secret { .. });
    let name = path.rsplit('/').next().unwrap_or_default();
    let name = if of_secret { name.strip_suffix("-bmc-secret").unwrap_or_default() } else { name };
    let is_named = hosts.iter().any(|host| host == name) && path.contains("/secrets/") == of_secret;
    method == wanted && (method == "POST" || is_named)
}

fn no_files(trace: &Trace, taken: Instant, caches: &[String], what: &str) -> Option<String> {
    // It is done at once; where time is real, within a moment.
    let soon = taken + Duration::from_millis(100);
    let mut moved = trace.about("files").filter(|(at, _)| (taken..=soon).contains(at));
    let any = moved.any(|(_, entry)| caches.contains(&entry.host) && entry.data.get(what).is_some());
    (!any).then(|| "there were no such files".to_owned())
}
