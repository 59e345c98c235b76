//! Requests to the operating system: system calls, signals, the environment, the use of all processors.

pub mod directory;
pub mod environment;
pub mod processors;
pub mod rights;
#[cfg(target_os = "linux")]
pub mod scheduler;
pub mod signals;
pub mod sys;
#[cfg(target_os = "linux")]
pub mod thread_totals;
pub mod unfinished;
