//! The command line.
//!
//! Exit codes: 0 if every run passed, 1 if an expectation or an oracle failed, 2 if the input was bad, 130 after
//! Ctrl-C.

mod collect;
mod interrupt;
mod list;
mod pool;
mod run;
mod serve;

use std::{
    io::{self, Write as _},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use baremetal_operator::regression::{Regression, Regressions};
use clap::{Parser, Subcommand, builder::PossibleValuesParser, builder::TypedValueParser as _};

/// Every run passed.
const PASSED: u8 = 0;
/// Some run did not.
const FAILED: u8 = 1;
/// The input was bad; nothing was run.
const BAD_INPUT: u8 = 2;
/// Ended by Ctrl-C, as shells say it.
const INTERRUPTED: u8 = 130;

/// Deterministic simulation and fault injection for bare-metal Kubernetes operators.
#[derive(Debug, Parser)]
#[command(name = "bmsim", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run scenarios in simulated time
    Run(run::Arguments),
    /// Serve a scenario's world on loopback sockets in real time
    Serve(serve::Arguments),
    /// List scenarios, what they tell and where they come from
    List(list::Arguments),
    /// List the historic bugs that the operator can be given
    Regressions,
    /// Print the JSON Schema of scenarios, for editors
    Schema,
}

/// Runs the program.
pub fn main() -> ExitCode {
    let code = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::List(arguments) => list::list(&arguments),
        Command::Regressions => list::regressions(),
        Command::Schema => {
            let schema = serde_json::to_string_pretty(&crate::scenario::schema()).unwrap_or_default();
            say(&schema);
            PASSED
        }
    };
    let unsaid = UNSAID.load(Ordering::Relaxed) && code == PASSED;
    ExitCode::from(if unsaid { FAILED } else { code })
}

/// Whether something could not be printed.
static UNSAID: AtomicBool = AtomicBool::new(false);

/// Prints a line. A reader that has gone away (`| head`) is no error of ours; a full disk is one.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            if !UNSAID.swap(true, Ordering::Relaxed) {
                warn(&format!("cannot print the results: {error}"));
            }
        }
        Ok(()) | Err(_) => {}
    }
}

/// Prints a line on stderr; where that is lost, nobody listens.
fn warn(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// A filter of log lines.
fn filter(text: &str) -> Result<String, String> {
    match tracing_subscriber::EnvFilter::try_new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("{error}; write it like `info` or `baremetal_operator=debug`")),
    }
}

/// A word as a shell reads it.
pub(crate) fn quoted(word: &str) -> String {
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '+' | ',' | ':' | '@');
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { in_quotes(word) }
}

/// A word in quotes, whatever is in it, as a shell reads it.
pub(crate) fn in_quotes(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Shows what is wrong with the input.
fn complain(mistake: impl miette::Diagnostic + Send + Sync + 'static) {
    let _ = writeln!(io::stderr().lock(), "{:?}", miette::Report::new(mistake));
}

/// Bad input that is not in a scenario's file.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[error("{message}")]
struct BadInput {
    message: String,
    #[help]
    help: Option<String>,
}

impl BadInput {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None }
    }

    fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// The regressions that the operator is given.
#[derive(Debug, clap::Args)]
struct WithRegressions {
    /// Give the operator this historic bug (can be repeated; `bmsim regressions` lists them)
    #[arg(long = "regression", value_name = "NAME", value_parser = regression_parser())]
    regressions: Vec<Regression>,
}

impl WithRegressions {
    fn set(&self) -> Regressions {
        self.regressions.iter().copied().collect()
    }
}

fn regression_parser() -> impl clap::builder::TypedValueParser<Value = Regression> {
    PossibleValuesParser::new(Regression::ALL.iter().map(|regression| regression.as_str()))
        .try_map(|name| name.parse::<Regression>())
}
