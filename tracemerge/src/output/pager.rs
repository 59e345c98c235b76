//! The pager: long output on a terminal goes through `$PAGER`, or `less`.

use std::io::{self, BufWriter, IoSlice, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::os::environment::{has_options_for_less, pager};
use crate::os::signals::keep_interrupts_from_this_process;

/// What `less` is told unless the user has told it something: output that fits on the screen just stays there, colours
/// are colours, and the screen is not cleared.
const LESS: &str = "FRX";

/// A pager that runs.
#[derive(Debug)]
pub struct Pager {
    child: Child,
    input: BufWriter<ChildStdin>,
}

impl Pager {
    /// Starts the pager; `None` where the user wants none, or there is none.
    #[must_use]
    pub fn start() -> Option<Pager> {
        let mut command = command()?;
        if !has_options_for_less() {
            command.env("LESS", LESS);
        }
        let mut child = command.stdin(Stdio::piped()).spawn().ok()?;
        let input = BufWriter::with_capacity(1 << 16, child.stdin.take()?);
        // It knows what an interrupt from the keyboard means.
        keep_interrupts_from_this_process();
        Some(Pager { child, input })
    }

    /// Waits until the user has read enough.
    ///
    /// # Errors
    /// Where it could not be given all; that its reader went away is one of the reasons.
    pub fn finish(self) -> io::Result<()> {
        let Pager { mut child, input } = self;
        let written = match input.into_inner() {
            Ok(stdin) => {
                drop(stdin);
                Ok(())
            }
            Err(error) => {
                let (error, input) = error.into_parts();
                // Not once more what it has not taken.
                drop(input.into_parts());
                Err(error)
            }
        };
        child.wait()?;
        written
    }

    /// The same, but what is not written yet is thrown away.
    pub fn abandon(self) {
        let Pager { mut child, input } = self;
        drop(input.into_parts());
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

/// The user's pager. It may have options, even a pipe: it is for the shell.
fn command() -> Option<Command> {
    let Some(pager) = pager() else { return Some(Command::new("less")) };
    if pager.is_empty() || pager == "cat" {
        return None;
    }
    if cfg!(windows) {
        return Some(Command::new(pager));
    }
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(pager);
    Some(shell)
}
