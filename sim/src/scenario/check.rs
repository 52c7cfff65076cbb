//! Makes a scenario valid, or finds its first mistake.

mod expects;
mod faults;
mod steps;
mod world;

use std::{ops::Range as Bytes, time::Duration};

use baremetal_operator::regression::Regression;
use toml::Spanned;
use wire::Seed;

use super::{
    Provenance, Scenario,
    mistake::Mistake,
    pattern::Pattern,
    plan::{ImageRef, Plan},
    raw,
    time::{self, Range, Span, TimeError},
};

/// The date at which worlds begin that name none: a quiet Sunday.
const SOME_SUNDAY: &str = "2023-01-01T00:00:00Z";

/// Checks a scenario's text.
pub(super) fn scenario(name: &str, shown: &str, text: &str) -> Result<Scenario, Mistake> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Err(Mistake::whole(shown, "the scenario is empty")
            .help("a scenario begins with `about = \"why this story is told\"` and `duration = \"1h\"`"));
    }
    let raw: raw::Scenario = toml::from_str(text).map_err(|error| Mistake::of_toml(shown, text, &error))?;
    let file = File { shown, text };

    if raw.about.get_ref().trim().is_empty() {
        return Err(file
            .at(&raw.about, "`about` says nothing")
            .help("say in a sentence why this story is told"));
    }
    let duration = file.span(&raw.duration)?;
    if duration.is_zero() {
        return Err(file.at(&raw.duration, "a run of no length shows nothing"));
    }
    let start = start(&file, raw.start.as_ref(), duration)?;
    let kills = raw.kills.iter().map(|name| file.regression(name)).collect::<Result<_, _>>()?;

    let plan = world::plan(&file, &raw)?;
    let checker = Checker { file, duration, plan: &plan };
    let steps = raw.step.iter().map(|step| steps::step(&checker, step)).collect::<Result<_, _>>()?;
    let expect =
        raw.expect.iter().map(|expect| expects::expect(&checker, expect)).collect::<Result<Vec<_>, _>>()?;

    Ok(Scenario {
        name: name.to_owned(),
        about: raw.about.into_inner().trim().to_owned(),
        provenance: raw.provenance.map(|raw| Provenance {
            reports: raw.reports,
            fixed_in: raw.fixed_in,
            note: raw.note,
        }),
        kills,
        start,
        duration,
        seed: Seed(raw.seed.unwrap_or(1)),
        steps,
        expect,
        plan,
    })
}

/// Checks that a file's scenario is a whole one: that it has a host, and that all its expectations are asked.
pub(super) fn whole(shown: &str, text: &str, scenario: &Scenario) -> Result<(), Mistake> {
    if scenario.plan.hosts.is_empty() {
        return Err(Mistake::whole(shown, "there is no host in this scenario")
            .help("add one: `[[host]]` with `name = \"node-0\"`"));
    }
    if scenario.expect.is_empty() {
        return Err(Mistake::whole(shown, "this scenario expects nothing, so that it could hardly fail").help(
            "add what must be seen: `[[expect]]` with `eventually = { host = \"…\", state = \"…\" }`, or another kind",
        ));
    }
    for expect in &scenario.expect {
        let Some(with) = expect.with.filter(|with| !scenario.kills.contains(with)) else { continue };
        let before: usize = text.split_inclusive('\n').take(expect.line - 1).map(str::len).sum();
        let line = text[before..].lines().next().unwrap_or_default();
        let message = format!("this is asked with `{with}`, which the scenario does not say that it catches");
        return Err(Mistake::at(shown, text, before..before + line.len(), message)
            .help(format!("add it to `kills`, as in `kills = [\"{with}\"]`")));
    }
    Ok(())
}

fn start(
    file: &File<'_>,
    written: Option<&Spanned<String>>,
    duration: Duration,
) -> Result<jiff::Timestamp, Mistake> {
    let text = written.map_or(SOME_SUNDAY, |written| written.get_ref());
    let wrong = |message: String| match written {
        Some(written) => file.at(written, message).help("write it like 2020-11-03T14:00:00Z"),
        None => Mistake::whole(file.shown, message),
    };
    let start: jiff::Timestamp =
        text.parse().map_err(|_| wrong(format!("`{text}` is not a date with a time")))?;
    if start.as_second() < 0 || start.checked_add(duration * 2).is_err() {
        return Err(wrong(format!("`{text}` is outside of what clocks show")));
    }
    Ok(start)
}

/// The file in hand.
#[derive(Clone, Copy)]
struct File<'a> {
    shown: &'a str,
    text: &'a str,
}

impl File<'_> {
    /// A mistake at a value.
    fn at<T>(&self, value: &Spanned<T>, message: impl Into<String>) -> Mistake {
        self.at_bytes(value.span(), message)
    }

    fn at_bytes(&self, span: Bytes<usize>, message: impl Into<String>) -> Mistake {
        Mistake::at(self.shown, self.text, span, message)
    }

    /// The line of a value, from 1.
    fn line<T>(&self, value: &Spanned<T>) -> usize {
        let start = value.span().start.min(self.text.len());
        1 + self.text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count()
    }

    /// A span of time.
    fn span(&self, written: &Spanned<String>) -> Result<Duration, Mistake> {
        time::parse(written.get_ref()).map_err(|error| self.no_time(written, &error))
    }

    /// A span of time that may be drawn between two.
    fn range(&self, written: &Spanned<String>) -> Result<Range, Mistake> {
        time::parse_range(written.get_ref()).map_err(|error| self.no_time(written, &error))
    }

    fn no_time(&self, written: &Spanned<String>, error: &TimeError) -> Mistake {
        let mistake = self.at(written, error.to_string());
        match error {
            TimeError::Empty | TimeError::NoUnit(_) | TimeError::Unit(_) | TimeError::Number(_) => {
                mistake.help("times are written like `10s`, `1h30m`, `250ms`")
            }
            TimeError::Backwards => mistake.help("write the shorter time first, like `10s..20s`"),
            TimeError::Negative | TimeError::TooLong | TimeError::TooFine => mistake,
        }
    }

    fn regression(&self, written: &Spanned<String>) -> Result<Regression, Mistake> {
        let name = written.get_ref();
        name.parse().map_err(|_| {
            self.at(written, format!("there is no regression `{name}`"))
                .meant(name, Regression::ALL.iter().map(|regression| regression.as_str()))
        })
    }

    /// The known names that a list of patterns stands for, in the order of the known ones.
    fn names<'k>(
        &self,
        written: &Spanned<String>,
        what: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) -> Result<Vec<String>, Mistake> {
        let known: Vec<&str> = known.into_iter().collect();
        let mut chosen = vec![false; known.len()];
        for pattern in written.get_ref().split(',').map(str::trim) {
            let matcher = Pattern::new(pattern);
            let mut found = false;
            for (name, chosen) in known.iter().zip(&mut chosen) {
                if matcher.matches(name) {
                    (*chosen, found) = (true, true);
                }
            }
            if !found {
                return Err(self
                    .at(written, format!("there is no {what} `{pattern}`"))
                    .meant(pattern, known.iter().copied()));
            }
        }
        Ok(known
            .iter()
            .zip(chosen)
            .filter(|(_, chosen)| *chosen)
            .map(|(name, _)| (*name).to_owned())
            .collect())
    }
}

/// What steps and expectations are checked against.
struct Checker<'a> {
    file: File<'a>,
    duration: Duration,
    plan: &'a Plan,
}

impl Checker<'_> {
    /// The BareMetalHosts that a list of patterns stands for.
    fn hosts(&self, written: &Spanned<String>) -> Result<Vec<String>, Mistake> {
        self.file.names(written, "host", self.plan.hosts.iter().map(|host| host.name.as_str()))
    }

    /// A moment of the timeline.
    fn moment(&self, written: &Spanned<String>) -> Result<Duration, Mistake> {
        let moment = self.file.span(written)?;
        self.within_run(written, moment)?;
        Ok(moment)
    }

    /// A moment of the timeline that may be drawn between two.
    fn moments(&self, written: &Spanned<String>) -> Result<Range, Mistake> {
        let range = self.file.range(written)?;
        self.within_run(written, range.most)?;
        Ok(range)
    }

    fn within_run(&self, written: &Spanned<String>, moment: Duration) -> Result<(), Mistake> {
        if moment <= self.duration {
            return Ok(());
        }
        Err(self
            .file
            .at(written, "this lies after the end of the run")
            .help(format!("the run's `duration` is {}; make it longer or this earlier", Span(self.duration))))
    }

    /// An image as it is named by hosts and edits: `IMAGE` or `CACHE/IMAGE`.
    fn image(&self, written: &Spanned<String>) -> Result<ImageRef, Mistake> {
        world::image(&self.file, &self.plan.image_caches, written)
    }
}
