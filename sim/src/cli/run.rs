//! `bmsim run`.

use std::{
    fs::File,
    io::{BufWriter, IsTerminal as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use baremetal_operator::regression::{Regression, Regressions};
use engine::Tracing;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use wire::Seed;

use super::{
    BAD_INPUT, BadInput, FAILED, INTERRUPTED, PASSED, WithRegressions, collect, collect::Found, complain,
    filter, interrupt, pool, quoted, say, warn,
};
use crate::{
    report::Report, run::Watch, scenario::time::Span, simulate_watched, trace::is_zero, trace::lines,
};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Scenarios, or folders with scenarios
    #[arg(value_name = "PATH", default_value = "scenarios")]
    paths: Vec<PathBuf>,
    /// Run with this seed instead of each scenario's own
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<Seed>,
    /// Run with every seed from A to before B
    #[arg(long, value_name = "A..B", value_parser = seeds)]
    seeds: Option<Seeds>,
    #[command(flatten)]
    regressions: WithRegressions,
    /// Also run each scenario with each regression that it says it catches
    #[arg(long)]
    kills: bool,
    /// Write everything that happened to this file, as JSON lines (one world only)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print the hash of each world's trace
    #[arg(long, conflicts_with = "json")]
    hash: bool,
    /// Print log lines to stderr, filtered like `RUST_LOG`
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    log: Option<String>,
    /// Print a JSON object for each world instead of words
    #[arg(long)]
    json: bool,
    /// How many worlds run at a time; as many as there are cores by default
    #[arg(long, value_name = "N")]
    jobs: Option<std::num::NonZero<usize>>,
}

/// Seeds from the first to the last.
#[derive(Clone, Copy, Debug)]
struct Seeds(u64, u64);

fn seeds(text: &str) -> Result<Seeds, String> {
    let (first, end) = text.split_once("..").ok_or("write it like 1..100")?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| format!("`{text}` is not a seed"));
    match (number(first)?, number(end)?) {
        (first, end) if first < end => Ok(Seeds(first, end - 1)),
        _ => Err("there is no seed in it: the second number is excluded".to_owned()),
    }
}

/// One world to run.
struct Job<'a> {
    found: &'a Found,
    seed: Seed,
    regressions: Regressions,
    /// The regression that must turn it red.
    prey: Option<Regression>,
}

/// What is left of a world once it is judged.
struct Done {
    good: bool,
    interrupted: bool,
    /// Why its trace could not be written.
    unwritten: Option<String>,
    line: String,
    details: String,
}

/// Runs scenarios.
pub(super) fn run(arguments: &Arguments) -> u8 {
    let Some(found) = collect::scenarios(&arguments.paths) else { return BAD_INPUT };
    let Some(jobs) = Jobs::of(arguments, &found) else {
        complain(BadInput::new("these are more worlds than can be counted").help("take fewer seeds"));
        return BAD_INPUT;
    };
    let trace_file = match &arguments.trace {
        Some(_) if jobs.count != 1 => {
            let message = format!("a trace is of one world, and these are {}", jobs.count);
            complain(BadInput::new(message).help("name one scenario, and one seed"));
            return BAD_INPUT;
        }
        Some(path) => match File::create(path) {
            Ok(file) => Some((path.as_path(), file)),
            Err(error) => {
                complain(BadInput::new(format!("cannot write {}: {error}", path.display())));
                return BAD_INPUT;
            }
        },
        None => None,
    };
    let interrupt = Arc::new(AtomicBool::new(false));
    let watch = Watch {
        tracing: if trace_file.is_some() { Tracing::Everything } else { Tracing::Facts },
        log: arguments.log.clone(),
        interrupt: interrupt.clone(),
    };
    interrupt::set_on_interrupt(interrupt.clone(), || run_all(arguments, &jobs, &watch, trace_file.as_ref()))
}

/// All worlds to run. Seeds may be too many to hold, so that a job is made when its turn comes.
struct Jobs<'a> {
    found: &'a [Found],
    /// The seeds of all scenarios; each has its own by default.
    seeds: Option<Seeds>,
    given: Regressions,
    kills: bool,
    /// Where the jobs of each scenario end, in the order of the scenarios.
    ends: Vec<u64>,
    count: u64,
}

impl<'a> Jobs<'a> {
    /// `None` if they cannot be counted.
    fn of(arguments: &Arguments, found: &'a [Found]) -> Option<Self> {
        let seeds = arguments.seeds.or(arguments.seed.map(|Seed(seed)| Seeds(seed, seed)));
        let (given, kills) = (arguments.regressions.set(), arguments.kills);
        let mut jobs = Self { found, seeds, given, kills, ends: Vec::new(), count: 0 };
        for found in found {
            let Seeds(first, last) = jobs.seeds(found);
            let of_it = (last - first).checked_add(1)?.checked_mul(jobs.worlds(found))?;
            jobs.count = jobs.count.checked_add(of_it)?;
            jobs.ends.push(jobs.count);
        }
        Some(jobs)
    }

    fn seeds(&self, found: &Found) -> Seeds {
        let Seed(own) = found.scenario.seed;
        self.seeds.unwrap_or(Seeds(own, own))
    }

    /// How many worlds there are of a scenario and a seed.
    fn worlds(&self, found: &Found) -> u64 {
        let prey = if self.kills { found.scenario.kills.len() } else { 0 };
        1 + prey as u64
    }

    /// A job by its place, which is below the count.
    fn get(&self, index: u64) -> Job<'a> {
        let scenario = self.ends.partition_point(|end| *end <= index);
        let found = &self.found[scenario];
        let before = scenario.checked_sub(1).map_or(0, |before| self.ends[before]);
        let (place, worlds) = (index - before, self.worlds(found));
        let Seeds(first, _) = self.seeds(found);
        let prey = usize::try_from(place % worlds).ok().and_then(|place| place.checked_sub(1));
        let prey = prey.and_then(|place| found.scenario.kills.get(place).copied());
        let regressions = self.given.iter().chain(prey).collect();
        Job { found, seed: Seed(first + place / worlds), regressions, prey }
    }
}

/// Runs all worlds and tells of each.
fn run_all(arguments: &Arguments, jobs: &Jobs<'_>, watch: &Watch, trace_file: Option<&(&Path, File)>) -> u8 {
    let cores = arguments.jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, usize::from);
    let alone = jobs.count == 1;
    let names = jobs.found.iter().map(|found| found.scenario.name.chars().count());
    let width = names.max().unwrap_or_default();
    let bar = progress(jobs.count);
    let (mut passed, mut failed) = (0, 0);
    pool::run(
        jobs.count,
        cores,
        &watch.interrupt,
        |index| {
            let done = run_one(arguments, &jobs.get(index), watch, trace_file, alone, width);
            bar.inc(1);
            done
        },
        |index, done| {
            let done = done.unwrap_or_else(|panic| {
                let job = jobs.get(index);
                Done {
                    good: false,
                    interrupted: false,
                    unwritten: None,
                    line: format!("FAIL  {}  seed {}", job.found.scenario.name, job.seed),
                    details: format!("the simulator panicked: {panic}\n{}\n", replay(&job)),
                }
            });
            if done.interrupted {
                // Of many worlds those that were cut short tell nothing; one alone is what somebody looks at.
                if !alone {
                    return;
                }
            } else if done.good {
                passed += 1
            } else {
                failed += 1
            }
            bar.suspend(|| {
                say(&done.line);
                if !done.details.is_empty() {
                    say(&done.details);
                }
                if let Some(error) = &done.unwritten {
                    warn(error);
                }
            });
        },
    );
    bar.finish_and_clear();
    let left = jobs.count - passed - failed;
    if !arguments.json && !arguments.hash && !alone {
        let unfinished = if left > 0 { format!(", {left} not run to the end") } else { String::new() };
        say(&format!("{passed} passed, {failed} failed{unfinished}"));
    }
    match (failed, left) {
        _ if watch.interrupt.load(Ordering::Relaxed) => INTERRUPTED,
        (0, _) => PASSED,
        (_, _) => FAILED,
    }
}

/// Runs one world and puts it into words; its trace is dropped.
fn run_one(
    arguments: &Arguments,
    job: &Job<'_>,
    watch: &Watch,
    trace_file: Option<&(&Path, File)>,
    alone: bool,
    width: usize,
) -> Done {
    let began = now();
    let report = simulate_watched(&job.found.scenario, job.seed, &job.regressions, watch);
    let wall = now().duration_since(began);
    let interrupted = report.trace.failure.is_some() && watch.interrupt.load(Ordering::Relaxed);
    let good = match job.prey {
        None => report.passed(),
        Some(_) => report.verdict.found_bug() && report.verdict.sound(),
    };
    let mut details = String::new();
    let unwritten = trace_file.and_then(|(path, file)| {
        let error = lines::write(&report.trace, BufWriter::new(file)).err()?;
        Some(format!("cannot write {}: {error}", path.display()))
    });
    if interrupted && !arguments.json && !arguments.hash {
        let moment = match report.trace.on_timeline(report.trace.end) {
            Some(at) if report.trace.entries().any(|(_, entry)| is_zero(entry)) => {
                format!("stopped at {}", Span(Duration::from_secs(at.as_secs())))
            }
            Some(_) | None => "stopped before the timeline began".to_owned(),
        };
        let line = format!("{}{moment}  seed {}\n{}", story_so_far(&report), job.seed, replay(job));
        return Done { good: false, interrupted, unwritten, line, details };
    }
    let line = if arguments.json {
        let mut json = report.to_json();
        json["path"] = job.found.path.display().to_string().into();
        json["wall_seconds"] = wall.as_secs_f64().into();
        json["good"] = good.into();
        json["interrupted"] = interrupted.into();
        json.to_string()
    } else if arguments.hash {
        format!("{}  {}  seed {}{}", report.trace.hash, report.name, job.seed, with(&job.regressions))
    } else {
        line(job, &report, good, wall, width)
    };
    if !arguments.json {
        if !arguments.hash && (alone || (!good && job.prey.is_none())) {
            details.push_str(&format!("\n{}", report.story()));
        }
        match job.prey {
            None if !good => details.push_str(&format!("\n{}\n{}\n", report.findings(), replay(job))),
            Some(prey) if !good => details.push_str(&format!(
                "\nthis scenario says that it catches {prey}; what it found with it:\n{}\n{}\n",
                if report.passed() { "nothing\n".to_owned() } else { report.findings() },
                replay(job)
            )),
            None | Some(_) => {}
        }
    }
    Done { good: good && unwritten.is_none(), interrupted, unwritten, line, details }
}

/// The story up to a stop.
fn story_so_far(report: &Report) -> String {
    if report.histories().is_empty() { String::new() } else { format!("{}\n", report.story()) }
}

/// `pass  scenario  2h in 0.04 s  seed 1  1a2b3c4d`.
fn line(job: &Job<'_>, report: &Report, good: bool, wall: Duration, width: usize) -> String {
    let word = match (good, job.prey) {
        (true, None) => "pass",
        (true, Some(_)) => "caught",
        (false, _) => "FAIL",
    };
    let hash = report.trace.hash.get(..8).unwrap_or_default();
    format!(
        "{word:6}  {:width$}  {:>8} in {:4.2} s  seed {}  {hash}{}",
        report.name,
        Span(Duration::from_secs(report.simulated().as_secs())),
        wall.as_secs_f64(),
        job.seed,
        with(&job.regressions),
    )
}

fn with(regressions: &Regressions) -> String {
    if regressions.is_empty() { String::new() } else { format!("  with {regressions}") }
}

/// The command that runs the same world again.
fn replay(job: &Job<'_>) -> String {
    let regressions = job.regressions.iter().map(|regression| format!(" --regression {regression}"));
    let path = quoted(&job.found.path.display().to_string());
    format!("replay: bmsim run {path} --seed {}{}", job.seed, regressions.collect::<String>())
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a world takes on this machine is told, and judged by nobody"
)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// A bar on a terminal, nothing elsewhere.
fn progress(length: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() && length > 1 {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} worlds");
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::scenario::Scenario;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn found(kills: &str) -> Found {
        let text = format!(
            "about = \"a test\"\nduration = \"1h\"\nseed = 5\nkills = [{kills}]\n[[host]]\nname = \"node-0\"\n\
             [[expect]]\nnever = {{ host = \"node-0\", error = \"any\" }}\n"
        );
        let scenario =
            Scenario::read("test.toml", text.into_bytes()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        Found { path: "test.toml".into(), scenario }
    }

    fn arguments(line: &str) -> Arguments {
        Line::parse_from(line.split_whitespace()).arguments
    }

    #[test]
    fn jobs_are_found_by_their_place() {
        let prey = Regression::ALL[0];
        let found = [found(""), found(&format!("\"{prey}\""))];
        let jobs = Jobs::of(&arguments("bmsim --seeds 7..9 --kills"), &found).expect("they can be counted");
        let all = (0..jobs.count).map(|index| jobs.get(index));
        let told: Vec<_> = all
            .map(|job| (job.seed, job.prey, job.regressions.has(prey), job.found.scenario.kills.len()))
            .collect();
        let (seven, eight) = (Seed(7), Seed(8));
        assert_eq!(
            told,
            [
                (seven, None, false, 0),
                (eight, None, false, 0),
                (seven, None, false, 1),
                (seven, Some(prey), true, 1),
                (eight, None, false, 1),
                (eight, Some(prey), true, 1),
            ]
        );
        let own = Jobs::of(&arguments("bmsim"), &found).expect("they can be counted");
        assert_eq!((own.count, own.get(1).seed), (2, Seed(5)));
    }

    #[test]
    fn endless_seeds_take_no_room() {
        let found = [found("")];
        let endless = arguments("bmsim --seeds 0..18446744073709551615");
        let jobs = Jobs::of(&endless, &found).expect("they can be counted");
        assert_eq!(jobs.count, u64::MAX);
        assert_eq!(jobs.get(u64::MAX - 1).seed, Seed(u64::MAX - 1));
        assert!(Jobs::of(&endless, &[found[0].clone(), found[0].clone()]).is_none());
    }
}
