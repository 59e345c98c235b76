//! An output that is a directory: the stream of an export is taken apart into the files of the directory.
//!
//! An export appends *parts* to its stream, each with the name of its file, and a [`Folder`] appends each part to
//! that file. The directory has a temporary name until it is whole. A mark in it lists its files, so that a
//! directory is replaced only if all that is in it was written here.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use tempfile::TempDir;

/// The name of the mark. Readers of the directory pass over it, for it begins with a dot.
pub const MARK: &str = ".tracemerge";
/// The first line of a mark.
const HEAD: &str =
    "tracemerge has written this directory, and replaces it while there are no other files than:";
/// The number of files that are open at once at most.
const OPEN: usize = 128;
/// The number of bytes before the name of a part: the length of the name, and that of its bytes.
const LENGTHS: usize = 6;

/// Appends a part to a stream: `bytes` that are to stand at the end of the file `name`, fewer than 4 GiB.
pub fn put_part(name: &str, bytes: &[u8], stream: &mut Vec<u8>) {
    let length = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    stream.extend_from_slice(&length(name.len())[..2]);
    stream.extend_from_slice(&length(bytes.len()));
    stream.extend_from_slice(name.as_bytes());
    stream.extend_from_slice(bytes);
}

/// Takes the first part off a stream; returns the name and the bytes, if they are there as a whole.
fn take_part<'a>(stream: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (name, rest) = stream.split_first_chunk::<2>()?;
    let (bytes, rest) = rest.split_first_chunk::<{ LENGTHS - 2 }>()?;
    let (name, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*name)))?;
    let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*bytes) as usize)?;
    *stream = rest;
    Some((name, bytes))
}

/// A directory that is being written, under a temporary name. It is deleted when it is dropped unfinished.
#[derive(Debug)]
pub struct Folder {
    /// The mark, on which this process holds a lock.
    mark: File,
    open: HashMap<String, File>,
    names: BTreeSet<String>,
    /// The beginning of a part whose end was not written yet.
    pending: Vec<u8>,
    /// The last to be dropped: not every system deletes a directory in which files are open.
    directory: TempDir,
}

impl Folder {
    /// Makes a folder of this new `directory`, which has a `mark` already.
    #[must_use]
    pub fn new(directory: TempDir, mark: File) -> Folder {
        let (open, names) = (HashMap::new(), BTreeSet::new());
        Folder { mark, open, names, pending: Vec::new(), directory }
    }

    fn append(&mut self, name: &[u8], bytes: &[u8]) -> io::Result<()> {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let name = std::str::from_utf8(name)
            .ok()
            .filter(|name| {
                name.bytes().all(|byte| is_plain(&byte)) && !name.starts_with('.') && !name.is_empty()
            })
            .ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidInput, "a file of the output has an odd name")
            })?;
        if let Some(file) = self.open.get_mut(name) {
            return file.write_all(bytes);
        }
        if self.open.len() >= OPEN {
            self.open.clear();
        }
        let is_new = self.names.insert(name.to_owned());
        let path = self.directory.path().join(name);
        let mut file = OpenOptions::new().append(true).create_new(is_new).open(path)?;
        file.write_all(bytes)?;
        self.open.insert(name.to_owned(), file);
        Ok(())
    }

    /// Appends each whole part of `stream` to its file; returns what is behind.
    fn append_parts<'a>(&mut self, mut stream: &'a [u8]) -> io::Result<&'a [u8]> {
        while let Some((name, part)) = take_part(&mut stream) {
            self.append(name, part)?;
        }
        Ok(stream)
    }

    /// Closes all files, and returns the directory for the user to name it, and its mark.
    ///
    /// # Errors
    /// The mark cannot be written, or the stream has no end.
    pub fn finish(mut self) -> io::Result<(TempDir, File)> {
        if !self.pending.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a part of the output has no end"));
        }
        let names: String = self.names.iter().map(|name| format!("{name}\n")).collect();
        self.mark.write_all(format!("{HEAD}\n{names}").as_bytes())?;
        Ok((self.directory, self.mark))
    }
}

impl Write for Folder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.pending.is_empty() {
            let rest = self.append_parts(bytes)?;
            self.pending.extend_from_slice(rest);
            return Ok(bytes.len());
        }
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend_from_slice(bytes);
        let rest = self.append_parts(&pending)?.len();
        pending.drain(..pending.len() - rest);
        self.pending = pending;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns whether all that is in the directory at `path` was written by a [`Folder`] that was finished.
#[must_use]
pub fn is_whole_and_unchanged(path: &Path) -> bool {
    let Ok(mark) = fs::read_to_string(path.join(MARK)) else { return false };
    let mut lines = mark.lines();
    let is_marked = lines.next() == Some(HEAD);
    let names: BTreeSet<&OsStr> = lines.chain([MARK]).map(OsStr::new).collect();
    let is_known = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| {
            names.contains(&*entry.file_name()) && entry.file_type().is_ok_and(|kind| kind.is_file())
        })
    };
    is_marked && fs::read_dir(path).is_ok_and(|mut entries| entries.all(is_known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn folder(place: &Path) -> Folder {
        let directory = tempfile::tempdir_in(place).unwrap();
        let mark = File::create_new(directory.path().join(MARK)).unwrap();
        Folder::new(directory, mark)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn each_file_has_its_parts_in_order_however_the_stream_is_cut(
            parts in prop::collection::vec((0usize..300, prop::collection::vec(any::<u8>(), 0..50)), 0..400),
            cut in 1usize..97
        ) {
            let place = tempfile::tempdir().unwrap();
            let (mut stream, mut expected) = (Vec::new(), HashMap::<String, Vec<u8>>::new());
            for (file, bytes) in &parts {
                let name = format!("{file}.dat");
                put_part(&name, bytes, &mut stream);
                expected.entry(name).or_default().extend_from_slice(bytes);
            }
            let mut folder = folder(place.path());
            stream.chunks(cut).for_each(|bytes| folder.write_all(bytes).unwrap());
            let (directory, _) = folder.finish().unwrap();
            for (name, bytes) in &expected {
                prop_assert_eq!(&fs::read(directory.path().join(name)).unwrap(), bytes);
            }
            prop_assert_eq!(fs::read_dir(directory.path()).unwrap().count(), expected.len() + 1);
            prop_assert!(is_whole_and_unchanged(directory.path()));
            fs::write(directory.path().join("mine"), "").unwrap();
            prop_assert!(!is_whole_and_unchanged(directory.path()));
        }
    }

    #[test]
    fn names_that_lead_elsewhere_and_streams_without_an_end_are_refused() {
        let place = tempfile::tempdir().unwrap();
        for name in ["", "..", "../a", "a/b", ".tracemerge", "a b"] {
            let mut stream = Vec::new();
            put_part(name, b"x", &mut stream);
            assert!(folder(place.path()).write_all(&stream).is_err(), "{name}");
        }
        let mut stream = Vec::new();
        put_part("a", b"xyz", &mut stream);
        let mut folder = folder(place.path());
        folder.write_all(&stream[..stream.len() - 1]).unwrap();
        assert!(!is_whole_and_unchanged(folder.directory.path()));
        assert!(folder.finish().is_err());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "nothing is left behind");
    }
}
