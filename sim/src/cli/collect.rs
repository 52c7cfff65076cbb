//! Finds and reads scenarios.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{BadInput, complain};
use crate::scenario::Scenario;

/// A scenario and where it was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) scenario: Scenario,
}

/// Reads all scenarios at and below some paths, in the order of their paths. Complains of each that is bad; `None` if
/// any is.
pub(super) fn scenarios(paths: &[PathBuf]) -> Option<Vec<Found>> {
    let mut files = Vec::new();
    let mut good = true;
    for path in paths {
        match files_below(path) {
            Ok(found) if found.is_empty() => {
                good = false;
                complain(
                    BadInput::new(format!("there is no scenario in {}", path.display()))
                        .help("scenarios are files that end in `.toml`"),
                );
            }
            Ok(found) => {
                files.extend(found.into_iter().filter(|file| !files.contains(file)).collect::<Vec<_>>())
            }
            Err(error) => {
                good = false;
                complain(BadInput::new(format!("cannot read {}: {error}", path.display())));
            }
        }
    }
    let mut found = Vec::new();
    for path in files {
        match Scenario::load(&path) {
            Ok(scenario) => found.push(Found { path, scenario }),
            Err(mistake) => {
                good = false;
                complain(mistake);
            }
        }
    }
    good.then_some(found)
}

/// A file itself, whatever its name; of a folder all files below it that are named like scenarios.
fn files_below(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(path)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        // A link to a folder is not followed: it could lead back here.
        if entry.file_type()?.is_dir() {
            files.extend(files_below(&path)?);
        } else if path.extension().is_some_and(|ending| ending == "toml") {
            files.push(path);
        }
    }
    Ok(files)
}
