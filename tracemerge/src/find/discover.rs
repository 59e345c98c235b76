//! Stage *discover*: finds the files that may be traces of an executable. This stage looks at names only, and
//! opens nothing.
//!
//! Beside the executable, every file with the right name is the application's. In places that applications
//! share, the name may be another's; the file's `# run` line tells, which the next stage reads, so here such
//! files are only marked.

use std::borrow::Cow;
use std::collections::HashSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use trace_format::manifest::Manifest;
use trace_format::name::{INFIX, MERGED_SUFFIX, parse_trace_file_suffix, stem};

use crate::os::environment::trace_directory;
use crate::os::processors::{ASKING, map_on_all_processors};
use crate::os::sys::{FileId, file_id, owner};
use crate::ui::error::Error;
use crate::ui::messages::shown;

/// The executable whose traces are wanted, which need not exist; or a directory, all traces in which are
/// wanted.
#[derive(Clone, Debug)]
pub struct App {
    /// The path as the user wrote it, from which messages and the merged file have their name.
    pub given: PathBuf,
    /// The path where the executable is, which differs from `given` where `PATH` was searched.
    found: PathBuf,
    /// The file name of the executable.
    whole: OsString,
    /// The beginning of the names of the executable's traces.
    name: OsString,
    /// The real path, where the executable exists. The library names its files after that.
    real: Option<PathBuf>,
    directory: bool,
}

impl App {
    /// Means the executable at `given`.
    ///
    /// # Errors
    /// The path names no file.
    pub fn new(given: PathBuf) -> Result<App, Error> {
        App::found_at(given.clone(), given)
    }

    /// Means the executable or the directory at `given`.
    ///
    /// # Errors
    /// The path names no file, or the directory cannot be found.
    pub fn or_directory(given: PathBuf) -> Result<App, Error> {
        if !given.is_dir() {
            return App::new(given);
        }
        let real = fs::canonicalize(&given).map_err(|error| Error::io("find", &given, error))?;
        let name = real.file_name().unwrap_or_default().to_owned();
        Ok(App { found: given.clone(), given, whole: name.clone(), name, real: Some(real), directory: true })
    }

    /// Returns whether this is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.directory
    }

    /// Means the executable that the user called `given` and that was found at `found`.
    ///
    /// # Errors
    /// The path names no file.
    pub fn found_at(given: PathBuf, found: PathBuf) -> Result<App, Error> {
        if found.is_dir() {
            return Err(Error::plain(format!("{} is a directory, not an executable", shown(&given))));
        }
        let Some(name) = found.file_name().map(OsStr::to_owned) else {
            return Err(Error::plain(format!("{} does not name an executable", shown(&given))));
        };
        let real = fs::canonicalize(&found).ok();
        Ok(App { given, found, name: short(&name), whole: name, real, directory: false })
    }

    /// The beginning of the names of the executable's traces: its file name, shortened where that is very
    /// long.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// The path of the merged file unless the user names another.
    #[must_use]
    pub fn merged_path(&self) -> PathBuf {
        if self.directory {
            return self.given.join(MERGED_SUFFIX.trim_start_matches('.'));
        }
        let mut name = self.given.file_name().map_or_else(|| self.name.clone(), short);
        name.push(MERGED_SUFFIX);
        self.given.with_file_name(name)
    }

    /// The executable's path as the library writes it in `# run`; `None` where it does not exist.
    #[must_use]
    pub fn exe(&self) -> Option<&[u8]> {
        let bytes = self.real.as_deref()?.as_os_str().as_encoded_bytes();
        // Windows marks a canonical path by this prefix.
        Some(if cfg!(windows) { bytes.strip_prefix(br"\\?\").unwrap_or(bytes) } else { bytes })
    }

    /// Returns whether a run is one of this executable, or has its traces in this directory.
    #[must_use]
    pub fn is_of(&self, manifest: &Manifest) -> bool {
        if self.directory {
            return self.exe() == manifest.directories.first().map(Vec::as_slice);
        }
        let beside = || directory_of(&self.given).canonicalize().ok();
        self.exe().is_some_and(|exe| manifest.run.exe == exe)
            || (manifest.name == self.name.as_encoded_bytes()
                && beside().is_some_and(|here| {
                    manifest.directories.iter().any(|place| here.as_os_str().as_encoded_bytes() == place)
                }))
    }

    /// The real path of the executable, where it exists.
    #[must_use]
    pub fn real_path(&self) -> Option<&Path> {
        self.real.as_deref()
    }
}

/// A file that may be a trace.
#[derive(Clone, Debug)]
pub struct Candidate {
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
    /// Whether it is a regular file.
    pub is_regular: bool,
    /// Whether the file's `# run` line must name the executable, because the file is in a place that is
    /// shared.
    pub must_match: bool,
}

/// The result of a search, and the places that were searched.
#[derive(Debug)]
pub struct Search {
    /// The files, each once.
    pub candidates: Vec<Candidate>,
    /// The directories, in the order of the search.
    pub places: Vec<PathBuf>,
    /// The directories that could not be searched.
    pub errors: Vec<Error>,
}

/// Looks for the trace files of `app` in all the places where the library may have put them, and in `more`,
/// which its runs have named.
#[must_use]
pub fn search(app: &App, more: &[PathBuf]) -> Search {
    let mut search = Search { candidates: Vec::new(), places: Vec::new(), errors: Vec::new() };
    let mut seen = HashSet::new();
    if app.directory {
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
        // The same place by another name has nothing that was not found there.
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

/// Returns the beginning that the library gives the names of traces of an executable called `name`.
fn short(name: &OsStr) -> OsString {
    match stem(name.as_encoded_bytes()) {
        Cow::Borrowed(_) => name.to_owned(),
        Cow::Owned(short) => os_string(short),
    }
}

#[cfg(unix)]
fn os_string(bytes: Vec<u8>) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

#[cfg(not(unix))]
fn os_string(bytes: Vec<u8>) -> OsString {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

/// Returns each name once.
fn distinct<'a>(names: impl IntoIterator<Item = &'a OsStr>) -> Vec<&'a OsStr> {
    let mut distinct = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

fn directory_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The places that several applications may write to.
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
    // A link to nowhere, or a file that has just gone, is no candidate.
    let asked = map_on_all_processors(
        &named,
        |_| ASKING,
        |(path, ..)| {
            let metadata = fs::metadata(path).ok()?;
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

/// The thread and the number in the name of a trace of whatever executable.
fn any_thread(file_name: &OsStr) -> Option<(u64, u32)> {
    let name = file_name.as_encoded_bytes();
    let at = memchr::memmem::rfind(name, INFIX.as_bytes()).filter(|&at| at > 0)?;
    parse_trace_file_suffix(&name[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_merged_file_stands_beside_the_executable_as_given() {
        let merged = |given: &str| App::new(PathBuf::from(given)).unwrap().merged_path();
        assert_eq!(merged("./app"), Path::new("./app.trace.merge"));
        assert_eq!(merged("app.exe"), Path::new("app.exe.trace.merge"));
        assert_eq!(merged("/srv/my app"), Path::new("/srv/my app.trace.merge"));
    }

    #[test]
    fn what_names_no_file_is_refused() {
        for given in ["", "/", "..", "."] {
            App::new(PathBuf::from(given)).unwrap_err();
        }
    }
}
