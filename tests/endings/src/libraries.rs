//! A traced program that loads and unloads a library with a tracer of its own, on Windows.
//!
//! `libraries <library> <rounds> <threads> <end>`: each round loads the library, which traces ten records on this
//! thread and on each of `<threads>` other threads, and unloads it. In the last round the library stays loaded, and
//! traces ten more records right before the end, which is `return` or `exit`. The program sleeps before that: Wine 8
//! sometimes fails in a process that ends while a thread that is ended with it opens files.
#![cfg_attr(windows, allow(unsafe_code, reason = "loads a library"))]

#[cfg(windows)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::ffi::{c_char, c_void};
    use std::os::windows::ffi::OsStrExt;
    #[link(name = "kernel32", kind = "raw-dylib")]
    unsafe extern "system" {
        fn LoadLibraryW(name: *const u16) -> *mut c_void;
        fn FreeLibrary(library: *mut c_void) -> i32;
        fn GetProcAddress(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [library, rounds, threads, end] = &arguments[..] else { return Err("four arguments".into()) };
    let number = |text: &std::ffi::OsString| text.to_string_lossy().parse::<u64>();
    let (rounds, threads) = (number(rounds)?, number(threads)?);
    let name: Vec<u16> = library.encode_wide().chain([0]).collect();
    for round in 1..=rounds {
        tracer::trace!("program says round {round}");
        // SAFETY: the name ends in zero; the library's function has this type, and is called while it is loaded.
        unsafe {
            let library = LoadLibraryW(name.as_ptr());
            let says = GetProcAddress(library, c"library_says".as_ptr());
            if says.is_null() {
                return Err(std::io::Error::last_os_error().into());
            }
            let says = std::mem::transmute::<*mut c_void, extern "C" fn(u64, u64)>(says);
            says(10, threads);
            if round == rounds {
                tracer::trace!("program says the end");
                std::thread::sleep(std::time::Duration::from_millis(500));
                says(10, 0);
            } else if FreeLibrary(library) == 0 {
                return Err(std::io::Error::last_os_error().into());
            }
        }
    }
    if end == "exit" {
        std::process::exit(0);
    }
    Ok(())
}

#[cfg(not(windows))]
fn main() {}
