//! The requirements of a test beyond the toolchain, cc and coreutils: programs of others, and rights. Tests ask for
//! them here and nowhere else. The tests of several crates include this file through symbolic links, so that it is
//! in each published package.
//!
//! A test that lacks something ends at once, and libtest counts it as passed. One line on the stderr of the process
//! names such a test: no test runner hides that line, and scripts can count it:
//!
//! ```text
//! left out: NAME OF THE TEST: needs PROGRAM
//! in part: NAME OF THE TEST: without PROGRAM
//! for root: NAME OF THE TEST
//! ```
//!
//! With `TRACER_TEST_TOOLS=required`, which CI sets, a missing program fails the test.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::io::Write;
use std::path::{Path, PathBuf};

/// Returns whether one of these programs is missing, and then reports that the test is left out. A test calls this
/// first.
pub fn lacks(programs: &[&str]) -> bool {
    let missing = missing(programs);
    if !missing.is_empty() {
        left_out(&missing.join(", "));
    }
    !missing.is_empty()
}

/// Returns the programs that are installed. If others are missing, reports that the test leaves out a part.
pub fn installed_programs<const N: usize>(programs: [&'static str; N]) -> Vec<&'static str> {
    let missing = missing(&programs);
    if !missing.is_empty() {
        in_part(&missing.join(", "));
    }
    programs.into_iter().filter(|program| !missing.contains(program)).collect()
}

/// Returns the directory of the programs that `.ci/readers` installs. If there is none, reports that the test is
/// left out.
pub fn readers() -> Option<PathBuf> {
    let found = directory_of_readers();
    if found.is_none() {
        left_out(READERS);
    }
    found
}

/// Returns the same directory. If there is none, reports that the test leaves out a part.
pub fn optional_readers() -> Option<PathBuf> {
    let found = directory_of_readers();
    if found.is_none() {
        in_part(READERS);
    }
    found
}

/// Returns whether this process is not root's, and then reports that the test is left out, because only root may
/// run it.
pub fn lacks_root() -> bool {
    let is_so = !is_root();
    if is_so {
        say("for root", "");
    }
    is_so
}

/// Reports that the test ends here, because this system lacks something that it needs.
pub fn left_out(needs: &str) {
    say("left out", &format!(": needs {needs}"));
}

/// Reports that the test leaves out a part of its work.
pub fn in_part(without: &str) {
    say("in part", &format!(": without {without}"));
}

/// Returns whether this process may act for other users.
pub fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1));
    effective == Some("0")
}

/// Returns the path of a program that is found by its name.
pub fn path_of(program: &str) -> Option<PathBuf> {
    let name = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|place| place.join(&name)).find(|path| is_program(path))
}

/// The programs that `.ci/readers` installs, for messages.
const READERS: &str = "Perfetto, speedscope and DuckDB (`bash .ci/readers`)";

/// Returns the directory that `TRACER_READERS` names, or else that of this checkout.
fn directory_of_readers() -> Option<PathBuf> {
    let named = std::env::var_os("TRACER_READERS").filter(|readers| !readers.is_empty());
    let own = || {
        let checkouts = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        checkouts
            .map(|checkout| checkout.join(".ci/cache/readers"))
            .find(|place| place.join("whole").exists())
    };
    let found = if cfg!(windows) { None } else { named.map(PathBuf::from).or_else(own) };
    if found.is_none() {
        required(READERS);
    }
    found
}

fn missing<'a>(programs: &[&'a str]) -> Vec<&'a str> {
    let missing: Vec<&str> = programs.iter().copied().filter(|program| path_of(program).is_none()).collect();
    if !missing.is_empty() {
        required(&missing.join(", "));
    }
    missing
}

/// Fails the test if the environment requires all programs.
fn required(missing: &str) {
    assert!(
        std::env::var_os("TRACER_TEST_TOOLS").is_none_or(|how| how != "required"),
        "this test needs {missing}, and TRACER_TEST_TOOLS=required; `bash .ci/run need` installs it (Debian, root)"
    );
}

/// Writes a line for the running test, whose thread has its name. The line feed at its beginning ends a line of
/// libtest.
fn say(what: &str, more: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = std::io::stderr().write_all(format!("\n{what}: {test}{more}\n").as_bytes());
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}
