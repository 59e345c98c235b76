//! Data sets: tables in Parquet for the runs of any number of machines. [`add()`] puts runs into a data set, and
//! [`compact()`] replaces many small files of a set by few large ones.
//!
//! Each run is merged alone, so that its rows do not depend on the other runs that are added by the same command. The
//! files of a run are written beside the set ([`crate::output::set`]). Then one atomic change makes them part of the
//! set, and removes the run's former files. The run's file in the table of runs states which traces were read: as long
//! as these do not change, the run is not read again.

#[cfg(feature = "parquet")]
mod add;
mod clocks;
#[cfg(feature = "parquet")]
mod compact;
#[cfg(feature = "parquet")]
mod files;

use std::path::Path;

#[cfg(feature = "parquet")]
use crate::command::merge::Job;
use crate::find::app::App;
use crate::ui::error::Error;
use crate::ui::messages::Messages;

/// Adds the runs of `apps` to the set at `path`, as runs of this `machine` or, if it is `None`, of the machine on which
/// this command runs.
///
/// # Errors
/// If there are no traces, or if the set cannot be written.
#[cfg(feature = "parquet")]
pub(crate) fn add(
    path: &Path,
    apps: &[App],
    machine: Option<String>,
    messages: &mut Messages,
) -> Result<(), Error> {
    add::add(path, apps, machine, messages)
}

/// Replaces the small files of the data set at `path` by fewer large ones.
///
/// # Errors
/// If there is no set, or if it cannot be written.
#[cfg(feature = "parquet")]
pub(crate) fn compact(path: &Path, messages: &mut Messages) -> Result<(), Error> {
    compact::compact(path, messages)
}

/// Returns the error which says that this command was built without the format Parquet.
///
/// # Errors
/// Always.
#[cfg(not(feature = "parquet"))]
pub(crate) fn compact(_path: &Path, _messages: &mut Messages) -> Result<(), Error> {
    Err(without_parquet())
}

/// Writes the runs that `job` chooses into a new set at `path`, with only the records that `job` selects.
///
/// # Errors
/// If there are no traces, or if the set cannot be written.
#[cfg(feature = "parquet")]
pub(crate) fn write_new(path: &Path, job: &Job<'_>, messages: &mut Messages) -> Result<(), Error> {
    add::write_new(path, job, messages)
}

/// Reads runs of a set on standard input, and writes their clocks to standard output.
///
/// # Errors
/// If the input cannot be read or is of another form, or if the output cannot be written.
pub(crate) fn clocks(messages: &mut Messages) -> Result<(), Error> {
    clocks::clocks(messages)
}

/// Returns the error which says that this command was built without the format Parquet.
///
/// # Errors
/// Always.
#[cfg(not(feature = "parquet"))]
pub(crate) fn add(
    _path: &Path,
    _apps: &[App],
    _machine: Option<String>,
    _messages: &mut Messages,
) -> Result<(), Error> {
    Err(without_parquet())
}

/// Returns the error which says that this command was built without the format Parquet.
#[cfg(not(feature = "parquet"))]
pub(crate) fn without_parquet() -> Error {
    Error::plain(
        "this tracemerge was built without parquet; to build it with that, run in a checkout: cargo install --path \
         tracemerge --features parquet",
    )
}
