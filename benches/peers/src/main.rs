//! Measures this tracer beside other Rust loggers, with the same messages and the same harness.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml` prints Markdown tables; `-- --help` lists
//! the options. Loggers are global, so each figure is taken in a process of its own: the program runs itself
//! again. Afterwards the files are read back, and a row that did not write every message exactly once says
//! so.
//!
//! * *Call*: the caller's side, as logger benchmarks take it: batches of 20 calls, between them a pause in
//!   which background threads catch up, so that no queue is full; the median over the batches' means. Then
//!   the same with every call timed by itself. Nothing is subtracted, so the two clock reads around a batch
//!   (around a call) are in all figures, those of the bare clocks included. Threads are not pinned. Some
//!   processors' counters go on in steps (of 10 ns, say), and single calls with them.
//! * *Function*: a function that is entered and left, measured as calls are, beside the two reads of a clock
//!   that this takes. The processor time of other threads is that of the whole measurement, pauses included.
//! * *Throughput*: from the first call until the logger's own flush returns and the messages are in the file,
//!   as the operating system sees it. The total is the same for every number of threads.
//!
//! How each logger is set up, and why, is said in its file in `loggers/`, and for functions in `functions/`. All have time stamps, write lines
//! of text to a file, and wait where a queue is full, if they can. None was left out.
//!
//! This tracer has rows for its raw files as well, which are read back by `tracemerge`. All of it takes tens
//! of minutes, `--rounds 1` a third of that; with `--messages 400000` it is soon done.

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

/// The result of an action that may fail; the only thing done about a failure is to report it.
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

/// Does the work for which another process of this program has started this one.
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

/// Merges the traces of this program that are in `TRACER_DIR`.
fn merge(output: PathBuf) -> Outcome<ExitCode> {
    let mut args: Vec<OsString> = ["tracemerge", "-q", "-o"].map(OsString::from).into();
    args.extend([output.into(), std::env::current_exe()?.into()]);
    Ok(ExitCode::from(tracemerge::main(args)))
}
