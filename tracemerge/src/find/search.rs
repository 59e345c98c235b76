//! Searches for the files that may be traces of an executable, by their names only, without opening a file.
//!
//! Beside the executable, every file with a fitting name belongs to the application. In directories that several
//! applications share, the file may belong to another application of the same name. The file's `# run` line decides
//! about that, but it is read by the next stage; the search only marks such files.

use std::collections::HashSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use trace_format::name::{INFIX, parse_trace_file_suffix};

use crate::find::app::{App, directory_of, os_string, short};
use crate::os::environment::trace_directory;
use crate::os::processors::{METADATA_COST, map_on_all_processors};
use crate::os::sys::{FileId, file_id, is_of_another_user, owner};
use crate::ui::error::Error;

/// A file that may be a trace.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// The path of the file.
    pub path: PathBuf,
    /// The thread id in the file's name.
    pub tid: u64,
    /// The number in the file's name.
    pub number: u32,
    /// The identity of the file.
    pub id: FileId,
    /// The owner of the file.
    pub owner: u32,
    /// Whether the candidate is a regular file.
    pub is_regular: bool,
    /// Whether the file counts only if its `# run` line names the executable, because the file is in a shared
    /// directory.
    pub must_match: bool,
}

/// The result of a search, and the places that were searched.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// The files that were found, each once.
    pub candidates: Vec<Candidate>,
    /// The directories that were searched, in this order.
    pub places: Vec<PathBuf>,
    /// The directories that could not be searched.
    pub errors: Vec<Error>,
    /// The reasons why files that were found cannot be read, one for each file.
    pub unreadable: Vec<String>,
}

/// Searches for the trace files of `app` in all directories where the library may have put them, and in `more`, the
/// directories that runs of `app` have named.
#[must_use]
pub(crate) fn search(app: &App, more: &[PathBuf]) -> Search {
    let mut search = Search::default();
    let mut seen = HashSet::new();
    if app.is_directory() {
        if let Err(error) = look_in(&app.given, any_thread, false, &mut seen, &mut search.candidates) {
            search.errors.push(Error::io("look for traces in", &app.given, error));
        }
        search.places.push(app.given.clone());
        return search;
    }
    let real_whole = app.real.as_deref().and_then(Path::file_name).unwrap_or(&app.whole);
    let real_short = short(real_whole);
    let own_names = distinct([&*app.name, &*app.whole]);
    let real_names = distinct([&*real_short, real_whole]);
    let mut looked: Vec<(FileId, Vec<OsString>)> = Vec::new();
    let mut look = |place: PathBuf, names: &[&OsStr], must_match: bool| {
        let thread = |file_name: &OsStr| names.iter().find_map(|name| thread_of(file_name, name));
        // The same directory under another name contains no further files.
        let id = fs::metadata(&place).ok().map(|metadata| file_id(&place, &metadata));
        let is_known = |(known, had): &(FileId, Vec<OsString>)| {
            Some(known) == id.as_ref() && names.iter().all(|name| had.iter().any(|had| had == name))
        };
        if !looked.iter().any(is_known) {
            if let Err(error) = look_in(&place, thread, must_match, &mut seen, &mut search.candidates) {
                search.errors.push(Error::io("look for traces in", &place, error));
            }
            looked.extend(id.map(|id| (id, names.iter().map(|&name| name.to_owned()).collect())));
        }
        if !search.places.contains(&place) {
            search.places.push(place);
        }
    };
    look(directory_of(&app.found), &own_names, false);
    if let Some(real) = &app.real {
        look(directory_of(real), &real_names, false);
    }
    let names = distinct(real_names.iter().chain(&own_names).copied());
    for place in shared_places().chain(more.iter().cloned()) {
        look(place, &names, app.real.is_some());
    }
    search
}

/// Returns the names without repetitions, in order.
fn distinct<'a>(names: impl IntoIterator<Item = &'a OsStr>) -> Vec<&'a OsStr> {
    let mut distinct = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

/// Returns the directories that several applications may write to.
fn shared_places() -> impl Iterator<Item = PathBuf> {
    trace_directory().into_iter().chain([PathBuf::from("."), env::temp_dir()])
}

fn look_in(
    place: &Path,
    thread: impl Fn(&OsStr) -> Option<(u64, u32)>,
    must_match: bool,
    seen: &mut HashSet<FileId>,
    candidates: &mut Vec<Candidate>,
) -> io::Result<()> {
    let entries = match fs::read_dir(place) {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(()),
        entries => entries?,
    };
    let mut named = Vec::new();
    for entry in entries {
        let file_name = entry?.file_name();
        if let Some((tid, number)) = thread(&file_name) {
            named.push((place.join(&file_name), tid, number));
        }
    }
    // A broken link, or a file that has just been deleted, is not a candidate; neither is a link that another user
    // has made.
    let asked = map_on_all_processors(
        &named,
        |_| METADATA_COST,
        |(path, ..)| {
            let found = fs::symlink_metadata(path).ok()?;
            let metadata = if found.is_symlink() {
                (!is_of_another_user(&found)).then(|| fs::metadata(path).ok()).flatten()?
            } else {
                found
            };
            Some((file_id(path, &metadata), owner(&metadata), metadata.is_file()))
        },
    );
    for ((path, tid, number), is) in named.into_iter().zip(asked) {
        let Some((id, owner, is_regular)) = is else { continue };
        if seen.insert(id.clone()) {
            candidates.push(Candidate { path, tid, number, id, owner, is_regular, must_match });
        }
    }
    Ok(())
}

fn thread_of(file_name: &OsStr, name: &OsStr) -> Option<(u64, u32)> {
    parse_trace_file_suffix(file_name.as_encoded_bytes().strip_prefix(name.as_encoded_bytes())?)
}

/// Returns the thread id and the file number from the name of a trace file of any executable.
fn any_thread(file_name: &OsStr) -> Option<(u64, u32)> {
    parse_trace_file_suffix(split(file_name)?.1)
}

/// Returns the name of the executable from the name of one of its trace files; `None` if the file is no trace file.
pub(super) fn app_of_trace(file_name: &OsStr) -> Option<OsString> {
    let (app, suffix) = split(file_name)?;
    parse_trace_file_suffix(suffix)?;
    Some(os_string(app.to_vec()))
}

/// Splits the name of a trace file into the name of the executable and the rest.
fn split(file_name: &OsStr) -> Option<(&[u8], &[u8])> {
    let name = file_name.as_encoded_bytes();
    let at = memchr::memmem::rfind(name, INFIX.as_bytes()).filter(|&at| at > 0)?;
    Some(name.split_at(at))
}
