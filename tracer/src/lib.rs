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
//! # Guarantees
//!
//! Each is shown by the test named with it, in `tests/` of the workspace.
//!
//! | | |
//! |---|---|
//! | Off: no thread, no file, no allocation; a call is one relaxed load | `a_disabled_tracer_does_nothing` |
//! | On, with room: no lock, no allocation, no system call in a call | `a_call_that_finds_room_makes_no_system_call` |
//! | Every record of a program that exits is in its files, however it exits | `an_exit_keeps_every_record` |
//! | Killed at any instant, it loses no record whose call had returned | `a_killed_program_loses_nothing` |
//! | A record that happens after another never has smaller ticks | `handovers_are_never_reversed` |
//! | Any message arrives as it was, of any length and content | `messages_are_free_text` |
//! | A `Display` that panics or traces harms nothing | `a_display_may_panic_or_trace` |
//! | Threads come and go without leaving rings or descriptors behind | `short_lived_threads_leak_nothing` |
//! | A loss is never silent: it is counted, and a line in the file | `a_full_ring_drops_or_waits_and_says_so` |
//!
//! Records made inside another record of their thread (by a signal handler, a panic hook, a `Display` that traces)
//! share a ring of their own, a sixteenth of the thread's. They never wait: what it cannot hold is dropped and
//! counted, `# lost reason=nested`.
//!
//! The tracer never panics, never writes to stdout, and says on stderr only what its user must know. What
//! happens to a trace when the process is killed, the disk is full or the machine stops: see the README.
//!
//! # Environment
//!
//! Read once, at the first record, [`Tracer::is_enabled`] or [`Tracer::startup`]; never in setuid programs.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `TRACER_ENABLE`, or as named in [`Tracer::startup`] | `1`, `true`, `on`, `yes`: trace | off |
//! | `TRACER_DIR` | directory of the trace files | beside the executable |
//! | `TRACER_RING_SIZE` | bytes of each thread's ring, with K, M, G | `1M` |
//! | `TRACER_FULL` | when a ring is full: `block`, `drop` | `block` |
//! | `TRACER_MAX_STALL` | how long `block` waits at most, in ms | `1000` |
//! | `TRACER_FLUSH_MS` | how long a record may wait for the flusher, in ms | `100` |
//! | `TRACER_CLOCK` | `ordered`, or `fast`: cheaper, but hand-overs may look reversed | `ordered` |
//! | `TRACER_FORMAT` | `text` | `text` |
//! | `TRACER_RUNTIME_DIR` | directory of the rings | `/dev/shm/tracer-<uid>` |
//!
//! # Costs
//!
//! Disabled, a call is a load and a branch. Enabled, it costs the clock read and the formatting of the message,
//! and a few nanoseconds; figures are in the README. Each tracing thread has a ring of 1 MiB of shared memory,
//! and four are kept ready. The flusher wakes ten times a second.

mod clock;
mod config;
mod drain;
mod exit;
mod flusher;
pub mod recovery;
mod report;
mod ring;
mod run;
mod state;
mod sys;
mod thread;
mod thread_ring;
mod tracer;
mod wake;

pub use config::{Builder, Clock, Format, FullPolicy};
pub use tracer::{Stats, Tracer};
