//! The commands `tracemerge` and `cargo-tracer`, for the tests. The name of this file selects one of them.

use std::process::ExitCode;

fn main() -> ExitCode {
    let file = std::env::current_exe().unwrap_or_default();
    let is_cargo = file.file_name().is_some_and(|name| name == "cargo-tracer");
    let args = std::env::args_os();
    ExitCode::from(if is_cargo { tracemerge::cargo_tracer(args) } else { tracemerge::main(args) })
}
