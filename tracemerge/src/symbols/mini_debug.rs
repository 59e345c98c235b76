//! The section `.gnu_debugdata` (`minidebuginfo`), which distributions leave in a stripped file. It contains another
//! file, compressed, whose symbol table has the functions that the table for the dynamic linker lacks.
//!
//! The section is in the format of xz, whose data are in chunks (LZMA2) that state their sizes. The sizes are added up
//! before anything is unpacked, because a few bytes may stand for gigabytes. The checksums of xz are not compared: the
//! section belongs to a file that has the right build-id.

use object::{Object, ObjectSection};

use crate::symbols::files::Files;

/// The bytes with which data in the format xz begin. The next byte gives the type of the checksums.
const MAGIC: &[u8] = b"\xfd7zXZ\0\0";

/// The length of xz's header in bytes; `CHECKSUMS` has the length of a checksum in bytes, by the checksum's type.
const HEADER: usize = 12;
const CHECKSUMS: [usize; 16] = [0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64];

/// The number that xz gives to the compression LZMA2 among its filters.
const LZMA2: u8 = 0x21;

/// Returns the file that is contained, compressed, in the file `object`; `None` if there is none, or if the unpacked
/// file would not fit into the memory that is left for debug information.
pub(super) fn unpacked<'f>(object: &object::File<'f>, files: &'f Files) -> Option<object::File<'f>> {
    let packed = object.section_by_name(".gnu_debugdata")?.data().ok()?;
    let blocks = blocks(packed)?;
    // The decoder keeps a copy of what it has unpacked.
    let bytes = blocks.iter().fold(0, |sum: u64, block| sum.saturating_add(block.unpacked));
    if !files.take(bytes.saturating_mul(2)) {
        return None;
    }
    let mut unpacked = Vec::new();
    for mut block in blocks {
        lzma_rs::lzma2_decompress(&mut block.packed, &mut unpacked).ok()?;
    }
    object::File::parse(files.keep(unpacked)).ok()
}

/// A block of the compressed data, which can be unpacked alone.
#[derive(Debug, PartialEq, Eq)]
struct Block<'p> {
    /// The block's compressed chunks, up to and including the byte that marks their end.
    packed: &'p [u8],
    /// The number of bytes that the block has when unpacked.
    unpacked: u64,
}

/// Returns the blocks of compressed data; `None` if they are damaged, or compressed in another way.
fn blocks(packed: &[u8]) -> Option<Vec<Block<'_>>> {
    let checksum = *packed.strip_prefix(MAGIC)?.first()?;
    let checksum = *CHECKSUMS.get(usize::from(checksum))?;
    let (mut rest, mut blocks) = (packed.get(HEADER..)?, Vec::new());
    loop {
        // An index follows the last block.
        let header = match *rest.first()? {
            0 => return Some(blocks),
            words => (usize::from(words) + 1) * 4,
        };
        if !has_only_lzma2(rest.get(1..header)?) {
            return None;
        }
        let packed = rest.get(header..)?;
        let (length, unpacked) = measured(packed)?;
        blocks.push(Block { packed: packed.get(..length)?, unpacked });
        rest = packed.get(length.checked_next_multiple_of(4)? + checksum..)?;
    }
}

/// Returns whether a block is compressed by LZMA2 and nothing else has been done to its data, according to the block's
/// header.
fn has_only_lzma2(header: &[u8]) -> bool {
    let Some((&flags, mut rest)) = header.split_first() else { return false };
    // The sizes of the block, each if a bit says so: numbers of seven bits in a byte, the last without the highest.
    for _ in 0..(flags >> 6).count_ones() {
        let length = rest.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
        rest = rest.get(length..).unwrap_or_default();
    }
    // The number of filters, less one.
    flags & 3 == 0 && rest.first() == Some(&LZMA2)
}

/// Returns the number of bytes of the compressed `chunks`, including the byte that marks their end, and the number of
/// bytes that they have when unpacked; `None` if they are damaged.
fn measured(chunks: &[u8]) -> Option<(usize, u64)> {
    let (mut at, mut unpacked) = (0, 0);
    loop {
        let number = |place| Some(usize::from(u16::from_be_bytes(*chunks.get(place..)?.first_chunk()?)) + 1);
        match *chunks.get(at)? {
            0 => return Some((at + 1, unpacked)),
            1 | 2 => {
                let length = number(at + 1)?;
                unpacked += length as u64;
                at += 3 + length;
            }
            control @ 0x80.. => {
                unpacked += (u64::from(control & 0x1f) << 16) + number(at + 1)? as u64;
                // Some have a byte with properties.
                at += 5 + usize::from(control >= 0xc0) + number(at + 3)?;
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of `xz -T2 --block-size=81` for `abc` 54 times: two blocks that state their sizes.
    const TWO_BLOCKS: &str = "fd377a585a0000016922de3602c011512101160061673723e0005000095d0030988\
                              8ab769519800000000000e250a61f02c011512101160061673723e0005000095d00\
                              309888ab769519800000000000e250a61f00022151215100007472ce4e3e300d8b0\
                              20000000001595a";
    /// The output of Python's `lzma` for `abc` 27 times, with longer checksums.
    const ONE_BLOCK: &str = "fd377a585a000004e6d6b4460200210116000000742fe5a3e0005000095d00309888\
                             ab769519800000000000ae37967a1962c43600012551ae0419d41fb6f37d01000000\
                             0004595a";

    fn bytes(digits: &str) -> Vec<u8> {
        let digits: Vec<u8> = digits.chars().map(|digit| digit.to_digit(16).unwrap() as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    #[test]
    fn the_blocks_of_xz_are_found_and_unpack_to_the_stated_lengths() {
        for (digits, times) in [(ONE_BLOCK, 1), (TWO_BLOCKS, 2)] {
            let packed = bytes(digits);
            let found = blocks(&packed).unwrap();
            assert_eq!(found.iter().map(|block| block.unpacked).collect::<Vec<_>>(), vec![81; times]);
            for mut block in found {
                let mut unpacked = Vec::new();
                lzma_rs::lzma2_decompress(&mut block.packed, &mut unpacked).unwrap();
                assert_eq!(unpacked, b"abc".repeat(27));
            }
        }
    }

    #[test]
    fn damaged_data_have_no_blocks() {
        let packed = bytes(ONE_BLOCK);
        // Up to the index.
        for length in 0..packed.len() - 24 {
            assert_eq!(blocks(&packed[..length]), None, "{length}");
        }
        // Another magic number, another filter, and a second one.
        for (at, byte) in [(0, 0), (14, 0x03), (13, 1)] {
            let mut other = packed.clone();
            other[at] = byte;
            assert_eq!(blocks(&other), None, "{at}");
        }
    }
}
