//! The files of a data set: those of one run, and those that have the rows of several runs.

use std::collections::{BTreeSet, HashMap};
use std::io;

use crate::file::parquet::COMPACTED;
use crate::output::set::{FilePlace, Locked};
use crate::view::export::parquet::schema::{FILES_KEY, LAST_KEY, RUN_KEY, STATE_KEY};

/// Returns the places of the files of several runs in the folder of a file.
///
/// # Errors
/// The folder cannot be read.
pub(super) fn compacted(folder: &FilePlace, locked: &Locked<'_>) -> io::Result<Vec<FilePlace>> {
    let names = locked.names(folder)?.into_iter().filter(|name| name.starts_with(COMPACTED));
    Ok(names.map(|name| FilePlace { name, ..folder.clone() }).collect())
}

/// Adds the place of a file to an error.
pub(super) fn named(place: &FilePlace, error: &io::Error) -> io::Error {
    let FilePlace { table, day, machine, name } = place;
    io::Error::new(error.kind(), format!("{table}/day={day}/machine={machine}/{name}: {error}"))
}

/// Returns the names of the runs whose rows a file has.
pub(super) fn runs_of(keys: &HashMap<String, String>) -> impl Iterator<Item = &str> {
    keys.get(RUN_KEY).map_or("", |runs| &runs[..]).split(' ').filter(|run| !run.is_empty())
}

/// Returns whether the keys of a file are those of several runs.
pub(super) fn is_of_several(keys: &HashMap<String, String>) -> bool {
    !keys.contains_key(STATE_KEY)
}

/// Returns a key of one of several runs.
pub(super) fn key_of(key: &str, run: &str) -> String {
    format!("{key}.{run}")
}

/// Returns the metadata of a file with the rows of `runs`, from those of the files that have them now.
pub(super) fn metadata_of(runs: &[&str], from: &[&HashMap<String, String>]) -> Vec<(String, String)> {
    let runs: BTreeSet<&str> = runs.iter().copied().collect();
    let mut all = vec![(RUN_KEY.to_owned(), runs.iter().copied().collect::<Vec<_>>().join(" "))];
    for keys in from {
        for run in runs_of(keys).filter(|run| runs.contains(run)) {
            for key in [STATE_KEY, LAST_KEY, FILES_KEY] {
                let of_run = key_of(key, run);
                let value = if is_of_several(keys) { keys.get(&of_run) } else { keys.get(key) };
                all.extend(value.map(|value| (of_run, value.clone())));
            }
        }
    }
    all
}
