//! What is asked of the operating system: system calls, signals, threads.

pub mod processors;
pub mod signals;
pub mod sys;
pub mod unfinished;
