//! `bmsim`: see [`bmsim::cli`].

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Worlds are mostly JSON that comes and goes.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    bmsim::cli::main()
}
