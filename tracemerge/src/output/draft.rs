//! Output that may be thrown away until it is finished: in memory, in a pager, in a file that has no name yet.

use std::io::{self, Write};

use crate::output::pager::Pager;
use crate::output::target::{Output, Target};
use crate::ui::error::Error;

/// Output that is being written.
pub enum Draft<'t> {
    /// Bytes that are small enough to be kept until all of them are known to be right.
    Memory {
        /// The bytes.
        bytes: Vec<u8>,
        /// Where they go.
        target: &'t Target,
        /// Whether a pager shows them.
        paged: bool,
    },
    /// The input of a pager.
    Pager(Pager),
    /// The target itself.
    Target {
        /// The output that was begun.
        output: Output,
        /// Where it goes.
        target: &'t Target,
    },
}

impl<'t> Draft<'t> {
    /// Begins output for `target`, through a pager if `paged` and there is one.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn begin(target: &'t Target, paged: bool) -> Result<Draft<'t>, Error> {
        match if paged { Pager::start() } else { None } {
            Some(pager) => Ok(Draft::Pager(pager)),
            None => Ok(Draft::Target { output: target.begin()?, target }),
        }
    }

    /// Takes the bytes.
    pub fn writer(&mut self) -> &mut dyn Write {
        match self {
            Draft::Memory { bytes, .. } => bytes,
            Draft::Pager(pager) => pager,
            Draft::Target { output, .. } => output,
        }
    }

    /// Ends the output. A file has its name only now; a pager is waited for.
    ///
    /// # Errors
    /// Where the output cannot be begun: the outer error; where it cannot be written: the inner one.
    pub fn finish(self) -> Result<io::Result<()>, Error> {
        Ok(match self {
            Draft::Memory { bytes, target, paged } => {
                let mut draft = Draft::begin(target, paged)?;
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

    /// Throws away what was written, as far as nobody has read it yet.
    pub fn abandon(self) {
        match self {
            Draft::Memory { .. } => {}
            Draft::Pager(pager) => pager.abandon(),
            Draft::Target { output, .. } => output.abandon(),
        }
    }
}
