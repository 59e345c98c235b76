//! The code that writes the rings of `tracer` to files and reads the records that are still in rings.
//!
//! A ring is memory that outlives its process. It is drained by the flusher of the traced process (crate `tracer`),
//! or, after a kill, by a recoverer (`tracemerge`, or the executable's next run). Both do the same, so their common
//! code is here. This crate does not know traced threads, a flusher thread, or whether this process traces: the callers
//! pass in what differs between a flusher and a recoverer. Programs use `tracer` instead of this crate.
//!
//! | module | content |
//! |---|---|
//! | [`variables`] | the names of the variables that configure the tracer |
//! | [`sys`] | the parts that differ by operating system: files, locks, users and the counter |
//! | [`counter`] | reading the processor's counter, and the wall clock at the same moment |
//! | [`descriptor`] | files that stay open in a thread whose descriptors may not be its own |
//! | [`modules`] | the files that are mapped as code, and the times when they were mapped |
//! | [`memory`] | a mapped ring, and every raw access to it |
//! | [`life`] | the life file and its lock, which shows whether a run is alive |
//! | [`drain`] | the writing of a ring to a file, in the order that neither loses nor doubles records |
//! | [`run_directory`] | the directory with a run's life file, manifest, site table and rings |
//! | [`recovery`] | the writing of dead runs' rings to their files |
//! | [`inspect`] | the reading of the records that are in rings now, without changing anything |
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
mod reading;
pub mod recovery;
pub mod run_directory;
pub mod sorting;
pub mod sys;
pub mod variables;
