//! `bmsim list` and `bmsim regressions`.

use std::path::PathBuf;

use baremetal_operator::regression::Regression;

use super::{BAD_INPUT, PASSED, collect, say};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Scenarios, or folders with scenarios
    #[arg(value_name = "PATH", default_value = "scenarios")]
    paths: Vec<PathBuf>,
}

/// Lists scenarios.
pub(super) fn list(arguments: &Arguments) -> u8 {
    let Some(found) = collect::scenarios(&arguments.paths) else { return BAD_INPUT };
    for found in found {
        let scenario = &found.scenario;
        say(&format!("{}", found.path.display()));
        say(&format!("    {}", scenario.about.replace('\n', "\n    ")));
        if let Some(provenance) = &scenario.provenance {
            let fixed =
                provenance.fixed_in.as_ref().map(|fix| format!(", mended by {fix}")).unwrap_or_default();
            say(&format!("    from {}{fixed}", provenance.reports.join(", ")));
        }
        if !scenario.kills.is_empty() {
            let kills: Vec<_> = scenario.kills.iter().map(ToString::to_string).collect();
            say(&format!("    catches {}", kills.join(", ")));
        }
    }
    PASSED
}

/// Lists regressions.
pub(super) fn regressions() -> u8 {
    let width = Regression::ALL.iter().map(|regression| regression.as_str().len()).max().unwrap_or_default();
    for regression in Regression::ALL {
        say(&format!("{:width$}   {}", regression.as_str(), regression.about()));
    }
    PASSED
}
