//! Reads a part of a file without the generic readers of `std`, because each use of them adds a copy of their code.

use std::fs::File;
use std::io::{self, Read};

/// The number of bytes that are requested in the first read of a file.
const FIRST_READ: usize = 4096;

/// Returns the bytes from the file's current position to its end, at most `most`.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn read_at_most(mut file: &File, most: u64) -> io::Result<Vec<u8>> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let (mut bytes, mut filled) = (Vec::new(), 0);
    while filled < most {
        // Files have a few bytes as a rule, and many are allowed.
        let wanted = filled.max(FIRST_READ).min(most - filled);
        bytes.resize(filled + wanted, 0);
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use super::*;

    #[test]
    fn the_wanted_bytes_are_read_or_all_that_there_are() {
        let written: Vec<u8> = (0..20_000_u32).map(|n| (n % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&written).unwrap();
        for from in [0, 1, 4096, 19_999, 20_000, 30_000] {
            for most in [0, 1, 4095, 4096, 4097, 10_000, 20_000, u64::MAX] {
                file.seek(SeekFrom::Start(from)).unwrap();
                let expected: Vec<u8> =
                    written.iter().skip(from as usize).take(most.min(1 << 20) as usize).copied().collect();
                assert_eq!(read_at_most(&file, most).unwrap(), expected, "{most} bytes from {from}");
                let position = file.stream_position().unwrap();
                assert_eq!(position, from + expected.len() as u64, "{most} bytes from {from}");
            }
        }
    }
}
