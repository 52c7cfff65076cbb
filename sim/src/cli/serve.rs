//! `bmsim serve`.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use wire::Seed;

use super::{
    BAD_INPUT, BadInput, FAILED, INTERRUPTED, PASSED, WithRegressions, complain, filter, interrupt, say,
};
use crate::{report::Report, run::Watch, scenario::Scenario, schedule::Schedule, serve, verdict};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The scenario
    #[arg(value_name = "SCENARIO")]
    path: PathBuf,
    /// The seed; the scenario's own by default
    #[arg(long, value_name = "N")]
    seed: Option<Seed>,
    #[command(flatten)]
    regressions: WithRegressions,
    /// Where the kubeconfig is written
    #[arg(long, value_name = "FILE", default_value = "bmsim.kubeconfig")]
    kubeconfig: PathBuf,
    /// Print log lines to stderr, filtered like `RUST_LOG`
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    log: Option<String>,
}

/// Serves a scenario's world, and judges what happened in it.
pub(super) fn serve(arguments: &Arguments) -> u8 {
    let scenario = match Scenario::load(&arguments.path) {
        Ok(scenario) => scenario,
        Err(mistake) => {
            complain(mistake);
            return BAD_INPUT;
        }
    };
    let (seed, regressions) = (arguments.seed.unwrap_or(scenario.seed), arguments.regressions.set());
    let schedule = Schedule::draw(&scenario, seed, &regressions);
    let watch = Watch { log: arguments.log.clone(), ..Watch::default() };
    let stopped = Arc::clone(&watch.interrupt);
    let options = serve::Options { kubeconfig: arguments.kubeconfig.clone(), watch };
    let served =
        interrupt::set_on_interrupt(Arc::clone(&stopped), || serve::serve(&scenario, schedule, &options));
    let trace = match served {
        Ok(trace) => trace,
        Err(error) => {
            complain(BadInput::new(chain(&error)));
            return BAD_INPUT;
        }
    };
    let verdict = verdict::judge(&scenario, &regressions, &trace);
    let report = Report::new(&scenario, seed, &regressions, trace, verdict);
    say(&report.story());
    if stopped.load(Ordering::Relaxed) {
        // What it would have become is not known.
        return INTERRUPTED;
    }
    say(&report.findings());
    if report.passed() { PASSED } else { FAILED }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(format!("failed to {error}"), |text, cause| format!("{text}: {cause}"))
}
