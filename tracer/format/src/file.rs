//! A trace file as such: how it is written, and what its first bytes say of it.

use crate::escape::is_harmless;
use crate::line::{Key, Kind, Line};
use crate::meta::{Meta, Run};
use crate::raw::{self, Raw};

/// How many bytes [`run_of`] needs at most: paths are at most 4 KiB, four times as long when escaped.
pub const FIRST_BYTES: usize = 32 * 1024;

/// How a thread's file is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// As lines, see [`mod@crate::line`].
    #[default]
    Text,
    /// As records, see [`crate::raw`].
    Raw,
}

impl Encoding {
    /// Its name in settings and in a manifest.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Text => "text",
            Encoding::Raw => "raw",
        }
    }

    /// The encoding of a file that begins with `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Encoding {
        if bytes.starts_with(&raw::MAGIC) { Encoding::Raw } else { Encoding::Text }
    }
}

/// The key of the first line of a file that begins with `bytes`, and the run that it names; `None` where it does not
/// begin with that.
#[must_use]
pub fn run_of(bytes: &[u8]) -> Option<(Key, Run)> {
    if let Some(raw) = Raw::parse(bytes) {
        let (ticks, Some(Meta::Run(run))) = raw.first()? else { return None };
        return Some((Key { ticks, tid: raw.tid() }, run));
    }
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let line = Line::parse(&bytes[..end]).ok();
    let line = line.filter(|line| line.kind == Kind::Meta && is_harmless(line.payload))?;
    let Some(Meta::Run(run)) = Meta::parse(line.payload) else { return None };
    Some((line.key, run))
}
