//! The loaded modules (the executable, shared libraries): which one contains an address, and where its parts are.
//!
//! The kernel tells a process where its executable is. `_dl_find_object` of glibc 2.35 and later finds libraries,
//! without a lock and in signal handlers. If there is no such function (older systems, musl), code of libraries is
//! not found.
#![allow(unsafe_code, reason = "reads the headers of loaded modules; each argued where it stands")]

#[cfg(feature = "unwind")]
use std::ffi::{CStr, OsStr};
use std::ffi::{c_int, c_void};
use std::ops::Range;
#[cfg(feature = "unwind")]
use std::os::unix::ffi::OsStrExt;
#[cfg(feature = "unwind")]
use std::path::PathBuf;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{hint, mem, ptr, slice};

#[cfg(feature = "unwind")]
use trace_store::sys::executable_file;

/// glibc's `struct dl_find_object` of x86-64 and aarch64.
#[repr(C)]
struct Found {
    flags: u64,
    start: *const u8,
    end: *const u8,
    link_map: *const usize,
    unwind_index: *const u8,
    reserved: [u64; 7],
}

/// A loaded module: the executable or a shared library.
pub(super) struct Module {
    headers: &'static [libc::Elf64_Phdr],
    /// The number that is added to an address in the module's file to get the address in memory.
    bias: usize,
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
        Module::executable().filter(|module| module.segment_of(address, 0).is_some()).or_else(|| {
            let module = Module::library(address)?;
            module.segment_of(address, 0).is_some().then_some(module)
        })
    }

    /// Returns whether the module stays loaded as long as this code, so that no other module can get the module's
    /// addresses. That is so for the executable and for the module that contains this code, and for the C library,
    /// which both of them need.
    pub(super) fn stays(&self) -> bool {
        let is = |other: Option<Module>| other.is_some_and(|other| ptr::eq(other.headers, self.headers));
        let needed = [look_for_find_object as *const (), libc::getauxval as *const ()];
        is(Module::executable()) || needed.iter().any(|place| is(Module::around(place.addr())))
    }

    /// Returns the executable, whose program headers the kernel provides.
    fn executable() -> Option<Module> {
        // SAFETY: both only query. The headers stay where the kernel has mapped them.
        let headers = unsafe {
            let start =
                ptr::with_exposed_provenance::<libc::Elf64_Phdr>(libc::getauxval(libc::AT_PHDR) as usize);
            let number = libc::getauxval(libc::AT_PHNUM) as usize;
            (!start.is_null()).then(|| slice::from_raw_parts(start, number))?
        };
        let own = headers.iter().find(|header| header.p_type == libc::PT_PHDR);
        let bias = own.map_or(0, |own| headers.as_ptr().addr().wrapping_sub(own.p_vaddr as usize));
        Some(Module { headers, bias })
    }

    /// Finds the library that contains this address.
    fn library(address: usize) -> Option<Module> {
        let find = find_object()?;
        // SAFETY: zeros are a value of this type; glibc fills it in. It takes any address. The public part of a
        // `link_map` begins with the number that is added to the addresses in the file.
        let (start, bias) = unsafe {
            let mut found: Found = mem::zeroed();
            if find(ptr::without_provenance_mut(address), &raw mut found) != 0 || found.link_map.is_null() {
                return None;
            }
            (found.start, *found.link_map)
        };
        // A library begins with its headers, at the address 0 of its file. (For the executable glibc gives the start
        // of its code, not of its mapping.)
        if start.addr() != bias {
            return None;
        }
        // SAFETY: the library's first page, which can be read; the first bytes show whether it has the ELF header.
        // The program headers are in that segment because the loader needs them, too. They stay as long as the
        // library, which has code that is running.
        unsafe {
            let header = &*start.cast::<libc::Elf64_Ehdr>();
            let headers = start.add(header.e_phoff as usize).cast::<libc::Elf64_Phdr>();
            let is_elf = header.e_ident.starts_with(b"\x7fELF");
            is_elf.then(|| Module { headers: slice::from_raw_parts(headers, header.e_phnum.into()), bias })
        }
    }

    /// Returns the address of the index of the module's unwind tables, `.eh_frame_hdr`.
    #[cfg(feature = "unwind")]
    pub(super) fn unwind_index(&self) -> Option<usize> {
        let index = self.headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
        Some(self.bias.wrapping_add(index.p_vaddr as usize))
    }

    /// Returns the range of the segment that contains this address, if it has all these rights.
    pub(super) fn segment_of(&self, address: usize, rights: u32) -> Option<Range<usize>> {
        let loaded = self.headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let mut loaded = loaded.filter(|header| header.p_flags & rights == rights).map(|header| {
            let start = self.bias.wrapping_add(header.p_vaddr as usize);
            start..start.wrapping_add(header.p_memsz as usize)
        });
        loaded.find(|segment| segment.contains(&address))
    }

    /// Returns the module's memory from `address` to the end of the segment that contains that address.
    #[cfg(feature = "unwind")]
    pub(super) fn bytes_from(&self, address: usize) -> Option<&'static [u8]> {
        let segment = self.segment_of(address, libc::PF_R)?;
        // SAFETY: mapped and readable as long as the module is loaded; a caller uses it while code of the module is
        // in a frame. Unwind tables are not written any more.
        Some(unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(address), segment.end - address) })
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

/// Returns, for each loaded module, the number that is added to the addresses in its file, and the file's path.
#[cfg(feature = "unwind")]
pub(super) fn loaded() -> Vec<(usize, PathBuf)> {
    unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, modules: *mut c_void) -> c_int {
        // SAFETY: the loader's description of a module with its name, and the variable below.
        let (modules, bias, name) = unsafe {
            let name = (*info).dlpi_name;
            let name = if name.is_null() { c"" } else { CStr::from_ptr(name) };
            (&mut *modules.cast::<Vec<(usize, PathBuf)>>(), (*info).dlpi_addr, name)
        };
        // In this list, the executable has no name.
        let is_executable = name.is_empty() && modules.is_empty();
        let path = || OsStr::from_bytes(name.to_bytes()).into();
        modules.push((bias as usize, if is_executable { executable_file() } else { path() }));
        0
    }
    let mut modules = Vec::new();
    // SAFETY: as above.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut modules).cast()) };
    modules
}

type FindObject = unsafe extern "C" fn(*mut c_void, *mut Found) -> c_int;

/// The address of glibc's `_dl_find_object`, or null if there is none. Written before any thread runs code of this
/// module, so it needs no ordering.
static FIND_OBJECT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// A constructor that looks for `_dl_find_object` when the loader loads this code: a search takes the loader's lock,
/// and a walk may be in a signal handler. A linked symbol, even a weak one, would not work: linkers note its version as
/// one that the program needs, and the program would not start with an older glibc. Miri has no loader to search.
#[used]
#[cfg_attr(not(miri), unsafe(link_section = ".init_array"))]
static AT_LOAD: extern "C" fn() = look_for_find_object;

extern "C" fn look_for_find_object() {
    // SAFETY: searches a name. The second call clears the error that the first may have left for `dlerror`.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr());
        if found.is_null() {
            libc::dlerror();
        }
        FIND_OBJECT.store(found, Ordering::Relaxed);
    }
}

/// Returns glibc's `_dl_find_object`, if there is one.
fn find_object() -> Option<FindObject> {
    // From a static library linkers take only objects that are referred to.
    hint::black_box(&raw const AT_LOAD);
    let address = FIND_OBJECT.load(Ordering::Relaxed);
    // SAFETY: null, which is `None` of the `Option`, or a function of this type.
    unsafe { mem::transmute::<*mut c_void, Option<FindObject>>(address) }
}
