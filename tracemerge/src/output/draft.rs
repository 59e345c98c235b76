//! Output that can be thrown away until it is finished: in memory, in a pager, or in a file that has no name yet.

use std::io::{self, Write};

use crate::output::pager::Pager;
use crate::output::target::{Output, Target};
use crate::ui::console::Content;
use crate::ui::error::Error;

/// Output that is being written and can still be thrown away.
pub(crate) enum Draft<'t> {
    /// A small output, which is kept in memory until all of it is known to be right.
    Memory {
        /// The bytes that were written so far.
        bytes: Vec<u8>,
        /// The target to which the bytes will go.
        target: &'t Target,
        /// The type of the output's content, which decides how it is escaped.
        content: Content,
        /// Whether a pager will show the bytes.
        paged: bool,
    },
    /// A running pager, which shows the output.
    Pager(Pager),
    /// Output that the target has begun, in a file, a directory, a pipe or a terminal.
    Target {
        /// The output that was begun.
        output: Output,
        /// The target that will finish the output.
        target: &'t Target,
    },
}

impl<'t> Draft<'t> {
    /// Begins output for `target`; `content` is the type of its content, which decides how it is escaped. The output
    /// goes through a pager if it is to be `paged` and a pager can be started.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(crate) fn begin(target: &'t Target, content: Content, paged: bool) -> Result<Draft<'t>, Error> {
        match if paged { Pager::start(content) } else { None } {
            Some(pager) => Ok(Draft::Pager(pager)),
            None => Ok(Draft::Target { output: target.begin(content)?, target }),
        }
    }

    /// Returns the writer to which the bytes of the output are written.
    pub(crate) fn writer(&mut self) -> &mut dyn Write {
        match self {
            Draft::Memory { bytes, .. } => bytes,
            Draft::Pager(pager) => pager,
            Draft::Target { output, .. } => output,
        }
    }

    /// Finishes the output. A file gets its name only now. If a pager shows the output, waits until the user has quit
    /// it.
    ///
    /// # Errors
    /// The outer error says that the output cannot be begun, the inner one that it cannot be written.
    pub(crate) fn finish(self) -> Result<io::Result<()>, Error> {
        Ok(match self {
            Draft::Memory { bytes, target, content, paged } => {
                let mut draft = Draft::begin(target, content, paged)?;
                match draft.writer().write_all(&bytes) {
                    Ok(()) => return draft.finish(),
                    Err(error) => {
                        draft.abandon();
                        Err(error)
                    }
                }
            }
            Draft::Pager(pager) => pager.finish(),
            Draft::Target { output, target } => target.finish(output),
        })
    }

    /// Throws away the output, except for the part that a reader or a pager has already got.
    pub(crate) fn abandon(self) {
        match self {
            Draft::Memory { .. } => {}
            Draft::Pager(pager) => pager.abandon(),
            Draft::Target { output, .. } => output.abandon(),
        }
    }
}
