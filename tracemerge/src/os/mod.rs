//! What the operating system is asked for: system calls, signals, the use of all processors.

pub mod processors;
pub mod signals;
pub mod sys;
pub mod unfinished;
