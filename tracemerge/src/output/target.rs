//! The targets to which merged lines are written.
//!
//! A file appears under its name only when it is whole. It is written in its directory without any name, so that a kill
//! leaves nothing behind, and then gets its name. If the system has no files without names, the file is written in its
//! directory under a temporary name that begins with a dot, and is then renamed. A pipe or a device that the user has
//! named is written to directly, so output to it cannot be taken back and begun anew. A directory is written beside its
//! final path under a temporary name, and is then renamed. [`crate::output::place`] makes files and directories.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};

use crate::find::app::App;
use crate::os::directory::Kind;
use crate::os::sys::{FileId, file_id, is_null_device, is_output_discarded};
use crate::output::folder::Folder;
use crate::output::place::{NewFile, Place, directory_of};
use crate::ui::console::{Console, Content, cannot_print};
use crate::ui::error::Error;
use crate::ui::escaping::EscapingWriter;
use crate::ui::messages::shown;

/// The number of bytes that are gathered before they are written to a file.
const BUFFER: usize = 1 << 20;
/// The greatest number of symbolic links, each leading to the next, that are followed from a path.
const LINKS: usize = 40;

/// The destination of an output. It is checked, as far as possible, before the work for the output begins.
#[derive(Debug)]
pub(crate) enum Target {
    /// Standard output.
    Stdout,
    /// A pipe or a device, given by its path, to which the output is written directly.
    Direct(PathBuf),
    /// The null device, with the path that the user wrote.
    Null(PathBuf),
    /// A regular file, which may exist or not.
    File {
        /// The path of the file, as the user wrote it.
        given: PathBuf,
        /// The place at which the file is written. If the user has chosen the path, it is the place to which the path
        /// leads through all symbolic links.
        place: Place,
    },
    /// A directory, which may exist if it was written by an earlier merge.
    Directory {
        /// The path of the directory, as the user wrote it.
        given: PathBuf,
        /// The place at which the directory is written. If the user has chosen the path, it is the place to which the
        /// path leads through all symbolic links.
        place: Place,
    },
}

impl Target {
    /// Makes a target that is a directory. Its path is `option`, the argument of `-o`, or `default` if there is no such
    /// argument. `what` names the directory's contents in messages. The bytes written to the target must be a stream of
    /// parts of files ([`crate::output::folder::put_part`]).
    ///
    /// # Errors
    /// The target is standard output, a file, or a directory with a file that no earlier merge has written.
    pub(crate) fn directory(option: Option<&OsStr>, default: &Path, what: &str) -> Result<Target, Error> {
        if option == Some(OsStr::new("-")) {
            return Err(Error::plain(format!(
                "{what} is a directory, which cannot be written to standard output: name a directory with -o DIR"
            )));
        }
        let given = option.map_or_else(|| default.to_owned(), PathBuf::from);
        let failed = |error| cannot_write(&given, error, true);
        let refuse = |why: &str| Err(Error::plain(format!("cannot write to {}: {why}", shown(&given))));
        let place = match option {
            Some(_) => Place::open(&behind_links(&given).map_err(failed)?, true),
            None => Place::open(&given, false),
        };
        let place = place.map_err(failed)?;
        match place.replaceable(Kind::Directory).map_err(failed)? {
            Some(found) if found.kind != Kind::Directory => {
                refuse(&format!("it is not a directory, but {what} needs one; name another with -o DIR"))
            }
            Some(_) if !place.has_whole_folder() => refuse(
                "it is a directory with files that no merge has written; name another with -o DIR, or delete it",
            ),
            _ => Ok(Target::Directory { given, place }),
        }
    }

    /// Makes a target of `option`, the argument of `-o`, or of `default` if there is no such argument. Refuses to write
    /// over one of `inputs` or over the executable of one of `apps`.
    ///
    /// # Errors
    /// The target is a directory, one of the inputs or an application, or cannot be written.
    pub(crate) fn new(
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
        let failed = |error| cannot_write(&given, error, false);
        let refuse = |what: &str| Err(Error::plain(format!("cannot write to {}: {what}", shown(&given))));
        let (place, id) = if option.is_some() {
            // A link of the system may lead to a file that has no path.
            let found = fs::metadata(&given).ok();
            match &found {
                Some(found) if found.is_dir() => {
                    return refuse("it is a directory; name a file with -o FILE");
                }
                Some(found) if !found.is_file() => return Ok(Target::Direct(given)),
                _ => {}
            }
            let real = behind_links(&given).map_err(failed)?;
            let id = found.map(|found| file_id(&real, &found));
            (Place::open(&real, true).map_err(failed)?, id)
        } else {
            let place = Place::open(&given, false).map_err(failed)?;
            let found = place.replaceable(Kind::File).map_err(failed)?;
            (place, found.map(|found| found.id))
        };
        if id.as_ref().is_some_and(|id| inputs.contains(id)) {
            return refuse("it is one of the traces to be merged");
        }
        let app_id =
            |app: &App| app.real_path().and_then(|path| Some(file_id(path, &fs::metadata(path).ok()?)));
        if id.is_some() && apps.iter().any(|app| app_id(app) == id) {
            return refuse("it is the application itself");
        }
        Ok(Target::File { given, place })
    }

    /// Returns whether output to this target can be thrown away and begun again. That is so for files and directories,
    /// and for the null device, even as standard output, because nobody reads what it gets.
    #[must_use]
    pub(crate) fn can_restart(&self) -> bool {
        match self {
            Target::File { .. } | Target::Directory { .. } | Target::Null(_) => true,
            Target::Stdout => is_output_discarded(),
            Target::Direct(_) => false,
        }
    }

    /// Returns the name of the target for messages.
    #[must_use]
    pub(crate) fn name(&self) -> String {
        match self {
            Target::Stdout => "standard output".to_owned(),
            Target::Direct(path)
            | Target::Null(path)
            | Target::File { given: path, .. }
            | Target::Directory { given: path, .. } => shown(path),
        }
    }

    /// Returns the error which says that this target cannot be written because of `error`.
    #[must_use]
    pub(crate) fn error(&self, error: io::Error) -> Error {
        match self {
            Target::Stdout => cannot_print(error),
            Target::Direct(path) | Target::Null(path) | Target::File { given: path, .. } => {
                cannot_write(path, error, false)
            }
            Target::Directory { given, .. } => cannot_write(given, error, true),
        }
    }

    /// Begins an output to this target. `content` is the type of the output's content, which decides how it is escaped.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(crate) fn begin(&self, content: Content) -> Result<Output, Error> {
        let raw = match self {
            Target::Stdout => {
                let console = Console::stdout(content).map_err(|e| self.error(e))?;
                return Ok(Output(StartedOutput::Console(console)));
            }
            Target::Direct(path) | Target::Null(path) => {
                let file = open_device(path).map_err(|e| self.error(e))?;
                return Ok(Output(StartedOutput::Console(Console::device(file, content))));
            }
            Target::File { place, .. } => OpenTarget::File(place.begin_file().map_err(|e| self.error(e))?),
            Target::Directory { place, .. } => {
                OpenTarget::Folder(Box::new(place.begin_folder().map_err(|e| self.error(e))?))
            }
        };
        Ok(Output(StartedOutput::File(EscapingWriter::new(raw, BUFFER, content.notation(false)))))
    }

    /// Begins an output to this target for lines that come over time: a file has its name from the beginning, and
    /// grows. `content` is the type of the output's content, which decides how it is escaped.
    ///
    /// # Errors
    /// The output cannot be written, or it is a directory.
    #[expect(clippy::disallowed_methods, reason = "the path is the user's, and only there the file can grow")]
    pub(crate) fn open_growing(&self, content: Content) -> Result<Box<dyn Write>, Error> {
        let failed = |error| self.error(error);
        Ok(match self {
            Target::Stdout => Box::new(Console::stdout(content).map_err(failed)?),
            Target::Direct(path) | Target::Null(path) => {
                Box::new(Console::device(open_device(path).map_err(failed)?, content))
            }
            Target::File { given, .. } => {
                let file = File::create(given).map_err(failed)?;
                Box::new(EscapingWriter::new(file, BUFFER, content.notation(false)))
            }
            Target::Directory { .. } => {
                return Err(Error::plain("a directory cannot be written line by line as records arrive"));
            }
        })
    }

    /// Finishes an output to this target. A file or a directory gets its name only now.
    ///
    /// # Errors
    /// The last bytes cannot be written, or the file or directory cannot get its name.
    pub(crate) fn finish(&self, output: Output) -> io::Result<()> {
        let mut raw = match output.0 {
            StartedOutput::Console(console) => return console.finish(),
            StartedOutput::File(file) => file.finish()?,
        };
        raw.flush()?;
        let (Target::File { place, .. } | Target::Directory { place, .. }) = self else { return Ok(()) };
        match raw {
            OpenTarget::File(file) => place.finish_file(file)?,
            OpenTarget::Folder(folder) => place.finish_folder(*folder)?,
        }
        place.remove_abandoned();
        Ok(())
    }
}

/// Opens a pipe or a device that the user has named.
#[expect(clippy::disallowed_methods, reason = "what is no file is written to as it is")]
fn open_device(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

fn cannot_write(path: &Path, error: io::Error, is_directory: bool) -> Error {
    let hint = if is_directory { "-o DIR writes elsewhere" } else { "-o FILE writes elsewhere" };
    Error::io("write", path, error).hint(hint)
}

/// Returns the path of the file to which `given` leads through all symbolic links. The file at the end of the links
/// need not exist.
fn behind_links(given: &Path) -> io::Result<PathBuf> {
    let mut path = given.to_owned();
    for _ in 0..LINKS {
        match fs::canonicalize(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Some file systems of Windows do not report real paths.
            Err(_) if fs::metadata(&path).is_ok() => return Ok(path),
            found => return found,
        }
        match fs::read_link(&path) {
            Ok(to) => path = directory_of(&path).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// An output that has begun. If an output to a file or directory is dropped without [`Target::finish`], nothing of it
/// remains.
#[derive(Debug)]
pub(crate) struct Output(StartedOutput);

#[derive(Debug)]
enum StartedOutput {
    Console(Console),
    File(EscapingWriter<OpenTarget>),
}

#[derive(Debug)]
enum OpenTarget {
    File(NewFile),
    Folder(Box<Folder>),
}

impl Output {
    /// Throws away the bytes that are not written yet, and ends the output.
    pub(crate) fn abandon(self) {
        match self.0 {
            StartedOutput::Console(console) => console.abandon(),
            StartedOutput::File(file) => file.abandon(),
        }
    }
}

impl Write for Output {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            StartedOutput::Console(out) => out.write(bytes),
            StartedOutput::File(out) => out.write(bytes),
        }
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            StartedOutput::Console(out) => out.write_all(bytes),
            StartedOutput::File(out) => out.write_all(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.0 {
            StartedOutput::Console(out) => out.write_vectored(parts),
            StartedOutput::File(out) => out.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            StartedOutput::Console(out) => out.flush(),
            StartedOutput::File(out) => out.flush(),
        }
    }
}

impl Write for OpenTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            OpenTarget::File(out) => out.file().write(bytes),
            OpenTarget::Folder(out) => out.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            OpenTarget::File(out) => out.file().write_vectored(parts),
            OpenTarget::Folder(out) => out.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            OpenTarget::File(out) => out.file().flush(),
            OpenTarget::Folder(out) => out.flush(),
        }
    }
}
