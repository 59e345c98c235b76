//! The environment variables that `tracemerge` reads. [`trace_store::variables`] has the names of the tracer's
//! variables.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) use trace_store::variables::{DEFAULT_FORMAT, ENABLE, SCHED};
use trace_store::variables::{DIR, FILTER, FUNCTIONS, MAX_DEPTH, MIN_DURATION, TRIGGER, value};

/// Returns the directory that the user has set for traces with the tracer's variable; `None` if that variable is not
/// set or is empty.
#[must_use]
pub(crate) fn trace_directory() -> Option<PathBuf> {
    value(DIR).map(PathBuf::from)
}

/// Returns whether the user wants the states of threads recorded, by the variable [`SCHED`].
///
/// # Errors
/// The variable's value, if it is neither a yes nor a no.
pub(crate) fn wants_states() -> Result<bool, OsString> {
    let value = value(SCHED).unwrap_or_default();
    match value.to_str().map(str::trim).unwrap_or_default().to_ascii_lowercase().as_str() {
        "1" | "true" | "on" | "yes" => Ok(true),
        "0" | "false" | "off" | "no" => Ok(false),
        "" if value.is_empty() => Ok(false),
        _ => Err(value),
    }
}

/// Returns the system's directory for large temporary files (`/var/tmp`); `None` if the user has set `TMPDIR`, the
/// directory for all temporary files, or if the system has no directory for large ones.
#[must_use]
pub(crate) fn place_of_large_files() -> Option<PathBuf> {
    (cfg!(unix) && value("TMPDIR").is_none()).then(|| PathBuf::from("/var/tmp"))
}

/// Uses `/tmp` for temporary files if `TMPDIR` names no directory, as compilers do. Call it before anything makes a
/// temporary file.
pub(crate) fn replace_missing_temporary_directory() {
    if cfg!(unix) && !tempfile::env::temp_dir().is_dir() {
        // An error means that an earlier call has replaced it.
        let _ = tempfile::env::override_temp_dir(Path::new("/tmp"));
    }
}

/// Returns whether colours are unwanted: if `NO_COLOR` has any value except the empty one (<https://no-color.org>),
/// or if the terminal has no colours.
#[must_use]
pub(crate) fn forbids_colours() -> bool {
    value("NO_COLOR").is_some() || env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Returns the pager that the user has named, which is empty if the user wants none; `None` if the variable `PAGER` is
/// not set.
#[must_use]
pub(crate) fn pager() -> Option<OsString> {
    env::var_os("PAGER")
}

/// Returns whether the user has set options for `less`.
#[must_use]
pub(crate) fn has_options_for_less() -> bool {
    env::var_os("LESS").is_some()
}

/// The environment variable for the subcommand `open`. Its value names a trace format, and the command that shows a
/// file in that format.
pub(crate) const OPEN: &str = "TRACEMERGE_OPEN";

/// Returns the value of the variable `TRACEMERGE_OPEN`, by which the user chooses a viewer of traces; `None` if the
/// variable is not set or is empty.
#[must_use]
pub(crate) fn viewer() -> Option<OsString> {
    value(OPEN)
}

/// Returns whether programs that this process starts can open windows.
#[must_use]
pub(crate) fn has_display() -> bool {
    if cfg!(target_os = "macos") {
        return value("SSH_CONNECTION").is_none();
    }
    ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| value(name).is_some())
}

/// The environment variable that makes the dynamic linker load libraries before all others.
pub(crate) const PRELOAD: &str = "LD_PRELOAD";

/// Returns the libraries that the user wants the dynamic linker to load before all others; `None` if there are none.
#[must_use]
pub(crate) fn preloaded() -> Option<OsString> {
    value(PRELOAD)
}

/// The environment variable with the options of AddressSanitizer.
pub(crate) const ASAN_OPTIONS: &str = "ASAN_OPTIONS";
/// The environment variable with the options of ThreadSanitizer.
pub(crate) const TSAN_OPTIONS: &str = "TSAN_OPTIONS";

/// Returns the options in `name`, the environment variable of a sanitizer; empty if there are none.
#[must_use]
pub(crate) fn sanitizer_options(name: &str) -> OsString {
    value(name).unwrap_or_default()
}

/// Returns the names and the values of those variables of the tracer that choose which records are made. Variables that
/// are not set are left out.
#[must_use]
pub(crate) fn choices_of_records() -> Vec<(&'static str, OsString)> {
    const CHOICES: [&str; 5] = [FUNCTIONS, TRIGGER, MAX_DEPTH, MIN_DURATION, FILTER];
    CHOICES.into_iter().filter_map(|name| Some((name, value(name)?))).collect()
}

/// Returns the path of the executable of this process; `None` if the system does not say it.
#[must_use]
pub(crate) fn own_program() -> Option<PathBuf> {
    env::current_exe().ok()
}

/// Returns the directory of the executable of this process; `None` if the system does not say it.
#[must_use]
pub(crate) fn own_directory() -> Option<PathBuf> {
    own_program().and_then(|exe| Some(exe.parent()?.to_owned()))
}

/// Returns the value of the environment variable `name`, which Cargo sets for this process, or which this program sets
/// for the processes that it starts; `None` if the variable is not set or is empty.
#[must_use]
pub(crate) fn of_cargo(name: &str) -> Option<OsString> {
    value(name)
}

/// Returns the value of the environment variable `name`, even if the value is empty; `None` if the variable is not set.
#[must_use]
pub(crate) fn value_of(name: &str) -> Option<OsString> {
    env::var_os(name)
}

/// Returns all environment variables whose names begin with `start`, with their values.
#[must_use]
pub(crate) fn variables_with(start: &str) -> Vec<(String, OsString)> {
    let named = env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    named.filter(|(name, _)| name.starts_with(start)).collect()
}

/// Returns the existing directories in which `debuginfod` keeps the files that it has fetched.
#[must_use]
pub(crate) fn debuginfod_caches() -> Vec<PathBuf> {
    let home = || value("HOME").map(PathBuf::from);
    let cache = value("DEBUGINFOD_CACHE_PATH").map(PathBuf::from).or_else(|| {
        let caches = value("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(home()?.join(".cache")));
        Some(caches?.join("debuginfod_client"))
    });
    // Earlier versions had it in the second place.
    let earlier = home().map(|home| home.join(".debuginfod_client_cache"));
    cache.into_iter().chain(earlier).filter(|place| place.is_dir()).collect()
}

/// Returns the directories in `PATH`, in which programs are searched.
#[must_use]
pub(crate) fn program_directories() -> Vec<PathBuf> {
    env::var_os("PATH").map_or_else(Vec::new, |places| env::split_paths(&places).collect())
}
