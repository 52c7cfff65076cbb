//! Judges one expectation.

use std::{ops::ControlFlow, time::Duration};

use super::{By, Finding, Seen, history, table, walk::walk};
use crate::{
    scenario::{
        condition::Condition,
        expect::{Bound, Expect, Selector, Table, Wanted, Window},
        history::{Episode, Standing, unfold},
        time::Span,
    },
    trace::{
        Trace,
        view::{HostView, View},
    },
};

/// What contradicts an expectation.
pub fn judge(expect: &Expect, trace: &Trace) -> Vec<Finding> {
    let found = match &expect.what {
        Wanted::History { hosts, states } => histories(trace, hosts, states),
        Wanted::Never { condition, window } => never(trace, condition, *window).into_iter().collect(),
        Wanted::Always { condition, window } => always(trace, condition, *window).into_iter().collect(),
        Wanted::Eventually { condition, from, within } => {
            eventually(trace, condition, *from, *within).into_iter().collect()
        }
        Wanted::Stable { condition, lasts } => stable(trace, condition, *lasts).into_iter().collect(),
        Wanted::Count { of, bound, window } => count(trace, of, *bound, *window).into_iter().collect(),
        Wanted::Table { at, text } => table_at(trace, *at, text).into_iter().collect(),
    };
    let by = By::Expectation { line: expect.line, of_report: expect.with.is_some() };
    let wanted = expect.what.to_string();
    found.into_iter().map(|(at, seen)| Finding { by, wanted: wanted.clone(), seen, at }).collect()
}

/// When, and what was seen.
type Found = (Option<Duration>, Seen);

fn words(at: Duration, text: String) -> Found {
    (Some(at), Seen::Words(text))
}

fn histories(trace: &Trace, hosts: &[String], states: &[Episode]) -> Vec<Found> {
    let seen = history::histories(trace);
    let mut found = Vec::new();
    for host in hosts {
        let actual = seen.get(host).cloned().unwrap_or_default();
        let expected = unfold(states, &actual.standings().collect::<Vec<_>>());
        if actual.standings().eq(&expected) {
            continue;
        }
        // The moment of the first chapter that differs, or of the end if some are missing.
        let same =
            actual.standings().zip(&expected).take_while(|(actual, expected)| actual == expected).count();
        let at = actual.chapters().get(same).map(|chapter| chapter.since);
        let at = at.or_else(|| trace.on_timeline(trace.end));
        found.push((at, Seen::History { host: host.clone(), expected, actual }));
    }
    found
}

fn never(trace: &Trace, condition: &Condition, window: Window) -> Option<Found> {
    walk(trace, window, |at, view| match condition.holder(view) {
        Some(host) => ControlFlow::Break(words(at, describe(host, view))),
        None => ControlFlow::Continue(()),
    })
}

fn always(trace: &Trace, condition: &Condition, window: Window) -> Option<Found> {
    walk(trace, window, |at, view| match condition.breaker(view) {
        Some(host) => ControlFlow::Break(words(at, describe(host, view))),
        None => ControlFlow::Continue(()),
    })
}

fn eventually(trace: &Trace, condition: &Condition, from: Duration, within: Duration) -> Option<Found> {
    let window = Window { from, until: Some(from + within) };
    let reached = walk(trace, window, |at, view| {
        if condition.holds(view) { ControlFlow::Break(at) } else { ControlFlow::Continue(()) }
    });
    if reached.is_some() {
        return None;
    }
    let until = from + within;
    let view = super::walk::view_at(trace, trace.zero() + until);
    let host = condition.breaker(&view)?;
    // It may have come later; that is worth a word.
    let late = walk(trace, Window { from: until, until: None }, |at, view| {
        if condition.holds(view) { ControlFlow::Break(at) } else { ControlFlow::Continue(()) }
    });
    let late = late.map_or_else(String::new, |at| format!(" (it came at {})", Span(at)));
    Some(words(until, format!("{}{late}", describe(host, &view))))
}

fn stable(trace: &Trace, condition: &Condition, lasts: Duration) -> Option<Found> {
    let length = trace.on_timeline(trace.end).unwrap_or_default();
    always(trace, condition, Window { from: length.saturating_sub(lasts), until: None })
}

fn count(trace: &Trace, of: &Selector, bound: Bound, window: Window) -> Option<Found> {
    let zero = trace.zero();
    let mut past_zero = !trace.entries().any(|(_, entry)| crate::trace::is_zero(entry));
    let (mut count, mut last) = (0, None);
    for (at, entry) in trace.entries() {
        past_zero |= crate::trace::is_zero(entry);
        let since = at.since(zero);
        let inside = past_zero && since >= window.from && window.until.is_none_or(|until| since <= until);
        if inside && of.selects(entry) {
            count += 1;
            last = Some((since, entry));
        }
    }
    if bound.admits(count) {
        return None;
    }
    let seen = match last {
        Some((at, entry)) => {
            let (host, subject) = (&entry.host, &entry.subject);
            format!("{count}; the last at {}: `{subject}` of {host} {}", Span(at), entry.data)
        }
        None => "none".to_owned(),
    };
    Some((last.map(|(at, _)| at), Seen::Words(seen)))
}

fn table_at(trace: &Trace, at: Option<Duration>, expected: &Table) -> Option<Found> {
    let moment = at.map_or(trace.end, |at| trace.zero() + at);
    let actual = table::table(trace, moment).like(expected);
    // As kubectl does not sort by what is shown, neither the report's order nor ours means anything.
    let sorted = |table: &Table| {
        let mut rows = table.rows.clone();
        rows.sort();
        rows
    };
    if sorted(&actual) == sorted(expected) {
        return None;
    }
    Some((trace.on_timeline(moment), Seen::Table { expected: expected.clone(), actual }))
}

/// How a host stands, in words.
pub(super) fn describe(name: &str, view: &View) -> String {
    let HostView { resource, existed, node, power, .. } = view.host(name);
    let Some(resource) = resource else {
        return format!("{name} {}", if existed { "is gone" } else { "does not exist" });
    };
    let mut text = format!(
        "{name} is {} ({})",
        Standing::of(&resource.state, "", &resource.error),
        if resource.status.is_empty() { "no operational status" } else { &resource.status }
    );
    if resource.error_count > 0 {
        text.push_str(&format!(", errorCount {}", resource.error_count));
    }
    if let Some(power) = power {
        text.push_str(if power { ", its machine on" } else { ", its machine off" });
    }
    if let Some(node) = node {
        text.push_str(&format!(", its node {node}"));
    }
    if !resource.message.is_empty() {
        text.push_str(&format!(": {}", resource.message));
    }
    text
}
