//! The `# damaged` line, which replaces damaged bytes of a trace in the merged file.

use std::path::Path;

use trace_format::line::{Key, Kind, Line};
use trace_format::meta::Meta;

/// The greatest number of damaged bytes that a `# damaged` line shows.
pub(crate) const SHOWN: usize = 256;

/// Appends a `# damaged` line with the key `key` to `out`, for the damaged `bytes`, which begin at `offset` of the file
/// at `path`.
pub(crate) fn write_damaged(key: Key, path: &Path, offset: usize, bytes: &[u8], out: &mut Vec<u8>) {
    let damaged = Meta::Damaged {
        file: path.as_os_str().as_encoded_bytes().to_vec(),
        offset: offset as u64,
        bytes: bytes.len() as u64,
        text: bytes[..bytes.len().min(SHOWN)].to_vec(),
    };
    let mut payload = Vec::new();
    damaged.write(&mut payload);
    Line { key, kind: Kind::Meta, payload: &payload }.write(out);
}
