//! The files of a data set: those of one run, and those that have the rows of several runs.

use std::collections::BTreeSet;
use std::io;

use crate::file::parquet::{
    COMPACTED, FILES_KEY, Keys, LAST_KEY, RUN_KEY, STATE_KEY, in_several, key_of_run, runs_of,
};
use crate::find::set_files::FilePlace;
use crate::output::set::Locked;

/// Returns the paths, in the data set, of the files that have rows of several runs and are in the folder of the file
/// `folder`.
///
/// # Errors
/// The folder cannot be read.
pub(super) fn compacted(folder: &FilePlace, locked: &Locked<'_>) -> io::Result<Vec<FilePlace>> {
    let names = locked.names(folder)?.into_iter().filter(|name| name.starts_with(COMPACTED));
    Ok(names.map(|name| FilePlace { name, ..folder.clone() }).collect())
}

/// Returns `error` with the path of the file at `place` in its text.
pub(super) fn named(place: &FilePlace, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", place.path()))
}

/// Returns the metadata for a new file with the rows of `runs`, taken from `from`: the metadata of the files that
/// contain these rows now.
pub(super) fn metadata_of(runs: &[&str], from: &[&Keys]) -> Vec<(String, String)> {
    let runs: BTreeSet<&str> = runs.iter().copied().collect();
    let mut all = vec![(RUN_KEY.to_owned(), runs.iter().copied().collect::<Vec<_>>().join(" "))];
    for keys in from {
        for run in runs_of(keys).filter(|run| runs.contains(run)) {
            for key in [STATE_KEY, LAST_KEY, FILES_KEY] {
                all.extend(key_of_run(keys, key, run).map(|value| (in_several(key, run), value.to_owned())));
            }
        }
    }
    all
}
