//! The library that traces the functions of unmodified programs, as a file beside the command: `build.rs` has it linked as a
//! shared library, which `tracemerge run` preloads and `cargo tracer` links. Where that cannot be, this is a program that says so.

#[cfg(carries_library)]
use tracer_capi as _;

fn main() -> std::process::ExitCode {
    eprintln!("libtracer: the library that traces every function is for Linux on x86-64 with glibc");
    std::process::ExitCode::FAILURE
}
