//! Windows: which files are mapped as code, as the process's own list of modules tells it.
//!
//! The list is read as a debugger reads that of another process: by copies of memory, without the loader's lock.
//! Whoever has that may wait for the flusher, which looks at the list: the destructor of a thread-local that traces
//! into a full ring. That something has changed is told by the loader, which counts what comes and goes.
#![allow(unsafe_code, reason = "calls of the system; each argued where it stands")]

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use trace_format::meta::{AddressRange, Between, Module};
use trace_format::pe::{HEADERS, Headers};

use super::LoadedModules;

#[link(name = "kernel32", kind = "raw-dylib")]
unsafe extern "system" {
    fn GetModuleHandleW(name: *const u16) -> *mut c_void;
    fn GetProcAddress(module: *mut c_void, name: *const c_char) -> *mut c_void;
    fn OpenProcess(access: u32, inherit: i32, process: u32) -> *mut c_void;
    fn CloseHandle(handle: *mut c_void) -> i32;
    fn ReadProcessMemory(
        process: *mut c_void,
        from: *const c_void,
        to: *mut u8,
        bytes: usize,
        read: *mut usize,
    ) -> i32;
    fn K32EnumProcessModules(process: *mut c_void, modules: *mut usize, bytes: u32, needed: *mut u32) -> i32;
    fn K32GetModuleFileNameExW(process: *mut c_void, module: usize, name: *mut u16, units: u32) -> u32;
}

/// The numbers of modules that the loader has told of since [`count_modules`]. Relaxed: a look that misses one is
/// followed by another look.
static CAME: AtomicU64 = AtomicU64::new(0);
/// See [`CAME`].
static WENT: AtomicU64 = AtomicU64::new(0);
/// Whether the loader counts: false ──Release──► true, for ever.
static COUNTS: AtomicBool = AtomicBool::new(false);

/// Is called by the loader, with its lock held, when a module has come or goes.
unsafe extern "system" fn on_change(reason: u32, _module: *const c_void, _context: *mut c_void) {
    const LOADED: u32 = 1;
    let count = if reason == LOADED { &CAME } else { &WENT };
    count.fetch_add(1, Ordering::Relaxed);
}

/// Has the loader count the modules that come and go, from now on. The code must stay loaded. This takes the loader's
/// lock: it is for a thread for which nobody waits.
pub fn count_modules() {
    type OnChange = unsafe extern "system" fn(u32, *const c_void, *mut c_void);
    type Register = unsafe extern "system" fn(u32, OnChange, *mut c_void, *mut *mut c_void) -> i32;
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let name: Vec<u16> = "ntdll.dll\0".encode_utf16().collect();
        const REGISTER: &CStr = c"LdrRegisterDllNotification";
        // SAFETY: both names have a zero at their ends; ntdll is loaded for ever, and the function of this name has
        // this type. It is looked up, for a later system may not have it. The callback stays, by this function's terms.
        let is_registered = unsafe {
            let function = GetProcAddress(GetModuleHandleW(name.as_ptr()), REGISTER.as_ptr());
            let mut cookie = ptr::null_mut();
            !function.is_null()
                && std::mem::transmute::<*mut c_void, Register>(function)(
                    0,
                    on_change,
                    ptr::null_mut(),
                    &mut cookie,
                ) >= 0
        };
        COUNTS.store(is_registered, Ordering::Release);
    });
}

/// Returns how many modules have come since the loader counts them, and how many have gone; `None` if it does not.
pub fn module_counts() -> Option<(u64, u64)> {
    COUNTS.load(Ordering::Acquire).then(|| (CAME.load(Ordering::Relaxed), WENT.load(Ordering::Relaxed)))
}

/// Returns the files that are mapped as code now; `None` where they cannot be asked for. This takes a millisecond or
/// several, and no lock.
pub fn loaded_modules() -> Option<LoadedModules> {
    const TRIES: usize = 4;
    let process = Own::open()?;
    let mut found = LoadedModules::default();
    // What changes meanwhile may be missed, or told by half.
    for _ in 0..TRIES {
        let counts = module_counts()?;
        let modules = process.modules()?;
        found = LoadedModules {
            counts,
            modules: modules.into_iter().filter_map(|at| process.module(at)).collect(),
        };
        if module_counts()? == counts {
            break;
        }
    }
    Some(found)
}

/// A handle of this process, as another one would have it: for the one that a process has of itself, the functions
/// below may ask the loader.
struct Own(*mut c_void);

impl Own {
    fn open() -> Option<Own> {
        const QUERY_INFORMATION: u32 = 0x0400;
        const READ_MEMORY: u32 = 0x0010;
        // SAFETY: asks for a handle, which is this value's own.
        let handle = unsafe { OpenProcess(QUERY_INFORMATION | READ_MEMORY, 0, std::process::id()) };
        (!handle.is_null()).then_some(Own(handle))
    }

    /// Returns where the modules are.
    fn modules(&self) -> Option<Vec<usize>> {
        let mut modules = vec![0usize; 256];
        loop {
            let (bytes, mut needed) = (size_of_val(&modules[..]), 0);
            let bytes = u32::try_from(bytes).ok()?;
            // SAFETY: so many bytes may be written, and the result.
            if unsafe { K32EnumProcessModules(self.0, modules.as_mut_ptr(), bytes, &mut needed) } == 0 {
                return None;
            }
            let number = needed as usize / size_of::<usize>();
            if number <= modules.len() {
                modules.truncate(number);
                return Some(modules);
            }
            modules.resize(number + 16, 0);
        }
    }

    /// Returns what there is to say of the module that is mapped here; `None` where it has no code, or has gone.
    fn module(&self, base: usize) -> Option<Module> {
        let headers = Headers::parse(&self.read(base, HEADERS)?)?;
        let base = base as u64;
        let range = AddressRange {
            start: base + u64::from(headers.code.start),
            end: base + u64::from(headers.code.end),
        };
        let read = |at: u32, bytes| self.read((base + u64::from(at)) as usize, bytes);
        (!headers.code.is_empty()).then(|| Module {
            range,
            bias: base,
            build_id: headers.build_id(read),
            path: self.path(base as usize),
            loaded: Between::default(),
        })
    }

    /// Copies memory, whether it is there or not.
    fn read(&self, address: usize, bytes: usize) -> Option<Vec<u8>> {
        let (mut copy, mut read) = (vec![0; bytes], 0);
        let from = ptr::without_provenance(address);
        // SAFETY: so many bytes may be written, and the result; memory that is not there is refused.
        let is_read = unsafe { ReadProcessMemory(self.0, from, copy.as_mut_ptr(), bytes, &mut read) != 0 };
        (is_read && read == bytes).then_some(copy)
    }

    /// Returns the path of the file that is mapped here, in UTF-8; empty where it is not known.
    fn path(&self, base: usize) -> Vec<u8> {
        const LONGEST: usize = 1 << 15;
        let mut units = vec![0u16; 1 << 9];
        loop {
            // SAFETY: so many units may be written.
            let length = unsafe {
                K32GetModuleFileNameExW(self.0, base, units.as_mut_ptr(), units.len() as u32) as usize
            };
            // A longer path is cut off, and said to be as long as there is room.
            if length < units.len() - 1 || units.len() >= LONGEST {
                let path = String::from_utf16_lossy(units.get(..length).unwrap_or_default());
                return super::without_prefix(&path).unwrap_or(path).into_bytes();
            }
            units.resize(units.len() * 4, 0);
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: this value's own.
        unsafe { CloseHandle(self.0) };
    }
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
        // A file on the disk has its debug directory elsewhere; without one both say the same.
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
