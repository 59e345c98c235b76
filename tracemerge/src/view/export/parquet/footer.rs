//! The metadata at the end of a file in Parquet.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use parquet::file::reader::{FileReader, SerializedFileReader};

/// The last bytes of a file: the length of the metadata, and a mark.
const TAIL: u64 = 8;
/// The mark.
const MARK: &[u8] = b"PAR1";
/// The greatest length of metadata that are read, in bytes.
const MAX_METADATA: u64 = 64 << 20;

/// Reads the keys and values that the writer of a file has put into its metadata.
///
/// # Errors
/// The file is not in Parquet, or cannot be read.
pub(crate) fn keys_of(mut file: File) -> io::Result<HashMap<String, String>> {
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let length = file.metadata()?.len();
    let mut tail = [0; TAIL as usize];
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    file.read_exact(&mut tail)?;
    let (size, mark) = tail.split_at(TAIL as usize - MARK.len());
    let size = size.try_into().map_or(u64::MAX, |size| u32::from_le_bytes(size).into());
    if mark != MARK || size > MAX_METADATA.min(length) {
        return Err(invalid("it is not a whole file in Parquet"));
    }
    let reader = SerializedFileReader::new(file).map_err(io::Error::other)?;
    let keys = reader.metadata().file_metadata().key_value_metadata();
    let pairs = keys.into_iter().flatten().map(|pair| (pair.key.clone(), pair.value.clone()));
    Ok(pairs.map(|(key, value)| (key, value.unwrap_or_default())).collect())
}
