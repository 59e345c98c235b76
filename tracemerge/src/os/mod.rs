//! What is asked of the operating system: system calls, signals, threads.

pub mod parallel;
pub mod signals;
pub mod sys;
pub mod unfinished;
