//! The compaction of a data set: small files of a day and a machine become few large ones.
//!
//! The compaction consists of steps. Each step takes up to [`MAX_FILES`] small files of a folder under the lock of the
//! set, so that no other writer changes them meanwhile, and atomically replaces them by one file. So if the command is
//! killed, the set still has each row exactly once, and the next command continues the work. A file that is large
//! enough is never read again.
//!
//! Before that, if sets with the same run were copied into one directory, only the newest state of each run stays.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::SystemTime;

use parquet::file::reader::FileReader;

use crate::command::dataset::files::{metadata_of, named};
use crate::file::parquet::{COMPACTED, Keys, keys, open, runs_of};
use crate::find::set_files::FilePlace;
use crate::find::set_runs::copies;
use crate::output::set::{Locked, Set, Staged};
use crate::time::clocks::wall_clock;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, count, shown};
use crate::view::export::parquet::dataset::{MAX_BYTES, MAX_ROWS, TABLES, TableName, date_of};
use crate::view::export::parquet::rewrite::rewrite;

/// The greatest number of files that one step replaces by one file.
const MAX_FILES: usize = 64;
/// The greatest number of files that a folder of the present day may have without a compaction.
const MANY: usize = 100;
/// The number of rows from which on a file is large and is not compacted. A file is also large from `LARGE_BYTES` bytes
/// or `LARGE_RUNS` runs on.
const LARGE_ROWS: u64 = 1 << 20;
const LARGE_BYTES: u64 = MAX_BYTES / 4;
const LARGE_RUNS: usize = 1 << 12;

/// A compaction of a data set, with its results so far.
struct Compaction<'a> {
    set: &'a Set,
    /// The present day, in UTC. Its files are compacted only if there are many.
    today: String,
    /// The files that cannot be read, each of which was reported to the user.
    damaged: BTreeSet<FilePlace>,
    /// The number of small files that were replaced; `made` is the number of files that replaced them.
    files: u64,
    made: u64,
}

/// Replaces the small files of the data set at `path` by fewer large ones.
///
/// # Errors
/// There is no set, or it cannot be written.
pub(super) fn compact(path: &Path, messages: &mut Messages) -> Result<(), Error> {
    let failed = |error| Error::io("compact the data set", path, error);
    let set = Set::open(path, &TABLES).map_err(failed)?;
    if !set.exists() {
        return Err(failed(std::io::ErrorKind::NotFound.into()));
    }
    let today = date_of(wall_clock(SystemTime::now()));
    let mut compaction = Compaction { set: &set, today, damaged: BTreeSet::new(), files: 0, made: 0 };
    let copies = compaction.remove_copies(messages).map_err(failed)?;
    for table in TableName::ALL {
        for (day, machine) in set.folders(table.name()).map_err(failed)? {
            let folder = FilePlace { table: table.name().to_owned(), day, machine, name: String::new() };
            while compaction.step(table, &folder, messages).map_err(failed)? {}
        }
    }
    let Compaction { files, made, .. } = compaction;
    let removed =
        if copies == 0 { String::new() } else { format!("; removed copies of {}", count(copies, "run")) };
    messages.done(format_args!(
        "put {} of {} together into {made}{removed}",
        count(files, "file"),
        shown(path)
    ));
    Ok(())
}

impl Compaction<'_> {
    /// Removes superfluous rows of runs: rows that another file has, too, and rows that do not belong to the run's
    /// newest state. Returns the number of runs of which rows were removed.
    fn remove_copies(&mut self, messages: &mut Messages) -> std::io::Result<u64> {
        let staged = Staged::of(self.set.begin()?)?;
        let locked = self.set.lock(Some(&staged))?;
        let files = self.files_with_keys(&locked, messages)?;
        let copies = copies(&files);
        copies.refuse_torn()?;
        let mut by_file = BTreeMap::<&FilePlace, BTreeSet<&str>>::new();
        for of in &copies.superfluous {
            by_file.entry(&of.file).or_default().insert(&of.run);
        }
        let runs =
            copies.superfluous.iter().map(|of| (&of.file.machine, &of.run)).collect::<BTreeSet<_>>().len();
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        for (place, keys) in &files {
            let Some(without) = by_file.get(place) else { continue };
            let others: Vec<&str> = runs_of(keys).filter(|run| !without.contains(run)).collect();
            let table = TableName::named(&place.table);
            let (Some(table), Some(file), false) = (table, locked.read(place)?, others.is_empty()) else {
                removed.push(place.clone());
                continue;
            };
            let name = format!("rewritten.{}", added.len());
            let (out, without) = (staged.create(&name)?, without.iter().copied().collect::<Vec<_>>());
            rewrite(table, vec![file], &without, &metadata_of(&others, &[keys]), out)
                .map_err(|error| named(place, &error))?;
            added.push((name, place.clone()));
        }
        if runs > 0 {
            locked.change(staged, &added, &removed)?;
        }
        Ok(runs as u64)
    }

    /// Returns all files of the set that can be read, each with the keys and values of its metadata. Reports the files
    /// that cannot be read.
    fn files_with_keys(
        &mut self,
        locked: &Locked<'_>,
        messages: &mut Messages,
    ) -> std::io::Result<Vec<(FilePlace, Keys)>> {
        let mut files = Vec::new();
        for table in TABLES {
            for (day, machine) in self.set.folders(table)? {
                let folder = FilePlace { table: table.to_owned(), day, machine, name: String::new() };
                for name in locked.names(&folder)? {
                    let place = FilePlace { name, ..folder.clone() };
                    let Some(file) = locked.read(&place)? else { continue };
                    match open(file) {
                        Ok(reader) => files.push((place, keys(&reader))),
                        Err(error) => self.leave(place, &error, messages),
                    }
                }
            }
        }
        Ok(files)
    }

    /// Reports to the user that a file cannot be read and is left as it is; reports each file only once.
    fn leave(&mut self, place: FilePlace, error: &std::io::Error, messages: &mut Messages) {
        let text = named(&place, error);
        if self.damaged.insert(place) {
            messages.warn(format_args!("a damaged file is not compacted: {text}"));
        }
    }

    /// Replaces some small files of a folder by one file. Does nothing if the folder's day is not over and it has few
    /// files, or if it has fewer than two small files. Returns whether files were replaced.
    fn step(
        &mut self,
        table: TableName,
        folder: &FilePlace,
        messages: &mut Messages,
    ) -> std::io::Result<bool> {
        let staged = Staged::of(self.set.begin()?)?;
        let locked = self.set.lock(Some(&staged))?;
        let names = locked.names(folder)?;
        if folder.day >= self.today && names.len() <= MANY {
            return Ok(false);
        }
        let (mut files, mut places, mut metadata): (Vec<File>, Vec<FilePlace>, Vec<_>) = Default::default();
        let (mut rows, mut bytes, mut runs) = (0, 0, 0);
        for name in &names {
            let place = FilePlace { name: name.clone(), ..folder.clone() };
            if files.len() >= MAX_FILES {
                break;
            }
            let Some(file) = locked.read(&place)? else { continue };
            let reader = match open(file.try_clone()?) {
                Ok(reader) => reader,
                Err(error) => {
                    self.leave(place, &error, messages);
                    continue;
                }
            };
            let of_file = u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(u64::MAX);
            let length = file.metadata()?.len();
            let keys = keys(&reader);
            let number = runs_of(&keys).count();
            let is_large = of_file >= LARGE_ROWS || length >= LARGE_BYTES || number >= LARGE_RUNS;
            let fits = rows + of_file.min(MAX_ROWS) <= MAX_ROWS && bytes + length <= MAX_BYTES;
            if is_large || number == 0 || !fits {
                continue;
            }
            (rows, bytes, runs) = (rows + of_file, bytes + length, runs + number);
            files.push(file);
            places.push(place);
            metadata.push(keys);
        }
        if files.len() < 2 {
            return Ok(false);
        }
        let count = files.len() as u64;
        let all_runs: Vec<&str> = metadata.iter().flat_map(runs_of).collect();
        let of_all = metadata_of(&all_runs, &metadata.iter().collect::<Vec<_>>());
        let name = name_of(&places, &of_all, &names);
        let out = staged.create(&name)?;
        rewrite(table, files, &[], &of_all, out).map_err(|error| named(folder, &error))?;
        let added = [(name.clone(), FilePlace { name, ..folder.clone() })];
        locked.change(staged, &added, &places)?;
        (self.files, self.made) = (self.files + count, self.made + 1);
        Ok(true)
    }
}

/// Returns the name of the file that replaces the files `from` and has this metadata. The name is not one of `names`,
/// the names of all files in the folder. In several sets, compacted files have the same name only if they have rows of
/// the same runs in the same states, so the files of the sets may be copied into one directory.
fn name_of(from: &[FilePlace], metadata: &[(String, String)], names: &[String]) -> String {
    let name = |attempt: u32| {
        let mut hasher = DefaultHasher::new();
        from.iter().for_each(|place| place.name.hash(&mut hasher));
        (metadata, attempt).hash(&mut hasher);
        format!("{COMPACTED}{:016x}.parquet", hasher.finish())
    };
    // An earlier file of this name may be there, without the rows of runs that have grown since.
    let mut attempts = (0..).map(name).filter(|name| !names.contains(name));
    attempts.next().unwrap_or_default()
}
