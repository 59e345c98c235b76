//! The search for a module's file, and for the file that has its debug information.
//!
//! A file with a build-id is trusted in any directory if that is the module's build-id. A file without a build-id is
//! trusted only for a module that has none either; its separate debug file must then have the checksum that the link to
//! it states. This checksum is also needed for a Windows program whose id is not the linker's own, but made of the
//! file's headers: the headers change if debug information is taken out of the file.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use object::{BinaryFormat, Object, ObjectSection};
use trace_format::meta::Module;
use trace_format::pe;
use trace_store::recovery::path_from_bytes;

use crate::os::environment::debuginfod_caches;
use crate::symbols::files::Files;
use crate::ui::messages::shown;

/// The directory in which the system keeps separate debug files.
const SYSTEM_DEBUG: &str = "/usr/lib/debug";

/// The user's settings for names, and the directories in which files may be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether names are wanted. If not, no file is opened.
    pub names: bool,
    /// The directories of `--debug-dir`. Each may have binaries and separate debug files: by any names, at the paths
    /// that they had below the root of a system, in a tree like that of `/usr/lib/debug`, or like `debuginfod`'s.
    pub debug_dirs: Vec<PathBuf>,
    /// The directories of the traces: a user who copies traces to another machine may put the binaries beside them.
    pub trace_dirs: Vec<PathBuf>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { names: true, debug_dirs: Vec::new(), trace_dirs: Vec::new() }
    }
}

impl Settings {
    /// Returns these settings for traces in `files`: binaries are searched in the directories of the traces, too.
    #[must_use]
    pub fn for_traces<'f>(&self, files: impl IntoIterator<Item = &'f Path>) -> Settings {
        let directories: BTreeSet<&Path> = files.into_iter().filter_map(Path::parent).collect();
        Settings { trace_dirs: directories.into_iter().map(Path::to_path_buf).collect(), ..self.clone() }
    }

    /// Returns the directories in which a file is searched by its name alone.
    pub(super) fn places(&self) -> impl Iterator<Item = &Path> {
        self.debug_dirs.iter().chain(&self.trace_dirs).map(PathBuf::as_path)
    }

    /// Returns the directories that are searched as trees like `/usr/lib/debug`: those that the user has named, and
    /// `/usr/lib/debug` itself.
    pub(super) fn debug_trees(&self) -> impl Iterator<Item = &Path> {
        self.debug_dirs.iter().map(PathBuf::as_path).chain([Path::new(SYSTEM_DEBUG)])
    }
}

/// A file that was found, and whose build is the right one.
#[derive(Debug)]
pub(super) struct Found<'f> {
    pub path: PathBuf,
    pub object: object::File<'f>,
    pub bytes: &'f [u8],
}

/// The reason why a module's file was not found. Each reason has a sentence for the user.
#[derive(Debug)]
pub(super) enum Missing {
    NoFile(String),
    OtherBuildId(String),
    Damaged(String),
}

/// Finds the file of a module. If there is none, returns the reason that helps the user most, see `more_serious`.
pub(super) fn find_module<'f>(
    module: &Module,
    settings: &Settings,
    files: &'f Files,
) -> Result<Found<'f>, Missing> {
    let path = path_from_bytes(&module.path);
    let Some(name) = file_name(&module.path) else {
        return Err(Missing::NoFile(format!(
            "the trace names no file for the module at {:#x}",
            module.range.start
        )));
    };
    let named = settings.places().map(|place| place.join(&name));
    let below_root = path.strip_prefix("/").ok();
    let rooted = settings.debug_dirs.iter().filter_map(|root| Some(root.join(below_root?)));
    let mut missing = None;
    for candidate in std::iter::once(path.clone()).chain(named).chain(rooted) {
        match open(&candidate, &module.build_id, files) {
            Ok(found) => return Ok(found),
            Err(why) => missing = Some(more_serious(missing, why)),
        }
    }
    Err(missing.unwrap_or_else(|| Missing::NoFile(shown(&path))))
}

/// Returns the name of the file with the path `path`, which may be a Windows path on any system.
pub(crate) fn file_name(path: &[u8]) -> Option<PathBuf> {
    let is_of_windows = path.get(1..3) == Some(b":\\") || path.starts_with(b"\\\\");
    let last = path.rsplit(|byte| *byte == b'\\').next().filter(|_| is_of_windows).unwrap_or(path);
    path_from_bytes(last).file_name().map(PathBuf::from)
}

/// Returns the one of two reasons that helps the user more: a reason about a file that exists takes precedence over one
/// about a missing file.
fn more_serious(before: Option<Missing>, now: Missing) -> Missing {
    match before {
        Some(before) if !matches!(before, Missing::NoFile(_)) || matches!(now, Missing::NoFile(_)) => before,
        _ => now,
    }
}

/// Opens the file at `path`, and fails if its build-id is not the wanted one.
fn open<'f>(path: &Path, build_id: &[u8], files: &'f Files) -> Result<Found<'f>, Missing> {
    let (found, own) = open_any(path, files)?;
    if *own == *build_id {
        return Ok(found);
    }
    let id = |id: &[u8]| if id.is_empty() { "none".to_owned() } else { hex(id) };
    Err(Missing::OtherBuildId(format!(
        "{} is of another build: its build-id is {}, and that of the traced file is {}",
        shown(path),
        id(&own),
        id(build_id)
    )))
}

/// Opens the file at `path`, whatever its build-id is. Returns the file and its build-id.
fn open_any<'f>(path: &Path, files: &'f Files) -> Result<(Found<'f>, Cow<'f, [u8]>), Missing> {
    let bytes = files.map(path).map_err(|error| Missing::NoFile(error.to_string()))?;
    let damaged = |error| Missing::Damaged(format!("cannot read {}: {error}", shown(path)));
    let object = object::File::parse(bytes).map_err(damaged)?;
    let id = own_build_id(&object, bytes).map_err(damaged)?;
    Ok((Found { path: path.to_owned(), object, bytes }, id))
}

/// Returns the build-id of a file, in the form in which the traced process has recorded the build-ids of its modules.
fn own_build_id<'f>(object: &object::File<'f>, bytes: &'f [u8]) -> object::Result<Cow<'f, [u8]>> {
    if object.format() == BinaryFormat::Pe {
        let headers = pe::Headers::parse(bytes.get(..pe::HEADERS).unwrap_or(bytes)).unwrap_or_default();
        let base = object.relative_address_base();
        let read = |at: u32, length: usize| {
            let at = base.checked_add(at.into())?;
            let data = object.sections().find_map(|section| section.data_range(at, length as u64).ok()?);
            data.map(<[u8]>::to_vec)
        };
        return Ok(headers.build_id(read).into());
    }
    Ok(object.build_id()?.unwrap_or_default().into())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        // Writing to a `String` does not fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// Finds the files with this build-id, both programs and their debug files, at the paths that are made of the build-id.
/// If there are none, searches all files in the directories of `--debug-dir`.
pub(super) fn find_by_build_id<'f>(build_id: &[u8], settings: &Settings, files: &'f Files) -> Vec<Found<'f>> {
    let digits = hex(build_id);
    let Some((folder, rest)) = digits.split_at_checked(2).filter(|(_, rest)| !rest.is_empty()) else {
        return Vec::new();
    };
    let trees = settings.debug_trees().map(|tree| tree.join(".build-id"));
    let trees = trees.chain(settings.debug_dirs.iter().cloned()).map(|tree| tree.join(folder));
    let in_trees = trees.flat_map(|place| [place.join(format!("{rest}.debug")), place.join(rest)]);
    let caches = debuginfod_caches().into_iter().chain(settings.debug_dirs.iter().cloned());
    let in_caches = caches.map(|cache| cache.join(&digits));
    let in_caches = in_caches.flat_map(|place| [place.join("debuginfo"), place.join("executable")]);
    let opened = |path: PathBuf| open(&path, build_id, files).ok();
    let found: Vec<Found<'f>> = in_trees.chain(in_caches).filter_map(opened).collect();
    if !found.is_empty() || settings.debug_dirs.is_empty() {
        return found;
    }
    files.with_build_id(build_id, &settings.debug_dirs).iter().cloned().filter_map(opened).collect()
}

/// Finds the separate debug file that a link in `found` names. Searches for the file in the directories in which gdb
/// searches, and, by its name alone, in the directories that the user has named and in those of the traces.
pub(super) fn find_by_link<'f>(
    found: &Found<'f>,
    settings: &Settings,
    files: &'f Files,
) -> Option<Found<'f>> {
    let (name, checksum) = found.object.gnu_debuglink().ok()??;
    let build_id = own_build_id(&found.object, found.bytes).ok()?;
    // The headers of a file change if its debug information is taken out.
    let is_proof =
        !build_id.is_empty() && (found.object.format() != BinaryFormat::Pe || pe::is_linkers_id(&build_id));
    let name = path_from_bytes(name);
    let folder = std::path::absolute(found.path.parent()?).ok()?;
    let beside = [folder.join(&name), folder.join(".debug").join(&name)];
    let below = folder.strip_prefix("/").unwrap_or(&folder);
    let in_trees = settings.debug_trees().map(|tree| tree.join(below).join(&name));
    let named = settings.places().map(|place| place.join(&name));
    let mut candidates = beside.into_iter().chain(in_trees).chain(named);
    candidates.find_map(|path| {
        let debug =
            if is_proof { open(&path, &build_id, files).ok()? } else { open_any(&path, files).ok()?.0 };
        // A build-id proves more than a checksum, which would need a read of the whole file.
        let is_right = is_proof || crc32fast::hash(debug.bytes) == checksum;
        (is_right && path != found.path).then_some(debug)
    })
}

/// Finds the file with the debug information that several debug files share (`.gnu_debugaltlink`, made by `dwz`).
pub(super) fn find_shared<'f>(debug: &Found<'f>, settings: &Settings, files: &'f Files) -> Option<Found<'f>> {
    let (path, build_id) = debug.object.gnu_debugaltlink().ok()??;
    let path = debug.path.parent()?.join(path_from_bytes(path));
    let by_build_id = || find_by_build_id(build_id, settings, files).into_iter().next();
    open(&path, build_id, files).ok().or_else(by_build_id)
}
