//! `cargo xtask TASK [STEP...]`: the parts of CI that run other programs and compare their results. `.ci/run` is the
//! entry of the whole CI and calls these parts.
//!
//! A task is a list of steps (`steps`), which run one after another. A step runs commands through a `Shell`.
#![allow(clippy::print_stdout, reason = "the output of a step is for people, and for the log of CI")]

mod failure;
mod install;
mod programs;
mod shell;
mod steps;
mod weight;

use std::process::ExitCode;

use failure::Failure;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.split_first().map(|(task, steps)| (task.as_str(), steps)) {
        Some(("programs", steps)) => programs::run(steps),
        Some(("weight", [])) => weight::run(),
        _ => Err(Failure::Failed("usage: cargo xtask programs [STEP...], or cargo xtask weight".to_owned())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Skipped(reason)) => {
            println!("SKIPPED: {reason}");
            ExitCode::SUCCESS
        }
        Err(Failure::Failed(reason)) => {
            eprintln!("FAILED: {reason}");
            ExitCode::FAILURE
        }
    }
}
