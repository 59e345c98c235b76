//! The pager, `$PAGER` or `less`, through which long output goes to a terminal.

use std::ffi::OsStr;
#[cfg(windows)]
use std::ffi::OsString;
use std::io::{self, IoSlice, Write};
use std::process::{Child, Command, Stdio};

use crate::os::environment::{has_options_for_less, pager};
use crate::os::signals::keep_interrupts_from_this_process;
use crate::ui::console::{Console, Content};

/// The options of `less`, unless the user has set `LESS`: output that fits on the screen just stays there,
/// colours are shown, and the screen is not cleared.
const LESS_OPTIONS: &str = "FRX";

/// A running pager.
#[derive(Debug)]
pub struct Pager {
    child: Child,
    input: Console,
}

impl Pager {
    /// Starts the pager for output of this sort. Returns `None` if the user wants none, or there is none.
    #[must_use]
    pub fn start(content: Content) -> Option<Pager> {
        let mut command = command()?;
        if !has_options_for_less() {
            command.env("LESS", LESS_OPTIONS);
        }
        let mut child = command.stdin(Stdio::piped()).spawn().ok()?;
        let input = Console::pager(child.stdin.take()?, content);
        // The pager itself decides what an interrupt from the keyboard means.
        keep_interrupts_from_this_process();
        Some(Pager { child, input })
    }

    /// Writes the rest of the output, and waits until the user has read enough.
    ///
    /// # Errors
    /// The pager has not taken all bytes; it may have been ended before.
    pub fn finish(self) -> io::Result<()> {
        let Pager { mut child, input } = self;
        let written = input.finish();
        child.wait()?;
        written
    }

    /// Throws away the bytes that are not written yet, and waits until the user has read enough.
    pub fn abandon(self) {
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

/// Returns the command of the user's pager; `None` if the user wants none. A shell runs `$PAGER`, because it
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
    // The shell takes the outer quotes away, and the rest as it stands; `/d`: nothing else is run before.
    let mut words = OsString::from("/d /s /c \"");
    words.push(line);
    words.push("\"");
    shell.raw_arg(words);
    shell
}
