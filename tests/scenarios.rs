//! Every scenario is a test of its own: adding a TOML file below `scenarios/` adds one, no Rust needed.
//!
//! - `scenario::NAME`: it passes, and the histories of its hosts are those of its snapshot in `tests/histories/`;
//! - `seeds::NAME`: it passes under other seeds too;
//! - `catches::NAME::REGRESSION`: with a historic bug that it says it catches, it fails, and looks as it was reported.
//!
//! Histories that changed on purpose are taken over by `INSTA_UPDATE=always cargo test --test scenarios`.

#[path = "support/files.rs"]
mod files;

use std::{path::Path, process::ExitCode, sync::Arc};

use baremetal_operator::regression::{Regression, Regressions};
use bmsim::{Seed, report::Report, scenario::Scenario, simulate};
use libtest_mimic::{Arguments, Failed, Trial};

use files::files;

/// How many seeds after its own each scenario is tried with.
const MORE_SEEDS: u64 = 4;

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut trials = Vec::new();
    for path in files(&folder) {
        let name = path.strip_prefix(&folder).unwrap_or(&path).with_extension("").display().to_string();
        match Scenario::load(&path) {
            Ok(scenario) => trials.extend(of_scenario(name, Arc::new(scenario))),
            Err(mistake) => {
                let said = format!("{:?}", miette::Report::new(mistake));
                trials.push(Trial::test(format!("scenario::{name}"), move || Err(said.into())));
            }
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn of_scenario(name: String, scenario: Arc<Scenario>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for &regression in &scenario.kills {
        let (trial, name, scenario) =
            (format!("catches::{name}::{regression}"), name.clone(), scenario.clone());
        trials.push(Trial::test(trial, move || catches(&name, &scenario, regression)));
    }
    let (trial, whose, of) = (format!("seeds::{name}"), name.clone(), scenario.clone());
    trials.push(Trial::test(trial, move || passes_under_other_seeds(&whose, &of)));
    trials.push(Trial::test(format!("scenario::{name}"), move || passes(&name, &scenario)));
    trials
}

fn passes(name: &str, scenario: &Scenario) -> Result<(), Failed> {
    let report = simulate(scenario, scenario.seed, &Regressions::default());
    passed(name, &report)?;
    same_histories(name, &report)
}

fn passes_under_other_seeds(name: &str, scenario: &Scenario) -> Result<(), Failed> {
    let Seed(first) = scenario.seed;
    (1..=MORE_SEEDS).try_for_each(|more| {
        let seed = Seed(first.wrapping_add(more));
        passed(name, &simulate(scenario, seed, &Regressions::default()))
    })
}

fn catches(name: &str, scenario: &Scenario, regression: Regression) -> Result<(), Failed> {
    let report = simulate(scenario, scenario.seed, &[regression].into_iter().collect());
    let words = match (report.verdict.found_bug(), report.verdict.sound()) {
        (true, true) => return same_histories(&format!("{name}@{regression}"), &report),
        (false, _) => "it does not catch it",
        (true, false) => "it does not look as it was reported",
    };
    Err(format!("{words}\n{}\n{}", report.findings(), report.story()).into())
}

fn passed(name: &str, report: &Report) -> Result<(), Failed> {
    if report.passed() {
        return Ok(());
    }
    let replay = format!("cargo run --bin bmsim -- run scenarios/{name}.toml --seed {}", report.seed);
    Err(format!("{}\n{}\n{replay}", report.findings(), report.story()).into())
}

fn same_histories(name: &str, report: &Report) -> Result<(), Failed> {
    let settings = {
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("histories");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings
    };
    settings.bind(|| insta::assert_snapshot!(name.replace('/', "-"), report.plain_histories()));
    Ok(())
}
