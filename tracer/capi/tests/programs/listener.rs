//! A program in Rust with the tracer, which loads a library in C++ and calls its function `of_library`.
#![allow(clippy::expect_used, clippy::panic, reason = "a failure in a test fails it")]
#![allow(unsafe_code, reason = "a function that is found by its name")]

use std::ffi::{CStr, CString, c_void};

use tracer::trace;

unsafe extern "C" {
    fn dlopen(path: *const std::ffi::c_char, flags: i32) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const std::ffi::c_char) -> *mut c_void;
    fn dlerror() -> *const std::ffi::c_char;
}

/// The flag for looking up all symbols at once.
const RTLD_NOW: i32 = 2;

fn main() {
    let [_, path, count] = &std::env::args().collect::<Vec<_>>()[..] else { panic!("a library and a count") };
    let path = CString::new(path.as_str()).expect("a path without NUL");
    // SAFETY: the library is one of the tests', whose function has this type; it stays loaded.
    let function = unsafe {
        let library = dlopen(path.as_ptr(), RTLD_NOW);
        assert!(!library.is_null(), "{:?}", CStr::from_ptr(dlerror()));
        let function = dlsym(library, c"of_library".as_ptr());
        assert!(!function.is_null(), "the library has its function");
        std::mem::transmute::<*mut c_void, extern "C" fn(u32) -> u32>(function)
    };
    for n in 0..count.parse().expect("a number") {
        trace!("rust {n}");
        assert_eq!(function(n), 2 * n + 1);
    }
}
