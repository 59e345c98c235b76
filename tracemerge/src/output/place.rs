//! The place of an output: a name in an open directory.
//!
//! This module makes all outputs. Until an output is whole, it has no name, or a hidden name that cannot be predicted;
//! then it gets its final name within the directory that was opened at the beginning. If the user has not
//! chosen the output's name, an existing entry with that name is neither followed nor replaced, unless it is a file of
//! this user, or a directory that an earlier output made.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::os::directory::{Directory, Entry, Kind};
use crate::os::sys::{FileId, effective_user, hold_lock, is_locked, open_with_retries};
use crate::os::unfinished::{Unfinished, unfinished};
use crate::output::folder::{Folder, MARK, is_whole_and_unchanged};

/// The beginning of the temporary name of an output that is not finished, or of an older output that is being replaced.
const UNFINISHED_PREFIX: &str = ".tracemerge-";
/// The beginning of the temporary name of a staging directory, which has files that are not in their data
/// [set](crate::output::set) yet. Such a directory is not deleted like other unfinished outputs, because the change in
/// its journal may have to be completed.
#[cfg(feature = "parquet")]
pub(crate) const STAGING_PREFIX: &str = ".tracemerge-set-";
/// The number of random characters after the beginning of a temporary name.
const RANDOM: usize = 6;
/// The offset of the byte in an unfinished file on which the writing process holds a lock. If the byte is not locked,
/// that process is dead.
const WRITER_BYTE: u32 = 0;
/// The time without a write after which an unfinished file counts as left behind by a killed process. Only systems
/// without locks use it.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The place of an output: a name in an open directory.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    directory: Arc<Directory>,
    name: OsString,
    /// Whether the user has chosen the name.
    is_chosen: bool,
}

/// A file or a directory that has a temporary name. The file or directory is deleted when this value is dropped.
#[derive(Debug)]
pub(crate) struct Temporary(Option<Unfinished>);

impl Temporary {
    /// Gives up the responsibility for the file or directory, so that it is not deleted.
    pub(crate) fn keep(mut self) {
        self.0 = None;
    }

    /// From now on, lets the file or directory exist when a signal ends this process. Before, such a signal would
    /// delete it.
    #[cfg(feature = "parquet")]
    pub(crate) fn release(&self) {
        *unfinished() = None;
    }

    /// Returns the temporary name; `None` if there is none.
    #[cfg(feature = "parquet")]
    #[must_use]
    pub(crate) fn name(&self) -> Option<OsString> {
        self.0.as_ref().map(|unfinished| unfinished.name.clone())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A file that cannot be deleted does no harm.
        drop(self.0.take().map(|unfinished| unfinished.remove()));
    }
}

/// A file that is being written and does not have its final name yet.
#[derive(Debug)]
pub(crate) enum NewFile {
    /// A file that has no name.
    Unnamed(File),
    /// A file that has a temporary name. The file is dropped before the name, because not every system deletes an open
    /// file.
    Named(File, Temporary),
}

impl NewFile {
    /// Returns the file itself.
    pub(crate) fn file(&mut self) -> &mut File {
        match self {
            NewFile::Unnamed(file) | NewFile::Named(file, _) => file,
        }
    }
}

impl Place {
    /// Opens the directory of `path`, and returns the place of that path. `is_chosen` states whether the user has named
    /// the path itself.
    ///
    /// # Errors
    /// There is no such directory, the path does not end in a name, or Windows reserves a name that the user has not
    /// chosen.
    pub(crate) fn open(path: &Path, is_chosen: bool) -> io::Result<Place> {
        let names_no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it does not name a file");
        let name = path.file_name().ok_or_else(names_no_file)?.to_owned();
        if cfg!(windows) && !is_chosen && is_reserved_by_windows(&name.to_string_lossy()) {
            return Err(io::Error::other("Windows reserves this name"));
        }
        let directory = Arc::new(Directory::open(directory_of(path))?);
        Ok(Place { directory, name, is_chosen })
    }

    /// Returns the entry that has the place's name now and may be replaced; `None` if no entry has that name.
    ///
    /// # Errors
    /// The entry may not be replaced: the user has not chosen its name, and it is not of the `expected` kind, belongs
    /// to another user, or is a program.
    pub(crate) fn replaceable(&self, expected: Kind) -> io::Result<Option<Entry>> {
        let Some(found) = self.directory.look(&self.name)? else { return Ok(None) };
        if self.is_chosen {
            return Ok(Some(found));
        }
        let of_whom = if found.owner == effective_user() {
            String::new()
        } else {
            format!(" of another user ({})", found.owner)
        };
        let what = match found.kind {
            Kind::File if found.kind == expected && of_whom.is_empty() => {
                if !self.is_program() {
                    return Ok(Some(found));
                }
                "a program"
            }
            Kind::Directory if found.kind == expected && of_whom.is_empty() => return Ok(Some(found)),
            Kind::File => "a file",
            Kind::Directory => "a directory",
            Kind::Other(what) => what,
        };
        Err(io::Error::other(format!(
            "{what}{of_whom} has this name already; it is neither followed nor replaced"
        )))
    }

    /// Returns whether the file that has the place's name begins like an executable file. Such a file is not replaced,
    /// because a program may happen to have the name of an output.
    fn is_program(&self) -> bool {
        let mut head = [0; 4];
        let is_read =
            self.directory.read(&self.name).is_ok_and(|mut file| file.read_exact(&mut head).is_ok());
        let starts: [&[u8]; 5] =
            [b"\x7fELF", b"MZ", b"#!", &[0xcf, 0xfa, 0xed, 0xfe], &[0xca, 0xfe, 0xba, 0xbe]];
        is_read && starts.iter().any(|start| head.starts_with(start))
    }

    /// Returns whether an earlier output has written all files of the directory that has the place's name.
    #[must_use]
    pub(crate) fn has_whole_folder(&self) -> bool {
        self.directory.open_directory(&self.name).is_ok_and(|folder| is_whole_and_unchanged(&folder))
    }

    /// Opens the regular file that has the place's name, for reading.
    ///
    /// # Errors
    /// No such file exists, or it may not be read.
    pub(crate) fn read(&self) -> io::Result<File> {
        self.directory.read(&self.name)
    }

    /// Deletes the entry that has the place's name: a file, or a directory with files.
    ///
    /// # Errors
    /// The entry cannot be deleted.
    pub(crate) fn remove(&self) -> io::Result<()> {
        Unfinished { place: self.directory.clone(), name: self.name.clone() }.remove()
    }

    /// Makes a file without a name or with a temporary name, which [`Place::finish_file`] gives the place's name.
    ///
    /// # Errors
    /// No file can be made in the directory.
    pub(crate) fn begin_file(&self) -> io::Result<NewFile> {
        if let Some(file) = self.directory.create_unnamed() {
            let _ = hold_lock(&file, WRITER_BYTE);
            return Ok(NewFile::Unnamed(file));
        }
        let (file, temporary) = self.temporary_file()?;
        unfinished().clone_from(&temporary.0);
        Ok(NewFile::Named(file, temporary))
    }

    /// Makes a directory with a temporary name, which [`Place::finish_folder`] gives the place's name.
    ///
    /// # Errors
    /// No directory can be made in the place's directory.
    pub(crate) fn begin_folder(&self) -> io::Result<Folder> {
        self.begin_folder_named(UNFINISHED_PREFIX)
    }

    /// Makes a staging directory beside the place, for files that are renamed into a data set.
    ///
    /// # Errors
    /// No directory can be made in the place's directory.
    #[cfg(feature = "parquet")]
    pub(crate) fn begin_staging(&self) -> io::Result<Folder> {
        self.begin_folder_named(STAGING_PREFIX)
    }

    /// Returns the place's directory, which contains the entry with the place's name.
    #[cfg(feature = "parquet")]
    #[must_use]
    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Returns the place's name in its directory.
    #[cfg(feature = "parquet")]
    #[must_use]
    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    fn begin_folder_named(&self, prefix: &str) -> io::Result<Folder> {
        loop {
            let temporary = self.hidden_with(prefix, |name| self.directory.make_directory(name))?.1;
            let Some(Unfinished { name, .. }) = &temporary.0 else {
                return Err(io::ErrorKind::NotFound.into());
            };
            let marked = self.directory.open_directory(name).and_then(|inner| {
                let mark = inner.create(MARK.as_ref(), false)?;
                Ok((inner, mark))
            });
            // Before the mark was locked, another merge may have deleted the directory as abandoned.
            let (inner, mark) = match marked {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                marked => marked?,
            };
            let _ = hold_lock(&mark, WRITER_BYTE);
            if inner.look(MARK.as_ref())?.is_some() {
                unfinished().clone_from(&temporary.0);
                return Ok(Folder::new(inner, mark, temporary));
            }
        }
    }

    /// Gives the place's name to a file that is completely written.
    ///
    /// # Errors
    /// Another entry has the name, or the name cannot be given.
    pub(crate) fn finish_file(&self, file: NewFile) -> io::Result<()> {
        // A signal that ends the process waits for this lock.
        let mut unfinished = unfinished();
        *unfinished = None;
        match file {
            NewFile::Unnamed(file) => self.give_name(file),
            NewFile::Named(_file, temporary) => self.rename(temporary),
        }
    }

    /// Gives the place's name to a directory that is completely written. The system cannot replace a directory by
    /// another one in one step, so an older directory with that name gets a temporary name first; a kill between the
    /// two steps leaves both under temporary names.
    ///
    /// # Errors
    /// Another entry has the name, or the name cannot be given.
    pub(crate) fn finish_folder(&self, folder: Folder) -> io::Result<()> {
        let mut unfinished = unfinished();
        let (temporary, mark) = folder.finish()?;
        *unfinished = None;
        // Windows does not rename a directory in which a file is open.
        let _mark = (!cfg!(windows)).then_some(mark);
        let mut aside = None;
        if self.replaceable(Kind::Directory)?.is_some() {
            if !self.has_whole_folder() {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "another file or directory has got this name meanwhile",
                ));
            }
            aside = Some(self.hidden(|name| match self.directory.look(name)? {
                Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
                None => self.directory.rename(&self.name, name),
            })?);
        }
        let Some(Unfinished { name, .. }) = &temporary.0 else { return Err(io::ErrorKind::NotFound.into()) };
        if let Err(error) = self.directory.rename(name, &self.name) {
            if let Some(((), aside)) = aside {
                if let Some(Unfinished { name, .. }) = &aside.0 {
                    self.directory.rename(name, &self.name)?;
                }
                aside.keep();
            }
            return Err(error);
        }
        // The new directory has its final name now; only the directory that it replaces is deleted.
        temporary.keep();
        Ok(())
    }

    /// Gives the place's name to a whole file that has no name. If an older file has that name, the system can only
    /// give a temporary name and then rename; a kill between the two steps leaves a whole file under the temporary
    /// name.
    fn give_name(&self, mut file: File) -> io::Result<()> {
        match self.directory.link_unnamed(&file, &self.name) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if let Ok(((), beside)) = self.hidden(|name| self.directory.link_unnamed(&file, name)) {
                    return self.rename(beside);
                }
            }
            Err(_) => {}
        }
        // This file system cannot give a name to an unnamed file after all.
        let (mut copy, temporary) = self.temporary_file()?;
        file.seek(SeekFrom::Start(0))?;
        io::copy(&mut file, &mut copy)?;
        self.rename(temporary)
    }

    /// Renames a file from its temporary name to the place's name. Tries again if another process has the older file of
    /// that name open for a moment.
    fn rename(&self, temporary: Temporary) -> io::Result<()> {
        // The entry that has the name now may have come since the beginning.
        self.replaceable(Kind::File)?;
        let Some(Unfinished { name, .. }) = &temporary.0 else { return Err(io::ErrorKind::NotFound.into()) };
        open_with_retries(|| {
            self.directory.rename(name, &self.name).map_err(|error| {
                // Windows denies access to the name of a file that a process has open; that is worth another try.
                let (denied, sharing_violation) = (5, 32);
                let is_open = cfg!(windows) && error.raw_os_error() == Some(denied);
                if is_open { io::Error::from_raw_os_error(sharing_violation) } else { error }
            })
        })?;
        temporary.keep();
        Ok(())
    }

    /// Makes a new unfinished file, on which this process holds the writer's lock.
    fn temporary_file(&self) -> io::Result<(File, Temporary)> {
        loop {
            let (file, temporary) = self.hidden(|name| self.directory.create(name, true))?;
            let _ = hold_lock(&file, WRITER_BYTE);
            // Before the file was locked, another merge may have taken it for abandoned and deleted it.
            let Some(Unfinished { name, .. }) = &temporary.0 else { continue };
            if self.directory.look(name)?.is_some() {
                return Ok((file, temporary));
            }
        }
    }

    /// Calls `make` with new temporary names, until it gets one that no entry has. Returns the result of `make`, and
    /// that name.
    fn hidden<T>(&self, make: impl Fn(&OsStr) -> io::Result<T>) -> io::Result<(T, Temporary)> {
        self.hidden_with(UNFINISHED_PREFIX, make)
    }

    fn hidden_with<T>(
        &self,
        prefix: &str,
        make: impl Fn(&OsStr) -> io::Result<T>,
    ) -> io::Result<(T, Temporary)> {
        loop {
            let name = OsString::from(format!("{prefix}{}", random()));
            match make(&name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    let place = self.directory.clone();
                    return Ok((made?, Temporary(Some(Unfinished { place, name }))));
                }
            }
        }
    }
}

/// Returns random characters for a temporary name. They cannot be predicted, because they come from the standard
/// library's keys for hashes, which are random numbers of the system.
fn random() -> String {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut number = RandomState::new().hash_one(std::process::id());
    let mut next = || {
        let letter = LETTERS[(number % LETTERS.len() as u64) as usize];
        number /= LETTERS.len() as u64;
        char::from(letter)
    };
    (0..RANDOM).map(|_| next()).collect()
}

/// Returns whether no ordinary file can have this `name` on Windows: it names a device or a stream of another file, or
/// is not allowed.
#[must_use]
pub(crate) fn is_reserved_by_windows(name: &str) -> bool {
    const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];
    let beginning = name.split('.').next().unwrap_or_default().trim_end().to_uppercase();
    let port = beginning.strip_prefix("COM").or_else(|| beginning.strip_prefix("LPT"));
    let is_number = |rest: &str| {
        rest.chars().count() == 1
            && rest.chars().all(|c| c.is_ascii_digit() || "\u{b9}\u{b2}\u{b3}".contains(c))
    };
    DEVICES.contains(&&*beginning)
        || port.is_some_and(is_number)
        || name.ends_with(['.', ' '])
        || name.contains(|c: char| c.is_control() || "<>:\"|?*/\\".contains(c))
}

/// Returns the directory in which `path` is, without reading the disk.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Deletes the file at `path`, if its identity is still `id`, or if it is a link of this user.
///
/// # Errors
/// The file cannot be deleted, or another file has its name by now.
pub(crate) fn remove_known(path: &Path, id: &FileId) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::NotFound)?;
    let directory = Directory::open(directory_of(path))?;
    let found = directory.look(name)?.ok_or(io::ErrorKind::NotFound)?;
    let is_own_link = matches!(found.kind, Kind::Other(_)) && found.owner == effective_user();
    if found.id != *id && !is_own_link {
        return Err(io::Error::other("another file has got its name meanwhile"));
    }
    directory.remove_file(name)
}

/// Returns the unfinished files and directories that killed merges of this user have left in the directory of `output`.
#[must_use]
pub(crate) fn abandoned(output: &Path) -> Vec<Unfinished> {
    Directory::open(directory_of(output)).map_or_else(|_| Vec::new(), |place| abandoned_in(&Arc::new(place)))
}

fn abandoned_in(place: &Arc<Directory>) -> Vec<Unfinished> {
    let is_abandoned = |name: &OsString| {
        let is_named_so =
            name.to_str().and_then(|name| name.strip_prefix(UNFINISHED_PREFIX)).is_some_and(|random| {
                random.len() == RANDOM && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
            });
        // A link itself is checked, not the file that it leads to.
        let own = |place: &Directory, name: &OsStr| {
            place.look(name).ok().flatten().filter(|found| found.owner == effective_user())
        };
        is_named_so
            && own(place, name).is_some_and(|found| match found.kind {
                Kind::File => has_no_writer(place, name, &found),
                Kind::Directory => place.open_directory(name).is_ok_and(|inner| {
                    let mark = OsStr::new(MARK);
                    own(&inner, mark).is_some_and(|found| has_no_writer(&inner, mark, &found))
                }),
                Kind::Other(_) => false,
            })
    };
    let names = place.names().unwrap_or_default();
    let names = names.into_iter().filter(is_abandoned);
    names.map(|name| Unfinished { place: place.clone(), name }).collect()
}

/// Returns whether the process that wrote an unfinished output is dead. The file `name` in the directory `place`
/// belongs to that output: it is the output itself, or the mark of an output that is a directory.
pub(crate) fn has_no_writer(place: &Directory, name: &OsStr, found: &Entry) -> bool {
    if cfg!(unix) {
        return place.read(name).is_ok_and(|file| !is_locked(&file, WRITER_BYTE));
    }
    let age = found.written.and_then(|then| then.elapsed().ok());
    age.is_some_and(|age| age > ABANDONED_AFTER)
}

impl Place {
    /// Deletes the unfinished outputs that killed merges have left in the place's directory.
    pub(crate) fn remove_abandoned(&self) {
        // An output that cannot be deleted does no harm.
        abandoned_in(&self.directory).iter().for_each(|left| drop(left.remove()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_and_streams_are_reserved_by_windows() {
        for name in [
            "con.trace.merge",
            "NUL",
            "Aux.csv",
            "com1.trace.merge",
            "LPT\u{b9}.csv",
            "COM0",
            "prn .x",
            "a:b",
            "app.",
            "app ",
            "a\u{1b}b",
        ] {
            assert!(is_reserved_by_windows(name), "{name:?}");
        }
        for name in
            ["console.trace.merge", "com10.csv", "app.exe.trace.merge", "nulls", "a.con", ".con", "com"]
        {
            assert!(!is_reserved_by_windows(name), "{name:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn an_output_stays_in_the_directory_that_was_opened() {
        use std::fs;
        use std::io::Write;
        let around = tempfile::tempdir().unwrap();
        let [begun, moved, elsewhere] = ["begun", "moved", "elsewhere"].map(|name| around.path().join(name));
        fs::create_dir(&begun).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        let place = Place::open(&begun.join("app.trace.merge"), false).unwrap();
        let mut files = [place.begin_file().unwrap(), {
            let (file, temporary) = place.temporary_file().unwrap();
            NewFile::Named(file, temporary)
        }];
        let folder_place = Place::open(&begun.join("app.ctf"), false).unwrap();
        let folder = folder_place.begin_folder().unwrap();
        // The directory is replaced with a link while the output is written.
        fs::rename(&begun, &moved).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &begun).unwrap();
        for file in &mut files {
            file.file().write_all(b"merged").unwrap();
        }
        for file in files {
            place.finish_file(file).unwrap();
            assert_eq!(fs::read(moved.join("app.trace.merge")).unwrap(), b"merged");
        }
        folder_place.finish_folder(folder).unwrap();
        assert!(moved.join("app.ctf").join(MARK).is_file());
        place.remove_abandoned();
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        assert_eq!(fs::read_dir(&moved).unwrap().count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_appears_at_the_output_path_is_not_replaced() {
        use std::fs;
        let around = tempfile::tempdir().unwrap();
        let precious = around.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        for name in ["app.trace.merge", "app.ctf"] {
            let place = Place::open(&around.path().join(name), false).unwrap();
            let (file, folder) = (place.begin_file().unwrap(), place.begin_folder().unwrap());
            std::os::unix::fs::symlink(&precious, around.path().join(name)).unwrap();
            let refused = [place.finish_file(file), place.finish_folder(folder)];
            assert!(refused.iter().all(Result::is_err), "{name}: {refused:?}");
            assert!(around.path().join(name).is_symlink());
        }
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert_eq!(fs::read_dir(around.path()).unwrap().count(), 3);
    }

    #[test]
    fn hidden_names_differ() {
        let names: std::collections::HashSet<String> = (0..1000).map(|_| random()).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| name.len() == RANDOM));
    }
}
