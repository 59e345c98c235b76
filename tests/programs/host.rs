//! Functions for the programs of every scenario: they communicate with the test, and end the program at once.

use std::io::{BufRead, Write};

/// Prints a line that the test waits for.
pub fn say(text: &str) {
    println!("{text}");
    let _ = std::io::stdout().flush();
}

/// Waits for a line of the test; returns `None` if the test has ended.
pub fn hear() -> Option<String> {
    std::io::stdin().lock().lines().next().and_then(Result::ok)
}

/// Ends this process as a kill from outside does: none of its code runs any more.
#[cfg(unix)]
pub fn die() -> ! {
    // SAFETY: the call touches no memory; the process ends here.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!("a process does not outlive the signal");
}

/// Ends this process as a kill from outside does: none of its code runs any more.
#[cfg(windows)]
pub fn die() -> ! {
    unsafe extern "system" {
        fn GetCurrentProcess() -> *mut std::ffi::c_void;
        fn TerminateProcess(process: *mut std::ffi::c_void, status: u32) -> i32;
    }
    // SAFETY: the handle is this process's own, and the process ends here.
    unsafe { TerminateProcess(GetCurrentProcess(), 9) };
    unreachable!("a process does not outlive the call");
}
