//! The files of a data set by table, day and machine: `records/day=2026-11-18/machine=web-01/RUN-0.parquet`.

use std::io;
use std::path::{Path, PathBuf};

use crate::os::directory::{Directory, Kind};

/// The name of the table that every set has, with one row for each run.
pub(crate) const RUNS: &str = "runs";
/// The greatest number of files of a set that are listed.
const MAX_LISTED: usize = 1 << 20;
/// The prefix of the names of a table's folders, one for each day; `MACHINE` is the prefix of the names of the folders
/// in these.
pub(crate) const DAY: &str = "day=";
pub(crate) const MACHINE: &str = "machine=";

/// The position of a file in a data set: its table, its folders and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FilePlace {
    /// The name of the table.
    pub table: String,
    /// The day, such as `2026-11-18`.
    pub day: String,
    /// The name of the machine.
    pub machine: String,
    /// The name of the file.
    pub name: String,
}

impl FilePlace {
    /// Makes a position from four words: table, day, machine and name. Returns `None` if a word cannot be part of a
    /// path.
    pub(crate) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<FilePlace> {
        let mut next = || words.next().filter(|word| is_plain(word)).map(str::to_owned);
        Some(FilePlace { table: next()?, day: next()?, machine: next()?, name: next()? })
    }

    /// Returns the names of the folders that contain the file, the outermost first.
    pub(crate) fn folders(&self) -> [String; 3] {
        [self.table.clone(), format!("{DAY}{}", self.day), format!("{MACHINE}{}", self.machine)]
    }

    /// Returns the position as words that [`FilePlace::parse`] reads.
    pub(crate) fn words(&self) -> String {
        format!("{} {} {} {}", self.table, self.day, self.machine, self.name)
    }

    /// Returns the path of the file, relative to the set.
    pub(crate) fn path(&self) -> String {
        let FilePlace { table, day, machine, name } = self;
        format!("{table}/{DAY}{day}/{MACHINE}{machine}/{name}")
    }

    /// Returns the path of the file in the set at `set`.
    pub(crate) fn path_in(&self, set: &Path) -> PathBuf {
        self.folders().iter().fold(set.to_owned(), |path, folder| path.join(folder)).join(&self.name)
    }
}

/// Returns whether a word can be the name of a machine, a folder or a file in a set: it has only letters, digits, dots,
/// hyphens and underscores, and begins with neither a dot nor a hyphen.
#[must_use]
pub(crate) fn is_plain(word: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !word.is_empty() && word.len() <= 200 && word.bytes().all(is_plain) && !word.starts_with(['.', '-'])
}

/// Returns the positions of all files of the set at `path`, in order. Follows no links and ignores files that are not
/// part of a set. Returns `None` if the directory is not a set: each set has a table of runs, with a day.
///
/// # Errors
/// The directory cannot be read, or has more than about a million files.
pub(crate) fn list_files(path: &Path) -> io::Result<Option<Vec<FilePlace>>> {
    let set = Directory::open(path)?;
    let (mut files, mut is_set) = (Vec::new(), false);
    for table in plain_names(&set, "", Kind::Directory)? {
        let of_table = set.open_directory(table.as_ref())?;
        for day in plain_names(&of_table, DAY, Kind::Directory)? {
            is_set |= table == RUNS;
            let of_day = of_table.open_directory(format!("{DAY}{day}").as_ref())?;
            for machine in plain_names(&of_day, MACHINE, Kind::Directory)? {
                let of_machine = of_day.open_directory(format!("{MACHINE}{machine}").as_ref())?;
                for name in file_names(&of_machine)? {
                    let (table, day, machine) = (table.clone(), day.clone(), machine.clone());
                    files.push(FilePlace { table, day, machine, name });
                }
                if files.len() > MAX_LISTED {
                    return Err(io::Error::other("it has more than a million files"));
                }
            }
        }
    }
    files.sort();
    Ok(is_set.then_some(files))
}

/// Returns the sorted names of the Parquet files in a folder of a set.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn file_names(folder: &Directory) -> io::Result<Vec<String>> {
    let mut names = plain_names(folder, "", Kind::File)?;
    names.retain(|name| name.ends_with(".parquet"));
    names.sort();
    Ok(names)
}

/// Returns the names of a directory's entries of this `kind` that begin with `prefix`, without the prefix, if the rest
/// is a plain word (see `is_plain`).
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn plain_names(directory: &Directory, prefix: &str, kind: Kind) -> io::Result<Vec<String>> {
    let names = directory.names()?.into_iter();
    let is_of_kind = |name: &std::ffi::OsString| {
        directory.look(name).is_ok_and(|found| found.is_some_and(|found| found.kind == kind))
    };
    let names = names.filter(is_of_kind).filter_map(|name| name.into_string().ok());
    Ok(names
        .filter_map(|name| Some(name.strip_prefix(prefix).filter(|word| is_plain(word))?.to_owned()))
        .collect())
}
