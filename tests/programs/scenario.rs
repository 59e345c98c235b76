//! The traced program of the system tests: one scenario per call, named by the first argument.
//!
//! Each test runs it as a process of its own, because the effects of the tracer are global to a process.
#![allow(unsafe_code, reason = "forks, signals, seccomp, kills and the counting allocator")]

mod allocations;
#[cfg(target_os = "linux")]
mod common_records;
#[cfg(unix)]
mod confined;
#[cfg(target_os = "linux")]
mod copies;
#[cfg(unix)]
mod crashes;
#[cfg(unix)]
mod daemons;
mod endings;
#[cfg(unix)]
mod forks;
mod functions;
mod host;
#[cfg(unix)]
mod hostile;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod jumps;
mod kept;
mod locks;
mod messages;
#[cfg(target_os = "linux")]
mod mounts;
mod observed_programs;
#[cfg(unix)]
mod processes;
mod recorder;
#[cfg(unix)]
mod signals;
mod sites;
#[cfg(unix)]
mod small_stacks;
mod stacks;
#[cfg(unix)]
mod storage;
mod stress;
#[cfg(target_os = "linux")]
mod switches;
mod threads;
#[cfg(unix)]
mod torture;

use support::scenarios::{Arguments, Scenario};

/// The scenarios of each module, by name.
const SCENARIOS: &[&[Scenario]] = &[
    COMMAND,
    allocations::SCENARIOS,
    #[cfg(unix)]
    confined::SCENARIOS,
    #[cfg(target_os = "linux")]
    copies::SCENARIOS,
    #[cfg(unix)]
    crashes::SCENARIOS,
    #[cfg(unix)]
    daemons::SCENARIOS,
    endings::SCENARIOS,
    #[cfg(unix)]
    forks::SCENARIOS,
    functions::SCENARIOS,
    #[cfg(unix)]
    hostile::SCENARIOS,
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    jumps::SCENARIOS,
    kept::SCENARIOS,
    locks::SCENARIOS,
    messages::SCENARIOS,
    #[cfg(target_os = "linux")]
    mounts::SCENARIOS,
    observed_programs::SCENARIOS,
    #[cfg(unix)]
    processes::SCENARIOS,
    recorder::SCENARIOS,
    #[cfg(unix)]
    signals::SCENARIOS,
    sites::SCENARIOS,
    #[cfg(unix)]
    small_stacks::SCENARIOS,
    stacks::SCENARIOS,
    #[cfg(unix)]
    storage::SCENARIOS,
    stress::SCENARIOS,
    #[cfg(target_os = "linux")]
    switches::SCENARIOS,
    threads::SCENARIOS,
    #[cfg(unix)]
    torture::SCENARIOS,
];

/// The command: `tracemerge -q APP`, and with any arguments.
const COMMAND: &[Scenario] = &[
    ("merge", |args| {
        std::process::exit(tracemerge::main(["tracemerge", "-q", args.text(0)].map(Into::into)).into())
    }),
    ("tracemerge", |_| std::process::exit(tracemerge::main(std::env::args_os().skip(1)).into())),
];

fn main() {
    end_in_time();
    Arguments::run_scenario_of(SCENARIOS);
    // Tests look for `main` in stacks, so its last call must not become a jump.
    std::hint::black_box(());
}

/// Makes the system end this process by `SIGALRM` after ten minutes, so that a scenario that hangs fails its test.
#[cfg(unix)]
fn end_in_time() {
    // SAFETY: sets a timer of the process, and nothing else.
    unsafe { libc::alarm(600) };
}

/// Does nothing: the user who runs the tests has to end hanging scenarios.
#[cfg(not(unix))]
fn end_in_time() {}
