//! The one type of error: the operation, its path, and the reason from the operating system.
//!
//! Functions return errors; only [`crate::ui::messages`] shows them.

use std::fmt;
use std::io;
use std::path::Path;

use crate::ui::messages::shown;

/// The reason why an operation failed, in words for the user.
#[derive(Debug)]
pub(crate) struct Error {
    text: String,
    source: Option<io::Error>,
}

impl Error {
    /// Describes an operation on a path that failed: `cannot open './app.trace.12': Permission denied`.
    #[must_use]
    pub(crate) fn io(operation: &str, path: &Path, source: io::Error) -> Error {
        let text = format!("cannot {operation} {}: {}", shown(path), reason(&source));
        Error { text, source: Some(source) }
    }

    /// Describes any other failure, in one sentence.
    #[must_use]
    pub(crate) fn plain(text: impl Into<String>) -> Error {
        Error { text: text.into(), source: None }
    }

    /// Appends a hint at a remedy to the error's text.
    #[must_use]
    pub(crate) fn hint(mut self, hint: &str) -> Error {
        self.text.push_str("; ");
        self.text.push_str(hint);
        self
    }
}

/// Returns the operating system's description of an error, without the error's number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}
