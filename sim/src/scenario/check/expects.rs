//! Checks the expectations.

use std::time::Duration;

use toml::Spanned;

use super::{Checker, steps::condition};
use crate::{
    scenario::{
        expect::{Bound, Expect, Selector, TOPICS, Table, Wanted, Window},
        history::{AGAIN, Episode, Standing},
        mistake::Mistake,
        raw,
    },
    verdict::table::COLUMNS,
};

/// Checks one expectation.
pub(super) fn expect(checker: &Checker<'_>, written: &Spanned<raw::Expect>) -> Result<Expect, Mistake> {
    let raw = written.get_ref();
    let mut wanted = Vec::new();
    if let Some(history) = &raw.history {
        wanted.push((&[] as &[&str], self::history(checker, history)?));
    }
    if let Some(never) = &raw.never {
        let (condition, window) = (condition(checker, never)?, window(checker, raw)?);
        wanted.push((&["from", "until"], Wanted::Never { condition, window }));
    }
    if let Some(always) = &raw.always {
        let (condition, window) = (condition(checker, always)?, window(checker, raw)?);
        wanted.push((&["from", "until"], Wanted::Always { condition, window }));
    }
    if let Some(eventually) = &raw.eventually {
        wanted.push((&["from", "within"], self::eventually(checker, raw, eventually)?));
    }
    if let Some(stable) = &raw.stable {
        wanted.push((&["for"], self::stable(checker, raw, stable)?));
    }
    if let Some(count) = &raw.count {
        wanted.push((&["from", "until", "equals", "at_most", "at_least"], self::count(checker, raw, count)?));
    }
    if let Some(table) = &raw.table {
        let at = raw.at.as_ref().map(|at| checker.moment(at)).transpose()?;
        wanted.push((&["at"], Wanted::Table { at, text: self::table(checker, table)? }));
    }
    let (allowed, what) = match (wanted.pop(), wanted.is_empty()) {
        (Some(wanted), true) => wanted,
        (Some(_), false) => {
            return Err(checker
                .file
                .at(written, "this expects more than one thing")
                .help("make one of each"));
        }
        (None, _) => {
            return Err(checker.file.at(written, "this expects nothing").help(
                "give it one of `history`, `never`, `always`, `eventually`, `stable`, `count`, `table`",
            ));
        }
    };
    only(checker, raw, allowed)?;
    let with = raw.with.as_ref().map(|name| checker.file.regression(name)).transpose()?;
    Ok(Expect { what, with, line: checker.file.line(written) })
}

/// A key that says nothing to the kind of expectation is a mistake: it would be ignored.
fn only(checker: &Checker<'_>, raw: &raw::Expect, allowed: &[&str]) -> Result<(), Mistake> {
    let texts = [
        ("from", &raw.from),
        ("until", &raw.until),
        ("within", &raw.within),
        ("for", &raw.lasts),
        ("at", &raw.at),
    ];
    for (key, written) in texts {
        if let (Some(written), false) = (written, allowed.contains(&key)) {
            return Err(checker
                .file
                .at(written, format!("`{key}` does not belong to this kind of expectation")));
        }
    }
    let bounds = [raw.equals, raw.at_most, raw.at_least];
    match (&raw.count, bounds.iter().flatten().count()) {
        (None, 0) | (Some(_), _) => Ok(()),
        (None, _) => {
            let first = [&raw.never, &raw.always, &raw.eventually, &raw.stable].into_iter().flatten().next();
            let span = first.map(Spanned::span).or_else(|| raw.table.as_ref().map(Spanned::span));
            let span = span.or_else(|| raw.history.as_ref().map(|history| history.host.span()));
            Err(checker.file.at_bytes(span.unwrap_or_default(), "a number belongs to `count` alone"))
        }
    }
}

fn window(checker: &Checker<'_>, raw: &raw::Expect) -> Result<Window, Mistake> {
    let from = raw.from.as_ref().map_or(Ok(Duration::ZERO), |from| checker.moment(from))?;
    let until = raw.until.as_ref().map(|until| checker.moment(until)).transpose()?;
    match (&raw.until, until) {
        (Some(written), Some(until)) if until < from => {
            Err(checker.file.at(written, "this ends before it begins").help("`until` lies after `from`"))
        }
        _ => Ok(Window { from, until }),
    }
}

fn history(checker: &Checker<'_>, raw: &raw::History) -> Result<Wanted, Mistake> {
    let file = &checker.file;
    let hosts = checker.hosts(&raw.host)?;
    let mut states: Vec<Episode> = Vec::new();
    for written in &raw.states {
        if written.get_ref() == AGAIN {
            if states.len() < 2 || states.contains(&Episode::Again) {
                return Err(file
                    .at(written, "`...` repeats the two states before it")
                    .help("it stands once, after two states or more"));
            }
            states.push(Episode::Again);
            continue;
        }
        let standing: Standing = written
            .get_ref()
            .parse()
            .map_err(|error| Mistake::of_word(file.shown, file.text, written.span(), &error))?;
        let standing = Episode::Is(standing);
        if states.last() == Some(&standing) {
            return Err(file.at(written, "a history holds changes; this is the state before it"));
        }
        states.push(standing);
    }
    Ok(Wanted::History { hosts, states })
}

fn eventually(
    checker: &Checker<'_>,
    raw: &raw::Expect,
    written: &Spanned<raw::Condition>,
) -> Result<Wanted, Mistake> {
    let from = raw.from.as_ref().map_or(Ok(Duration::ZERO), |from| checker.moment(from))?;
    let left = checker.duration.saturating_sub(from);
    let within = match &raw.within {
        None => left,
        Some(written) => {
            let within = checker.moment(written)?;
            if within > left {
                return Err(checker
                    .file
                    .at(written, "this lies after the end of the run")
                    .help("`within` counts from `from`"));
            }
            within
        }
    };
    Ok(Wanted::Eventually { condition: condition(checker, written)?, from, within })
}

fn stable(
    checker: &Checker<'_>,
    raw: &raw::Expect,
    written: &Spanned<raw::Condition>,
) -> Result<Wanted, Mistake> {
    let Some(lasts) = &raw.lasts else {
        return Err(checker.file.at(written, "stable for how long?").help("add `for = \"10m\"`"));
    };
    Ok(Wanted::Stable { condition: condition(checker, written)?, lasts: checker.moment(lasts)? })
}

fn count(checker: &Checker<'_>, raw: &raw::Expect, written: &Spanned<String>) -> Result<Wanted, Mistake> {
    let Some(of) = Selector::parse(written.get_ref()) else {
        return Err(checker
            .file
            .at(written, "this selects nothing")
            .help("write it like `request@ironic PUT /v1/nodes/*/states/provision`"));
    };
    selectable(checker, written, &of)?;
    let bound = match (raw.equals, raw.at_most, raw.at_least) {
        (Some(bound), None, None) => Bound::Equals(bound),
        (None, Some(bound), None) => Bound::AtMost(bound),
        (None, None, Some(bound)) => Bound::AtLeast(bound),
        _ => {
            return Err(checker
                .file
                .at(written, "how many?")
                .help("give it exactly one of `equals`, `at_most`, `at_least`"));
        }
    };
    Ok(Wanted::Count { of, bound, window: window(checker, raw)? })
}

/// A selector that could never select anything lets every count pass that has no lower bound.
fn selectable(checker: &Checker<'_>, written: &Spanned<String>, of: &Selector) -> Result<(), Mistake> {
    let (file, plan) = (&checker.file, checker.plan);
    let topic = of.topic.as_str();
    if !TOPICS.contains(&topic) {
        return Err(file
            .at(written, format!("no facts are noted under the topic `{topic}`"))
            .meant(topic, TOPICS.iter().copied()));
    }
    let mut names = plan.network_names();
    names.push("user".to_owned());
    // Facts of the world itself have no host.
    let of_world = matches!(topic, "step" | "timeline" | "fault") && of.host.matches("");
    if !of_world && !names.iter().any(|name| of.host.matches(name)) {
        let host = of.host.to_string();
        return Err(file
            .at(written, format!("there is no host on the network `{host}`"))
            .meant(&host, names.iter().map(String::as_str)));
    }
    let namespace = &plan.namespace;
    let subject = of.subject.to_string();
    let told = |host: &str| match topic {
        "node" => format!("{namespace}~{host}"),
        "reconcile" => format!("{namespace}/{host}"),
        "kube" => format!("baremetalhosts/{namespace}/{host}"),
        _ => host.to_owned(),
    };
    let about_hosts = match topic {
        "power" | "disk" | "media" | "boot" | "node" | "reconcile" => true,
        "kube" => subject.starts_with("baremetalhosts"),
        _ => false,
    };
    let subjects: Vec<String> = plan.hosts.iter().map(|host| told(&host.name)).collect();
    if about_hosts && !subjects.iter().any(|known| of.subject.matches(known)) {
        return Err(file
            .at(written, format!("no host of this scenario is `{subject}` under the topic `{topic}`"))
            .meant(&subject, subjects.iter().map(String::as_str)));
    }
    Ok(())
}

fn table(checker: &Checker<'_>, written: &Spanned<String>) -> Result<Table, Mistake> {
    let file = &checker.file;
    let table = Table::parse(written.get_ref()).map_err(|reason| {
        file.at(written, reason).help("paste what `kubectl get bmh` printed, header and all")
    })?;
    if let Some(column) = table.columns.iter().find(|column| !COLUMNS.contains(&column.as_str())) {
        return Err(file
            .at(written, format!("`kubectl get bmh` has no column `{column}`"))
            .meant(column, COLUMNS.iter().copied()));
    }
    if let Some(name) = table.columns.iter().position(|column| column == "NAME") {
        let known = || checker.plan.hosts.iter().map(|host| host.name.as_str());
        if let Some(row) = table.rows.iter().find(|row| !known().any(|name_known| row[name] == name_known)) {
            return Err(file
                .at(written, format!("there is no host `{}`", row[name]))
                .meant(&row[name], known()));
        }
    }
    Ok(table)
}
