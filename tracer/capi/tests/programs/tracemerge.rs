//! The commands `tracemerge` and `cargo-tracer`, for the tests. The name under which this is started selects one of
//! them.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    let is_cargo = Path::new(&name).file_name().is_some_and(|name| name == "cargo-tracer");
    let args = std::env::args_os();
    ExitCode::from(if is_cargo { tracemerge::cargo_tracer(args) } else { tracemerge::main(args) })
}
