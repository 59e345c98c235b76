//! The raw file, which contains a thread's records unchanged, so that large traces cost less. `tracemerge` turns them
//! into text later.
//!
//! ```text
//! file    blocks of 256 KiB; the last may be shorter
//! block   magic "TRCRAW1\n", thread id u64, then records up to the border
//! record  as in a ring, see `record`: two words of header, payload, meaningless bytes up to a multiple of 8
//! ```
//!
//! No record crosses the border of a block; if a record does not fit, the rest of the block begins with a *pad*, a
//! single word. Besides the kinds of records in a ring there are three: `RecordKind::State` is a change of a thread's
//! state, [`RecordKind::Meta`](crate::record::RecordKind::Meta) has the payload of a `#` line,
//! [`RecordKind::Site`](crate::record::RecordKind::Site) has the number of a site in word 0, nothing in word 1, and the
//! site's entry in a site table as its payload. The `Site` record of a site comes before the first other record of the
//! site *in each block*. So any block can be read alone: a reader may begin at any time, the older half of a file may
//! be dropped, and damage reaches no further than the next border.
//!
//! Ticks never go back in a file. All numbers are little-endian.

mod decoder;
mod reader;
mod short_calls;
#[cfg(test)]
mod tests;
mod writer;

pub use decoder::{CallLines, Decoded, Decoder, Rendered, SiteNumbers};
pub use reader::{Raw, is_clean};
pub use writer::Writer;

/// The first eight bytes of every block of a raw file.
pub const MAGIC: [u8; 8] = *b"TRCRAW1\n";
/// The number of bytes of a block of a raw file. The longest record takes a quarter of it.
pub const BLOCK: u64 = 256 * 1024;
const BLOCK_BYTES: usize = BLOCK as usize;
/// The number of bytes before the first record of a block of a raw file.
pub const BLOCK_HEADER: usize = 16;

/// The sites that a block has defined, one bit for each.
#[derive(Clone, Debug, Default)]
struct Defined(Vec<u64>);

impl Defined {
    #[inline]
    fn has(&self, site: u32) -> bool {
        let bits = self.0.get(site as usize / 64).copied().unwrap_or(0);
        bits >> (site % 64) & 1 != 0
    }

    fn add(&mut self, site: u32) {
        let index = site as usize / 64;
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] |= 1 << (site % 64);
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}
