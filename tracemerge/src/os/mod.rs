//! Requests to the operating system: system calls, signals, the environment, the use of all processors.

pub(crate) mod directory;
pub(crate) mod environment;
pub(crate) mod processors;
pub(crate) mod rights;
#[cfg(target_os = "linux")]
pub(crate) mod scheduler;
pub(crate) mod signals;
pub(crate) mod sys;
#[cfg(target_os = "linux")]
pub(crate) mod thread_totals;
pub(crate) mod unfinished;
