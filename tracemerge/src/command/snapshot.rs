//! The subcommand `snapshot`, which merges the files and rings of a live process without disturbing the process, even
//! if the process keeps its records only in a flight recorder.

use std::fs;
#[cfg(not(windows))]
use std::path::Path;
use std::path::PathBuf;
#[cfg(not(windows))]
use std::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use trace_format::wall::Wall;
use trace_store::inspect::RunInMemory;
use trace_store::recovery::runtime_directories;

use crate::command::merge::{self, Job};
use crate::find::app::App;
use crate::find::choose::Choice;
use crate::find::liveness;
use crate::find::rings;
use crate::find::strangers;
#[cfg(windows)]
use crate::os::sys::process_start_since_epoch;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, shown};
use crate::view::request::Request;

/// Merges all records that the process `pid` has made so far.
///
/// # Errors
/// If the process does not trace, or if the output could not be written.
pub(crate) fn snapshot(pid: u32, request: &Request, messages: &mut Messages) -> Result<(), Error> {
    let run = run_of(pid)?;
    let began = run.manifest.run.wall;
    let app = App::new(run.exe())?;
    let since = process_start(pid).map_or(began, |start| start.min(began));
    let choice = Choice::Alone { pid, since };
    merge::run(&Job { apps: &[app], request, choice }, messages)
}

/// Returns the time at which a process began, or a time a few seconds earlier. Runs that began before this time belong
/// to another process, which had the same process id.
#[cfg(not(windows))]
fn process_start(pid: u32) -> Option<Wall> {
    /// The number of units in a second, in which Linux states when a process started.
    const UNITS_PER_SECOND: u64 = 100;
    /// The number of seconds by which the result is earlier than the start that Linux states.
    const TOLERANCE: u64 = 2;
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name, which may contain spaces and parentheses.
    let started: u64 = status.rsplit(')').next()?.split_whitespace().nth(19)?.parse().ok()?;
    let system = fs::read_to_string("/proc/stat").ok()?;
    let boot: u64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let start = (boot + started / UNITS_PER_SECOND).checked_sub(TOLERANCE)?;
    let start = UNIX_EPOCH.checked_add(Duration::from_secs(start))?;
    let since = start.min(SystemTime::now()).duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok().map(Wall)
}

/// Returns the time at which a process began. Runs that began before this time belong to another process, which had the
/// same process id.
#[cfg(windows)]
fn process_start(pid: u32) -> Option<Wall> {
    let started = UNIX_EPOCH.checked_add(process_start_since_epoch(pid)??)?;
    let since = started.min(SystemTime::now()).duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok().map(Wall)
}

/// Returns the newest run of the live process `pid`.
///
/// # Errors
/// If the process does not trace, or if it belongs to another user.
pub(crate) fn run_of(pid: u32) -> Result<RunInMemory, Error> {
    let mut runs = rings::runs(|manifest| manifest.run.pid == pid);
    if runs.is_empty() {
        // This helps only root, who is not warned of runs that may belong to other processes.
        runs = strangers::runs(|run, manifest| run.pid == pid && manifest.is_some(), &mut Messages::silent());
    }
    let alive = runs.into_iter().filter(|run| liveness::is_alive(&run.manifest.run));
    alive.max_by_key(|run| run.manifest.run.wall).ok_or_else(|| missing_rings_error(pid))
}

/// Returns an error that says why no rings of the process were found.
fn missing_rings_error(pid: u32) -> Error {
    #[cfg(windows)]
    if process_start_since_epoch(pid).is_none() {
        return Error::plain(format!("there is no process {pid}"));
    }
    #[cfg(not(windows))]
    if Path::new("/proc/self").exists() {
        let Ok(found) = fs::metadata(format!("/proc/{pid}")) else {
            return Error::plain(format!("there is no process {pid}"));
        };
        if let Some(other) = other_user(&found) {
            return Error::plain(format!(
                "process {pid} belongs to another user ({other}); only that user can read its traces"
            ));
        }
    }
    let of_process = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{pid}-")))
    };
    let entries = runtime_directories().into_iter().filter_map(|place| fs::read_dir(place).ok()).flatten();
    let directories = entries.flatten().map(|entry| entry.path()).filter(of_process);
    if let Some(why) = directories.filter_map(|path| rings::without_manifest(&path)).next() {
        return Error::plain(format!("cannot read the records of process {pid}: {why}"));
    }
    let places: Vec<String> =
        runtime_directories().iter().map(|place| format!("\n  {}/{pid}-*", shown(place))).collect();
    Error::plain(format!(
        "process {pid} does not trace: is the tracer crate linked in, was it started with TRACER_ENABLE=1, and has \
         it traced anything yet? Looked for its rings in{}",
        places.concat()
    ))
}

/// Returns the id of the user to whom a process belongs; `None` if the process belongs to the caller.
#[cfg(unix)]
fn other_user(process: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let own = fs::metadata("/proc/self").ok()?.uid();
    (process.uid() != own).then_some(process.uid())
}
