//! A test in a process of its own. The tests of several crates include this file through symbolic links, so that it
//! is in each published package.
//!
//! The tests of a program run beside each other in one process. If a test changes state that is global to the
//! process, or depends on it, this module runs the test again, as the only one of a new process.
#![allow(clippy::expect_used, reason = "a failure in a test fails it")]

use std::process::Command;

/// The variable that marks the process of a test that is alone.
const ALONE: &str = "TRACER_TEST_ALONE";

/// Returns whether the calling test is alone in its process. If it is not, first runs it in such a process, and
/// fails if it fails there; the caller then has nothing left to do.
///
/// # Panics
/// If the test fails in its own process, or cannot be run there.
pub fn is_alone() -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let output = alone(&mut Command::new(std::env::current_exe().expect("the path of the test"))).output();
    let output = output.expect("the test can be run again");
    let said = String::from_utf8_lossy(&output.stdout);
    let has_passed = output.status.success() && said.contains("test result: ok. 1 passed");
    assert!(has_passed, "{}\n{said}{}", output.status, String::from_utf8_lossy(&output.stderr));
    false
}

/// Makes `command`, which runs this test program or a debugger of it, run the calling test alone. The test's thread
/// has the test's name.
pub fn alone(command: &mut Command) -> &mut Command {
    let thread = std::thread::current();
    let name = thread.name().expect("a test's thread has its name");
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(ALONE, "1")
}
