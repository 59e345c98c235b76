//! Programs in C, C++ and Rust are compiled, run, and compared with the contents of their traces.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::expect_used, reason = "a failure in a test fails it")]

mod before_main;
mod chosen;
mod compiled;
mod copies;
mod document;
mod functions;
mod gprof;
mod loads;
mod messages;
mod projects;
mod renames;
mod rust;
mod sanitizers;
mod settings;
mod untraced;
mod unusual_function_exits;
