//! The loaded modules (the executable, shared libraries): which one has a place, and where its parts are.
//!
//! `_dl_find_object` of glibc 2.35 and later answers without a lock and in signal handlers. Where there is no
//! such function (older systems, musl) no module is found.
#![allow(unsafe_code, reason = "reads the headers of loaded modules; each argued where it stands")]

use std::arch::asm;
#[cfg(feature = "unwind")]
use std::ffi::{CStr, OsStr};
use std::ffi::{c_int, c_void};
use std::ops::Range;
#[cfg(feature = "unwind")]
use std::os::unix::ffi::OsStrExt;
#[cfg(feature = "unwind")]
use std::path::PathBuf;
use std::{mem, ptr, slice};

/// glibc's `struct dl_find_object` of x86-64.
#[repr(C)]
struct Found {
    flags: u64,
    start: *const u8,
    end: *const u8,
    link_map: *const c_void,
    unwind_index: *const u8,
    reserved: [u64; 7],
}

/// A loaded module.
pub(super) struct Module {
    headers: &'static [libc::Elf64_Phdr],
    /// What is added to the addresses in its file.
    bias: usize,
    /// Where the index of its unwind tables, `.eh_frame_hdr`, is.
    #[cfg_attr(not(feature = "unwind"), expect(dead_code))]
    pub(super) unwind_index: usize,
}

impl Module {
    /// Finds the module that has code at this address.
    pub(super) fn with_code(address: usize) -> Option<Module> {
        let module = Module::around(address)?;
        let wanted = libc::PF_X | libc::PF_R;
        let code = module.segment_of(address, wanted);
        code.is_some().then_some(module)
    }

    fn around(address: usize) -> Option<Module> {
        let find = find_object()?;
        // SAFETY: zeros are a value of this type; glibc fills it in. It takes any address.
        let found = unsafe {
            let mut found: Found = mem::zeroed();
            (find(ptr::without_provenance_mut(address), &raw mut found) == 0).then_some(found)?
        };
        // SAFETY: a module begins with the page of its first segment, which can be read and has the ELF
        // header; that is checked by its first bytes. It says where the program headers are, in that segment
        // as the loader needs them, too. They stay as long as the module, which has code that is running.
        unsafe {
            let header = &*found.start.cast::<libc::Elf64_Ehdr>();
            if !header.e_ident.starts_with(b"\x7fELF") {
                return None;
            }
            let headers = found.start.add(header.e_phoff as usize).cast::<libc::Elf64_Phdr>();
            let headers = slice::from_raw_parts(headers, header.e_phnum.into());
            let first = headers.iter().find(|header| header.p_type == libc::PT_LOAD)?;
            let bias = found.start.addr().wrapping_sub(first.p_vaddr as usize & !4095);
            Some(Module { headers, bias, unwind_index: found.unwind_index.addr() })
        }
    }

    /// Returns where the segment is that has this address, if it has all these rights.
    fn segment_of(&self, address: usize, rights: u32) -> Option<Range<usize>> {
        let loaded = self.headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let mut loaded = loaded.filter(|header| header.p_flags & rights == rights).map(|header| {
            let start = self.bias.wrapping_add(header.p_vaddr as usize);
            start..start.wrapping_add(header.p_memsz as usize)
        });
        loaded.find(|segment| segment.contains(&address))
    }

    /// Returns what the module has in memory from `address` to the end of the segment that has that address.
    #[cfg_attr(not(feature = "unwind"), expect(dead_code))]
    pub(super) fn bytes_from(&self, address: usize) -> Option<&'static [u8]> {
        let segment = self.segment_of(address, libc::PF_R)?;
        // SAFETY: mapped and readable as long as the module is loaded; a caller uses it while code of the
        // module is in a frame. Unwind tables are not written any more.
        Some(unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(address), segment.end - address) })
    }

    /// Returns whether modules can be found on this system.
    #[cfg_attr(feature = "unwind", expect(dead_code))]
    pub(super) fn can_be_found() -> bool {
        find_object().is_some()
    }
}

/// Returns a number that changes when a module is loaded or unloaded. Takes the loader's lock.
#[cfg(feature = "unwind")]
pub(super) fn generation() -> u64 {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, number: *mut c_void) -> c_int {
        // SAFETY: the loader's description of a module, and the variable below.
        unsafe { *number.cast::<u64>() = (*info).dlpi_adds << 32 | (*info).dlpi_subs };
        1
    }
    let mut number = 0u64;
    // SAFETY: the function is called during the call only, with that variable.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut number).cast()) };
    number
}

/// Returns the modules that are loaded: what is added to the addresses in the file, and the file.
#[cfg(feature = "unwind")]
pub(super) fn loaded() -> Vec<(usize, PathBuf)> {
    unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, modules: *mut c_void) -> c_int {
        // SAFETY: the loader's description of a module with its name, and the variable below.
        let (modules, bias, name) = unsafe {
            let name = (*info).dlpi_name;
            let name = if name.is_null() { c"" } else { CStr::from_ptr(name) };
            (&mut *modules.cast::<Vec<(usize, PathBuf)>>(), (*info).dlpi_addr, name)
        };
        // The executable has no name there.
        let path =
            if name.is_empty() { "/proc/self/exe".as_ref() } else { OsStr::from_bytes(name.to_bytes()) };
        modules.push((bias as usize, path.into()));
        0
    }
    let mut modules = Vec::new();
    // SAFETY: as above.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut modules).cast()) };
    modules
}

type FindObject = unsafe extern "C" fn(*mut c_void, *mut Found) -> c_int;

/// Returns glibc's `_dl_find_object`, where there is one. A weak symbol: a search by name would lock.
fn find_object() -> Option<FindObject> {
    let address: *const ();
    // SAFETY: the address of a function that may be missing, and is null then; `Option` has that for `None`.
    unsafe {
        asm!(".weak _dl_find_object", "mov {}, qword ptr [rip + _dl_find_object@GOTPCREL]",
            out(reg) address, options(nostack, preserves_flags, pure, readonly));
        mem::transmute::<*const (), Option<FindObject>>(address)
    }
}
