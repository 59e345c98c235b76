//! The subcommand `run`, which runs an application with tracing on, then merges its traces or opens them.
//!
//! The exit status is that of the application. If the application succeeds, it is that of the merge or of the viewer.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, SystemTime};

use trace_format::meta::Cause;
#[cfg(unix)]
use trace_format::meta::Name;

use crate::command::merge::{self, Job};
use crate::command::open::Viewing;
use crate::command::preload::preload_if_hooked;
#[cfg(target_os = "linux")]
use crate::command::states::StatesReader;
use crate::find::app::{App, EndedProcess};
use crate::find::choose::Choice;
use crate::os::environment::{self, DEFAULT_FORMAT, ENABLE, SCHED, program_directories};
use crate::os::signals::Signals;
#[cfg(unix)]
use crate::os::signals::signal_name;
use crate::run_and_report;
use crate::time::clocks::wall_clock;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, shown};
use crate::view::layout::Needs;
use crate::view::request::Request;

/// The exit status that shells return if a program exists but cannot be run.
const CANNOT_RUN: u8 = 126;
/// The exit status that shells return if there is no such program.
const NOT_FOUND: u8 = 127;
/// The greatest time by which a trace may be earlier than this process's wall clock, because the traced process may
/// read the clock in another way.
pub(crate) const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// The action that follows with the traces after the application has ended.
#[derive(Debug)]
pub(crate) enum After {
    /// The traces are merged as requested.
    Merge(Request),
    /// The traces are written for a viewer, and the viewer is started.
    Open(Viewing),
}

impl After {
    fn request(&self) -> &Request {
        match self {
            After::Merge(request) => request,
            After::Open(viewing) => viewing.request(),
        }
    }
}

/// Runs `command`, then merges its traces or opens them in a viewer, as `after` says; returns the exit status.
#[must_use]
pub(crate) fn run(after: After, command: Vec<OsString>) -> u8 {
    let mut words = command.into_iter();
    let given = PathBuf::from(words.next().unwrap_or_default());
    if words.as_slice().first().is_some_and(|word| word == "--") {
        Messages::new(after.request().quiet).done(format_args!(
            "'--' is passed on to {}; write it before the program, if it is meant for tracemerge",
            shown(&given)
        ));
    }
    let found = find_in_path(&given).unwrap_or_else(|| given.clone());
    let mut command = Command::new(&found);
    command.args(words).env(ENABLE, "1");
    let Needs { sites, values, .. } = after.request().layout.needs();
    if sites || values {
        // Text files do not record them.
        command.env(DEFAULT_FORMAT, "raw");
    }
    let (quiet, all_runs) = (after.request().quiet, after.request().all_runs);
    let preloaded = preload_if_hooked(&found, &mut command, &Messages::new(quiet));
    let states = StatesOf::begin(&mut command, quiet);
    let since = wall_clock(SystemTime::now() - CLOCK_TOLERANCE);
    let ended = Signals::take().run(&mut command);
    drop((command, preloaded));
    let (pid, status) = match ended {
        Ok(ended) => ended,
        Err(error) => return cannot_run(&given, error),
    };
    let choice = if all_runs { Choice::All } else { Choice::Process { pid, since } };
    let mut app = None;
    let opened = run_and_report(quiet, |messages| {
        if !status.success() {
            messages.note(format_args!("{} ended with {status}", shown(&given)));
        }
        let ended = EndedProcess { pid, since, cause: cause(status) };
        let opened = App::found_at(given, found)?.with_ended_process(ended);
        states.finish(&opened, Choice::Process { pid, since }, pid, messages);
        app = Some(opened);
        Ok(())
    });
    let used = match (app, after) {
        (None, _) => opened,
        (Some(app), After::Open(viewing)) => viewing.start(&[app], choice),
        (Some(app), After::Merge(request)) => run_and_report(quiet, |messages| {
            merge::run(&Job { apps: &[app], request: &request, choice }, messages)
        }),
    };
    match exit_code(status) {
        0 => used,
        code => code,
    }
}

/// The reader of the states of the program's threads, if the user wants the states and this system can report them.
struct StatesOf {
    #[cfg(target_os = "linux")]
    reader: Option<StatesReader>,
}

impl StatesOf {
    /// Begins to read the states of the threads of the program that `command` will start, if the user wants them.
    /// Removes the variable by which the user requests them from the program's environment, so that the program does
    /// not read the states itself.
    #[cfg(target_os = "linux")]
    fn begin(command: &mut Command, quiet: bool) -> StatesOf {
        let reader = if wants_states(command, quiet) { Some(StatesReader::begin(command)) } else { None };
        let reader = reader.and_then(|begun| {
            begun
                .map_err(|error| {
                    Messages::new(quiet)
                        .note(format_args!("the states of threads are not recorded: {error}"));
                })
                .ok()
        });
        StatesOf { reader }
    }

    #[cfg(not(target_os = "linux"))]
    fn begin(command: &mut Command, quiet: bool) -> StatesOf {
        if wants_states(command, quiet) {
            Messages::new(quiet)
                .note(format_args!("the states of threads are not recorded: {SCHED} works on Linux only"));
        }
        StatesOf {}
    }

    /// Writes the states to a file of the run, after the program has ended.
    fn finish(self, app: &App, choice: Choice, pid: u32, messages: &mut Messages) {
        #[cfg(target_os = "linux")]
        if let Some(reader) = self.reader {
            reader.finish(app, choice, pid, messages);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (app, choice, pid, messages);
    }
}

/// Returns whether the user wants the states of threads. Removes the variable that requests them from the environment
/// of `command`.
fn wants_states(command: &mut Command, quiet: bool) -> bool {
    command.env_remove(SCHED);
    environment::wants_states().unwrap_or_else(|value| {
        let value = shown(Path::new(&value));
        Messages::new(quiet).warn(format_args!("{SCHED}={value} is neither 1 nor 0: it counts as 0"));
        false
    })
}

fn cannot_run(given: &Path, error: io::Error) -> u8 {
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN };
    let mut messages = Messages::new(false);
    // A script whose interpreter is missing causes the same error as a missing file.
    if given.exists() || code == CANNOT_RUN {
        messages.error(Error::io("run", given, error));
        return CANNOT_RUN;
    }
    messages.error(format_args!("cannot run {}: no such program", shown(given)));
    code
}

/// Returns the executable file in the directories of `PATH` that a shell would run for `command`. Returns `None` if
/// `command` contains a slash, or if there is no such file.
pub(crate) fn find_in_path(command: &Path) -> Option<PathBuf> {
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

/// Returns the cause of a process's end that its exit status reveals: a signal, or the exit code.
#[cfg(unix)]
fn cause(status: ExitStatus) -> Cause {
    use std::os::unix::process::ExitStatusExt;
    let name = |signal: i32| signal_name(signal).map_or_else(|| signal.to_string(), str::to_owned);
    let signal = status.signal().and_then(|signal| Name::parse(name(signal).as_bytes()));
    Cause { signal, status: status.code().and_then(|code| code.try_into().ok()), panic: None }
}

#[cfg(not(unix))]
fn cause(status: ExitStatus) -> Cause {
    // An exit code of Windows is an unsigned number of 32 bits, which std returns as a signed one.
    Cause { status: status.code().map(|code| code as u32), ..Cause::default() }
}

/// Returns the exit status of a program as shells do: if a signal has ended the program, it is 128 plus the signal's
/// number.
#[cfg(unix)]
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Returns the exit status of a program. If the status does not fit into 8 bits, ends this process with that status at
/// once, so the caller must have no work left.
#[cfg(not(unix))]
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or(1);
    // Only the end of the process itself can pass on a greater code.
    u8::try_from(code).unwrap_or_else(|_| std::process::exit(code))
}
