//! Blocks of commands and what they print.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

use libtest_mimic::Failed;

use crate::page::{self, Block};

/// Runs the commands of a block and compares what they print.
pub(crate) fn prints(block: &Block, story: Option<&Block>) -> Result<(), Failed> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(block.place.replace(['/', ':', '.'], "-"));
    fs::create_dir_all(&folder)?;
    for command in block.text.split("$ ").skip(1) {
        let (command, wanted) = command.split_once('\n').unwrap_or((command, ""));
        let words: Vec<&str> = command.split_whitespace().collect();
        let arguments = match words.as_slice() {
            ["cargo", "run", "--release", "--bin", "bmsim", "--", arguments @ ..]
            | ["bmsim", arguments @ ..] => arguments,
            // This test is one of those that it runs.
            ["cargo", "test", ..] => continue,
            _ => return Err(format!("{}: nobody checks `{command}`", block.place).into()),
        };
        let (seen, good) = output(arguments, &folder, story)?;
        // Of a command alone it is only said that it goes well.
        let fits = if wanted.trim().is_empty() {
            good
        } else {
            fits(&lines(&compared(wanted)), &lines(&compared(&seen)))
        };
        if !fits && std::env::var("INSTA_UPDATE").as_deref() == Ok("always") {
            take_over(block, wanted, &seen)?;
        } else if !fits {
            return Err(format!("{}: `{command}` prints\n{seen}", block.place).into());
        }
    }
    Ok(())
}

/// Writes into a page what a command prints now. Where only some lines are shown, each becomes the one that begins like
/// it.
fn take_over(block: &Block, wanted: &str, seen: &str) -> Result<(), Failed> {
    static PAGES_ARE_WRITTEN: Mutex<()> = Mutex::new(());
    let _turn = PAGES_ARE_WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    let begins = |line: &str| line.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>();
    let now = |line: &str| {
        let now = seen.lines().find(|seen| begins(seen) == begins(line)).unwrap_or(line);
        format!("{}\n", if lines(&compared(seen)).contains(&compared(line).trim_end()) { line } else { now })
    };
    let new = if wanted.lines().any(|line| line == "…") {
        wanted.lines().map(now).collect()
    } else {
        format!("{}\n", seen.trim_end())
    };
    let page = block.place.split(':').next().unwrap_or_default();
    fs::write(page::root().join(page), page::text(page).replacen(wanted, &new, 1))?;
    Ok(())
}

/// What the program prints, and whether it went well. A scenario that is no file of the repository is the page's last.
fn output(arguments: &[&str], folder: &Path, story: Option<&Block>) -> Result<(String, bool), Failed> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_bmsim"));
    program.env("NO_COLOR", "1").stdin(Stdio::null());
    if let ["serve", path] = arguments {
        // It writes a kubeconfig where it stands.
        program.arg("serve").arg(page::root().join(path)).current_dir(folder);
        return Ok((announced(&mut program)?, true));
    }
    program.args(arguments);
    let file = arguments.iter().find(|word| word.ends_with(".toml") && !word.contains('/'));
    match (file, story) {
        (Some(file), Some(story)) => {
            fs::write(folder.join(file), &story.text)?;
            program.current_dir(folder);
        }
        (Some(file), None) => return Err(format!("no scenario of the page is `{file}`").into()),
        (None, _) => drop(program.current_dir(page::root())),
    }
    let output = program.output()?;
    let said = String::from_utf8(output.stdout)?;
    // What is wrong with the input is said on stderr.
    Ok((said + &String::from_utf8(output.stderr)?, output.status.success()))
}

/// What a served world announces. It goes on for hours, and is ended then.
fn announced(program: &mut Command) -> Result<String, Failed> {
    let mut program = program.stdout(Stdio::piped()).spawn()?;
    let mut text = String::new();
    for line in BufReader::new(program.stdout.take().ok_or("it has no output")?).lines() {
        let line = line?;
        text.extend([line.as_str(), "\n"]);
        if line.ends_with("# images") {
            break;
        }
    }
    program.kill()?;
    program.wait()?;
    Ok(text)
}

/// A text without what differs from run to run and from machine to machine.
fn compared(text: &str) -> String {
    let line = |line: &str| {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        for at in 1..words.len().saturating_sub(1) {
            // `in 0.05 s`
            if words[at - 1] == "in" && words[at + 1] == "s" && words[at].parse::<f64>().is_ok() {
                words[at] = "N".to_owned();
            }
        }
        // Ports that are taken are replaced by others.
        let mut previous = String::new();
        for word in &mut words {
            if previous == "-p" {
                *word = "N".to_owned();
            }
            if let Some((before, after)) = word.split_once("127.0.0.1:") {
                let path = after.trim_start_matches(|c: char| c.is_ascii_digit());
                *word = format!("{before}127.0.0.1:N{path}");
            }
            previous.clone_from(word);
        }
        words.join(" ").trim_end().to_owned() + "\n"
    };
    text.lines().map(line).collect()
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.is_empty()).collect()
}

/// Whether lines are as wanted, `…` standing for any.
fn fits(wanted: &[&str], seen: &[&str]) -> bool {
    match (wanted, seen) {
        ([], []) => true,
        (["…", rest @ ..], _) => (0..=seen.len()).any(|skipped| fits(rest, &seen[skipped..])),
        ([first, rest @ ..], [line, seen @ ..]) => first == line && fits(rest, seen),
        ([], _) | (_, []) => false,
    }
}
