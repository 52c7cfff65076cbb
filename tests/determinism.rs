//! Same seed, same bytes of trace: twice in one process, on other threads and in another order, and in another process.
//!
//! Each scenario is a test of its own. The process runs itself again for the other process's hashes.

#![expect(clippy::disallowed_methods, reason = "worlds are run on threads of this test's own")]

#[path = "support/files.rs"]
mod files;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{Arc, LazyLock},
    thread,
};

use baremetal_operator::regression::Regressions;
use bmsim::{Seed, scenario::Scenario, simulate};
use libtest_mimic::{Arguments, Failed, Trial};

use files::files;

/// Set in the other process, which prints its hashes and ends.
const CHILD: &str = "BMSIM_DETERMINISM_CHILD";

fn main() -> ExitCode {
    let scenarios = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios"));
    if std::env::var_os(CHILD).is_some() {
        for (name, hash) in hashes(scenarios.iter().rev(), 0) {
            println!("{name} {hash}");
        }
        return ExitCode::SUCCESS;
    }
    let all = Arc::new(LazyLock::new({
        let scenarios = scenarios.clone();
        move || Runs::new(&scenarios)
    }));
    let trials = scenarios.iter().map(|path| {
        let (name, all) = (name(path), Arc::clone(&all));
        Trial::test(format!("determinism::{name}"), move || all.check(&name))
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// The hashes of all scenarios, from all ways of running them.
struct Runs {
    first: BTreeMap<String, String>,
    again: BTreeMap<String, String>,
    on_threads: BTreeMap<String, String>,
    in_another_process: BTreeMap<String, String>,
    with_another_seed: BTreeMap<String, String>,
}

impl Runs {
    fn new(scenarios: &[PathBuf]) -> Self {
        let child = thread::spawn(|| {
            let program = std::env::current_exe().expect("the path of this test");
            Command::new(program).env(CHILD, "1").output().expect("run this test again")
        });
        let first = hashes(scenarios.iter(), 0);
        let again = hashes(scenarios.iter(), 0);
        // Two threads at once, each beginning at another place.
        let halves: Vec<_> = [0, scenarios.len() / 2]
            .into_iter()
            .map(|from| {
                let mut turned = scenarios.to_vec();
                turned.rotate_left(from);
                turned.truncate(scenarios.len().div_ceil(2));
                thread::spawn(move || hashes(turned.iter(), 0))
            })
            .collect();
        let on_threads = halves.into_iter().flat_map(|half| half.join().expect("a thread")).collect();
        let with_another_seed = hashes(scenarios.iter(), 1);
        let output = child.join().expect("a thread");
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let in_another_process = lines
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(name, hash)| (name.to_owned(), hash.to_owned()))
            .collect();
        Self { first, again, on_threads, in_another_process, with_another_seed }
    }

    fn check(&self, name: &str) -> Result<(), Failed> {
        let first = self.first.get(name).ok_or("it was not run")?;
        for (way, hashes) in [
            ("a second time in this process", &self.again),
            ("on another thread and in another order", &self.on_threads),
            ("in another process", &self.in_another_process),
        ] {
            match hashes.get(name) {
                Some(hash) if hash == first => {}
                Some(hash) => return Err(format!("{way} its hash is {hash}, at first it was {first}").into()),
                None => return Err(format!("{way} it has no hash").into()),
            }
        }
        match self.with_another_seed.get(name) {
            Some(hash) if hash == first => Err("another seed gives the same trace".into()),
            Some(_) => Ok(()),
            None => Err("with another seed it has no hash".into()),
        }
    }
}

fn hashes<'a>(scenarios: impl Iterator<Item = &'a PathBuf>, seeds_on: u64) -> BTreeMap<String, String> {
    scenarios
        .map(|path| {
            let scenario = Scenario::load(path).expect("a valid scenario");
            let seed = Seed(scenario.seed.0 + seeds_on);
            let report = simulate(&scenario, seed, &Regressions::default());
            (name(path), report.trace.hash)
        })
        .collect()
}

fn name(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}
