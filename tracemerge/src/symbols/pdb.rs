//! The functions, files and lines of a Windows program's separate debug information (PDB), which the linkers of
//! Microsoft and of LLVM write.
//!
//! The program's debug directory names the PDB file, and identifies its build by a GUID and an age: only the file of
//! that build is trusted. The file is searched at the path that the linker has recorded, beside the program, and in the
//! directories that the user has named.

use std::io;
use std::path::Path;
use std::sync::Arc;

use object::Object;
use pdb_addr2line::pdb::{self, PDB, SourceSlice, SourceView};
use pdb_addr2line::{Context, ContextPdbData, TypeFormatterFlags};
use trace_store::recovery::path_from_bytes;

use crate::symbols::answer::Frame;
use crate::symbols::demangle::demangled;
use crate::symbols::files::Files;
use crate::symbols::find_files::{Found, Settings, file_name};
use crate::ui::messages::{shown, shown_name};

/// The greatest number of frames that are returned for one address.
const MAX_FRAMES_OF_ADDRESS: usize = 256;

/// The separate debug information (PDB) of a Windows program.
pub(super) struct Pdb<'f> {
    context: Context<'f, 'f>,
}

/// A sentence for the user about a file that cannot be used; `None` if there is nothing to warn of.
type Warning = Option<String>;

impl<'f> Pdb<'f> {
    /// Opens the PDB file that is named in `main`, a Windows program; without a name there is no result. If no file can
    /// be used, the second result is a warning for the user of a file that is damaged or of another build, if there is
    /// one.
    pub(super) fn of(main: &Found<'f>, settings: &Settings, files: &'f Files) -> (Option<Pdb<'f>>, Warning) {
        let Ok(Some(wanted)) = main.object.pdb_info() else { return (None, None) };
        let Some(name) = file_name(wanted.path()) else { return (None, None) };
        let beside = main.path.parent().map(|folder| folder.join(&name));
        let named = settings.places().map(|place| place.join(&name));
        // A program must not make this process contact another machine.
        let is_of_another = matches!(wanted.path(), [b'\\' | b'/', b'\\' | b'/', ..]);
        let as_written = (!is_of_another).then(|| path_from_bytes(wanted.path()));
        let mut warning = None;
        for path in as_written.into_iter().chain(beside).chain(named) {
            match open(&path, wanted.guid(), wanted.age(), files) {
                Ok(Some(pdb)) => return (Some(pdb), None),
                Ok(None) => {}
                Err(why) => warning = warning.or(Some(why)),
            }
        }
        (None, warning)
    }

    /// Returns the functions whose code is at `address`, which is relative to the file's own base: the innermost
    /// inlined function first. Returns none if no function is known.
    pub(super) fn frames(&self, address: u64) -> Result<Vec<Frame>, pdb_addr2line::Error> {
        let Ok(address) = u32::try_from(address) else { return Ok(Vec::new()) };
        let Some(found) = self.context.find_frames(address)? else { return Ok(Vec::new()) };
        let mut frames: Vec<Frame> = Vec::new();
        for frame in found.frames.into_iter().take(MAX_FRAMES_OF_ADDRESS) {
            if let Some(inner) = frames.last_mut() {
                inner.is_inlined = true;
            }
            let name = frame.function.map(|name| Arc::from(demangled(name.as_bytes())));
            frames.push(Frame {
                names: name.into_iter().collect(),
                file: frame.file.map(|file| shown_name(file.as_bytes()).into()),
                line: frame.line.filter(|line| *line > 0),
                ..Frame::default()
            });
        }
        Ok(frames)
    }
}

/// Opens the PDB file at `path`, which must have this GUID and this age. Returns `None` if the file cannot be mapped,
/// and an error if the file is damaged or of another build.
fn open<'f>(path: &Path, guid: [u8; 16], age: u32, files: &'f Files) -> Result<Option<Pdb<'f>>, String> {
    let Ok(bytes) = files.map(path) else { return Ok(None) };
    let damaged = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", shown(path));
    let mut pdb = PDB::open(Mapped(bytes, files)).map_err(|error| damaged(&error))?;
    let own = pdb.pdb_information().map_err(|error| damaged(&error))?;
    // The age in the debug information is that of the link; the other one also counts later changes of the file.
    let own_age = pdb.debug_information().ok().and_then(|info| info.age()).unwrap_or(own.age);
    if own.guid.to_bytes_le() != guid || own_age != age {
        return Err(format!("{} is of another build than the program that names it", shown(path)));
    }
    let data = ContextPdbData::try_from_pdb(pdb).map_err(|error| damaged(&error))?;
    // The data is leaked, because names need it as long as the bytes of files. Each module has at most one.
    let data: &'f ContextPdbData<'f, 'f, Mapped<'f>> = Box::leak(Box::new(data));
    // Names without arguments and return types, as in other debug information.
    let flags = TypeFormatterFlags::NO_ARGUMENTS
        | TypeFormatterFlags::NO_FUNCTION_RETURN
        | TypeFormatterFlags::NO_MEMBER_FUNCTION_STATIC
        | TypeFormatterFlags::NAME_ONLY
        | TypeFormatterFlags::SPACE_AFTER_COMMA;
    let context = data.make_context_with_formatter_flags(flags).map_err(|error| damaged(&error))?;
    Ok(Some(Pdb { context }))
}

/// A mapped file. Reads copy the file's bytes, but never more than the file has, and never more than the memory that is
/// left for debug information: a damaged file may state any lengths.
#[derive(Clone, Copy)]
struct Mapped<'f>(&'f [u8], &'f Files);

impl std::fmt::Debug for Mapped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a mapped file of {} bytes", self.0.len())
    }
}

/// A contiguous copy of several parts of a mapped file.
#[derive(Debug)]
struct Part(Vec<u8>);

impl SourceView<'_> for Part {
    fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl<'f> pdb::Source<'f> for Mapped<'f> {
    fn view(&mut self, slices: &[SourceSlice]) -> io::Result<Box<dyn SourceView<'f> + Send + Sync>> {
        let length = slices.iter().fold(0, |sum: usize, slice| sum.saturating_add(slice.size));
        if length > self.0.len() || !self.1.take(length as u64) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut part = Vec::with_capacity(length);
        for slice in slices {
            let start = usize::try_from(slice.offset).unwrap_or(usize::MAX);
            let bytes = self.0.get(start..).and_then(|rest| rest.get(..slice.size));
            part.extend_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        }
        Ok(Box::new(Part(part)))
    }
}
