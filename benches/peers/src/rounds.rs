//! Runs the measurements, each in a separate process, and reads back the files that they wrote.
//!
//! Each round runs all measurements once, so that a change of the machine's speed affects all of them.

use crate::Outcome;
use crate::arguments::{Part, Plan};
use crate::functions::Way;
use crate::loggers::{Format, Peer};
use crate::report::Report;
use crate::tables::{Place, Results, Row};
use crate::verification::{self, Findings};
use clap::ValueEnum;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use tempfile::TempDir;

/// Makes the measurements of `plan`, and prints the tables. The status is 1 if a logger lost messages although it is
/// set up to lose none.
pub fn run(plan: &Plan) -> Outcome<ExitCode> {
    let directories = plan.directories()?;
    let rows = rows(plan);
    let mut results = Results::new(plan, &rows, &directories);
    for round in 1..=plan.rounds {
        if plan.wants(Part::Call) || plan.wants(Part::Function) {
            eprintln!("round {round}: floors");
            results.add_floors(&read(
                Command::new(std::env::current_exe()?).arg("floors").args(plan.calls.to_arguments()),
            )?);
        }
        for row in &rows {
            eprintln!("round {round}: {row}");
            measure(plan, row, &directories, &mut results)?;
        }
        if plan.wants(Part::Function) {
            measure_functions(plan, round, &directories, &mut results)?;
        }
    }
    std::io::stdout().write_all(results.to_string().as_bytes())?;
    Ok(ExitCode::from(u8::from(!results.as_promised())))
}

/// Returns the rows of the tables: one row for each format of this tracer, and one for every other logger.
fn rows(plan: &Plan) -> Vec<Row> {
    let formats = |peer: &Peer| if peer.is_ours() { plan.format.clone() } else { vec![Format::Text] };
    plan.peers()
        .iter()
        .flat_map(|peer| formats(peer).into_iter().map(|format| Row { peer: *peer, format }))
        .collect()
}

fn measure(plan: &Plan, row: &Row, directories: &[PathBuf], results: &mut Results) -> Outcome<()> {
    if plan.wants(Part::Call)
        && let Some(directory) = directories.first()
    {
        let (report, findings) = child(row, directory, "call", &plan.calls.to_arguments())?;
        results.add_call(row, &report, findings);
    }
    if plan.wants(Part::Throughput) {
        for (at, directory) in directories.iter().enumerate() {
            for &threads in &plan.threads {
                let arguments = [threads.to_string(), plan.messages.to_string()];
                let (report, findings) = child(row, directory, "throughput", &arguments)?;
                results.add_throughput(row, Place { directory: at, threads }, &report, findings);
            }
        }
    }
    Ok(())
}

fn measure_functions(plan: &Plan, round: u32, directories: &[PathBuf], results: &mut Results) -> Outcome<()> {
    let Some(directory) = directories.first() else { return Ok(()) };
    for way in Way::value_variants() {
        eprintln!("round {round}: {}", way.name());
        let (report, findings) = function_child(*way, directory, &plan.calls.to_arguments())?;
        results.add_function(*way, &report, findings);
    }
    Ok(())
}

/// Runs a process that measures a function that is recorded in this `way`. The process writes to a directory of its own
/// in `directory`. Returns its report, and the faults of its records.
fn function_child(way: Way, directory: &Path, arguments: &[String]) -> Outcome<(Report, Findings)> {
    let own = tempfile::Builder::new().prefix("peers-").tempdir_in(directory)?;
    let environment = way.environment(own.path());
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["function", &way.name()]).arg(own.path()).args(arguments).envs(environment.clone());
    let report = read(&mut command)?;
    let recorded = if way.is_ours() { merged(&report, &own, environment)? } else { own.path().into() };
    let findings = way.check(&report, &recorded)?;
    Ok((report, findings))
}

/// Runs a process that measures `what` (calls or throughput) of `row`. The process writes to a directory of its own in
/// `directory`. Returns its report, and the faults of its files.
fn child(row: &Row, directory: &Path, what: &str, arguments: &[String]) -> Outcome<(Report, Findings)> {
    let own = tempfile::Builder::new().prefix("peers-").tempdir_in(directory)?;
    let environment = row.peer.environment(own.path(), row.format);
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(what).arg(row.peer.name()).arg(own.path()).args(arguments).envs(environment.clone());
    let report = read(&mut command)?;
    let findings = match row.format {
        Format::Text => verification::check(&report, own.path())?,
        Format::Raw => verification::check_made(&report, &merged(&report, &own, environment)?)?,
    };
    Ok((report, findings))
}

/// Runs a measuring process to its end, and returns its report.
fn read(command: &mut Command) -> Outcome<Report> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", output.status).into());
    }
    Report::parse(&String::from_utf8_lossy(&output.stdout))
}

/// Merges the raw files in `traces` by `tracemerge`, and returns the directory of the merged file.
fn merged(report: &Report, traces: &TempDir, environment: Vec<(&str, String)>) -> Outcome<PathBuf> {
    for path in report.files.keys() {
        if is_text(path)? {
            return Err(format!("{}: asked for raw files, this tracer wrote text", path.display()).into());
        }
    }
    let merged = traces.path().join("merged");
    fs::create_dir(&merged)?;
    let mut command = Command::new(std::env::current_exe()?);
    let args: [OsString; 2] = ["merge".into(), merged.join("trace").into()];
    let status = command.args(args).envs(environment).env_remove("TRACER_ENABLE").status()?;
    if !status.success() {
        return Err(format!("{command:?}: {status}").into());
    }
    Ok(merged)
}

/// Returns whether a trace file begins as lines of text do, with 16 hexadecimal digits.
fn is_text(path: &Path) -> Outcome<bool> {
    let mut key = Vec::new();
    File::open(path)?.take(16).read_to_end(&mut key)?;
    Ok(key.len() == 16 && key.iter().all(u8::is_ascii_hexdigit))
}
