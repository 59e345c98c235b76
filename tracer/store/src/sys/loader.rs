//! The list of files that are mapped as code on Linux, as the loader reports it.
#![allow(unsafe_code, reason = "reads what the loader shows; argued where it stands")]
#![allow(clippy::useless_conversion, reason = "addresses have 32 bits on other processors")]

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

#[cfg(target_pointer_width = "32")]
use libc::Elf32_Phdr as ProgramHeader;
#[cfg(target_pointer_width = "64")]
use libc::Elf64_Phdr as ProgramHeader;
use trace_format::meta::{AddressRange, Between, Module};

use super::LoadedModules;

/// The number of threads of this library that hold the loader's lock or wait for it, in the lower half of the word; and
/// the id of their process, in the upper half.
///
/// ```text
///   (any, 0) ── a look begins ──► (own id, 1) ── more of them begin and end ──► (own id, n) ── all end ──► (own id, 0)
/// ```
///
/// A child that is forked while the number is not 0 has a copy of the word and of the lock. No thread of the child will
/// ever release that copy of the lock, so the child must not wait for it. Relaxed: a child has the word's value at the
/// moment of the fork.
static HOLDERS: AtomicU64 = AtomicU64::new(0);

/// Calls `look`, which may take the loader's lock. Returns `None`, without calling `look`, in a forked child in which
/// the lock will never be released. If a jump or a panic leaves `look`, the lock counts as held for ever: children that
/// are forked afterwards get `None`.
pub fn with_loader_lock<T>(look: impl FnOnce() -> T) -> Option<T> {
    let own = u64::from(std::process::id()) << 32;
    let begin = |holders: u64| match holders as u32 {
        0 => Some(own | 1),
        _ => (holders >> 32 == own >> 32).then_some(holders + 1),
    };
    HOLDERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, begin).ok()?;
    compiler_fence(Ordering::SeqCst);
    let seen = look();
    compiler_fence(Ordering::SeqCst);
    HOLDERS.fetch_sub(1, Ordering::Relaxed);
    Some(seen)
}

/// Returns the number of modules that were ever loaded, and the number of modules that were unloaded. Takes the
/// loader's lock, for a few nanoseconds. Returns `None` in a child that was forked while its parent had the lock.
pub fn module_counts() -> Option<(u64, u64)> {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        bytes: libc::size_t,
        counts: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: `counts` is the pair that was passed to `dl_iterate_phdr`, and `info` is the loader's.
        unsafe { *counts.cast::<(u64, u64)>() = counts_in(info, bytes) };
        // This ends the iteration: further modules are not needed.
        1
    }
    let mut counts = (0, 0);
    // SAFETY: `first` writes to `counts`, which outlives the call.
    with_loader_lock(|| unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut counts).cast()) })?;
    Some(counts)
}

/// Returns the number of modules that were ever loaded and the number that were unloaded, as the loader states them in
/// each description of a module. Both are 0 if the C library does not count modules.
///
/// # Safety
/// `info` points to at least `bytes` bytes.
unsafe fn counts_in(info: *const libc::dl_phdr_info, bytes: usize) -> (u64, u64) {
    if bytes < size_of::<libc::dl_phdr_info>() {
        // This C library does not count.
        return (0, 0);
    }
    // SAFETY: the caller promises that `info` points to this many bytes.
    unsafe { ((*info).dlpi_adds, (*info).dlpi_subs) }
}

/// Returns the files that are mapped as code now. Holds the loader's lock for some microseconds, and allocates memory
/// meanwhile, so traced threads must not call this function. Returns `None` in the same case as [`module_counts`].
pub fn loaded_modules() -> Option<LoadedModules> {
    unsafe extern "C" fn each(
        info: *mut libc::dl_phdr_info,
        bytes: libc::size_t,
        found: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: `found` was passed to `dl_iterate_phdr`; `info` is the loader's, and valid here.
        unsafe {
            let found = &mut *found.cast::<LoadedModules>();
            found.counts = counts_in(info, bytes);
            found.modules.extend(module_in(&*info));
        }
        0
    }
    let mut found = LoadedModules::default();
    // SAFETY: `each` writes to `found`, which outlives the call. It does not unwind: it only copies.
    with_loader_lock(|| unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut found).cast()) })?;
    // The loader does not report the path of the executable, which comes first.
    if let Some(own) = found.modules.first_mut().filter(|module| module.path.is_empty()) {
        own.path = executable().into_os_string().into_vec();
    }
    Some(found)
}

/// The path of the kernel's link to the file with which the process was started.
const STARTED: &str = "/proc/self/exe";

/// Returns the path of the program that this process runs, without the suffix ` (deleted)` that the kernel adds if the
/// file was deleted or replaced.
#[must_use]
pub fn executable() -> PathBuf {
    let Ok(path) = std::fs::read_link(STARTED) else {
        // There is no `/proc` here.
        return path_at_start().unwrap_or_default();
    };
    if let Some(program) = program_of_loader(&path) {
        return program;
    }
    // The suffix that the kernel adds to the name of a deleted file. A file may really have such a name, too.
    let Some(before) = path.as_os_str().as_bytes().strip_suffix(b" (deleted)") else { return path };
    let before = super::path_from_bytes(before);
    let identity = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    let has_this_name = identity(&path).is_some_and(|found| Some(found) == identity(Path::new(STARTED)));
    if has_this_name { path } else { before }
}

/// Returns a path by which the file of the running program can be opened, even if it was deleted.
#[must_use]
pub fn executable_file() -> PathBuf {
    let path = std::fs::read_link(STARTED).ok();
    path.and_then(|path| program_of_loader(&path)).unwrap_or_else(|| STARTED.into())
}

/// Returns the path of the program if the process was started through the loader (`ld.so ./app`), in which case
/// `started` is the loader's path; `None` otherwise. Such a process is recognized by the kernel having mapped no loader
/// for it. The program's path is in the auxiliary vector, where the loader of GNU has replaced its own path.
fn program_of_loader(started: &Path) -> Option<PathBuf> {
    let name = started.file_name()?.as_bytes();
    let is_loader = [&b"ld-"[..], b"ld.so", b"ld64"].iter().any(|start| name.starts_with(start));
    // SAFETY: reads what the kernel has passed to this process.
    (is_loader && unsafe { libc::getauxval(libc::AT_BASE) } == 0).then(path_at_start)?
}

/// Returns the path with which the program was started, as an absolute path.
fn path_at_start() -> Option<PathBuf> {
    // SAFETY: as above.
    let given = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
    if given.is_null() {
        return None;
    }
    // SAFETY: a text at the end of the first stack, which stays there.
    let given = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(given) }.to_bytes()));
    std::fs::canonicalize(given).ok().or_else(|| Some(std::env::current_dir().ok()?.join(given)))
}

/// Makes a `Module` from the loader's description `info`; returns `None` if the module has no code.
///
/// # Safety
/// `info` comes from the loader, and the module stays mapped during the call.
unsafe fn module_in(info: &libc::dl_phdr_info) -> Option<Module> {
    // SAFETY: the headers are mapped with the module.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let addresses = |header: &ProgramHeader| {
        let start = u64::from(info.dlpi_addr.wrapping_add(header.p_vaddr));
        AddressRange { start, end: start.wrapping_add(header.p_memsz.into()) }
    };
    let is_code =
        |header: &&ProgramHeader| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0;
    let code = headers
        .iter()
        .filter(is_code)
        .map(addresses)
        .reduce(|all, next| AddressRange { start: all.start.min(next.start), end: all.end.max(next.end) })?;
    let mut notes = headers.iter().filter(|header| header.p_type == libc::PT_NOTE);
    let build_id = notes.find_map(|header| {
        let range = addresses(header);
        let (start, bytes) = (range.start as *const u8, usize::try_from(header.p_memsz).ok()?);
        // SAFETY: the segment is mapped with the module, and readable: it is a part of a loaded segment.
        build_id_in(unsafe { std::slice::from_raw_parts(start, bytes) }, header.p_align.into())
    });
    let path = if info.dlpi_name.is_null() {
        Vec::new()
    } else {
        // SAFETY: the loader's name of the module, a text that ends in zero.
        unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes().to_vec()
    };
    Some(Module {
        range: code,
        bias: info.dlpi_addr.into(),
        build_id: build_id.unwrap_or_default(),
        path,
        loaded: Between::default(),
    })
}

/// Returns the build-id of GNU that is among `notes`, the contents of a segment of notes; `align` is the segment's
/// alignment.
fn build_id_in(notes: &[u8], align: u64) -> Option<Vec<u8>> {
    const BUILD_ID: u32 = 3;
    let align = if align == 8 { 8 } else { 4 };
    let mut rest = notes;
    loop {
        let number = |at: usize| Some(u32::from_ne_bytes(*rest.get(at..)?.first_chunk()?));
        let (name, content, kind) = (number(0)? as usize, number(4)? as usize, number(8)?);
        let start = 12 + name.checked_next_multiple_of(4)?;
        let start = start.checked_next_multiple_of(align)?;
        let end = start.checked_add(content)?;
        if kind == BUILD_ID && rest.get(12..12 + name) == Some(b"GNU\0") {
            return Some(rest.get(start..end)?.to_vec());
        }
        rest = rest.get(end.checked_next_multiple_of(align)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_found_with_its_own_functions() {
        let found = loaded_modules().expect("the lock is to be had");
        assert_eq!(Some(found.counts), module_counts());
        let here = this_program_is_found_with_its_own_functions as fn() as usize as u64;
        let own = found.modules.iter().find(|module| module.range.contains(here)).expect("this program");
        let path = std::env::current_exe().expect("a path");
        assert_eq!(executable(), path);
        assert_eq!(own.path, path.into_os_string().into_vec());
        let libc = libc::getpid as *const () as usize as u64;
        let libc = found.modules.iter().find(|module| module.range.contains(libc)).expect("the C library");
        assert!(String::from_utf8_lossy(&libc.path).contains("libc"), "{libc:?}");
        assert_eq!(libc.build_id.len(), 20, "{libc:?}");
    }

    #[test]
    fn a_build_id_is_found_among_other_notes_and_not_in_damage() {
        let note = |name: &[u8], kind: u32, content: &[u8], align: usize| {
            let mut note = Vec::new();
            for number in [name.len() as u32, content.len() as u32, kind] {
                note.extend_from_slice(&number.to_ne_bytes());
            }
            note.extend_from_slice(name);
            note.resize(note.len().next_multiple_of(align), 0);
            note.extend_from_slice(content);
            note.resize(note.len().next_multiple_of(align), 0);
            note
        };
        for align in [4, 8] {
            let other = note(b"GNU\0", 5, b"123456789", align);
            let own = note(b"GNU\0", 3, b"id of build!", align);
            let notes = [other, note(b"Go\0\0", 3, b"other", align), own].concat();
            assert_eq!(build_id_in(&notes, align as u64).as_deref(), Some(&b"id of build!"[..]));
            for end in 0..notes.len() - 4 {
                assert_eq!(build_id_in(&notes[..end], align as u64), None, "{end}");
            }
        }
        assert_eq!(build_id_in(&[0xff; 64], 4), None);
    }
}
