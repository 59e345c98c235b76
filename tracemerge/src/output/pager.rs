//! The pager, `$PAGER` or `less`, through which long output goes to a terminal.

use std::ffi::OsStr;
#[cfg(windows)]
use std::ffi::OsString;
use std::io::{self, IoSlice, Write};
use std::process::{Child, Command, Stdio};

use crate::os::environment::{has_options_for_less, pager};
use crate::os::signals::keep_interrupts_from_this_process;
use crate::ui::console::{Console, Content};

/// The options of `less`, unless the user has set `LESS`: do not page output that fits on the screen, show colours,
/// and do not clear the screen.
const LESS_OPTIONS: &str = "FRX";

/// A running pager.
#[derive(Debug)]
pub(crate) struct Pager {
    child: Child,
    input: Console,
}

impl Pager {
    /// Starts the pager; `content` is the type of the output's content, which decides how it is escaped. Returns `None`
    /// if the user wants no pager, or if no pager can be started.
    #[must_use]
    pub(crate) fn start(content: Content) -> Option<Pager> {
        let mut command = command()?;
        if !has_options_for_less() {
            command.env("LESS", LESS_OPTIONS);
        }
        let mut child = command.stdin(Stdio::piped()).spawn().ok()?;
        let input = Console::pager(child.stdin.take()?, content);
        // The pager itself decides on the effect of an interrupt from the keyboard.
        keep_interrupts_from_this_process();
        Some(Pager { child, input })
    }

    /// Writes the rest of the output, and waits until the user has quit the pager.
    ///
    /// # Errors
    /// The pager has not taken all bytes; the user may have quit it earlier.
    pub(crate) fn finish(self) -> io::Result<()> {
        let Pager { mut child, input } = self;
        let written = input.finish();
        child.wait()?;
        written
    }

    /// Throws away the bytes that are not written yet, and waits until the user has quit the pager.
    pub(crate) fn abandon(self) {
        let Pager { mut child, input } = self;
        input.abandon();
        let _ = child.wait();
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.input.write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.input.write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.input.flush()
    }
}

/// Returns the command that starts the user's pager; `None` if the user wants none. A shell runs `$PAGER`, because it
/// may have options, or even be a pipe.
fn command() -> Option<Command> {
    let Some(pager) = pager() else { return Some(Command::new("less")) };
    if pager.is_empty() || pager == "cat" {
        return None;
    }
    Some(in_shell(&pager))
}

#[cfg(unix)]
fn in_shell(line: &OsStr) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(line);
    shell
}

#[cfg(windows)]
fn in_shell(line: &OsStr) -> Command {
    use std::os::windows::process::CommandExt;
    let mut shell = Command::new("cmd");
    // `/s` removes the outer quotes and keeps the rest unchanged; with `/d` the shell runs no other command first.
    let mut words = OsString::from("/d /s /c \"");
    words.push(line);
    words.push("\"");
    shell.raw_arg(words);
    shell
}
