//! The functions by which programs load and unload libraries. They take the place of the C library's, so that the
//! functions of a library have names in traces however short the time for which it is loaded. They update the module
//! table, which then has these libraries:
//!
//! | before `dlopen` and `dlmopen` | all that are loaded now; a call that fails may unload again what it has loaded |
//! |---|---|
//! | before `dlclose` | all that are loaded now, because the call may unload some of them |
//! | after `dlclose` | all that are left, because the next library may get the addresses of one that is gone |
//!
//! Nothing is done after `dlopen`. The C library's `dlopen` uses the return address of its call to choose search paths
//! and namespace. So the function here must jump to it instead of calling it, and does not get control back. The
//! library gets into the table at its `dlclose` at the latest.
//!
//! A library that is loaded and unloaded within one call, because its initialization fails, stays unknown, and so does
//! a library that another thread loads and closes meanwhile; the table only counts them.

#[cfg(naked_functions)]
use std::arch::naked_asm;
use std::ffi::{CStr, c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use tracer::__foreign as foreign;

use crate::hooks::is_loaded;

/// The function to which a function of this file passes its calls on: the next one of the same name in the search order
/// of the dynamic linker, usually that of the C library.
struct Next {
    name: &'static CStr,
    /// The address of the next function; null before the first search. Relaxed accesses suffice, because the code at
    /// the address was there before this thread.
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Next {
        Next { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns the address of the function; null if there is none.
    fn get(&self) -> *mut c_void {
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: looks a name up.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.found.store(found, Ordering::Relaxed);
        }
        found
    }
}

/// Updates the module table, which then has the libraries that are loaded now.
fn look() {
    if is_loaded() {
        foreign::look_at_modules();
    }
}

/// Closes a library, as the C library's function does.
///
/// # Safety
/// As for the C library's function: `library` was opened, and nothing uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(library: *mut c_void) -> c_int {
    static NEXT: Next = Next::new(c"dlclose");
    let next = NEXT.get();
    if next.is_null() {
        // In a static executable no other object has one, and no library can be open.
        return -1;
    }
    // SAFETY: the C library's function, or another one in its place.
    let close = unsafe { mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> c_int>(next) };
    look();
    // SAFETY: by the caller's promise.
    let result = unsafe { close(library) };
    look();
    result
}

/// Defines a function that updates the module table, and then jumps to the next function of the same name, keeping the
/// arguments and the return address.
#[cfg(all(naked_functions, any(target_arch = "x86_64", target_arch = "aarch64")))]
macro_rules! looks_before {
    ($name:ident($($argument:ident: $of:ty),*), $text:literal) => {
        /// Loads a library, as the C library's function does.
        ///
        /// # Safety
        /// As for the C library's function.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $of),*) -> *mut c_void {
            /// Updates the module table; returns the address of the next function of this name, to which the caller
            /// jumps.
            extern "C" fn look_and_find() -> *mut c_void {
                static NEXT: Next = Next::new($text);
                look();
                match NEXT.get() {
                    next if next.is_null() => (fail as extern "C" fn() -> *mut c_void) as *mut c_void,
                    next => next,
                }
            }
            #[cfg(target_arch = "x86_64")]
            naked_asm!(
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                "call {look_and_find}",
                "pop rdx",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "jmp rax",
                ".cfi_endproc",
                look_and_find = sym look_and_find,
            );
            #[cfg(target_arch = "aarch64")]
            naked_asm!(
                ".cfi_startproc",
                "stp x0, x1, [sp, -32]!",
                ".cfi_adjust_cfa_offset 32",
                "stp x2, x30, [sp, 16]",
                ".cfi_rel_offset x30, 24",
                "bl {look_and_find}",
                "mov x16, x0",
                "ldp x2, x30, [sp, 16]",
                ".cfi_restore x30",
                "ldp x0, x1, [sp], 32",
                ".cfi_adjust_cfa_offset -32",
                "br x16",
                ".cfi_endproc",
                look_and_find = sym look_and_find,
            );
        }
    };
}

#[cfg(all(naked_functions, any(target_arch = "x86_64", target_arch = "aarch64")))]
looks_before!(dlopen(_path: *const libc::c_char, _mode: c_int), c"dlopen");

#[cfg(all(naked_functions, any(target_arch = "x86_64", target_arch = "aarch64"), target_env = "gnu"))]
looks_before!(dlmopen(_namespace: libc::c_long, _path: *const libc::c_char, _mode: c_int), c"dlmopen");

/// Takes the place of the C library's `dlopen` and `dlmopen` in a static executable, which has neither: returns null,
/// as if the library could not be opened.
#[cfg(all(naked_functions, any(target_arch = "x86_64", target_arch = "aarch64")))]
extern "C" fn fail() -> *mut c_void {
    ptr::null_mut()
}
