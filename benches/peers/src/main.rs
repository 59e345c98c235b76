//! Measures this tracer beside other Rust loggers, with the same messages and the same harness.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml` prints Markdown tables; `-- --help` lists the
//! options. Loggers are global, so each figure is measured in a separate process: the program runs itself again.
//! Afterwards it reads the files back, and marks each row that did not write every message exactly once.
//!
//! * *Call*: the caller's side, measured in the way of logger benchmarks: batches of 20 calls, with pauses in which
//!   background threads catch up, so that no queue is full; the figure is the median over the batches' means. Then
//!   the same with every call timed separately. Nothing is subtracted, so all figures include the two clock reads
//!   around a batch (around a call), also those of the bare clocks. Threads are not pinned. The counters of some
//!   processors advance in steps (of 10 ns, say), and so do the times of single calls.
//! * *Function*: a function that is entered and left, measured in the way of calls, beside the two reads of a clock
//!   that this takes. The processor time of other threads is that of the whole measurement, pauses included.
//! * *Throughput*: from the first call until the logger's own flush returns and the messages are in the file,
//!   as the operating system sees it. The total is the same for every number of threads.
//!
//! Each logger's file in `loggers/` says how the logger is set up, and why; those for functions are in `functions/`.
//! All have time stamps, write lines of text to a file, and wait if a queue is full, if they can. None was left out.
//!
//! This tracer has additional rows for its raw files, which `tracemerge` reads back. The whole program takes tens of
//! minutes, with `--rounds 1` a third of that, and with `--messages 400000` much less.

mod arguments;
mod call;
mod clock;
mod floors;
mod functions;
mod loggers;
mod message;
mod mounts;
mod processor;
mod report;
mod rounds;
mod statistics;
mod tables;
mod throughput;
mod verification;
mod versions;

use crate::arguments::{Arguments, Child};
use clap::Parser;
use std::error::Error;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// The result of an action that may fail; the caller only reports a failure.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.child {
        Some(child) => be(child),
        None => rounds::run(&arguments.plan),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("peers: {error}");
        ExitCode::from(2)
    })
}

/// Does the task for which another process of this program has started this one.
fn be(child: Child) -> Outcome<ExitCode> {
    let report = match child {
        Child::Floors { calls } => floors::measure(&calls)?,
        Child::Call { peer, directory, calls } => peer.call(&directory, &calls)?,
        Child::Function { way, directory, calls } => way.measure(&directory, &calls)?,
        Child::Throughput { peer, directory, threads, messages } => {
            peer.throughput(&directory, threads, messages)?
        }
        Child::Merge { output } => return merge(output),
    };
    std::io::stdout().write_all(report.to_string().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Merges the traces of this program in `TRACER_DIR`.
fn merge(output: PathBuf) -> Outcome<ExitCode> {
    let mut args: Vec<OsString> = ["tracemerge", "-q", "-o"].map(OsString::from).into();
    args.extend([output.into(), std::env::current_exe()?.into()]);
    Ok(ExitCode::from(tracemerge::main(args)))
}
