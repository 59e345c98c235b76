//! The console: standard output, standard error and the pager. All output of this process to one of them goes through
//! this module, so no bytes that are not text get to a terminal. Clippy refuses other ways, see `clippy.toml`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "the one place that writes to these"
)]

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice, IsTerminal, Write};
use std::panic;
use std::process::ChildStdin;

use ::console::Term;
use indicatif::{ProgressDrawTarget, TermLike};

use crate::os::sys::standard_output;
use crate::ui::error::Error;
use crate::ui::escaping::{EscapingWriter, Notation, escaped};

/// The number of bytes that are gathered before they are written. A pipe holds as many, so the next bytes are made
/// while the pipe's reader works on the written ones.
const BUFFER: usize = 1 << 16;

/// The type of an output's content. It decides whether the content is escaped on every output, or only on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Text for people, which is escaped on every output.
    Text,
    /// Data in a format with rules of its own, which is escaped only on a terminal.
    Data,
    /// JSON, which has escapes of its own: it is escaped on every output, and its meaning stays the same.
    Json,
}

impl Content {
    /// Returns the notation in which this content is escaped if it is written to a terminal (`terminal` is true) or to
    /// another output; `None` if nothing is escaped there.
    #[must_use]
    pub(crate) fn notation(self, terminal: bool) -> Option<Notation> {
        match self {
            Content::Text => Some(Notation::Hex),
            Content::Data => terminal.then_some(Notation::Hex),
            Content::Json => Some(Notation::Json),
        }
    }
}

/// One of the two output streams that every process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

impl Stream {
    /// Returns whether the stream is a terminal.
    #[must_use]
    pub(crate) fn is_terminal(self) -> bool {
        match self {
            Stream::Output => io::stdout().is_terminal(),
            Stream::Error => io::stderr().is_terminal(),
        }
    }

    /// Writes `bytes` unchanged to the stream.
    fn put(self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Output => {
                let mut out = standard_output()?;
                out.write_all(bytes)?;
                out.flush()
            }
            // A test's messages are shown if it fails.
            #[cfg(test)]
            Stream::Error => {
                eprint!("{}", String::from_utf8_lossy(bytes));
                Ok(())
            }
            // One system call, so that lines of several processes do not mix.
            #[cfg(not(test))]
            Stream::Error => io::stderr().write_all(bytes),
        }
    }

    /// Writes `said`, the output of a program that this process has run. On a terminal, everything except the colours
    /// in the output is escaped.
    ///
    /// # Errors
    /// The stream cannot be written.
    pub(crate) fn pass_on(self, said: &[u8]) -> io::Result<()> {
        if self.is_terminal() { self.put(&with_colours(said)) } else { self.put(said) }
    }

    /// Shows a message for people.
    pub(crate) fn write_message(self, message: &str) {
        // A closed stream is not a failure.
        let _ = self.put(&escaped(format!("{message}\n").as_bytes()));
    }

    /// Shows text for people, with its line feeds and its styles.
    pub(crate) fn show(self, text: &[u8]) {
        let _ = self.put(&escaped(text));
    }

    /// Returns the target with which `indicatif` repeatedly redraws a text on this stream, which is a terminal.
    #[must_use]
    pub(crate) fn draw_target(self) -> ProgressDrawTarget {
        let term = match self {
            Stream::Output => Term::buffered_stdout(),
            Stream::Error => Term::buffered_stderr(),
        };
        ProgressDrawTarget::term_like_with_hz(Box::new(EscapedTerminal(term)), 20)
    }
}

/// Writes all of `bytes` to standard output. Returns no error if the reader of the pipe has closed it.
///
/// # Errors
/// Standard output does not take all of it.
pub(crate) fn print(content: Content, bytes: &[u8]) -> Result<(), Error> {
    check_printed(Console::stdout(content).and_then(|mut out| match out.write_all(bytes) {
        Ok(()) => out.finish(),
        Err(error) => {
            out.abandon();
            Err(error)
        }
    }))
}

/// Converts the result of a write to standard output: a pipe that its reader has closed is not an error.
fn check_printed(printed: io::Result<()>) -> Result<(), Error> {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(cannot_print(error)),
        _ => Ok(()),
    }
}

/// Returns the error which says that standard output cannot be written.
#[must_use]
pub(crate) fn cannot_print(error: io::Error) -> Error {
    Error::plain(format!("cannot write to standard output: {error}"))
}

/// Shows the output of the parser of the command line: help on standard output, and errors on standard error. `said`
/// has the parser's colours, and nothing else in it needs escapes.
///
/// # Errors
/// Standard output does not take all of it.
pub(crate) fn show_usage(stream: Stream, said: &str) -> Result<(), Error> {
    let shown = stream.put(&with_colours(said.as_bytes()));
    // A closed standard error is not a failure.
    if stream == Stream::Output { check_printed(shown) } else { Ok(()) }
}

/// Returns text in which everything is escaped except the sequences that set colours: `ESC [ 1 ; 31 m`.
fn with_colours(text: &[u8]) -> Vec<u8> {
    let (mut out, mut plain, mut at) = (Vec::with_capacity(text.len()), 0, 0);
    while let Some(found) = memchr::memchr(0x1b, &text[at..]) {
        let start = at + found;
        at = start + 1;
        let Some(codes) = text[at..].strip_prefix(b"[") else { continue };
        let length = codes.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b';' | b':')).count();
        if codes.get(length) == Some(&b'm') {
            out.extend_from_slice(&escaped(&text[plain..start]));
            at = start + 3 + length;
            out.extend_from_slice(&text[start..at]);
            plain = at;
        }
    }
    out.extend_from_slice(&escaped(&text[plain..]));
    out
}

thread_local! {
    /// Whether the current thread runs [`catch_panic`]. If it does, a panic is no bug of this process, and no message
    /// is shown for it.
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the result of `work`, which reads a file with a library that may panic if the file is hostile. Returns
/// `None`, and shows no message, if `work` panics.
#[cfg(feature = "parquet")]
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = IS_EXPECTED.replace(true);
    let done = panic::catch_unwind(panic::AssertUnwindSafe(work));
    IS_EXPECTED.set(before);
    done.ok()
}

/// Makes the message of any later panic of this process go through the console. Such a panic is a bug in this program.
pub fn take_panics() {
    panic::set_hook(Box::new(|panic| {
        if IS_EXPECTED.get() {
            return;
        }
        #[cfg(feature = "tui")]
        let _no_drawing = crate::ui::screen::give_back_at_panic();
        let mut text = format!("{panic}\n");
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            text.push_str(&format!("stack backtrace:\n{backtrace}"));
        } else {
            text.push_str("note: RUST_BACKTRACE=1 shows a backtrace\n");
        }
        Stream::Error.show(text.as_bytes());
    }));
}

/// A terminal on which a text is redrawn; everything written to it is escaped.
#[derive(Debug)]
struct EscapedTerminal(Term);

impl TermLike for EscapedTerminal {
    fn width(&self) -> u16 {
        self.0.size().1
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_up(lines)
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_down(lines)
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_right(columns)
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_left(columns)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(&String::from_utf8_lossy(&escaped(text.as_bytes())))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(&String::from_utf8_lossy(&escaped(text.as_bytes())))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}

/// An output that is a terminal, or may be one.
#[derive(Debug)]
pub(crate) struct Console(EscapingWriter<Outlet>);

enum Outlet {
    Stdout(Box<dyn Write>),
    Device(File),
    Pager(ChildStdin),
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outlet::Stdout(_) => "Stdout",
            Outlet::Device(_) => "Device",
            Outlet::Pager(_) => "Pager",
        })
    }
}

impl Console {
    /// Makes an output to standard output.
    ///
    /// # Errors
    /// This process has no standard output: it was closed when the process was started.
    pub(crate) fn stdout(content: Content) -> io::Result<Console> {
        let notation = content.notation(Stream::Output.is_terminal());
        let outlet = Outlet::Stdout(Box::new(standard_output()?));
        Ok(Console(EscapingWriter::new(outlet, BUFFER, notation)))
    }

    /// Makes an output to an open pipe or device.
    #[must_use]
    pub(crate) fn device(file: File, content: Content) -> Console {
        let notation = content.notation(file.is_terminal());
        Console(EscapingWriter::new(Outlet::Device(file), BUFFER, notation))
    }

    /// Makes an output to the input of a pager, which shows it on a terminal.
    #[must_use]
    pub(crate) fn pager(input: ChildStdin, content: Content) -> Console {
        Console(EscapingWriter::new(Outlet::Pager(input), BUFFER, content.notation(true)))
    }

    /// Writes the bytes that are still in the buffer, and ends the output.
    ///
    /// # Errors
    /// The output cannot be written; the bytes that it has not taken are thrown away.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.0.finish().and_then(|mut outlet| outlet.flush())
    }

    /// Ends the output and throws away the bytes that are still in the buffer.
    pub(crate) fn abandon(self) {
        self.0.abandon();
    }
}

impl Write for Console {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Write for Outlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Outlet::Stdout(out) => out.write(bytes),
            Outlet::Device(out) => out.write(bytes),
            Outlet::Pager(out) => out.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Outlet::Stdout(out) => out.write_vectored(parts),
            Outlet::Device(out) => out.write_vectored(parts),
            Outlet::Pager(out) => out.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Outlet::Stdout(out) => out.flush(),
            Outlet::Device(out) => out.flush(),
            Outlet::Pager(out) => out.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colour_sequences_are_passed_on() {
        for (said, shown) in [
            ("\x1b[1;31merror\x1b[0m: x\n", "\x1b[1;31merror\x1b[0m: x\n"),
            ("\x1b]2;title\x07\x1b[2J\x1b[31", "\\x1b]2;title\\x07\\x1b[2J\\x1b[31"),
            ("\x1b\x1b[m\x1b[?1h", "\\x1b\x1b[m\\x1b[?1h"),
        ] {
            assert_eq!(String::from_utf8(with_colours(said.as_bytes())).unwrap(), shown);
        }
    }
}
