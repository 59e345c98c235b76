//! A trace file as a whole: its encoding, and the run that its first bytes name.

use crate::escape::is_harmless;
use crate::line::{Key, Kind, Line};
use crate::meta::{Meta, Run, Thread};
use crate::raw::{self, Raw};

/// The greatest number of bytes from the beginning of a file that [`run_of`] needs: a path has at most 4 KiB, and four
/// times as much when escaped.
pub const FIRST_BYTES: usize = 32 * 1024;

/// The form in which a thread's file is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// A file of lines; see [`mod@crate::line`].
    #[default]
    Text,
    /// A file of records; see [`crate::raw`].
    Raw,
}

impl Encoding {
    /// Returns the name of the encoding in settings and in a manifest.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Text => "text",
            Encoding::Raw => "raw",
        }
    }

    /// Returns the encoding of a file that begins with `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Encoding {
        if bytes.starts_with(&raw::MAGIC) { Encoding::Raw } else { Encoding::Text }
    }
}

/// Returns the key of the first line of a file that begins with `bytes`, and the run that the line names;
/// `None` if the file does not begin with a `# run` line.
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

/// Returns the thread that the second line of a file that begins with `bytes` describes; `None` if that is not a `#
/// thread` line.
#[must_use]
pub fn thread_of(bytes: &[u8]) -> Option<Thread> {
    if let Some(raw) = Raw::parse(bytes) {
        return raw.thread();
    }
    let lines = bytes.split(|&byte| byte == b'\n').take(2).filter_map(|line| Line::parse(line).ok());
    let mut metas = lines.filter(|line| line.kind == Kind::Meta).map(|line| Meta::parse(line.payload));
    metas.find_map(|meta| if let Some(Meta::Thread(thread)) = meta { Some(thread) } else { None })
}
