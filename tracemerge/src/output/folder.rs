//! An output that is a directory: the stream of an export is split into the files of the directory.
//!
//! An export writes a stream of *parts*, each with the name of a file, and a [`Folder`] appends each part to that file.
//! The directory has a temporary name until it is whole. A file in it, the *mark*, lists its files, so that an existing
//! directory is replaced only if tracemerge wrote all files in it.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};

use crate::os::directory::{Directory, Kind};
use crate::output::place::Temporary;

/// The name of the mark, the file that lists the files of a directory. Readers of the directory skip the mark, because
/// its name begins with a dot.
pub(crate) const MARK: &str = ".tracemerge";
/// The first line of a mark.
const HEAD: &str =
    "tracemerge has written this directory, and replaces it while there are no other files than:";
/// The greatest number of files of a folder that are open at once.
const OPEN: usize = 128;
/// The number of bytes before the name of a part. They contain the length of the name and the number of the part's
/// bytes.
const LENGTHS: usize = 6;

/// Appends a part to a stream: `bytes`, fewer than 4 GiB, which are to be appended to the file `name`.
pub(crate) fn put_part(name: &str, bytes: &[u8], stream: &mut Vec<u8>) {
    let length = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    stream.extend_from_slice(&length(name.len())[..2]);
    stream.extend_from_slice(&length(bytes.len()));
    stream.extend_from_slice(name.as_bytes());
    stream.extend_from_slice(bytes);
}

/// Removes the first part from a stream. Returns the name of the file to which the part belongs, and the part's bytes;
/// `None` if the stream does not have the whole part.
pub(crate) fn take_part<'a>(stream: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (name, rest) = stream.split_first_chunk::<2>()?;
    let (bytes, rest) = rest.split_first_chunk::<{ LENGTHS - 2 }>()?;
    let (name, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*name)))?;
    let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*bytes) as usize)?;
    *stream = rest;
    Some((name, bytes))
}

/// A directory that is being written, under a temporary name. The directory is deleted if this value is dropped before
/// it is finished.
#[derive(Debug)]
pub(crate) struct Folder {
    /// The file of the mark, on which this process holds a lock.
    mark: File,
    open: HashMap<String, File>,
    names: BTreeSet<String>,
    /// The bytes at the end of the stream that do not make up a whole part yet.
    pending: Vec<u8>,
    directory: Directory,
    /// The directory's temporary name. This field is dropped last, because not every system deletes a directory in
    /// which files are open.
    temporary: Temporary,
}

impl Folder {
    /// Makes a folder of this new `directory`, which has a `mark` already and a `temporary` name.
    #[must_use]
    pub(crate) fn new(directory: Directory, mark: File, temporary: Temporary) -> Folder {
        let (open, names) = (HashMap::new(), BTreeSet::new());
        Folder { mark, open, names, pending: Vec::new(), directory, temporary }
    }

    fn append(&mut self, name: &[u8], bytes: &[u8]) -> io::Result<()> {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let name = std::str::from_utf8(name)
            .ok()
            .filter(|name| {
                name.bytes().all(|byte| is_plain(&byte)) && !name.starts_with('.') && !name.is_empty()
            })
            .ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!(
                        "the output has a file {:?}, but names may have only letters, digits, and . - _, and not \
                         begin with .",
                        String::from_utf8_lossy(name)
                    ),
                )
            })?;
        if let Some(file) = self.open.get_mut(name) {
            return file.write_all(bytes);
        }
        if self.open.len() >= OPEN {
            self.open.clear();
        }
        let is_new = self.names.insert(name.to_owned());
        let place = &self.directory;
        let mut file =
            if is_new { place.create(name.as_ref(), false)? } else { place.append(name.as_ref())? };
        file.write_all(bytes)?;
        self.open.insert(name.to_owned(), file);
        Ok(())
    }

    /// Appends each whole part of `stream` to its file. Returns the rest of the stream, the beginning of a part.
    fn append_parts<'a>(&mut self, mut stream: &'a [u8]) -> io::Result<&'a [u8]> {
        while let Some((name, part)) = take_part(&mut stream) {
            self.append(name, part)?;
        }
        Ok(stream)
    }

    /// Writes the mark and closes all files. Returns the temporary name of the directory, which the caller renames, and
    /// the mark.
    ///
    /// # Errors
    /// The mark cannot be written, or the stream ends inside a part.
    pub(crate) fn finish(mut self) -> io::Result<(Temporary, File)> {
        if !self.pending.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the output ends in the middle of a file",
            ));
        }
        let names: String = self.names.iter().map(|name| format!("{name}\n")).collect();
        self.mark.write_all(format!("{HEAD}\n{names}").as_bytes())?;
        Ok((self.temporary, self.mark))
    }
}

#[cfg(feature = "parquet")]
impl Folder {
    /// Closes all files, and writes no mark. Returns the names of the files, the directory, the file of its mark, and
    /// its temporary name.
    ///
    /// # Errors
    /// The stream ends inside a part.
    pub(crate) fn finish_staging(self) -> io::Result<(Vec<String>, Directory, File, Temporary)> {
        if !self.pending.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the output ends in the middle of a file",
            ));
        }
        Ok((self.names.into_iter().collect(), self.directory, self.mark, self.temporary))
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

/// The greatest length of a mark that is read, in bytes.
const LONGEST_MARK: u64 = 1 << 24;

/// Returns whether `directory` has a whole mark and no other files than those that the mark lists, so that a [`Folder`]
/// that was finished has written all of them.
#[must_use]
pub(crate) fn is_whole_and_unchanged(directory: &Directory) -> bool {
    let read = || {
        let mut text = String::new();
        directory.read(MARK.as_ref())?.take(LONGEST_MARK).read_to_string(&mut text)?;
        io::Result::Ok(text)
    };
    let (Ok(mark), Ok(found)) = (read(), directory.names()) else { return false };
    let mut lines = mark.lines();
    let is_marked = lines.next() == Some(HEAD);
    let names: BTreeSet<&OsStr> = lines.chain([MARK]).map(OsStr::new).collect();
    let is_file = |name: &OsStr| {
        directory.look(name).is_ok_and(|found| found.is_some_and(|found| found.kind == Kind::File))
    };
    is_marked && found.iter().all(|name| names.contains(&**name) && is_file(name))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::output::place::Place;
    use proptest::prelude::*;

    fn place(directory: &Path) -> Place {
        Place::open(&directory.join("made"), true).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn each_file_has_its_parts_in_order_at_any_split_of_the_stream(
            parts in prop::collection::vec((0usize..300, prop::collection::vec(any::<u8>(), 0..50)), 0..400),
            cut in 1usize..97
        ) {
            let around = tempfile::tempdir().unwrap();
            let (place, made) = (place(around.path()), around.path().join("made"));
            let (mut stream, mut expected) = (Vec::new(), HashMap::<String, Vec<u8>>::new());
            for (file, bytes) in &parts {
                let name = format!("{file}.dat");
                put_part(&name, bytes, &mut stream);
                expected.entry(name).or_default().extend_from_slice(bytes);
            }
            let mut folder = place.begin_folder().unwrap();
            stream.chunks(cut).for_each(|bytes| folder.write_all(bytes).unwrap());
            place.finish_folder(folder).unwrap();
            for (name, bytes) in &expected {
                prop_assert_eq!(&fs::read(made.join(name)).unwrap(), bytes);
            }
            prop_assert_eq!(fs::read_dir(&made).unwrap().count(), expected.len() + 1);
            prop_assert!(place.has_whole_folder());
            fs::write(made.join("mine"), "").unwrap();
            prop_assert!(!place.has_whole_folder());
        }
    }

    #[test]
    fn names_outside_the_folder_and_truncated_streams_are_rejected() {
        let around = tempfile::tempdir().unwrap();
        let place = place(around.path());
        for name in ["", "..", "../a", "a/b", ".tracemerge", "a b"] {
            let mut stream = Vec::new();
            put_part(name, b"x", &mut stream);
            assert!(place.begin_folder().unwrap().write_all(&stream).is_err(), "{name}");
        }
        let mut stream = Vec::new();
        put_part("a", b"xyz", &mut stream);
        let mut folder = place.begin_folder().unwrap();
        folder.write_all(&stream[..stream.len() - 1]).unwrap();
        assert!(!is_whole_and_unchanged(&folder.directory));
        assert!(folder.finish().is_err());
        assert_eq!(fs::read_dir(around.path()).unwrap().count(), 0, "nothing is left behind");
    }
}
