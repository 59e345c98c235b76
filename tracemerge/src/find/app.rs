//! The executable or directory that the user named, and the file names that are derived from it.

use std::borrow::Cow;
use std::env::consts::EXE_SUFFIX;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use trace_format::manifest::Manifest;
use trace_format::meta::Cause;
use trace_format::name::{MERGED_SUFFIX, stem};
use trace_format::wall::Wall;

#[cfg(feature = "parquet")]
use crate::find::data_set;
use crate::os::sys::real_path;
use crate::ui::error::Error;
use crate::ui::messages::shown;

/// The executable whose traces are wanted, which need not exist; or a directory, of which all traces are wanted.
#[derive(Clone, Debug)]
pub(crate) struct App {
    /// The path as the user wrote it, which names the application in messages and gives the merged file its name.
    pub given: PathBuf,
    /// The path of the executable, which differs from `given` if `PATH` was searched.
    pub(super) found: PathBuf,
    /// The file name of the executable.
    pub(super) whole: OsString,
    /// The prefix of the names of the executable's trace files.
    pub(super) name: OsString,
    /// The real path of the executable or directory, if it exists. The library names its trace files after this path.
    pub(super) real: Option<PathBuf>,
    directory: bool,
    data_set: bool,
    /// The process that this command has started from the executable and that has ended, if there is one.
    pub(super) ended: Option<EndedProcess>,
}

/// A process that has ended, with the facts that its parent knows about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedProcess {
    /// The process id.
    pub pid: u32,
    /// The earliest time at which the process can have begun: a run with the same pid that began before belongs to
    /// another process.
    pub since: Wall,
    /// The cause of the process's end.
    pub cause: Cause,
}

impl App {
    /// Selects the executable at `given`.
    ///
    /// # Errors
    /// If the path names no file.
    pub(crate) fn new(given: PathBuf) -> Result<App, Error> {
        let given = with_suffix(given);
        App::found_at(given.clone(), given)
    }

    /// Selects the executable or the directory at `given`.
    ///
    /// # Errors
    /// If the path names no file, or if the directory cannot be found.
    pub(crate) fn or_directory(given: PathBuf) -> Result<App, Error> {
        if !given.is_dir() {
            return App::new(given);
        }
        let real = real_path(&given).map_err(|error| Error::io("find", &given, error))?;
        let name = real.file_name().unwrap_or_default().to_owned();
        #[cfg(feature = "parquet")]
        let data_set = data_set::is_set(&given);
        #[cfg(not(feature = "parquet"))]
        let data_set = false;
        let (found, whole, real) = (given.clone(), name.clone(), Some(real));
        Ok(App { found, given, whole, name, real, directory: true, data_set, ended: None })
    }

    /// Returns whether the user has named a directory, not an executable.
    #[must_use]
    pub(crate) fn is_directory(&self) -> bool {
        self.directory
    }

    /// Returns whether the user has named a directory that is a data set.
    #[must_use]
    pub(crate) fn is_data_set(&self) -> bool {
        self.data_set
    }

    /// Selects the executable that the user called `given` and that was found at `found`.
    ///
    /// # Errors
    /// If the path names no file, or if it names a directory.
    pub(crate) fn found_at(given: PathBuf, found: PathBuf) -> Result<App, Error> {
        if found.is_dir() {
            return Err(Error::plain(format!("{} is a directory, not an executable", shown(&given))));
        }
        let Some(name) = found.file_name().map(OsStr::to_owned) else {
            return Err(Error::plain(format!("{} does not name an executable", shown(&given))));
        };
        let real = real_path(&found).ok();
        let name = real.as_deref().and_then(|real| as_written(real, &name)).unwrap_or(name);
        Ok(App {
            given,
            found,
            name: short(&name),
            whole: name,
            real,
            directory: false,
            data_set: false,
            ended: None,
        })
    }

    /// Returns this application with the information that this command has started `process` from the executable, and
    /// that the process has ended.
    #[must_use]
    pub(crate) fn with_ended_process(self, process: EndedProcess) -> App {
        App { ended: Some(process), ..self }
    }

    /// Returns the prefix of the names of the executable's trace files: the executable's file name, shortened if it is
    /// very long.
    #[must_use]
    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    /// Returns the default path of the merged file, which applies unless the user names another path.
    #[must_use]
    pub(crate) fn merged_path(&self) -> PathBuf {
        // A data set has no other files.
        if self.data_set {
            let mut name = self.name.clone();
            name.push(MERGED_SUFFIX);
            return self.given.with_file_name(name);
        }
        if self.directory {
            return self.given.join(MERGED_SUFFIX.trim_start_matches('.'));
        }
        let mut name = self.given.file_name().map_or_else(|| self.name.clone(), short);
        name.push(MERGED_SUFFIX);
        self.given.with_file_name(name)
    }

    /// Returns the executable's path as the library writes it in `# run`; `None` if it does not exist.
    #[must_use]
    pub(crate) fn exe(&self) -> Option<&[u8]> {
        self.real.as_deref().map(|real| real.as_os_str().as_encoded_bytes())
    }

    /// Returns the path of the executable that its runs record: the real path or, if there is no such file, the real
    /// path of the directory with the file name.
    #[must_use]
    pub(crate) fn named_exe(&self) -> Option<PathBuf> {
        let there = || Some(real_path(&directory_of(&self.found)).ok()?.join(&self.whole));
        self.real.clone().or_else(there)
    }

    /// Returns whether a run, given by its manifest, belongs to this application: it is a run of the executable or, if
    /// the user has named a directory, it writes its traces to that directory.
    #[must_use]
    pub(crate) fn is_of(&self, manifest: &Manifest) -> bool {
        if self.directory {
            return self.exe() == manifest.directories.first().map(|first| &first.path[..]);
        }
        let beside = || real_path(&directory_of(&self.given)).ok();
        self.exe().is_some_and(|exe| manifest.run.exe == exe)
            || (manifest.name == self.name.as_encoded_bytes()
                && beside().is_some_and(|here| {
                    manifest.directories.iter().any(|place| here.as_os_str().as_encoded_bytes() == place.path)
                }))
    }

    /// Returns the real path of the executable, if it exists.
    #[must_use]
    pub(crate) fn real_path(&self) -> Option<&Path> {
        self.real.as_deref()
    }
}

/// Returns the name of a merged file without the suffix of merged files.
pub(crate) fn without_merged_suffix(merged: &Path) -> OsString {
    let name = merged.file_name().unwrap_or_default();
    match name.as_encoded_bytes().strip_suffix(MERGED_SUFFIX.as_bytes()) {
        Some(app) => os_string(app.to_vec()),
        None => name.to_owned(),
    }
}

/// Returns the prefix of the names of the trace files that the library makes for an executable called `name`.
pub(super) fn short(name: &OsStr) -> OsString {
    match stem(name.as_encoded_bytes()) {
        Cow::Borrowed(_) => name.to_owned(),
        Cow::Owned(short) => os_string(short),
    }
}

#[cfg(unix)]
pub(super) fn os_string(bytes: Vec<u8>) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

#[cfg(not(unix))]
pub(super) fn os_string(bytes: Vec<u8>) -> OsString {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

/// Adds the file suffix of executables (`.exe` on Windows) to a path if the file exists only with this suffix.
fn with_suffix(given: PathBuf) -> PathBuf {
    let mut whole = given.clone().into_os_string();
    whole.push(EXE_SUFFIX);
    let whole = PathBuf::from(whole);
    if !EXE_SUFFIX.is_empty() && !given.exists() && whole.exists() { whole } else { given }
}

/// Returns the file name in the path `real` if it differs from `name` at most in upper and lower case, on Windows,
/// where such names denote the same file; `None` on other systems.
fn as_written(real: &Path, name: &OsStr) -> Option<OsString> {
    let written = real.file_name().filter(|_| cfg!(windows))?;
    written.eq_ignore_ascii_case(name).then(|| written.to_owned())
}

/// Returns the directory that a file is in.
pub(super) fn directory_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_merged_file_is_next_to_the_executable() {
        let merged = |given: &str| App::new(PathBuf::from(given)).unwrap().merged_path();
        assert_eq!(merged("./app"), Path::new("./app.trace.merge"));
        assert_eq!(merged("app.exe"), Path::new("app.exe.trace.merge"));
        assert_eq!(merged("/srv/my app"), Path::new("/srv/my app.trace.merge"));
    }

    #[test]
    fn paths_without_a_file_name_are_rejected() {
        for given in ["", "/", "..", "."] {
            App::new(PathBuf::from(given)).unwrap_err();
        }
    }
}
