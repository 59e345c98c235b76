//! The metadata at the end of Parquet files, and the version of the files' schema.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use parquet::file::reader::{FileReader, SerializedFileReader};

/// The version of the schema of the Parquet files that this program writes. The metadata of each file contain it under
/// [`VERSION_KEY`]. A new column needs no new version; a column that changes its meaning or its type needs one.
pub(crate) const VERSION: u32 = 1;
/// The metadata key of the schema's version.
pub(crate) const VERSION_KEY: &str = "tracer.schema";
/// The metadata key under which a file of a data set names the runs whose rows it contains, separated by spaces.
pub(crate) const RUN_KEY: &str = "tracer.run";
/// The metadata key for the state of a run's traces at the time when the run was added to the data set. In a file with
/// several runs, this key and the following ones get a suffix: a dot and the name of the run.
pub(crate) const STATE_KEY: &str = "tracer.state";
/// The metadata key for the ticks of a run's last record, in files of the table of runs.
pub(crate) const LAST_KEY: &str = "tracer.last";
/// The metadata key for the list of a run's files in the other tables, in files of the table of runs. Each file is
/// stated by table, day and number; spaces separate the files.
pub(crate) const FILES_KEY: &str = "tracer.files";
/// The prefix of the names of those files in a data set that contain rows of several runs. No run has a name with this
/// prefix.
pub(crate) const COMPACTED: &str = "compact-";

use crate::ui::console::catch_panic;

/// The size of the end of a Parquet file, in bytes: 4 for the length of the metadata, 4 for `MARK`.
const TAIL: u64 = 8;
/// The bytes with which each Parquet file ends.
const MARK: &[u8] = b"PAR1";
/// The maximum size of metadata that are read, in bytes.
const MAX_METADATA: u64 = 64 << 20;

/// Opens a Parquet file, after a check of its length and of the version of its schema.
///
/// # Errors
/// The file is not in Parquet, cannot be read, or was written by a later version of this program.
pub(crate) fn open(mut file: File) -> io::Result<SerializedFileReader<File>> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let length = file.metadata()?.len();
    let mut tail = [0; TAIL as usize];
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    file.read_exact(&mut tail)?;
    let (size, mark) = tail.split_at(TAIL as usize - MARK.len());
    let size = size.try_into().map_or(u64::MAX, |size| u32::from_le_bytes(size).into());
    if mark != MARK || size > MAX_METADATA.min(length) {
        return Err(invalid("it is not a complete Parquet file".to_owned()));
    }
    let reader = guarded(|| SerializedFileReader::new(file).map_err(io::Error::other))?;
    let version = keys(&reader).remove(VERSION_KEY).unwrap_or_default();
    if version.parse::<u32>().is_ok_and(|version| version > VERSION) {
        let kind = io::ErrorKind::Unsupported;
        return Err(io::Error::new(
            kind,
            format!(
                "its schema has version {version}, and this tracemerge knows {VERSION} and earlier ones: install a later one"
            ),
        ));
    }
    Ok(reader)
}

/// Calls `work`, which reads a Parquet file that may be damaged, and turns a panic of the Parquet library into an
/// error.
///
/// # Errors
/// `work` returns an error, or has panicked.
pub(crate) fn guarded<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "it is damaged");
    catch_panic(work).unwrap_or_else(|| Err(damaged()))
}

/// The keys and values that the writer of a file has put into its metadata.
pub(crate) type Keys = HashMap<String, String>;

/// Returns the keys and values in the metadata of a file.
#[must_use]
pub(crate) fn keys(of: &SerializedFileReader<File>) -> Keys {
    let keys = of.metadata().file_metadata().key_value_metadata();
    let pairs = keys.into_iter().flatten().map(|pair| (pair.key.clone(), pair.value.clone()));
    pairs.map(|(key, value)| (key, value.unwrap_or_default())).collect()
}

/// Returns the names of the runs whose rows a file of a data set contains, according to its metadata `keys`.
pub(crate) fn runs_of(keys: &Keys) -> impl Iterator<Item = &str> {
    keys.get(RUN_KEY).map_or("", |runs| &runs[..]).split(' ').filter(|run| !run.is_empty())
}

/// Returns the metadata key that replaces `key` for the run `run` in a file with several runs.
#[must_use]
pub(crate) fn in_several(key: &str, run: &str) -> String {
    format!("{key}.{run}")
}

/// Returns the value of `key` for one run of a file; `None` if the file has no such value, as files of earlier versions
/// may.
#[must_use]
pub(crate) fn key_of_run<'a>(keys: &'a Keys, key: &str, run: &str) -> Option<&'a str> {
    let is_of_one = keys.contains_key(STATE_KEY);
    let value = if is_of_one { keys.get(key) } else { keys.get(&in_several(key, run)) };
    value.map(|value| &value[..])
}
