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
    interrupt, pool, say,
};
use crate::{report::Report, run::Watch, scenario::time::Span, simulate_watched, trace::lines};

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
    #[arg(long, value_name = "FILTER")]
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
    line: String,
    details: String,
}

/// Runs scenarios.
pub(super) fn run(arguments: &Arguments) -> u8 {
    let Some(found) = collect::scenarios(&arguments.paths) else { return BAD_INPUT };
    let jobs = jobs(arguments, &found);
    let trace_file = match &arguments.trace {
        Some(_) if jobs.len() != 1 => {
            let message = format!("a trace is of one world, and these are {}", jobs.len());
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

fn jobs<'a>(arguments: &Arguments, found: &'a [Found]) -> Vec<Job<'a>> {
    let given = arguments.regressions.set();
    let mut jobs = Vec::new();
    for found in found {
        let Seed(only) = arguments.seed.unwrap_or(found.scenario.seed);
        let Seeds(first, last) = arguments.seeds.unwrap_or(Seeds(only, only));
        for seed in (first..=last).map(Seed) {
            jobs.push(Job { found, seed, regressions: given.clone(), prey: None });
            if arguments.kills {
                jobs.extend(found.scenario.kills.iter().map(|&prey| {
                    let regressions = given.iter().chain([prey]).collect();
                    Job { found, seed, regressions, prey: Some(prey) }
                }));
            }
        }
    }
    jobs
}

/// Runs all worlds and tells of each.
fn run_all(arguments: &Arguments, jobs: &[Job<'_>], watch: &Watch, trace_file: Option<&(&Path, File)>) -> u8 {
    let cores = arguments.jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, usize::from);
    let alone = jobs.len() == 1;
    let width = jobs.iter().map(|job| job.found.scenario.name.chars().count()).max().unwrap_or_default();
    let bar = progress(jobs.len());
    let (mut passed, mut failed) = (0, 0);
    pool::run(
        jobs,
        cores,
        &watch.interrupt,
        |job| {
            let done = run_one(arguments, job, watch, trace_file, alone, width);
            bar.inc(1);
            done
        },
        |job, done| {
            let done = done.unwrap_or_else(|panic| Done {
                good: false,
                interrupted: false,
                line: format!("FAIL  {}  seed {}", job.found.scenario.name, job.seed),
                details: format!("the simulator panicked: {panic}\n{}\n", replay(job)),
            });
            if done.interrupted {
                return;
            }
            if done.good {
                passed += 1
            } else {
                failed += 1
            }
            bar.suspend(|| {
                say(&done.line);
                if !done.details.is_empty() {
                    say(&done.details);
                }
            });
        },
    );
    bar.finish_and_clear();
    let left = jobs.len() - passed - failed;
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
    if let Some((path, file)) = trace_file
        && let Err(error) = lines::write(&report.trace, BufWriter::new(file))
    {
        details.push_str(&format!("cannot write {}: {error}\n", path.display()));
    }
    let trace_written = details.is_empty();
    let line = if arguments.json {
        let mut json = report.to_json();
        json["path"] = job.found.path.display().to_string().into();
        json["wall_seconds"] = wall.as_secs_f64().into();
        json["good"] = good.into();
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
    Done { good: good && trace_written, interrupted, line, details }
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

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '+' | ',' | ':' | '@');
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a world takes on this machine is told, and judged by nobody"
)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// A bar on a terminal, nothing elsewhere.
fn progress(length: usize) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() && length > 1 {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(u64::try_from(length).ok(), target);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} worlds");
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
