//! The functions, files and lines of a file's debug information (DWARF), also if it is split into separate files
//! (`.dwo`, `.dwp`) or compressed.

use std::borrow::Cow;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use addr2line::{Context, LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::{DwarfPackage, EndianSlice, RunTimeEndian};
use object::{CompressionFormat, Object, ObjectSection};
use trace_store::recovery::path_from_bytes;

use crate::symbols::answer::Frame;
use crate::symbols::cost::{self, Units};
use crate::symbols::demangle::demangled;
use crate::symbols::files::Files;
use crate::symbols::find_files::{Found, Settings, find_shared};
use crate::ui::messages::shown_name;

type Slice<'f> = EndianSlice<'f, RunTimeEndian>;

/// The greatest number of frames that are returned for one address.
const MAX_FRAMES_OF_ADDRESS: usize = 256;

/// The greatest credible ratio of a section's bytes to its compressed bytes: zlib reaches a thousand, and more is an
/// attack.
const BEST_COMPRESSION: u64 = 2048;

/// The debug information of a module.
pub(super) struct DebugInfo<'f> {
    context: Context<Slice<'f>>,
    package: Option<DwarfPackage<Slice<'f>>>,
    /// The directories in which split files are searched by their names alone, without the directories in their paths.
    places: Vec<PathBuf>,
    files: &'f Files,
    /// The base address that is added to relative addresses, because the addresses of a Windows program contain it; 0
    /// on other systems.
    base: u64,
    /// The compilation units. Memory is reserved for a unit before it is read.
    units: Mutex<Units<'f>>,
    dwarf: Arc<gimli::Dwarf<Slice<'f>>>,
}

/// Returns whether a file contains debug information itself, not in a separate file.
pub(super) fn has_debug_info(object: &object::File<'_>) -> bool {
    // A file whose debug information was taken out may still have the section, without bytes.
    ["debug_info", "debug_line"].iter().any(|name| {
        let section = object.section_by_name(&format!(".{name}"));
        section.and_then(|section| section.compressed_data().ok()).is_some_and(|data| !data.data.is_empty())
    })
}

impl<'f> DebugInfo<'f> {
    /// Opens the debug information of `debug`, which is the module's file `main` itself or the file that has its
    /// debug information. Returns `None` if it would take more memory than is left for it.
    pub(super) fn open(
        debug: &Found<'f>,
        main: &Path,
        settings: &Settings,
        files: &'f Files,
    ) -> Result<Option<DebugInfo<'f>>, gimli::Error> {
        let endian = endian_of(&debug.object);
        let load = |object: &object::File<'f>, name: &str| -> Result<Slice<'f>, gimli::Error> {
            Ok(EndianSlice::new(section(object, name, files), endian))
        };
        let mut dwarf = gimli::Dwarf::load(|id| load(&debug.object, id.name()))?;
        if let Some(shared) = find_shared(debug, settings, files) {
            dwarf.load_sup(|id| load(&shared.object, id.name()))?;
        }
        if files.is_exceeded() {
            return Ok(None);
        }
        let Some(units) = cost::count_opening(&mut dwarf, files)? else { return Ok(None) };
        let folders = [main, &debug.path].into_iter().filter_map(Path::parent);
        let places: Vec<PathBuf> = folders.chain(settings.places()).map(Path::to_owned).collect();
        let package = [main, &debug.path].into_iter().find_map(|path| package_of(path, &places, files));
        let base = debug.object.relative_address_base();
        let (dwarf, units) = (Arc::new(dwarf), Mutex::new(units));
        let context = Context::from_arc_dwarf(Arc::clone(&dwarf))?;
        Ok(Some(DebugInfo { context, package, places, files, base, units, dwarf }))
    }

    /// Returns the functions whose code is at `address`, which is relative to the file's own base: the innermost
    /// inlined function first. Returns none if no function is known.
    pub(super) fn frames(&self, address: u64) -> Result<Vec<Frame>, gimli::Error> {
        let address = address.wrapping_add(self.base);
        let mut units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
        if !units.fit(address, &self.dwarf, self.files) {
            return Ok(Vec::new());
        }
        drop(units);
        let mut lookup = self.context.find_frames(address);
        let mut found = loop {
            match lookup {
                LookupResult::Output(found) => break found?,
                LookupResult::Load { load, continuation } => lookup = continuation.resume(self.split(&load)),
            }
        };
        let mut frames: Vec<Frame> = Vec::new();
        while let Some(frame) = found.next()? {
            let name = frame.function.map(|function| demangled(function.name.slice()));
            let (file, line) = frame.location.map_or((None, None), |place| (place.file, place.line));
            if let Some(inner) = frames.last_mut() {
                inner.is_inlined = true;
            }
            frames.push(Frame {
                names: name.map(Arc::from).into_iter().collect(),
                file: file.map(|file| shown_name(file.as_bytes()).into()),
                // Line 0 means that the code has no line.
                line: line.filter(|line| *line > 0),
                ..Frame::default()
            });
            if frames.len() == MAX_FRAMES_OF_ADDRESS {
                break;
            }
        }
        Ok(frames)
    }

    /// Finds the part of a unit's debug information that is in a separate file, the split file or a package of split
    /// files. Returns `None` if there is no such file, or if the part would take more memory than is left.
    fn split(&self, load: &SplitDwarfLoad<Slice<'f>>) -> Option<Arc<gimli::Dwarf<Slice<'f>>>> {
        let packed =
            self.package.as_ref().and_then(|package| package.find_cu(load.dwo_id, &load.parent).ok()?);
        let packed = packed.filter(|packed| cost::count_split(packed, self.files));
        packed.map(Arc::new).or_else(|| {
            let path = path_from_bytes(load.path.as_ref()?.slice());
            let built = load.comp_dir.as_ref().map(|folder| path_from_bytes(folder.slice()).join(&path));
            let name = path.file_name()?.to_owned();
            let named = self.places.iter().map(|place| place.join(&name));
            let mut candidates = built.into_iter().chain(named);
            candidates.find_map(|path| split_file(&path, load, self.files))
        })
    }
}

/// Opens the split file at `path`. Returns `None` if it does not belong to the unit that `load` names, or would take
/// more memory than is left.
fn split_file<'f>(
    path: &Path,
    load: &SplitDwarfLoad<Slice<'f>>,
    files: &'f Files,
) -> Option<Arc<gimli::Dwarf<Slice<'f>>>> {
    let object = object::File::parse(files.map(path).ok()?).ok()?;
    let mut dwarf = gimli::Dwarf::load(|id| split_section(id, &object, files)).ok()?;
    let header = dwarf.units().next().ok()??;
    let is_wanted = dwarf.unit(header).ok()?.dwo_id == Some(load.dwo_id);
    dwarf.make_dwo(&load.parent);
    (is_wanted && cost::count_split(&dwarf, files)).then(|| Arc::new(dwarf))
}

/// Opens the package of split files that belongs to the file `path`. The package has the name of that file with `.dwp`
/// appended, and is searched in the directories `places`.
fn package_of<'f>(path: &Path, places: &[PathBuf], files: &'f Files) -> Option<DwarfPackage<Slice<'f>>> {
    let mut name = path.file_name()?.to_owned();
    name.push(".dwp");
    places.iter().find_map(|place| {
        let object = object::File::parse(files.map(&place.join(&name)).ok()?).ok()?;
        let empty = EndianSlice::new(&[][..], endian_of(&object));
        DwarfPackage::load(|id| split_section(id, &object, files), empty).ok()
    })
}

fn split_section<'f>(
    id: gimli::SectionId,
    object: &object::File<'f>,
    files: &'f Files,
) -> Result<Slice<'f>, gimli::Error> {
    let bytes = id.dwo_name().map_or(&[][..], |name| section(object, name, files));
    Ok(EndianSlice::new(bytes, endian_of(object)))
}

/// Returns the bytes of the section `name`, decompressed; none if it is missing or damaged, so that the other sections
/// can still be used.
fn section<'f>(object: &object::File<'f>, name: &str, files: &'f Files) -> &'f [u8] {
    let found = object.section_by_name(name).and_then(|section| section.compressed_data().ok());
    let Some(data) = found else { return &[] };
    let (length, unpacked) = (data.data.len() as u64, data.uncompressed_size);
    match data.format {
        CompressionFormat::None => return data.data,
        _ if unpacked / BEST_COMPRESSION > length || !files.take(unpacked) => return &[],
        // The library's decoder would not stop at the length that the file states.
        CompressionFormat::Zstandard => {
            return zstandard(data.data, unpacked).map_or(&[], |bytes| files.keep(bytes));
        }
        _ => {}
    }
    match data.decompress() {
        Ok(Cow::Borrowed(bytes)) => bytes,
        Ok(Cow::Owned(bytes)) => files.keep(bytes),
        Err(_) => &[],
    }
}

/// Decompresses one frame of Zstandard. Returns `None` if the result does not have `unpacked` bytes.
fn zstandard(packed: &[u8], unpacked: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let decoder = ruzstd::decoding::StreamingDecoder::new(packed).ok()?;
    decoder.take(unpacked.saturating_add(1)).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 == unpacked).then_some(bytes)
}

fn endian_of(object: &object::File<'_>) -> RunTimeEndian {
    if object.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big }
}
