//! A data set: a directory of tables, which any number of writers may change at the same time.
//!
//! A table is a folder with the files of each day and machine: `records/day=2026-11-18/machine=web-01/RUN-0.parquet`.
//! No unfinished file is ever in the set, whatever its name: readers take all files. New files are made in a *staging
//! directory* beside the set. A *change* renames them into the set and deletes the files that they replace. Changes
//! happen one at a time, under the lock of the file `.NAME.lock` beside the set, and begin with a journal in the
//! staging directory: if a writer is killed during a change, the next one that takes the lock completes it. Without a
//! whole journal nothing was changed yet, and the next writer deletes the staging directory.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::find::set_files::{DAY, FilePlace, MACHINE, file_names, is_plain, plain_names};
use crate::os::directory::{Directory, Entry, Kind};
use crate::os::sys::{effective_user, hold_lock};
use crate::output::folder::{Folder, MARK};
use crate::output::place::{Place, STAGING_PREFIX, Temporary, has_no_writer};

/// The name of the journal, a file in a staging directory.
const JOURNAL: &str = "journal";
/// The last line of a journal that is whole.
const END: &str = "end";
/// The greatest length of a journal that is read, in bytes.
const LONGEST_JOURNAL: u64 = 1 << 26;
/// The longest time for which a writer waits for the set's lock, which another writer holds.
const PATIENCE: Duration = Duration::from_secs(600);
/// The time between two attempts to take the set's lock.
const PAUSE: Duration = Duration::from_millis(5);
/// A data set, whose directory may not exist yet.
#[derive(Debug)]
pub(crate) struct Set {
    /// The path of the data set, as the user wrote it.
    pub path: PathBuf,
    around: Arc<Directory>,
    place: Place,
    name: OsString,
}

/// New files in a staging directory beside the set.
#[derive(Debug)]
pub(crate) struct Staged {
    /// The names of the files that the staging directory had when it was closed.
    pub names: Vec<String>,
    directory: Directory,
    /// The file of the directory's mark, on which this process holds a lock.
    _mark: File,
    /// The temporary name of the staging directory. The directory is deleted when this value is dropped.
    temporary: Temporary,
}

/// The lock of a set. While one writer holds it, no other writer changes the set.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    set: &'a Set,
    _file: File,
}

impl Set {
    /// Opens the data set at `path`. `tables` has the names of all tables that a set may have.
    ///
    /// # Errors
    /// The directory around the set does not exist, or the set's directory has other entries than folders of tables.
    pub(crate) fn open(path: &Path, tables: &[&str]) -> io::Result<Set> {
        let place = Place::open(path, true)?;
        let (around, name) = (place.directory().clone(), place.name().to_owned());
        let set = Set { path: path.to_owned(), around, place, name };
        if let Some(found) = set.around.look(&set.name)? {
            if found.kind != Kind::Directory {
                return Err(io::Error::other("it is not a directory"));
            }
            let names = set.around.open_directory(&set.name)?.names()?;
            if let Some(other) = names.iter().find(|name| tables.iter().all(|table| ***name != **table)) {
                let other = other.to_string_lossy().escape_debug().to_string();
                return Err(io::Error::other(format!(
                    "it is a directory with other files ('{other}'), not a data set"
                )));
            }
        }
        Ok(set)
    }

    /// Returns whether the set's directory exists.
    #[must_use]
    pub(crate) fn exists(&self) -> bool {
        self.around.look(&self.name).is_ok_and(|found| found.is_some())
    }

    /// Returns each pair of a day and a machine for which a table has a folder, in order.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub(crate) fn folders(&self, table: &str) -> io::Result<Vec<(String, String)>> {
        let of_set = self.around.open_directory(&self.name)?;
        let of_table = match of_set.open_directory(table.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        let mut found = Vec::new();
        for day in plain_names(&of_table, DAY, Kind::Directory)? {
            let of_day = of_table.open_directory(format!("{DAY}{day}").as_ref())?;
            let machines = plain_names(&of_day, MACHINE, Kind::Directory)?.into_iter();
            found.extend(machines.map(|machine| (day.clone(), machine)));
        }
        found.sort();
        Ok(found)
    }

    /// Makes a staging directory beside the set, for new files.
    ///
    /// # Errors
    /// No directory can be made beside the set.
    pub(crate) fn begin(&self) -> io::Result<Folder> {
        self.place.begin_staging()
    }

    /// Waits for the set's lock, and completes the changes of writers that were killed. `own` is the caller's staging
    /// directory, which is left alone.
    ///
    /// # Errors
    /// The lock cannot be taken, or another writer holds it for ten minutes.
    pub(crate) fn lock(&self, own: Option<&Staged>) -> io::Result<Locked<'_>> {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(".lock");
        let file = loop {
            match self.around.append(&name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match self.around.create(&name, false) {
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        made => break made?,
                    }
                }
                opened => break opened?,
            }
        };
        let begun = Instant::now();
        while let Err(error) = hold_lock(&file, 0) {
            let is_held = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::PermissionDenied);
            if !is_held || begun.elapsed() > PATIENCE {
                let path = self.around.path_of(&name);
                return Err(io::Error::other(format!(
                    "the lock {} cannot be taken: {error}",
                    path.display()
                )));
            }
            sleep(PAUSE);
        }
        let locked = Locked { set: self, _file: file };
        locked.complete_changes(own)?;
        Ok(locked)
    }
}

impl Staged {
    /// Closes all files of a staging directory, and returns the directory with their names.
    ///
    /// # Errors
    /// The files cannot be written.
    pub(crate) fn of(folder: Folder) -> io::Result<Staged> {
        let (names, directory, mark, temporary) = folder.finish_staging()?;
        Ok(Staged { names, directory, _mark: mark, temporary })
    }

    /// Makes another file in the staging directory. Does not add its name to `names`.
    ///
    /// # Errors
    /// The file cannot be made.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        self.directory.create(name.as_ref(), false)
    }

    /// Opens a file of the staging directory for reading.
    ///
    /// # Errors
    /// There is no such file.
    pub(crate) fn read(&self, name: &str) -> io::Result<File> {
        self.directory.read(name.as_ref())
    }
}

impl Locked<'_> {
    /// Opens the file of the set at `place` for reading; `None` if there is no such file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(&self, place: &FilePlace) -> io::Result<Option<File>> {
        let Some(folder) = self.folder(place)? else { return Ok(None) };
        match folder.read(place.name.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Returns the names of all files in the folder that contains the file `place`, in order.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn names(&self, place: &FilePlace) -> io::Result<Vec<String>> {
        let Some(folder) = self.folder(place)? else { return Ok(Vec::new()) };
        file_names(&folder)
    }

    /// Opens the folder that contains the file `place`; `None` if there is no such folder.
    fn folder(&self, place: &FilePlace) -> io::Result<Option<Directory>> {
        let open = || {
            let mut folder = self.set.around.open_directory(&self.set.name)?;
            for name in place.folders() {
                folder = folder.open_directory(name.as_ref())?;
            }
            io::Result::Ok(folder)
        };
        match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Opens the folder that contains the file `place`. Makes the folder, and the directories above it, if they do not
    /// exist.
    fn make_folder(&self, place: &FilePlace) -> io::Result<Directory> {
        let enter = |within: &Directory, name: &OsStr| {
            match within.make_shared_directory(name) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            within.open_directory(name)
        };
        let mut folder = enter(&self.set.around, &self.set.name)?;
        for name in place.folders() {
            folder = enter(&folder, name.as_ref())?;
        }
        Ok(folder)
    }

    /// Changes the set: renames the staged files in `added`, each a name and its new place, into the set, and then
    /// deletes the files of the set in `removed` that are not also in `added`.
    ///
    /// # Errors
    /// A file cannot be renamed. The next writer that takes the lock tries again.
    pub(crate) fn change(
        &self,
        staged: Staged,
        added: &[(String, FilePlace)],
        removed: &[FilePlace],
    ) -> io::Result<()> {
        let mut text = format!("set {}\n", hex_of(&self.set.name));
        added.iter().for_each(|(name, place)| text += &format!("add {name} {}\n", place.words()));
        let removed: Vec<FilePlace> =
            removed.iter().filter(|old| added.iter().all(|(_, place)| place != *old)).cloned().collect();
        removed.iter().for_each(|place| text += &format!("remove {}\n", place.words()));
        text += END;
        text.push('\n');
        // From here on, a signal does not delete the staging directory.
        staged.temporary.release();
        let mut journal = staged.directory.create(JOURNAL.as_ref(), false)?;
        journal.write_all(text.as_bytes())?;
        drop(journal);
        let changed = self.apply(&staged.directory, added, &removed);
        if changed.is_err() {
            staged.temporary.keep();
        }
        changed
    }

    fn apply(
        &self,
        staging: &Directory,
        added: &[(String, FilePlace)],
        removed: &[FilePlace],
    ) -> io::Result<()> {
        for (name, place) in added {
            match staging.rename_into(name.as_ref(), &self.make_folder(place)?, place.name.as_ref()) {
                // A killed writer has renamed the file already.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                renamed => renamed?,
            }
        }
        for place in removed {
            let Some(folder) = self.folder(place)? else { continue };
            match folder.remove_file(place.name.as_ref()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        Ok(())
    }

    /// Completes the changes of killed writers, and deletes the staging directories that these writers have left.
    /// Leaves `own`, the caller's staging directory, alone.
    fn complete_changes(&self, own: Option<&Staged>) -> io::Result<()> {
        let own = own.and_then(|staged| staged.temporary.name());
        for name in self.set.around.names()? {
            let is_staging = name.to_str().is_some_and(|name| name.starts_with(STAGING_PREFIX));
            if !is_staging || Some(&name) == own.as_ref() {
                continue;
            }
            // Another writer may delete its own directory at any time.
            let Ok(directory) = self.set.around.open_directory(&name) else { continue };
            let own_file = |found: &Entry| found.owner == effective_user() && found.kind == Kind::File;
            let mark = OsStr::new(MARK);
            let Ok(found) = directory.look(mark) else { continue };
            let Some(found) = found else {
                self.remove_unmarked(&name);
                continue;
            };
            if !own_file(&found) || !has_no_writer(&directory, mark, &found) {
                continue;
            }
            match journal_in(&directory, &self.set.name) {
                Journal::OfAnotherSet => continue,
                Journal::Whole(added, removed) => self.apply(&directory, &added, &removed)?,
                Journal::Torn => {}
            }
            drop(directory);
            self.set.around.remove_directory(&name)?;
        }
        Ok(())
    }

    /// Deletes a staging directory of this user that has no mark. Either its writer was killed before it made the mark,
    /// or another writer was killed while it deleted the directory, after the mark. A writer that still lives, and
    /// whose directory is deleted before it has made the mark, makes another directory.
    fn remove_unmarked(&self, name: &OsStr) {
        let around = &self.set.around;
        let is_own = |found: &Entry| found.owner == effective_user() && found.kind == Kind::Directory;
        if !around.look(name).ok().flatten().is_some_and(|found| is_own(&found)) {
            return;
        }
        // A directory that cannot be deleted does no harm.
        if around.remove_empty_directory(name).is_err() {
            let has_no_mark =
                |directory: Directory| directory.look(OsStr::new(MARK)).is_ok_and(|mark| mark.is_none());
            if around.open_directory(name).is_ok_and(has_no_mark) {
                let _ = around.remove_directory(name);
            }
        }
    }
}

/// The journal in the staging directory of a killed writer.
enum Journal {
    /// There is no journal, or it is not whole, so nothing in the set was changed.
    Torn,
    /// The journal belongs to another set.
    OfAnotherSet,
    /// The whole journal: the files to rename into the set, and the files of the set to delete.
    Whole(Vec<(String, FilePlace)>, Vec<FilePlace>),
}

fn journal_in(directory: &Directory, set: &OsStr) -> Journal {
    let read = || {
        let mut text = String::new();
        directory.read(JOURNAL.as_ref())?.take(LONGEST_JOURNAL).read_to_string(&mut text)?;
        io::Result::Ok(text)
    };
    let Ok(text) = read() else { return Journal::Torn };
    if !text.ends_with(&format!("\n{END}\n")) {
        return Journal::Torn;
    }
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let mut words = line.split(' ');
        match words.next() {
            Some("set") if words.next() != Some(&hex_of(set)) => return Journal::OfAnotherSet,
            Some("add") => {
                let name = words.next().filter(|name| is_plain(name)).map(str::to_owned);
                added.extend(name.zip(FilePlace::parse(words)));
            }
            Some("remove") => removed.extend(FilePlace::parse(words)),
            _ => {}
        }
    }
    Journal::Whole(added, removed)
}

/// Returns the bytes of a name as hexadecimal digits, the form in which a journal has the name of its set.
fn hex_of(name: &OsStr) -> String {
    name.as_encoded_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::output::folder::put_part;

    fn place(name: &str) -> FilePlace {
        FilePlace {
            table: "records".into(),
            day: "2026-11-18".into(),
            machine: "m".into(),
            name: name.to_owned(),
        }
    }

    fn staged(set: &Set, files: &[(&str, &[u8])]) -> Staged {
        let mut stream = Vec::new();
        files.iter().for_each(|(name, bytes)| put_part(name, bytes, &mut stream));
        let mut folder = set.begin().unwrap();
        folder.write_all(&stream).unwrap();
        Staged::of(folder).unwrap()
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_next_writer_deletes_staging_directories_without_a_mark() {
        let around = tempfile::tempdir().unwrap();
        fs::create_dir(around.path().join(format!("{STAGING_PREFIX}empty"))).unwrap();
        let partly_deleted = around.path().join(format!("{STAGING_PREFIX}other"));
        fs::create_dir(&partly_deleted).unwrap();
        fs::write(partly_deleted.join("records.2026-11-18.0"), "").unwrap();
        let set = Set::open(&around.path().join("set"), &["records"]).unwrap();
        drop(set.lock(None).unwrap());
        assert_eq!(names(around.path()), [".set.lock"]);
    }

    #[test]
    fn a_change_adds_files_and_then_deletes_others() {
        let around = tempfile::tempdir().unwrap();
        let set = Set::open(&around.path().join("set"), &["records"]).unwrap();
        let folder = around.path().join("set/records/day=2026-11-18/machine=m");
        let new = staged(&set, &[("a", b"1"), ("b", b"2")]);
        let locked = set.lock(Some(&new)).unwrap();
        locked.change(new, &[("a".into(), place("x-0")), ("b".into(), place("x-1"))], &[]).unwrap();
        drop(locked);
        assert_eq!(names(&folder), ["x-0", "x-1"]);
        let newer = staged(&set, &[("a", b"3")]);
        let locked = set.lock(Some(&newer)).unwrap();
        locked.change(newer, &[("a".into(), place("x-0"))], &[place("x-1"), place("absent")]).unwrap();
        assert_eq!(
            (names(&folder), fs::read(folder.join("x-0")).unwrap()),
            (vec!["x-0".to_owned()], b"3".to_vec())
        );
        assert_eq!(names(around.path()), [".set.lock", "set"]);
    }

    #[test]
    fn a_change_is_completed_if_its_journal_is_whole_and_forgotten_if_it_is_not() {
        for whole in [true, false] {
            let around = tempfile::tempdir().unwrap();
            let set = Set::open(&around.path().join("set"), &["records"]).unwrap();
            let other = Set::open(&around.path().join("other"), &["records"]).unwrap();
            let new = staged(&set, &[("a", b"1"), ("b", b"2")]);
            let journal = format!(
                "set {}\nadd a {}\nadd b {}\nremove {}\n{}",
                hex_of("set".as_ref()),
                place("x-0").words(),
                place("x-1").words(),
                place("x-2").words(),
                if whole { "end\n" } else { "" }
            );
            new.directory.create(JOURNAL.as_ref(), false).unwrap().write_all(journal.as_bytes()).unwrap();
            // The writer is killed after its first step.
            let folder = around.path().join("set/records/day=2026-11-18/machine=m");
            if whole {
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("x-2"), "old").unwrap();
                fs::rename(new.directory.path_of("a".as_ref()), folder.join("x-0")).unwrap();
            }
            new.temporary.keep();
            drop(new._mark);
            drop(other.lock(None).unwrap());
            assert_eq!(names(around.path()).iter().any(|name| name.starts_with(STAGING_PREFIX)), whole);
            drop(set.lock(None).unwrap());
            if whole {
                assert_eq!(names(&folder), ["x-0", "x-1"]);
                assert_eq!(fs::read(folder.join("x-1")).unwrap(), b"2");
            }
            assert_eq!(folder.exists(), whole);
            assert!(names(around.path()).iter().all(|name| !name.starts_with(STAGING_PREFIX)));
        }
    }

    #[test]
    fn words_outside_of_names_are_not_taken_from_a_journal() {
        for word in ["", ".", "..", "../x", "a/b", ".x", "-x", "a b", "a\u{1b}"] {
            assert!(!is_plain(word), "{word:?}");
        }
        assert!(FilePlace::parse(["records", "2026-11-18", "..", "x"].into_iter()).is_none());
        assert!(["web-01", "a.b", "X_1"].into_iter().all(is_plain));
    }
}
