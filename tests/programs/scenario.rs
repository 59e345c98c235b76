//! The traced program of the system tests: one scenario per call, named by the first argument.
//!
//! Each test runs it as a process of its own, for what the tracer does is global to a process.
#![allow(unsafe_code, reason = "forks, signals, seccomp and the counting allocator")]

mod allocations;
mod confined;
mod endings;
mod forks;
mod messages;
mod stress;
mod threads;

use tracer::Tracer;

fn main() {
    let mut args = std::env::args().skip(1);
    let scenario = args.next().unwrap_or_default();
    let argument = args.next();
    let number = || argument.as_deref().and_then(|a| a.parse().ok()).expect("a number as second argument");
    match scenario.as_str() {
        "disabled" => allocations::disabled(),
        "burst" => confined::burst(),
        "return" => Tracer::get().trace(format_args!("the last words of main")),
        "exit" => endings::exit(argument.as_deref()),
        "panic" => endings::panic(),
        "thread-local" => endings::thread_local_destructor(),
        "running-threads" => endings::running_threads(),
        "killed" => endings::killed(),
        "shutdown" => endings::shutdown_and_again(),
        "handover" => threads::handover(number()),
        "short-lived" => threads::short_lived(number()),
        "at-once" => threads::at_once(number()),
        "left-mark" => threads::left_mark(),
        "many" => threads::many(number()),
        "free-text" => messages::free_text(),
        "display" => messages::display(),
        "long-display" => messages::long_display(number()),
        "panic-hook" => messages::panic_hook(),
        "no-space" => messages::no_space(),
        "full" => messages::full(number()),
        "idle" => messages::idle(number()),
        "quiet" => messages::quiet(),
        "startup" => messages::startup(&argument.expect("a variable as second argument")),
        // The command, as a process of its own: `tracemerge -q APP`.
        "merge" => {
            let args =
                ["tracemerge", "-q", &argument.expect("an application as second argument")].map(Into::into);
            std::process::exit(i32::from(tracemerge::main(args)));
        }
        "stress" => stress::stress(&argument.expect("a file of counters as second argument")),
        "fork" => forks::fork(),
        other => panic!("no scenario {other:?}"),
    }
}
