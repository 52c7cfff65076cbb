//! The scenario language: a TOML file, checked once into a type that cannot be wrong.
//!
//! `raw` is the file as written, `check` makes it valid or says what is wrong and where ([`mistake::Mistake`]).
//! What comes out holds only names that exist and times that lie within the run, so that later stages cannot fail.

mod check;
pub mod condition;
pub mod expect;
pub mod history;
pub mod mistake;
pub mod pattern;
pub mod plan;
mod raw;
mod schema;
pub mod step;
pub mod time;

use std::{fs::File, io::Read as _, path::Path, time::Duration};

use baremetal_operator::regression::Regression;
use wire::Seed;

use expect::Expect;
use mistake::Mistake;
use plan::Plan;
use step::Step;
use time::Range;

pub use schema::schema;

/// A story, ready to be run under any seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Its name: the file's without the ending.
    pub name: String,
    /// Why it is told.
    pub about: String,
    /// Where it comes from.
    pub provenance: Option<Provenance>,
    /// The regressions that must turn it red.
    pub kills: Vec<Regression>,
    /// The calendar date at which the world's clock starts.
    pub start: jiff::Timestamp,
    /// How long the timeline runs after its zero.
    pub duration: Duration,
    /// The seed that is used if no other is asked for.
    pub seed: Seed,
    /// The world at its beginning.
    pub plan: Plan,
    /// What happens.
    pub steps: Vec<Step<Range>>,
    /// What must be seen.
    pub expect: Vec<Expect>,
}

/// Where a story comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The bug reports, as `owner/repository#number` or in the tracker's own way.
    pub reports: Vec<String>,
    /// The change that mended it.
    pub fixed_in: Option<String>,
    /// What should be known to read the scenario.
    pub note: Option<String>,
}

/// No story is longer; a file that is was not written by a person, and is refused before it is read.
pub const LARGEST: u64 = 1 << 20;

impl Scenario {
    /// Reads a scenario's file. It must be whole: have a host, and expectations all of which are asked.
    pub fn load(path: &Path) -> Result<Self, Mistake> {
        let shown = path.display().to_string();
        let unreadable = |error: std::io::Error| Mistake::unreadable(&shown, &error);
        let file = File::open(path).map_err(unreadable)?;
        let about = file.metadata().map_err(unreadable)?;
        if !about.is_file() {
            return Err(Mistake::whole(&shown, "this is not a file"));
        }
        if about.len() > LARGEST {
            return Err(Mistake::too_large(&shown));
        }
        let mut bytes = Vec::new();
        // It may have grown in the meantime.
        file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        let scenario = Self::read(&shown, bytes.clone())?;
        // It was read as UTF-8.
        check::whole(&shown, &String::from_utf8_lossy(&bytes), &scenario)?;
        Ok(scenario)
    }

    /// Reads a scenario, or a part of one, from bytes; `shown` is the file's name in messages, and names the scenario.
    pub fn read(shown: &str, bytes: Vec<u8>) -> Result<Self, Mistake> {
        if bytes.len() as u64 > LARGEST {
            return Err(Mistake::too_large(shown));
        }
        let text = String::from_utf8(bytes).map_err(|error| Mistake::not_utf8(shown, &error))?;
        let name = Path::new(shown).file_stem().map_or_else(|| shown.into(), |stem| stem.to_string_lossy());
        check::scenario(&name, shown, &text)
    }
}
