//! The reasons for which a task ends before its last step.

use std::fmt::Display;

/// The reason for which a task ends before its last step.
#[derive(Debug)]
pub enum Failure {
    /// This machine cannot run the task, which is not a failure of the code. The text says why.
    Skipped(String),
    /// A check or a command has failed. The text says which.
    Failed(String),
}

pub type Result<T> = std::result::Result<T, Failure>;

/// Returns a failure with this reason.
pub fn fail<T>(reason: impl Into<String>) -> Result<T> {
    Err(Failure::Failed(reason.into()))
}

/// Returns a failure with this reason unless `condition` holds.
pub fn check(condition: bool, reason: impl FnOnce() -> String) -> Result<()> {
    if condition { Ok(()) } else { fail(reason()) }
}

/// Adds the operation, and the path, to an error that does not name them.
pub trait Named<T> {
    /// Converts an error to a failure whose reason has `operation` before the error.
    fn named(self, operation: impl Display) -> Result<T>;
}

impl<T, E: Display> Named<T> for std::result::Result<T, E> {
    fn named(self, operation: impl Display) -> Result<T> {
        self.map_err(|error| Failure::Failed(format!("{operation}: {error}")))
    }
}

impl<T> Named<T> for Option<T> {
    fn named(self, operation: impl Display) -> Result<T> {
        self.ok_or_else(|| Failure::Failed(operation.to_string()))
    }
}
