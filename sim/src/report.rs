//! Puts a run into words, for people and for tools.

mod compare;

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use baremetal_operator::regression::Regressions;
use serde_json::{Value, json};
use wire::Seed;

use crate::{
    scenario::{
        Scenario,
        expect::{Table, Wanted},
        time::Span,
    },
    trace::Trace,
    verdict::{
        By, Finding, Seen, Verdict,
        history::{self, History},
        table,
    },
};

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
    /// The moments at which the scenario wants to see the table of hosts; `None` is the end.
    tables: Vec<Option<Duration>>,
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
        let mut tables = Vec::new();
        for expect in &scenario.expect {
            if let Wanted::Table { at, .. } = expect.what
                && !tables.contains(&at)
            {
                tables.push(at);
            }
        }
        if !tables.contains(&None) {
            tables.push(None);
        }
        Self { name: scenario.name.clone(), seed, regressions: regressions.clone(), trace, verdict, tables }
    }

    /// Whether nothing was found wrong.
    pub fn passed(&self) -> bool {
        self.verdict.passed()
    }

    /// The history of every host, by name.
    pub fn histories(&self) -> BTreeMap<String, History> {
        history::histories(&self.trace)
    }

    /// How much time passed in the world.
    pub fn simulated(&self) -> Duration {
        self.trace.end.0
    }

    /// The list of hosts at each moment that the scenario asks for, and at the end.
    pub fn tables(&self) -> Vec<(Option<Duration>, Table)> {
        let moment = |at: Option<Duration>| at.map_or(self.trace.end, |at| self.trace.zero() + at);
        self.tables.iter().map(|at| (*at, table::table(&self.trace, moment(*at)))).collect()
    }

    /// All histories with their moments, the tables, and the calendar date of the timeline's zero.
    pub fn story(&self) -> String {
        let mut text = format!("the timeline begins at {:.0}\n", self.trace.date(self.trace.zero()));
        for (host, history) in self.histories() {
            let _ = write!(text, "\n{host}\n{history}");
        }
        for (at, table) in self.tables() {
            let _ =
                write!(text, "\nkubectl get bmh, {}\n{}", table::moment(at), indented(&table.to_string()));
        }
        text
    }

    /// The histories without their moments: what stays the same while timing changes a little.
    pub fn plain_histories(&self) -> String {
        let mut text = String::new();
        for (host, history) in self.histories() {
            let _ = writeln!(text, "{host}");
            for standing in history.standings() {
                let _ = writeln!(text, "  {standing}");
            }
        }
        text
    }

    /// What was found wrong; empty if nothing was.
    pub fn findings(&self) -> String {
        self.verdict.findings.iter().map(tell).collect::<Vec<_>>().join("\n")
    }

    /// Everything, for tools.
    pub fn to_json(&self) -> Value {
        json!({
            "scenario": self.name,
            "seed": self.seed,
            "regressions": self.regressions,
            "passed": self.passed(),
            "findings": self.verdict.findings,
            "histories": self.histories(),
            "tables": self.tables().into_iter().map(|(at, table)| json!({ "at": at.map(|at| at.as_secs_f64()), "table": table }))
                .collect::<Vec<_>>(),
            "simulated_seconds": self.simulated().as_secs_f64(),
            "hash": self.trace.hash,
        })
    }
}

/// One finding: who found it, what should have been, what was.
pub(crate) fn tell(finding: &Finding) -> String {
    let by = match finding.by {
        By::World => "the world".to_owned(),
        By::Expectation { line, of_report: false } => format!("line {line}"),
        By::Expectation { line, of_report: true } => format!("line {line}, as it was reported"),
        By::Oracle(name) => format!("oracle {name}"),
        By::Vacuous { line } => format!("line {line}, vacuous"),
    };
    let at = finding.at.filter(|_| !matches!(finding.seen, Seen::Table { .. }));
    let at = at.map(|at| format!(", at {}", Span(at))).unwrap_or_default();
    let mut text = format!("{by}: {}{at}\n", finding.wanted);
    match &finding.seen {
        Seen::Words(words) => {
            let _ = writeln!(text, "    {words}");
        }
        Seen::History { host, expected, actual } => {
            let _ = write!(text, "    {host}\n{}", indented(&compare::histories(expected, actual)));
        }
        Seen::Table { expected, actual } => {
            let expected = indented(&indented(&expected.to_string()));
            let actual = indented(&indented(&actual.to_string()));
            let _ = write!(text, "    expected\n{expected}    seen\n{actual}");
        }
    }
    text
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}
