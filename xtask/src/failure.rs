//! The reasons for which a step ends early.

use std::fmt::Display;

/// The end of a task before its last step.
#[derive(Debug)]
pub enum Failure {
    /// This machine cannot run the task, which is not a failure of the code.
    Skipped(String),
    /// A check has failed, or a command.
    Failed(String),
}

pub type Result<T> = std::result::Result<T, Failure>;

/// Fails with these words.
pub fn fail<T>(reason: impl Into<String>) -> Result<T> {
    Err(Failure::Failed(reason.into()))
}

/// Fails with these words unless `condition` holds.
pub fn check(condition: bool, reason: impl FnOnce() -> String) -> Result<()> {
    if condition { Ok(()) } else { fail(reason()) }
}

/// Names the operation, and the path, that an error is about.
pub trait Named<T> {
    /// Fails with `operation` and the error.
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
