//! The list of files that are mapped as code on Windows, from the process's own list of modules.
//!
//! The flusher reads the list without the loader's lock, in the way in which a debugger reads the list of another
//! process: it copies memory by a system call, which may fail. The flusher must not wait for the lock, because a thread
//! that holds it may wait for the flusher, for example in a destructor of a thread-local that traces into a full ring.
//! The loader's notifications count the modules that are loaded and unloaded.
#![allow(unsafe_code, reason = "calls of the system; each argued where it stands")]

use std::ffi::{CStr, c_void};
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{ptr, slice};

use trace_format::meta::{AddressRange, Between, Module};
use trace_format::pe::{HEADERS, Headers};

use super::LoadedModules;
use windows_sys::Win32::Foundation::UNICODE_STRING;
use windows_sys::Win32::System::Diagnostics::Debug::ReadProcessMemory;
use windows_sys::Win32::System::Kernel::LIST_ENTRY;
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, PEB};
use windows_sys::Win32::System::WindowsProgramming::LDR_DATA_TABLE_ENTRY;

#[link(name = "ntdll", kind = "raw-dylib")]
unsafe extern "system" {
    fn RtlGetCurrentPeb() -> *const PEB;
}

/// The number of modules that the loader has reported as loaded since [`count_modules`] was called. Relaxed: if one
/// reading of the list of modules misses a new module, a later reading finds it.
static LOADED_COUNT: AtomicU64 = AtomicU64::new(0);
/// The number of modules that the loader has reported as unloaded since `count_modules` was called. Relaxed as
/// [`LOADED_COUNT`] is.
static UNLOADED_COUNT: AtomicU64 = AtomicU64::new(0);
/// Whether loaded and unloaded modules are counted: false ──Release──► true, for ever.
static COUNTS: AtomicBool = AtomicBool::new(false);

/// Counts a module. The loader calls this, with its lock held, when a module was loaded or is being unloaded.
unsafe extern "system" fn on_change(reason: u32, _module: *const c_void, _context: *mut c_void) {
    const LOADED: u32 = 1;
    let count = if reason == LOADED { &LOADED_COUNT } else { &UNLOADED_COUNT };
    count.fetch_add(1, Ordering::Relaxed);
}

/// Registers a callback of the loader, which counts loaded and unloaded modules from now on. The code of this library
/// must stay loaded. This function takes the loader's lock, so it must not be called while another thread waits for the
/// calling thread.
pub fn count_modules() {
    type OnChange = unsafe extern "system" fn(u32, *const c_void, *mut c_void);
    type Register = unsafe extern "system" fn(u32, OnChange, *mut c_void, *mut *mut c_void) -> i32;
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let name: Vec<u16> = "ntdll.dll\0".encode_utf16().collect();
        const REGISTER: &CStr = c"LdrRegisterDllNotification";
        // SAFETY: both names end with a zero; ntdll is never unloaded, and the function of this name has this type.
        // The function is looked up because a later system may not have it. The callback stays loaded, as
        // `count_modules` demands.
        let is_registered = unsafe {
            let function = GetProcAddress(GetModuleHandleW(name.as_ptr()), REGISTER.as_ptr().cast());
            let mut cookie = ptr::null_mut();
            function.is_some_and(|function| {
                let register: Register = std::mem::transmute(function);
                register(0, on_change, ptr::null_mut(), &mut cookie) >= 0
            })
        };
        COUNTS.store(is_registered, Ordering::Release);
    });
}

/// Returns the number of modules that were loaded since counting began, and the number of modules that were unloaded;
/// `None` if modules are not counted.
pub fn module_counts() -> Option<(u64, u64)> {
    COUNTS
        .load(Ordering::Acquire)
        .then(|| (LOADED_COUNT.load(Ordering::Relaxed), UNLOADED_COUNT.load(Ordering::Relaxed)))
}

/// Returns the files that are mapped as code now; `None` if they cannot be listed. Takes no lock, and makes about three
/// system calls for each file.
pub fn loaded_modules() -> Option<LoadedModules> {
    const TRIES: usize = 4;
    let mut found = LoadedModules::default();
    // If modules change meanwhile, the list may be incomplete or inconsistent.
    for _ in 0..TRIES {
        let counts = module_counts()?;
        found = LoadedModules { counts, modules: listed()? };
        if module_counts()? == counts {
            break;
        }
    }
    Some(found)
}

/// Returns the modules in the loader's list; `None` if there is no list yet.
fn listed() -> Option<Vec<Module>> {
    /// A limit above the number of modules of any process. It makes sure that the loop ends even if the list changes
    /// meanwhile.
    const MAX_MODULES: usize = 1 << 14;
    // SAFETY: the process's description, and that of its loader, exist as long as the process.
    let head = unsafe { &raw const (*RtlGetCurrentPeb()).Ldr.as_ref()?.InMemoryOrderModuleList };
    // SAFETY: the words exist; the loader may change them, and each read may see the change or not.
    let mut next = unsafe { head.read_volatile() }.Flink;
    let mut modules = Vec::new();
    for _ in 0..MAX_MODULES {
        if next.cast_const() == head {
            break;
        }
        let Some(entry) = read_entry(next) else { break };
        modules.extend(module(&entry));
        next = entry.InMemoryOrderLinks.Flink;
    }
    Some(modules)
}

/// Reads the loader's entry of a module; `links` is the address of the entry's links to its neighbours in the list.
fn read_entry(links: *const LIST_ENTRY) -> Option<LDR_DATA_TABLE_ENTRY> {
    let mut entry = LDR_DATA_TABLE_ENTRY::default();
    let address = links.addr().wrapping_sub(offset_of!(LDR_DATA_TABLE_ENTRY, InMemoryOrderLinks));
    // SAFETY: the value may be written, and any bytes of it are valid.
    let bytes = unsafe { slice::from_raw_parts_mut((&raw mut entry).cast::<u8>(), size_of_val(&entry)) };
    read_into(address, bytes)?;
    Some(entry)
}

/// Makes a `Module` from the loader's entry; returns `None` if the module has no code, or was unloaded.
fn module(entry: &LDR_DATA_TABLE_ENTRY) -> Option<Module> {
    let address = entry.DllBase.addr();
    let headers = Headers::parse(&read(address, HEADERS)?)?;
    let base = address as u64;
    let range =
        AddressRange { start: base + u64::from(headers.code.start), end: base + u64::from(headers.code.end) };
    let UNICODE_STRING { Buffer: text, Length: bytes, .. } = entry.FullDllName;
    let path = read(text.addr(), usize::from(bytes)).unwrap_or_default();
    let units: Vec<u16> =
        path.chunks_exact(2).filter_map(|unit| Some(u16::from_le_bytes(*unit.first_chunk()?))).collect();
    let path = String::from_utf16_lossy(&units);
    (!headers.code.is_empty()).then(|| Module {
        range,
        bias: base,
        build_id: headers.build_id(|at, bytes| read(address + at as usize, bytes)),
        path: super::without_prefix(&path).unwrap_or(path).into_bytes(),
        loaded: Between::default(),
    })
}

fn read(address: usize, bytes: usize) -> Option<Vec<u8>> {
    let mut copy = vec![0; bytes];
    read_into(address, &mut copy)?;
    Some(copy)
}

/// Copies the process's memory from `address` on to `copy`; returns `None` if there is no memory at these addresses.
fn read_into(address: usize, copy: &mut [u8]) -> Option<()> {
    let (from, mut read) = (ptr::without_provenance(address), 0);
    // SAFETY: the copy and the result may be written; the system refuses to read memory that does not exist.
    let is_read = unsafe {
        ReadProcessMemory(GetCurrentProcess(), from, copy.as_mut_ptr().cast(), copy.len(), &mut read)
    };
    (is_read != 0 && read == copy.len()).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_found_with_its_own_functions_and_changes_are_counted() {
        count_modules();
        let found = loaded_modules().expect("they can be asked for");
        assert_eq!(Some(found.counts), module_counts());
        let here = this_program_is_found_with_its_own_functions_and_changes_are_counted as fn() as usize;
        let of = |address: usize| found.modules.iter().find(|module| module.range.contains(address as u64));
        let own = of(here).expect("this program");
        let path = std::env::current_exe().expect("a path");
        let same = |path: &[u8]| std::fs::canonicalize(String::from_utf8_lossy(path).as_ref()).ok();
        assert_eq!(same(&own.path), std::fs::canonicalize(path).ok());
        assert!(own.path.starts_with(b"\\\\") || own.path.get(1) == Some(&b':'), "{own:?}");
        let file = std::fs::read(String::from_utf8_lossy(&own.path).as_ref()).expect("the file");
        let headers = Headers::parse(&file[..HEADERS]).expect("headers");
        assert_eq!(own.bias + u64::from(headers.code.start), own.range.start);
        // A file on the disk has its debug directory at another place; without one both ids are the same.
        if own.build_id.len() == 12 {
            assert_eq!(headers.build_id(|_, _| None), own.build_id);
        }
        let name: Vec<u16> = "kernel32.dll\0".encode_utf16().collect();
        // SAFETY: a name with a zero at its end.
        let kernel = unsafe { GetModuleHandleW(name.as_ptr()) } as u64;
        let kernel = found.modules.iter().find(|module| module.bias == kernel).expect("the system's library");
        assert!(String::from_utf8_lossy(&kernel.path).to_lowercase().ends_with(r"\kernel32.dll"));
    }
}
