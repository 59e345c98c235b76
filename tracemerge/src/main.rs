//! The program `tracemerge`. All it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(tracemerge::main(std::env::args_os()))
}
