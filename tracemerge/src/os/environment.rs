//! The environment variables that are read here. Those of the tracer have their names in
//! [`trace_store::variables`].

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

pub use trace_store::variables::ENABLE;
use trace_store::variables::{DIR, value};

/// Returns the directory that traces are said to be in.
#[must_use]
pub fn trace_directory() -> Option<PathBuf> {
    value(DIR).map(PathBuf::from)
}

/// Returns the system's place for large temporary files, unless the user has named another one for all.
#[must_use]
pub fn place_of_large_files() -> Option<PathBuf> {
    (cfg!(unix) && value("TMPDIR").is_none()).then(|| PathBuf::from("/var/tmp"))
}

/// Returns whether colours are unwanted: by `NO_COLOR`, any value of it but the empty one
/// (<https://no-color.org>), or because the terminal has none.
#[must_use]
pub fn forbids_colours() -> bool {
    value("NO_COLOR").is_some() || env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Returns the pager that the user has named, which is empty where none is wanted; `None` where the variable
/// is not set.
#[must_use]
pub fn pager() -> Option<OsString> {
    env::var_os("PAGER")
}

/// Returns whether the user has told `less` how it is to look.
#[must_use]
pub fn has_options_for_less() -> bool {
    env::var_os("LESS").is_some()
}

/// The variable that names the format which `open` writes, and the command that shows it.
pub const OPEN: &str = "TRACEMERGE_OPEN";

/// Returns what the user has said about the viewer of traces; `None` where the variable is not set or empty.
#[must_use]
pub fn viewer() -> Option<OsString> {
    value(OPEN)
}

/// The variable by which the dynamic linker is told to load libraries before all others.
pub const PRELOAD: &str = "LD_PRELOAD";

/// Returns the libraries that the user has loaded before all others.
#[must_use]
pub fn preloaded() -> Option<OsString> {
    value(PRELOAD)
}

/// Returns the path of this program.
#[must_use]
pub fn own_program() -> Option<PathBuf> {
    env::current_exe().ok()
}

/// Returns the directory that this program is in.
#[must_use]
pub fn own_directory() -> Option<PathBuf> {
    own_program().and_then(|exe| Some(exe.parent()?.to_owned()))
}

/// Returns the value of a variable by which Cargo, or this program for itself, tells something; `None` where it is not set or
/// empty.
#[must_use]
pub fn of_cargo(name: &str) -> Option<OsString> {
    value(name)
}

/// Returns whether a variable is set, be it to nothing.
#[must_use]
pub fn is_set(name: &str) -> bool {
    env::var_os(name).is_some()
}

/// Returns the directories in which programs are looked for.
#[must_use]
pub fn program_directories() -> Vec<PathBuf> {
    env::var_os("PATH").map_or_else(Vec::new, |places| env::split_paths(&places).collect())
}
