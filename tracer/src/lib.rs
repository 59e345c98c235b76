//! Tracing for multithreaded programs that misbehave only when nobody looks.
//!
//! Link this crate, call [`Tracer::trace`], and run the program with `TRACER_ENABLE=1`. Each thread writes
//! binary records into a ring of its own, touching no other thread; one background thread turns them into
//! text files, `<exe>.trace.<tid>` beside the executable; the command `tracemerge` puts these into one file
//! in time order.
//!
//! ```
//! use tracer::Tracer;
//!
//! let answer = 42;
//! Tracer::get().trace(format_args!("the answer is {answer}"));
//! ```
//!
//! The macro [`trace!`] copies numbers, strings, and values of types that derive [`Capture`] without formatting them.
//! The background thread formats them, and writes the same text as `format!`.
//!
//! # Guarantees
//!
//! The test named after each guarantee shows it; the tests are in `tests/` of the workspace.
//!
//! * While tracing is off, there is no thread, no file and no allocation; a call is one relaxed load:
//!   `a_disabled_tracer_does_nothing`
//! * While tracing is on and the ring has room, a call takes no lock, allocates nothing and makes no system call:
//!   `a_call_makes_no_system_call_if_the_ring_has_room`
//! * Every record of a program that exits is in its files, however it exits: `an_exit_keeps_every_record`
//! * A program killed at any instant loses no record whose call had returned: `a_killed_program_loses_nothing`
//! * A record that happens after another one never has smaller *ticks* (the value of the processor's counter at the
//!   call): `handovers_are_never_reversed`
//! * Messages of any length and content arrive unchanged: `messages_may_be_any_text`
//! * A `Display` that panics or traces harms nothing: `a_display_may_panic_or_trace`
//! * A signal handler may trace at whatever point it interrupts the thread, even inside a record:
//!   `a_thread_may_be_stopped_anywhere`
//! * Forked children, daemons and child programs lose nothing and harm nothing: `children_of_every_kind_lose_nothing`
//! * A dead run is recovered and a living one left alone, whatever their process ids:
//!   `dead_runs_are_distinguished_from_running_ones`
//! * A plugin with its own copy of the tracer hands its records to the program's copy, and may be unloaded and loaded
//!   again: `one_copy_of_the_tracer_owns_the_process`
//! * The tracer leaves the program's descriptors and `errno` alone:
//!   `closing_all_descriptors_harms_no_host_file`, `signals_lose_no_record`
//! * Threads come and go without leaving rings or descriptors behind: `short_lived_threads_leak_nothing`
//! * A message formatted later, or by recovery after a kill, has the text that `format!` gives:
//!   `deferred_messages_equal_the_output_of_format`
//! * A panic leaves its call stack in the trace, and so does a fatal signal if the program asked for that:
//!   `a_crash_leaves_its_stack`
//! * A loss is never silent: it is counted, and a line in the file reports it:
//!   `a_full_ring_waits_or_drops_and_reports_it`
//!
//! Records made inside another record of their thread (by a signal handler, a panic hook, a `Display` that traces) go
//! to a nested ring, a sixteenth of the size of the thread's ring. These records never wait: if the nested ring is
//! full, they are dropped and counted, `# lost reason=nested`.
//!
//! The tracer never panics, never writes to stdout, and writes to stderr only messages that its user must see.
//! `docs/losses.md` describes the effects on a trace if the process is killed, the disk is full or the machine stops.
//!
//! # Environment
//!
//! The variables are read once, at the first record, [`Tracer::is_enabled`] or [`Tracer::startup`], and never in
//! setuid programs.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `TRACER_ENABLE`, or as named in [`Tracer::startup`] | `1`, `true`, `on`, `yes`: trace | off |
//! | `TRACER_DIR` | directory of the trace files | beside the executable |
//! | `TRACER_RING_SIZE` | bytes of each thread's ring, with K, M, G | `1M` |
//! | `TRACER_FULL` | when a ring is full: `block`, `drop`, `overwrite`; see [`FullPolicy`] | `block` |
//! | `TRACER_MAX_STALL` | how long `block` waits at most | `1s` |
//! | `TRACER_MAX_BYTES` | the largest size of each thread's file, with K, M, G | no limit |
//! | `TRACER_MAX_TOTAL` | the largest size of all files of a process together, with K, M, G | no limit |
//! | `TRACER_FLUSH_INTERVAL` | how long a record may wait for the flusher | `100ms` |
//! | `TRACER_CLOCK` | `ordered`; `fast`: cheaper, but hand-overs may look reversed; or `system`: the system's clock | `ordered` |
//! | `TRACER_FILTER` | which calls of [`trace!`] are on, by module: `my::module=off,other`, as in `RUST_LOG`; for `log` and `tracing` also by level | all |
//! | `TRACER_CALL_SITES` | `1`: each function entry also records its call site | off |
//! | `TRACER_FUNCTIONS`, `TRACER_TRIGGER`, `TRACER_MAX_DEPTH`, `TRACER_MIN_DURATION` | which calls of functions with compiler hooks are recorded, see `docs/functions.md` | all |
//! | `TRACER_FORMAT` | `text`, or `raw`: unrendered records, half the size | `text` |
//! | `TRACER_RUNTIME_DIR` | directory of the rings | `/dev/shm/tracer-<uid>` |
//! | `TRACER_DESCRIPTORS` | `own`, or `shared` with the program | `own` |
//!
//! `tracemerge` turns `raw` files into text. The program cannot close `own` descriptors; `shared` ones are for a
//! sandbox that kills a process for calling `close_range` or `fork`.
//!
//! # Features
//!
//! No feature is on by default.
//!
//! | feature | effect |
//! |---|---|
//! | `unwind` | complete call stacks in builds without frame pointers, `is_called_from` and [`on_return!`]; links `gimli`, `object` and `rustc-demangle` |
//! | `parking_lot` | the locks of that crate which record waits, in [`sync`]; adds no dependency |
//! | `compile-out` | removes every call of the macros from the program; their arguments are still checked |
//! | `hooks` | room for the returns of 16,320 functions at the same time, for `libtracer` and programs compiled with `-pg` |
//!
//! # Costs
//!
//! While tracing is off, a call is a load and a branch. While it is on, a call reads the clock, copies or formats the
//! message, and takes a few nanoseconds more; figures are in `docs/performance.md`. Each tracing thread has a ring of 1
//! MiB of shared memory, and four are kept ready. The flusher wakes ten times a second.

// docs.rs builds with the nightly compiler; with this feature its pages show which feature of the crate an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

/// Does nothing, since the feature `compile-out` is on. The compiler still checks the arguments.
#[cfg(feature = "compile-out")]
#[macro_export]
macro_rules! trace {
    ($($arguments:tt)*) => {{
        if false {
            let _ = ::core::format_args!($($arguments)*);
        }
    }};
}

/// Does nothing, since the feature `compile-out` is on. The compiler still checks the arguments.
#[cfg(feature = "compile-out")]
#[macro_export]
macro_rules! scope {
    () => {
        $crate::Scope::off()
    };
    ($($arguments:tt)*) => {{
        $crate::trace!($($arguments)*);
        $crate::Scope::off()
    }};
}

/// Does nothing, since the feature `compile-out` is on. The compiler still checks the arguments.
#[cfg(feature = "compile-out")]
#[macro_export]
macro_rules! trace_stack {
    ($($arguments:tt)*) => { $crate::trace!($($arguments)*) };
}

// The macros' output names this crate `tracer`, as the programs that link it do.
extern crate self as tracer;

// This module is at the crate's root because the compiler's messages show users the shortest path to an item.
#[doc(hidden)]
#[path = "api/macro_support.rs"]
pub mod __macro_support;
mod api;
mod copies;
mod flusher;
mod ring;
mod shared;
mod stack;
pub mod sync;
mod sys;
mod traced;
mod user;
mod words;

#[doc(hidden)]
pub use api::bridge as __bridge;
pub use api::builder::Builder;
#[cfg(feature = "unwind")]
pub use api::called_from::{CalledFrom, is_called_from};
#[doc(hidden)]
pub use api::foreign as __foreign;
pub use api::scope::scope;
pub use api::tracer::Tracer;
pub use shared::stats::Stats;
#[cfg(all(feature = "unwind", target_os = "linux", target_arch = "x86_64"))]
pub use stack::on_return::OnReturnError;
pub use trace_format::capture;
pub use traced::scope::Scope;
pub use tracer_macros::Capture;
#[cfg(feature = "compile-out")]
pub use tracer_macros::untraced as traced;
#[cfg(not(feature = "compile-out"))]
pub use tracer_macros::{scope, trace, trace_stack, traced};
pub use user::config::{Clock, Format, FullPolicy};
