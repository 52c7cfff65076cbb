//! Each bad scenario gets one clear diagnosis on stderr, nothing on stdout, and exit code 2.
//!
//! Each file in `bad_scenarios/` is a test of its own; what is said of it is a snapshot. A few more are made here that
//! do not belong in a repository.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output, Stdio},
};

use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for entry in fs::read_dir(tests().join("bad_scenarios")).expect("the folder is there") {
        let path = entry.expect("its entries can be read").path();
        if path.extension() == Some(OsStr::new("toml")) {
            let stem = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
            trials.push(Trial::test(stem.clone(), move || {
                one_diagnosis(&stem, Path::new("bad_scenarios").join(stem.clone() + ".toml"))
            }));
        }
    }
    trials.sort_by(|a, b| a.name().cmp(b.name()));
    trials.push(Trial::test("ten-megabytes", ten_megabytes));
    trials.push(Trial::test("endless-file", endless_file));
    trials.push(Trial::test("no-such-file", || {
        one_diagnosis("no-such-file", "bad_scenarios/no-such-file".into())
    }));
    trials.push(Trial::test("folder-without-scenarios", folder_without_scenarios));
    trials.push(Trial::test("one-bad-scenario-stops-all", one_bad_scenario_stops_all));
    trials.push(Trial::test("bad-flags", bad_flags));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Runs the program as a person does whose terminal is plain.
fn bmsim(arguments: &[&OsStr]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bmsim"))
        .args(arguments)
        .current_dir(tests())
        .env_clear()
        .envs([("LANG", "C.UTF-8"), ("NO_COLOR", "1")])
        .stdin(Stdio::null())
        .output()
        .expect("run bmsim")
}

fn refused(output: &Output) -> Result<String, Failed> {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() != Some(2) {
        return Err(format!("exit code {:?}, not 2: {said}", output.status.code()).into());
    }
    if !output.stdout.is_empty() {
        return Err(format!("printed {}", String::from_utf8_lossy(&output.stdout)).into());
    }
    Ok(said)
}

fn one_diagnosis(name: &str, path: PathBuf) -> Result<(), Failed> {
    let said = refused(&bmsim(&["run".as_ref(), path.as_os_str()]))?;
    insta::with_settings!({ snapshot_path => "bad_scenarios/said", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, said);
    });
    Ok(())
}

/// It is refused by its length, before it is read.
fn ten_megabytes() -> Result<(), Failed> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ten-megabytes.toml");
    fs::write(&path, "about = \"long\"\n".repeat(700_000))?;
    let said = refused(&bmsim(&["run".as_ref(), path.as_os_str()]))?;
    fs::remove_file(&path)?;
    assert!(said.contains("the file is larger than"), "{said}");
    Ok(())
}

/// A device has no length.
fn endless_file() -> Result<(), Failed> {
    let said = refused(&bmsim(&["run".as_ref(), "/dev/zero".as_ref()]))?;
    assert!(said.contains("not a file"), "{said}");
    Ok(())
}

fn folder_without_scenarios() -> Result<(), Failed> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-scenarios");
    fs::create_dir_all(&path)?;
    let said = refused(&bmsim(&["run".as_ref(), path.as_os_str()]))?;
    assert!(said.contains("there is no scenario in"), "{said}");
    Ok(())
}

/// Nothing is run unless everything can be.
fn one_bad_scenario_stops_all() -> Result<(), Failed> {
    let good = tests().join("../../scenarios");
    let said =
        refused(&bmsim(&["run".as_ref(), good.as_os_str(), "bad_scenarios/unknown-host.toml".as_ref()]))?;
    assert!(said.contains("there is no host `node-1`"), "{said}");
    Ok(())
}

fn bad_flags() -> Result<(), Failed> {
    for (arguments, complaint) in [
        (&["run", "--regression", "metal3-70"][..], "metal3-708"),
        (&["run", "--seeds", "9..9"], "there is no seed in it"),
        (&["run", "--seeds", "1..x"], "`x` is not a seed"),
        (&["run", "--seed", "one"], "--seed"),
        (&["run", "--seed", "1", "--seeds", "1..2"], "cannot be used with"),
        (&["run", "../../scenarios", "--trace", "/no/such/folder/trace"], "a trace is of one world"),
        (&["run", "--log", "engine=loud"], "invalid"),
        (&["serve", "x.toml", "--log", "engine=loud"], "invalid"),
        (&["walk"], "unrecognized subcommand"),
    ] {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        let said = refused(&bmsim(&arguments))?;
        assert!(said.contains(complaint), "{arguments:?}: {said}");
    }
    Ok(())
}
