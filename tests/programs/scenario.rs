//! The traced program of the system tests: one scenario per call, named by the first argument.
//!
//! Each test runs it as a process of its own, for the effects of the tracer are global to a process.
#![allow(unsafe_code, reason = "forks, signals, seccomp, kills and the counting allocator")]

mod allocations;
#[cfg(target_os = "linux")]
mod both_say;
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
mod onlooked;
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
mod threads;
#[cfg(unix)]
mod torture;

use tracer::Tracer;

fn main() {
    end_in_time();
    let mut args = std::env::args().skip(1);
    let scenario = args.next().unwrap_or_default();
    let argument = args.next();
    let number = || argument.as_deref().and_then(|a| a.parse().ok()).expect("a number as second argument");
    match scenario.as_str() {
        "disabled" => allocations::disabled(),
        "return" => Tracer::get().trace(format_args!("the last words of main")),
        "exit" => endings::exit(argument.as_deref()),
        "panic" => endings::panic(),
        "thread-local" => endings::thread_local_destructor(),
        "ended" => endings::ended(&argument.expect("its end as second argument")),
        "running-threads" => endings::running_threads(),
        "killed" => endings::killed(),
        "killed-at-once" => endings::killed_at_once(),
        "shutdown" => endings::shutdown_and_again(),
        "handover" => threads::handover(number()),
        "short-lived" => threads::short_lived(number()),
        "at-once" => threads::at_once(number()),
        "held" => threads::held(number()),
        "beside-the-dead" => threads::beside_the_dead(number()),
        "many" => threads::many(number()),
        "free-text" => messages::free_text(),
        "display" => messages::display(),
        "long-display" => messages::long_display(number()),
        "slow-display" => messages::slow_display(number()),
        "panic-hook" => messages::panic_hook(),
        "idle" => messages::idle(number()),
        "full" => messages::full(number()),
        "first-records" => messages::first_records(),
        "quiet" => messages::quiet(),
        "startup" => messages::startup(&argument.expect("a variable as second argument")),
        // This is the command, as a process of its own: `tracemerge -q APP`.
        "merge" => {
            let args =
                ["tracemerge", "-q", &argument.expect("an application as second argument")].map(Into::into);
            std::process::exit(i32::from(tracemerge::main(args)));
        }
        // This is the command with any arguments.
        "tracemerge" => {
            let args = std::env::args_os().skip(1);
            std::process::exit(i32::from(tracemerge::main(args)));
        }
        "watched" => {
            let words = argument.expect("a file of words as second argument");
            onlooked::watched(&words, std::env::args().nth(3).as_deref());
        }
        "left-in-memory" => onlooked::left_in_memory(),
        "killed-when-flushed" => onlooked::killed_when_flushed(),
        "killed-behind-a-flush" => onlooked::killed_behind_a_flush(),
        "kept" => kept::kept(),
        "stress" => stress::stress(&argument.expect("a file of counters as second argument")),
        "at-exit" => endings::at_exit(),
        "tracing-allocator" => allocations::tracing_allocator(),
        "places" => sites::places(),
        "sites" => sites::every_kind(),
        "sites-filtered" => sites::filtered(),
        "sites-disabled" => sites::disabled(),
        "sites-killed" => sites::killed(),
        "sites-restarted" => sites::restarted(&argument.expect("a directory as second argument")),
        "locks" => locks::of_std::waited_for(number()),
        "locks-deadlocked" => locks::of_std::deadlocked(),
        "locks-held-over-an-await" => locks::of_std::held_over_an_await(),
        "locks-notified" => locks::of_std::notified(number()),
        "parking-lot-locks" => locks::of_parking_lot::waited_for(number()),
        "parking-lot-locks-deadlocked" => locks::of_parking_lot::deadlocked(),
        "parking-lot-locks-held-over-an-await" => locks::of_parking_lot::held_over_an_await(),
        "parking-lot-locks-notified" => locks::of_parking_lot::notified(number()),
        "functions" => functions::functions(number()),
        "functions-everything" => {
            functions::everything(&argument.expect("a file of counters as second argument"));
        }
        "functions-killed" => functions::killed(&argument.expect("a file of counters as second argument")),
        "functions-unwound" => functions::unwound(),
        "functions-polled" => functions::polled(),
        "functions-volume" => functions::volume(number()),
        "functions-placed" => functions::from_known_lines(),
        "functions-slowly" => functions::slowly(number()),
        "functions-filtered" => functions::with_filter(),
        "functions-many" => functions::many(number(), std::env::args().nth(3).as_deref()),
        "stacks" => stacks::stacks(u32::try_from(number()).expect("a small number")),
        "flight" => recorder::flight(&argument.expect("its end as second argument")),
        "flight-of-many" => recorder::flight_of_many(),
        "rotated" => recorder::rotated(number()),
        "meddled-again" => recorder::meddled_again(&argument.expect("what is done as second argument")),
        "meddled" => recorder::meddled(&argument.expect("what is done as second argument")),
        other => only_here(other, argument),
    }
}

/// Has the system end this process by `SIGALRM` after ten minutes, so that a scenario that hangs is a test that fails.
#[cfg(unix)]
fn end_in_time() {
    // SAFETY: sets a timer of the process, and nothing else.
    unsafe { libc::alarm(600) };
}

/// Leaves the time of hanging scenarios to who runs the tests.
#[cfg(not(unix))]
fn end_in_time() {}

/// Runs a scenario that is about what only Unix has: forks, signals, descriptors, users, limits.
#[cfg(unix)]
fn only_here(scenario: &str, argument: Option<String>) {
    let number = || argument.as_deref().and_then(|a| a.parse().ok()).expect("a number as second argument");
    match scenario {
        "burst" => confined::burst(),
        "crashed" => crashes::crashed(&argument.expect("its end as second argument"), true),
        "crashed-uncaught" => crashes::crashed(&argument.expect("its end as second argument"), false),
        "left-mark" => threads::left_mark(),
        "no-space" => messages::no_space(),
        "without-flusher" => messages::without_flusher(number()),
        "own-file-gone" => endings::own_file_gone(&argument.expect("what is done to it as second argument")),
        "disk-full" => storage::disk_full(argument.as_deref()),
        "limited" => storage::limited(number(), std::env::args().nth(3).as_deref()),
        "memory-full" => storage::memory_full(),
        #[cfg(target_os = "linux")]
        "in-own-pids" => {
            let words: Vec<String> = std::env::args().skip(3).collect();
            mounts::in_own_pids(&argument.expect("whose namespace as second argument"), &words);
        }
        #[cfg(target_os = "linux")]
        "mount" => mounts::mount(&std::env::args().skip(2).collect::<Vec<_>>()),
        "moved-away" => storage::moved_away(&argument.expect("a directory as second argument")),
        "no-descriptors" => storage::no_descriptors(argument.as_deref()),
        "planted" => hostile::planted(&argument.expect("a file as second argument")),
        "forger" => hostile::forger(),
        "prey" => hostile::prey(),
        "torture" => {
            let words: Vec<String> = std::env::args().skip(2).collect();
            let [seed, counters, role] = &words[..] else { panic!("a seed, a file of counters, a role") };
            torture::torture(seed, counters, role);
        }
        "fork" => forks::fork(),
        "exec" => processes::exec(&argument.expect("a stage as second argument")),
        "daemon" => processes::daemon(&argument.expect("what the one in the middle does as second argument")),
        "silent-child" => processes::silent_child(),
        "closes-at-once" => {
            let directory = argument.expect("a directory as second argument");
            daemons::closes_at_once(&directory, std::env::args().nth(3).as_deref().unwrap_or_default());
        }
        "sandboxed" => daemons::sandboxed(&argument.expect("what the sandbox does as second argument")),
        "told" => daemons::told(argument.as_deref().unwrap_or_default()),
        "becomes" => daemons::becomes(u32::try_from(number()).expect("a user's number")),
        "ringless" => daemons::ringless(number(), std::env::args().nth(3).as_deref().unwrap_or_default()),
        "closes-all" => processes::closes_all(&argument.expect("a directory as second argument")),
        "full-speed-forks" => processes::full_speed_forks(number()),
        "full-speed-programs" => processes::full_speed_programs(number()),
        "plugin" => processes::plugin(&argument.expect("a plugin as second argument")),
        #[cfg(target_os = "linux")]
        "copies" => {
            let how = std::env::args().nth(3).expect("how as third argument");
            copies::say_both(&argument.expect("a plugin as second argument"), &how);
        }
        "sigwait" => signals::sigwait(),
        "storm" => signals::storm(number()),
        #[cfg(target_arch = "x86_64")]
        "first-stepped" => signals::first_stepped(number()),
        "errno" => signals::errno(),
        "fault" => signals::fault(&argument.expect("a stack as second argument")),
        "stepped" => signals::stepped(&argument.expect("how as second argument")),
        "held-inside" => signals::held_inside(number()),
        "small-stacks" => small_stacks::small_stacks(&std::env::args().skip(2).collect::<Vec<_>>()),
        "sites-forked" => sites::forked(),
        "functions-inside" => functions::inside_of_messages(),
        "functions-forked" => functions::forked(),
        "visits" => stacks::visits(&std::env::args().skip(2).collect::<Vec<_>>()),
        "libraries" => functions::libraries(&std::env::args().skip(2).collect::<Vec<_>>()),
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        "backward" => recorder::backward(),
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        "left-deciding" => {
            let nth = std::env::args().nth(3).and_then(|nth| nth.parse().ok()).expect("a third argument");
            jumps::left_deciding(&argument.expect("how as second argument"), nth);
        }
        other => panic!("no scenario {other:?}"),
    }
}

/// Panics: no scenario is about what only this system has.
#[cfg(not(unix))]
fn only_here(scenario: &str, _: Option<String>) {
    panic!("no scenario {scenario:?} on this system");
}
