//! The targets to which merged lines are written.
//!
//! A file appears under its name only when it is whole: it is written in its place without any name, so that
//! a kill leaves nothing behind, and then gets its name. Where there are no files without names, it is
//! written beside its place under a name that begins with a dot, and is then renamed. A pipe or a device is
//! written to directly, and so cannot be begun anew. A directory is made as a file without unnamed files is:
//! beside its place, and then renamed.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, IoSlice, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::{NamedTempFile, TempDir};

use crate::find::app::App;
use crate::os::sys::{
    FileId, file_id, hold_lock, is_locked, is_null_device, is_own, link_unnamed, patiently, unnamed_file,
};
use crate::os::unfinished::unfinished;
use crate::output::folder::{Folder, MARK, is_whole_and_unchanged};
use crate::output::standard_output::{StandardOutput, cannot_print};
use crate::ui::error::Error;
use crate::ui::messages::shown;

/// The number of bytes that are gathered before they are written to a file.
const BUFFER: usize = 1 << 20;
/// The number of bytes that are gathered before they are written to a pipe: as many as a pipe holds, so that
/// the next ones are made while its reader works on these.
const PIPE_BUFFER: usize = 1 << 16;
/// The beginning of the name of a file that is not finished, or does not stand in the place of an older one
/// yet.
const UNFINISHED_PREFIX: &str = ".tracemerge-";
/// The offset of the byte of an unfinished file on which its writer holds a lock. Where there is no lock, the
/// writer is dead.
const WRITER_BYTE: u32 = 0;
/// The time for which nobody must have written to an unfinished file before it is taken for one that a kill
/// has left. It counts where there are no locks.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The place where the output goes, checked as far as that can be done beforehand.
#[derive(Debug)]
pub enum Target {
    /// Standard output.
    Stdout,
    /// A pipe or a device.
    Direct(PathBuf),
    /// The null device.
    Null(PathBuf),
    /// A regular file, which may exist or not.
    File {
        /// The path as the user wrote it.
        given: PathBuf,
        /// The path of the file itself, behind all symbolic links.
        real: PathBuf,
    },
    /// A directory, which may exist if it was written by an earlier merge.
    Directory {
        /// The path as the user wrote it.
        given: PathBuf,
        /// The path of the directory itself, behind all symbolic links.
        real: PathBuf,
    },
}

impl Target {
    /// Makes a target that is a directory, of the `option` behind `-o`, or without one of `default`; `what` names
    /// what is in it. The output's bytes are the parts of its files ([`crate::output::folder::put_part`]).
    ///
    /// # Errors
    /// The target is standard output, a file, or a directory with anything that no earlier merge has written.
    pub fn directory(option: Option<&OsStr>, default: &Path, what: &str) -> Result<Target, Error> {
        if option == Some(OsStr::new("-")) {
            return Err(Error::plain(format!(
                "{what} is a directory and cannot go to standard output; name a directory with -o DIR"
            )));
        }
        let given = option.map_or_else(|| default.to_owned(), PathBuf::from);
        let refuse = |why: &str| Err(Error::plain(format!("cannot write to {}: {why}", shown(&given))));
        let Ok(metadata) = fs::metadata(&given) else {
            return Ok(Target::Directory { real: given.clone(), given });
        };
        if !metadata.is_dir() {
            return refuse(&format!("it is no directory, and {what} is one; name another with -o DIR"));
        }
        if !is_whole_and_unchanged(&given) {
            return refuse(
                "it is a directory with files that no merge has written; name another with -o DIR, or delete it",
            );
        }
        let real = fs::canonicalize(&given).unwrap_or_else(|_| given.clone());
        Ok(Target::Directory { given, real })
    }

    /// Makes a target of the `option` behind `-o`, or without one of `default`. Refuses to write over one of
    /// `inputs` or over an application.
    ///
    /// # Errors
    /// The target is a directory, an input or an application.
    pub fn new(
        option: Option<&OsStr>,
        default: &Path,
        apps: &[App],
        inputs: &HashSet<FileId>,
    ) -> Result<Target, Error> {
        if option == Some(OsStr::new("-")) {
            return Ok(Target::Stdout);
        }
        let given = option.map_or_else(|| default.to_owned(), PathBuf::from);
        if is_null_device(&given) {
            return Ok(Target::Null(given));
        }
        let Ok(metadata) = fs::metadata(&given) else {
            return Ok(Target::File { real: given.clone(), given });
        };
        let refuse = |what: &str| Err(Error::plain(format!("cannot write to {}: {what}", shown(&given))));
        if metadata.is_dir() {
            return refuse("it is a directory; name a file with -o FILE");
        }
        if !metadata.is_file() {
            return Ok(Target::Direct(given));
        }
        let id = file_id(&given, &metadata);
        if inputs.contains(&id) {
            return refuse("it is one of the traces to be merged");
        }
        let app_id =
            |app: &App| app.real_path().and_then(|path| Some(file_id(path, &fs::metadata(path).ok()?)));
        if apps.iter().any(|app| app_id(app).as_ref() == Some(&id)) {
            return refuse("it is the application itself");
        }
        let real = fs::canonicalize(&given).unwrap_or_else(|_| given.clone());
        Ok(Target::File { given, real })
    }

    /// Returns whether output can be thrown away and begun anew. This is so for the null device, too, whose
    /// output nobody has seen.
    #[must_use]
    pub fn can_restart(&self) -> bool {
        matches!(self, Target::File { .. } | Target::Directory { .. } | Target::Null(_))
    }

    /// Returns the name of the target for messages.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Target::Stdout => "standard output".to_owned(),
            Target::Direct(path)
            | Target::Null(path)
            | Target::File { given: path, .. }
            | Target::Directory { given: path, .. } => shown(path),
        }
    }

    /// Returns an error which says that this target cannot be written.
    #[must_use]
    pub fn error(&self, error: io::Error) -> Error {
        let hint = "-o FILE writes elsewhere";
        match self {
            Target::Stdout => cannot_print(error),
            Target::Direct(path) | Target::Null(path) | Target::File { given: path, .. } => {
                Error::io("write", path, error).hint(hint)
            }
            Target::Directory { given, .. } => {
                Error::io("write", given, error).hint("-o DIR writes elsewhere")
            }
        }
    }

    /// Begins the output.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn begin(&self) -> Result<Output, Error> {
        let raw = match self {
            Target::Stdout => OpenTarget::Stdout(StandardOutput::open().map_err(|e| self.error(e))?),
            Target::Direct(path) | Target::Null(path) => {
                OpenTarget::Direct(OpenOptions::new().write(true).open(path).map_err(|e| self.error(e))?)
            }
            Target::File { real, .. } => {
                let directory = directory_of(real);
                if let Some(file) = unnamed_file(directory) {
                    let _ = hold_lock(&file, WRITER_BYTE);
                    OpenTarget::Unnamed(file)
                } else {
                    let temporary = temporary_file(directory).map_err(|e| self.error(e))?;
                    *unfinished() = Some(temporary.path().to_owned());
                    OpenTarget::Temporary(temporary)
                }
            }
            Target::Directory { real, .. } => {
                let (directory, mark) = temporary_directory(directory_of(real)).map_err(|e| self.error(e))?;
                *unfinished() = Some(directory.path().to_owned());
                OpenTarget::Folder(Box::new(Folder::new(directory, mark)))
            }
        };
        let buffer = if self.can_restart() { BUFFER } else { PIPE_BUFFER };
        Ok(Output(BufWriter::with_capacity(buffer, raw)))
    }

    /// Finishes the output. A file gets its name only now.
    ///
    /// # Errors
    /// The last bytes cannot be written, or the file cannot be renamed.
    pub fn finish(&self, output: Output) -> io::Result<()> {
        let mut raw = output.0.into_inner().map_err(io::IntoInnerError::into_error)?;
        raw.flush()?;
        let (Target::File { real, .. } | Target::Directory { real, .. }) = self else { return Ok(()) };
        {
            // A signal that ends the process waits for this lock.
            let mut unfinished = unfinished();
            match raw {
                OpenTarget::Temporary(file) => {
                    *unfinished = None;
                    persist(file, real)?;
                }
                OpenTarget::Unnamed(mut file) => give_name(&mut file, real)?,
                OpenTarget::Folder(folder) => {
                    let finished = folder.finish()?;
                    *unfinished = None;
                    place_directory(finished, real)?;
                }
                OpenTarget::Stdout(_) | OpenTarget::Direct(_) => {}
            }
        }
        // Merges that were killed may have left files. One that cannot be deleted harms nobody.
        abandoned(real).into_iter().for_each(|left| drop(remove_abandoned(&left)));
        Ok(())
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn temporary_names() -> tempfile::Builder<'static, 'static> {
    let mut names = tempfile::Builder::new();
    names.prefix(UNFINISHED_PREFIX);
    names
}

/// Makes a new unfinished file in `directory`, on which this process holds the writer's lock.
fn temporary_file(directory: &Path) -> io::Result<NamedTempFile> {
    loop {
        let file = temporary_names().tempfile_in(directory).map_err(bare)?;
        let _ = hold_lock(file.as_file(), WRITER_BYTE);
        // Before the file was locked, another merge may have taken it for abandoned and deleted it.
        if file.path().exists() {
            return Ok(file);
        }
    }
}

/// Makes a new unfinished directory in `directory`, and in it a mark on which this process holds the writer's
/// lock.
fn temporary_directory(directory: &Path) -> io::Result<(TempDir, File)> {
    #[cfg_attr(not(unix), allow(unused_mut, reason = "rights are those of the directory around it"))]
    let mut names = temporary_names();
    #[cfg(unix)]
    names.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    loop {
        let made = names.tempdir_in(directory).map_err(bare)?;
        let path = made.path().join(MARK);
        let mark = File::create_new(&path)?;
        let _ = hold_lock(&mark, WRITER_BYTE);
        // Before the mark was locked, another merge may have taken it for abandoned.
        if path.exists() {
            return Ok((made, mark));
        }
    }
}

/// Gives its name to a whole directory. The system knows no way to replace a directory by another one at once,
/// so an older one gets a temporary name first; a kill between the two leaves both under temporary names.
fn place_directory((whole, mark): (TempDir, File), real: &Path) -> io::Result<()> {
    // Windows renames no directory in which a file is open.
    let _mark = (!cfg!(windows)).then_some(mark);
    let mut aside = None;
    if fs::symlink_metadata(real).is_ok() {
        if !is_whole_and_unchanged(real) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "something else has this name by now"));
        }
        let beside = temporary_names().make_in(directory_of(real), |path| fs::rename(real, path))?;
        aside = Some(beside.into_temp_path().keep().map_err(|error| error.error)?);
    }
    if let Err(error) = fs::rename(whole.path(), real) {
        if let Some(aside) = aside {
            fs::rename(aside, real)?;
        }
        return Err(error);
    }
    // It has another name now, and nothing is to be deleted.
    let _ = whole.keep();
    // What cannot be deleted harms nobody, and the next merge tries again.
    drop(aside.map(fs::remove_dir_all));
    Ok(())
}

/// Gives its name to a whole file that has none. Where there is an older file of that name, the system knows
/// no way but a name beside it and a rename; a kill between the two leaves a whole file under the name beside
/// it.
fn give_name(file: &mut File, real: &Path) -> io::Result<()> {
    match link_unnamed(file, real) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let beside = temporary_names().make_in(directory_of(real), |path| link_unnamed(file, path));
            if let Ok(beside) = beside {
                return beside.persist(real).map(drop).map_err(|error| error.error);
            }
        }
        Err(_) => {}
    }
    // This file system can give no name to a file without one after all.
    let mut copy = temporary_file(directory_of(real))?;
    file.seek(SeekFrom::Start(0))?;
    io::copy(file, copy.as_file_mut())?;
    persist(copy, real)
}

/// Gives the file the name `real`, which a file may have that somebody else has open for a moment.
fn persist(file: NamedTempFile, real: &Path) -> io::Result<()> {
    let mut file = Some(file);
    patiently(|| match file.take().map(|file| file.persist(real)) {
        None | Some(Ok(_)) => Ok(()),
        Some(Err(refused)) => {
            file = Some(refused.file);
            // Windows denies access to the name of a file that somebody has open; that is worth another try.
            let (denied, sharing_violation) = (5, 32);
            let is_open = cfg!(windows) && refused.error.raw_os_error() == Some(denied);
            Err(if is_open { io::Error::from_raw_os_error(sharing_violation) } else { refused.error })
        }
    })
}

/// Deletes what [`abandoned`] has returned.
///
/// # Errors
/// It cannot be deleted.
pub fn remove_abandoned(left: &Path) -> io::Result<()> {
    if fs::symlink_metadata(left)?.is_dir() { fs::remove_dir_all(left) } else { fs::remove_file(left) }
}

/// Returns the files and directories beside `output` that merges of this user have not finished because they
/// were killed.
#[must_use]
pub fn abandoned(output: &Path) -> Vec<PathBuf> {
    let is_abandoned = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let is_named_so =
            name.to_str().and_then(|name| name.strip_prefix(UNFINISHED_PREFIX)).is_some_and(|random| {
                random.len() == 6 && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
            });
        // A link is judged by itself, and not by the file that it leads to.
        is_named_so
            && entry.metadata().is_ok_and(|found| {
                let path = entry.path();
                is_own(&found)
                    && (found.is_file() && has_no_writer(&path, &found)
                        || found.is_dir() && is_abandoned_directory(&path))
            })
    };
    let entries = fs::read_dir(directory_of(output)).into_iter().flatten().flatten();
    entries.filter(is_abandoned).map(|entry| entry.path()).collect()
}

/// Returns whether a directory has a mark on which nobody holds the writer's lock.
fn is_abandoned_directory(path: &Path) -> bool {
    let mark = path.join(MARK);
    fs::symlink_metadata(&mark).is_ok_and(|found| found.is_file() && has_no_writer(&mark, &found))
}

fn has_no_writer(path: &Path, found: &Metadata) -> bool {
    if cfg!(unix) {
        return File::open(path).is_ok_and(|file| !is_locked(&file, WRITER_BYTE));
    }
    let age = found.modified().ok().and_then(|then| then.elapsed().ok());
    age.is_some_and(|age| age > ABANDONED_AFTER)
}

/// Returns an error without the temporary name that `tempfile` adds to it, because the user does not know
/// that name.
fn bare(error: io::Error) -> io::Error {
    let text = error.to_string();
    io::Error::new(error.kind(), text.split(" at path ").next().unwrap_or(&text))
}

/// Output that has begun. A file that is dropped without [`Target::finish`] leaves nothing behind.
#[derive(Debug)]
pub struct Output(BufWriter<OpenTarget>);

#[derive(Debug)]
enum OpenTarget {
    Stdout(StandardOutput),
    Direct(File),
    Temporary(NamedTempFile),
    Unnamed(File),
    Folder(Box<Folder>),
}

impl Output {
    /// Throws away the bytes that are not written yet.
    pub fn abandon(self) {
        // A plain drop would write them.
        drop(self.0.into_parts());
    }
}

impl Write for Output {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// Writes the parts past the buffer, which is flushed before.
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.flush()?;
        self.0.get_mut().write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Write for OpenTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            OpenTarget::Stdout(out) => out.write(bytes),
            OpenTarget::Direct(out) | OpenTarget::Unnamed(out) => out.write(bytes),
            OpenTarget::Temporary(out) => out.write(bytes),
            OpenTarget::Folder(out) => out.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            OpenTarget::Stdout(out) => out.write_vectored(parts),
            OpenTarget::Direct(out) | OpenTarget::Unnamed(out) => out.write_vectored(parts),
            OpenTarget::Temporary(out) => out.as_file_mut().write_vectored(parts),
            OpenTarget::Folder(out) => out.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            OpenTarget::Stdout(out) => out.flush(),
            OpenTarget::Direct(out) | OpenTarget::Unnamed(out) => out.flush(),
            OpenTarget::Temporary(out) => out.flush(),
            OpenTarget::Folder(out) => out.flush(),
        }
    }
}
