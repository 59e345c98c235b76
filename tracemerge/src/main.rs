//! The program `tracemerge`. All its code is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tracemerge::take_panics();
    ExitCode::from(tracemerge::main(std::env::args_os()))
}
