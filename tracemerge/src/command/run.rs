//! The subcommand `run`: runs an application with tracing on and merges what it traced.
//!
//! The application's exit status counts before the merge's.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, SystemTime};

use crate::command::merge::{self, Job};
use crate::find::choose::Choice;
use crate::find::discover::App;
use crate::os::environment::{ENABLE, program_directories};
use crate::os::signals::Signals;
use crate::reporting;
use crate::time::clocks::wall_clock;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, shown};
use crate::view::request::Request;

/// As shells have it: there is such a program, but it cannot be run.
const CANNOT_RUN: u8 = 126;
/// As shells have it: there is no such program.
const NOT_FOUND: u8 = 127;
/// The trace's wall clock and ours may have been read in different ways.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// Runs `command`, merges, and returns the exit status.
pub fn run(request: &Request, command: Vec<OsString>) -> u8 {
    let mut words = command.into_iter();
    let given = PathBuf::from(words.next().unwrap_or_default());
    let found = find_in_path(&given).unwrap_or_else(|| given.clone());
    let mut command = Command::new(&found);
    command.args(words).env(ENABLE, "1");
    let since = wall_clock(SystemTime::now() - CLOCK_TOLERANCE);
    let (pid, status) = match Signals::take().run(&mut command) {
        Ok(ended) => ended,
        Err(error) => return cannot_run(&given, error),
    };
    let choice = if request.all_runs { Choice::All } else { Choice::Process { pid, since } };
    let merged = reporting(request.quiet, |messages| {
        let app = App::found_at(given, found)?;
        merge::run(&Job { apps: &[app], request, choice }, messages)
    });
    match exit_code(status) {
        0 => merged,
        code => code,
    }
}

fn cannot_run(given: &Path, error: io::Error) -> u8 {
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN };
    let mut messages = Messages::new(false);
    // A script whose interpreter is missing gives the same error as a missing file.
    if given.exists() || code == CANNOT_RUN {
        messages.error(Error::io("run", given, error));
        return CANNOT_RUN;
    }
    messages.error(format_args!("cannot run {}: no such program", shown(given)));
    code
}

/// The file that a shell would run for `command`: a name without a slash is looked for in `PATH`.
fn find_in_path(command: &Path) -> Option<PathBuf> {
    if command.components().count() != 1 || command.file_name() != Some(command.as_os_str()) {
        return None;
    }
    let places = program_directories().into_iter();
    places.map(|place| place.join(command)).find(|file| is_executable(file))
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| metadata.is_file())
}

#[cfg(unix)]
fn exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(not(unix))]
fn exit_code(status: ExitStatus) -> u8 {
    // Codes of Windows may be larger than what can be passed on: then only "not 0" is.
    status.code().map_or(1, |code| u8::try_from(code).unwrap_or(1))
}
