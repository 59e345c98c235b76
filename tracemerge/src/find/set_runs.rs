//! The files of a run in a data set, and the check that no row is in two of these files.
//!
//! A run has files of its own, which are numbered, in each folder of a table. A compaction moves the rows of small
//! files into one file for several runs. If several sets that contain the same run are copied into one directory, even
//! more files have rows of the run. Each file names in its metadata the runs whose rows it has, and for each of these
//! runs a state: that of the run's traces when the rows were added. The table of runs has the ticks of the last record
//! in each state, and so shows which state is the newest.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::file::parquet::{
    COMPACTED, FILES_KEY, Keys, LAST_KEY, STATE_KEY, key_of_run, keys, open, runs_of,
};
use crate::find::set_files::{FilePlace, RUNS, list_files};

/// The maximum number of times that a set is read if a run seems to be in it twice, or a file seems to be missing;
/// `PAUSE` is the time between two reads. All reads together take longer than a command that is just changing the set.
const LOOKS: usize = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// The name of a machine, and the name of a run on it.
type MachineAndRun<'a> = (&'a str, &'a str);

/// The rows of a run that are to be removed from a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Superfluous {
    /// The file of the data set that contains the rows to be removed.
    pub file: FilePlace,
    /// The name of the run.
    pub run: String,
    /// A file that has the same rows of this run, or newer ones.
    pub other: FilePlace,
}

impl fmt::Display for Superfluous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Superfluous { file, run, other } = self;
        write!(f, "the data set has run {run} twice, in {} and in {}", file.path(), other.path())
    }
}

/// The contents of a set that should not be there: rows that are not those of a run in its newest state.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Copies {
    /// The rows that are also in other files, or that are of an earlier state of their run.
    pub superfluous: Vec<Superfluous>,
    /// Messages about files whose rows belong to a state that is not in the table of runs.
    pub torn: Vec<String>,
}

/// A row in the table of runs: a run in one of its states.
#[derive(Debug)]
struct Entry<'a> {
    last: u64,
    state: &'a str,
    place: &'a FilePlace,
    /// For each table and day, the highest number in the names of the run's files.
    numbers: HashMap<(&'a str, &'a str), u32>,
}

impl<'a> Entry<'a> {
    fn of(place: &'a FilePlace, keys: &'a Keys, run: &str) -> Option<Entry<'a>> {
        let text = |key| key_of_run(keys, key, run).unwrap_or_default();
        let mut numbers = HashMap::from([((RUNS, &place.day[..]), 0)]);
        for file in text(FILES_KEY).split(' ') {
            let mut words = file.split('.');
            let (Some(table), Some(day)) = (words.next(), words.next()) else { continue };
            let Some(number) = words.next().and_then(|number| number.parse::<u32>().ok()) else { continue };
            numbers.entry((table, day)).and_modify(|last| *last = number.max(*last)).or_insert(number);
        }
        Some(Entry {
            last: text(LAST_KEY).parse().unwrap_or(0),
            state: key_of_run(keys, STATE_KEY, run)?,
            place,
            numbers,
        })
    }
}

/// A file that contains rows of a run, and the state of the run to which these rows belong; `None` if the file does not
/// name the state.
type Holder<'a> = (&'a FilePlace, Option<&'a str>);

/// Finds superfluous rows in the files of a set by the metadata of these files. `files` must include all files of the
/// table of runs.
#[must_use]
pub(crate) fn copies(files: &[(FilePlace, Keys)]) -> Copies {
    let mut entries = HashMap::<MachineAndRun<'_>, Vec<Entry<'_>>>::new();
    let mut holders = BTreeMap::<(&str, &str, MachineAndRun<'_>), Vec<Holder<'_>>>::new();
    for (place, keys) in files {
        for run in runs_of(keys) {
            let of = (&place.machine[..], run);
            if place.table == RUNS {
                entries.entry(of).or_default().extend(Entry::of(place, keys, run));
            }
            let folder = (&place.table[..], &place.day[..], of);
            holders.entry(folder).or_default().push((place, key_of_run(keys, STATE_KEY, run)));
        }
    }
    entries.values_mut().for_each(|of_run| of_run.sort_by_key(|entry| (entry.last, entry.state)));
    let mut found = Copies::default();
    for ((table, day, of), holders) in holders {
        let entries = entries.get(&of).map_or(&[][..], |entries| entries);
        examine((table, day, of.1), &holders, entries, &mut found);
    }
    found
}

/// Examines `holders`, all files in one folder that contain rows of a run, and adds the superfluous and the torn ones
/// to `found`. `entries` are the states of the run, the newest last.
fn examine(
    (table, day, run): (&str, &str, &str),
    holders: &[Holder<'_>],
    entries: &[Entry<'_>],
    found: &mut Copies,
) {
    let states: BTreeSet<&str> = entries.iter().map(|entry| entry.state).collect();
    let Some(newest) = entries.last() else { return };
    let mut add = |file: &FilePlace, other: &FilePlace| {
        found.superfluous.push(Superfluous { file: file.clone(), run: run.to_owned(), other: other.clone() });
    };
    let (mut own, mut of_several, mut torn) = (Vec::new(), Vec::new(), None);
    for (place, state) in holders {
        match state {
            Some(state) if *state != newest.state && states.contains(state) => add(place, newest.place),
            Some(state) if *state != newest.state => torn = Some(*place),
            // An earlier version has not written the state.
            None if states.len() > 1 => torn = Some(*place),
            _ if place.name.starts_with(COMPACTED) => of_several.push(*place),
            _ => own.push((number_of(&place.name, run), *place)),
        }
    }
    let last = newest.numbers.get(&(table, day)).copied();
    let own_last = own.iter().filter(|(number, _)| last.is_none_or(|last| *number == Some(last))).max();
    // Of several files with the last rows, that of the run alone stays, or else the first one.
    let stays = own_last.map(|(_, place)| *place).or(of_several.first().copied());
    // A file with another name than the files of the run is a copy.
    let is_numbered =
        |number: &Option<u32>| number.is_some_and(|number| last.is_none_or(|last| number <= last));
    for (_, place) in own.iter().filter(|(number, _)| !is_numbered(number)) {
        stays.filter(|stays| stays != place).into_iter().for_each(|stays| add(place, stays));
    }
    for place in of_several {
        stays.filter(|stays| *stays != place).into_iter().for_each(|stays| add(place, stays));
    }
    if let Some(place) = torn {
        found.torn.push(format!(
            "{} and {} have rows of different states of run {run}",
            place.path(),
            newest.place.path()
        ));
    }
}

/// Returns the number in the name of a file that belongs to one run.
fn number_of(name: &str, run: &str) -> Option<u32> {
    name.strip_prefix(run)?.strip_prefix('-')?.strip_suffix(".parquet")?.parse().ok()
}

/// The instruction for users whose set has rows of a run in a state that the table of runs does not have.
pub(crate) const REMEDY_OF_TORN: &str = "a file of one set was copied over a file of another set; add the run again from \
    its traces ('tracemerge dataset add'), or copy the sets into a new directory, the set with the newest runs last";

impl Copies {
    /// Returns an error that names the first file with superfluous rows, or with rows of an unknown state.
    ///
    /// # Errors
    /// There is such a file: rows may occur twice, or in several states of a run.
    pub(crate) fn refuse(&self) -> io::Result<()> {
        if let Some(first) = self.superfluous.first() {
            return Err(io::Error::other(format!(
                "{first}, because sets that both had this run were put together: 'tracemerge dataset compact' leaves the \
                 newest state of each run"
            )));
        }
        self.refuse_torn()
    }

    /// Returns an error that names the first file with rows of an unknown state.
    ///
    /// # Errors
    /// There is such a file.
    pub(crate) fn refuse_torn(&self) -> io::Result<()> {
        self.torn.first().map_or(Ok(()), |first| Err(io::Error::other(format!("{first}: {REMEDY_OF_TORN}"))))
    }
}

/// Returns an error if the set lacks a file that its table of runs names, in one of the tables `wanted`. `files` are
/// the positions of all files; `read` are the files in these tables that could be read. A table that has no file at all
/// for a day is accepted: the user is assumed to have removed that day.
///
/// # Errors
/// A file is missing; the error names it.
fn refuse_missing(files: &[FilePlace], read: &[(FilePlace, Keys)], wanted: &[&str]) -> io::Result<()> {
    let days: BTreeSet<(&str, &str)> = files.iter().map(|place| (&place.table[..], &place.day[..])).collect();
    let mut compacted = BTreeMap::<(&str, &str, &str), Vec<Option<&Keys>>>::new();
    for place in files.iter().filter(|place| place.name.starts_with(COMPACTED)) {
        let keys = read.binary_search_by(|(of, _)| of.cmp(place)).ok().map(|found| &read[found].1);
        compacted.entry((&place.table, &place.day, &place.machine)).or_default().push(keys);
    }
    for (in_runs, keys) in read.iter().filter(|(place, _)| place.table == RUNS) {
        for run in runs_of(keys) {
            let numbers = Entry::of(in_runs, keys, run).map_or_else(HashMap::new, |entry| entry.numbers);
            for ((table, day), last) in numbers {
                let place = |number: u32| FilePlace {
                    table: table.to_owned(),
                    day: day.to_owned(),
                    machine: in_runs.machine.clone(),
                    name: format!("{run}-{number}.parquet"),
                };
                let missing = (0..=last).map(place).filter(|place| files.binary_search(place).is_err());
                // A file of several runs has the rows of one of them; one that cannot be read may have them.
                let of_several = compacted.get(&(table, day, &in_runs.machine[..])).into_iter().flatten();
                let has = |keys: &&Option<&Keys>| keys.is_none_or(|keys| runs_of(keys).any(|of| of == run));
                let mut missing = missing.skip(of_several.filter(has).count());
                let is_wanted = wanted.contains(&table) && days.contains(&(table, day));
                if let Some(place) = missing.next().filter(|_| is_wanted) {
                    return Err(io::Error::other(format!(
                        "the data set lacks {}, which {} names: copy the file into the set, or make a new set of the \
                         traces ('tracemerge dataset add')",
                        place.path(),
                        in_runs.path()
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Returns the positions of all files of the set at `path`, after a check that no row of the tables `wanted` is in two
/// files. Returns `None` if the directory is not a set. Files that cannot be read are not checked.
///
/// # Errors
/// The directory cannot be read, files of several sets have the same run, or a file is missing.
pub(crate) fn checked_files(path: &Path, wanted: &[&str]) -> io::Result<Option<Vec<FilePlace>>> {
    let mut look = 1;
    loop {
        let Some(files) = list_files(path)? else { return Ok(None) };
        let of_tables = files.iter().filter(|place| wanted.contains(&&place.table[..]));
        let read = of_tables.filter_map(|place| {
            let reader = open(File::open(place.path_in(path)).ok()?).ok()?;
            Some((place.clone(), keys(&reader)))
        });
        let read = read.collect::<Vec<_>>();
        match copies(&read).refuse().and_then(|()| refuse_missing(&files, &read, wanted)) {
            Ok(()) => return Ok(Some(files)),
            Err(error) if look == LOOKS => return Err(error),
            Err(_) => sleep(PAUSE),
        }
        look += 1;
    }
}
