//! The one place that writes messages to the user, on stderr, and that keeps the exit status.
//!
//! The status is 2 if an error has kept this program from doing anything. Otherwise it is 1 if there was a warning, or
//! if a part of the work has failed; notes do not change it. Other code does not print: it returns its results, or gets
//! a [`Messages`].

use std::fmt::{self, Display};
use std::io::{self, BufRead, IsTerminal, Read};
use std::path::Path;
use std::sync::OnceLock;

use indicatif::HumanCount;
use trace_format::escape::{EscapeContext, escape_into};

use crate::ui::console::Stream;

/// The name under which the user has called this program, if that is not `tracemerge`. It is set once, before the first
/// message.
static PROGRAM_NAME: OnceLock<&'static str> = OnceLock::new();

/// Makes all messages of this process begin with `name`, because the user has called the program by this name and not
/// as `tracemerge`.
pub(crate) fn set_program_name(name: &'static str) {
    // A second name would belong to another program in this process; the first one stays.
    let _ = PROGRAM_NAME.set(name);
}

/// Returns the name with which messages begin.
#[must_use]
pub(crate) fn program() -> &'static str {
    PROGRAM_NAME.get().copied().unwrap_or("tracemerge")
}

/// The exit status of the command. A later variant is a worse status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    /// Everything that the user asked for was done.
    Complete = 0,
    /// The output was written, but something was lost or damaged, or a part of the work has failed.
    Damaged = 1,
    /// Nothing was done, because of an error.
    Nothing = 2,
}

/// The writer of messages to the user. It keeps the exit status that the gravest message requires.
#[derive(Debug)]
pub(crate) struct Messages {
    quiet: bool,
    verbose: bool,
    /// Whether this writer writes no messages at all.
    silent: bool,
    status: Status,
}

impl Messages {
    /// Makes a writer that has written no message yet. If it is `quiet`, it writes no reports of success.
    #[must_use]
    pub(crate) fn new(quiet: bool) -> Messages {
        Messages { quiet, verbose: false, silent: false, status: Status::Complete }
    }

    /// Makes a writer that writes no messages, for callers that report problems elsewhere.
    #[must_use]
    pub(crate) fn silent() -> Messages {
        Messages { silent: true, ..Messages::new(true) }
    }

    /// Makes [`Messages::detail`] write its messages from now on.
    pub(crate) fn show_details(&mut self) {
        self.verbose = true;
    }

    /// Shows a detail, but only to users who have asked for details.
    pub(crate) fn detail(&self, text: impl Display) {
        if self.verbose {
            self.write_message("", text);
        }
    }

    /// Reports success, unless the user wants only warnings and errors.
    pub(crate) fn done(&self, text: impl Display) {
        if !self.quiet {
            self.write_message("", text);
        }
    }

    /// Shows a text of several lines, with its line feeds, unless the user wants only warnings and errors.
    pub(crate) fn show(&self, text: &[u8]) {
        if !self.quiet {
            Stream::Error.show(text);
        }
    }

    /// Shows a fact that the user should know, although nothing is wrong.
    pub(crate) fn note(&self, text: impl Display) {
        self.write_message("", text);
    }

    /// Warns of something that was lost or damaged.
    pub(crate) fn warn(&mut self, text: impl Display) {
        self.write_message("warning: ", text);
        self.status = self.status.max(Status::Damaged);
    }

    /// Reports that a part of the work has failed; the other parts are done nevertheless.
    #[cfg(feature = "parquet")]
    pub(crate) fn failure(&mut self, text: impl Display) {
        self.write_message("error: ", text);
        self.status = self.status.max(Status::Damaged);
    }

    /// Reports the error because of which nothing was done.
    pub(crate) fn error(&mut self, text: impl Display) {
        self.write_message("error: ", text);
        self.status = Status::Nothing;
    }

    /// Asks the user, who has a terminal, a question; returns whether the answer is yes.
    #[must_use]
    pub(crate) fn ask(&self, question: impl Display) -> bool {
        Stream::Error.show(format!("{}: {question} [y/N] ", program()).as_bytes());
        let mut answer = String::new();
        let is_answered = io::stdin().lock().take(MAX_ANSWER_BYTES).read_line(&mut answer).is_ok();
        is_answered && ["y", "yes"].contains(&&*answer.trim().to_ascii_lowercase())
    }

    fn write_message(&self, grade: &str, text: impl Display) {
        if !self.silent {
            Stream::Error.write_message(&format!("{}: {grade}{text}", program()));
        }
    }

    /// Returns the exit status that the messages so far require.
    #[must_use]
    pub(crate) fn status(&self) -> Status {
        self.status
    }
}

/// Returns whether the user can be asked: both standard input and standard error are a terminal.
#[must_use]
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && Stream::Error.is_terminal()
}

/// The greatest length of an answer that is read, in bytes.
const MAX_ANSWER_BYTES: u64 = 4096;

/// Returns a path in the form in which messages show it: in quotes, with escapes for characters that could control a
/// terminal.
#[must_use]
pub(crate) fn shown(path: &Path) -> String {
    format!("'{}'", shown_name(path.as_os_str().as_encoded_bytes()))
}

/// Returns a name in the form in which messages show it: with escapes for characters that could control a terminal.
#[must_use]
pub(crate) fn shown_name(name: &[u8]) -> String {
    let mut text = Vec::new();
    escape_into(&mut text, name, EscapeContext::Line);
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns a count with its noun, in the plural if the count is not 1: `1 file`, `1,234 files`, `2 matches`.
#[must_use]
pub(crate) fn count(number: u64, noun: &str) -> String {
    let has_sibilant = ["s", "sh", "ch", "x"].iter().any(|end| noun.ends_with(end));
    let ending = if has_sibilant { "es" } else { "s" };
    format!("{} {noun}{}", Grouped(number), if number == 1 { "" } else { ending })
}

/// Returns the verb of a sentence about `number` things: `is` for one thing, otherwise `are`.
#[must_use]
pub(crate) const fn are(number: u64) -> &'static str {
    if number == 1 { "is" } else { "are" }
}

/// Returns the verb of a sentence about `number` things: `was` for one thing, otherwise `were`.
#[must_use]
pub(crate) const fn were(number: u64) -> &'static str {
    if number == 1 { "was" } else { "were" }
}

/// A number that is displayed with commas between groups of three digits. A width in the format string is respected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grouped(pub u64);

impl Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `HumanCount` ignores a width.
        f.pad(&HumanCount(self.0).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_readable() {
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(0, "line"), "0 lines");
        assert_eq!(count(1, "match"), "1 match");
        for (noun, nouns) in [("match", "2 matches"), ("switch", "2 switches"), ("process", "2 processes")] {
            assert_eq!(count(2, noun), nouns);
        }
        assert_eq!(count(1_234_567, "line"), "1,234,567 lines");
        assert_eq!(count(999, "run"), "999 runs");
        assert_eq!([are(0), are(1), were(1), were(2)], ["are", "is", "was", "were"]);
    }

    #[test]
    fn a_path_cannot_control_the_terminal() {
        assert_eq!(shown(Path::new("./a\x1b[31m b")), r"'./a\x1b[31m b'");
    }

    #[test]
    fn the_worst_message_decides_the_status() {
        let mut messages = Messages::new(true);
        messages.note("test: a note");
        assert_eq!(messages.status(), Status::Complete);
        messages.error("test: an error");
        messages.warn("test: a warning");
        assert_eq!(messages.status(), Status::Nothing);
    }
}
