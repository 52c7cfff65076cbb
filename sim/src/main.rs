//! `bmsim`: see [`bmsim::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    bmsim::cli::main()
}
