//! The command `tracemerge`, for the tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    tracemerge::main(std::env::args_os()).into()
}
