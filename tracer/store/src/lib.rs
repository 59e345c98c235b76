//! What turns the rings of `tracer` into files, and reads what is still in rings.
//!
//! A ring is memory that outlives its process. Whoever drains it does the same: the flusher of the process
//! that traces (crate `tracer`), or, after a kill, whoever recovers (`tracemerge`, or the executable's next
//! run). So what they do is here, once, and nothing here knows of traced threads, of a flusher thread, or of
//! whether this process traces: what differs is passed in. Not for programs: they use `tracer`.
//!
//! | module | what is in it |
//! |---|---|
//! | [`variables`] | the variables that set the tracer up, by name |
//! | [`sys`] | what differs by operating system, as far as files, locks, users and the counter go |
//! | [`counter`] | reading the processor's counter, and the wall clock at the same moment |
//! | [`descriptor`] | files that stay open in a thread whose descriptors may not be its own |
//! | [`modules`] | which files are mapped as code, and since when |
//! | [`memory`] | a mapped ring, and every raw access to it |
//! | [`life`] | the life file and its lock: whether a run lives |
//! | [`drain`] | a ring into a file, in the order that loses and doubles nothing |
//! | [`run_directory`] | the directory with a run's life file, manifest, site table and rings |
//! | [`recovery`] | what dead runs left goes into their files |
//! | [`inspect`] | what is in rings now, read without touching anything |
//!
//! Each module uses only those above it in this table.

pub mod counter;
pub mod descriptor;
pub mod drain;
pub mod inspect;
pub mod life;
#[cfg(not(loom))]
pub mod memory;
#[cfg(loom)]
#[path = "loom_memory.rs"]
pub mod memory;
pub mod modules;
pub mod recovery;
pub mod run_directory;
pub mod sorting;
pub mod sys;
pub mod variables;
