//! The program `cargo-tracer`, which Cargo runs as `cargo tracer`. Its code is in the library of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    tracemerge::take_panics();
    ExitCode::from(tracemerge::cargo_tracer(std::env::args_os()))
}
