//! A traced program that records a stack that goes through a library with a PDB, on Windows: `through <library>`.
#![cfg_attr(windows, allow(unsafe_code, reason = "loads a library"))]

#[cfg(windows)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::ffi::{c_char, c_void};
    use std::os::windows::ffi::OsStrExt;
    #[link(name = "kernel32", kind = "raw-dylib")]
    unsafe extern "system" {
        fn LoadLibraryW(name: *const u16) -> *mut c_void;
        fn GetProcAddress(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    extern "C" fn called(number: i32) -> i32 {
        tracer::trace_stack!("stack {number}");
        number
    }
    let library = std::env::args_os().nth(1).ok_or("a library")?;
    let name: Vec<u16> = library.encode_wide().chain([0]).collect();
    // SAFETY: the name ends in zero; the library's function has this type, and the library stays loaded.
    unsafe {
        let library = LoadLibraryW(name.as_ptr());
        let through = GetProcAddress(library, c"through".as_ptr());
        if through.is_null() {
            return Err(std::io::Error::last_os_error().into());
        }
        let through =
            std::mem::transmute::<*mut c_void, extern "C" fn(extern "C" fn(i32) -> i32, i32) -> i32>(through);
        assert_eq!(through(called, 7), (7 + 1) * 3 - 1);
    }
    Ok(())
}

#[cfg(not(windows))]
fn main() {}
