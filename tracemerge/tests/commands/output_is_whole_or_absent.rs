//! The merged file exists as a whole or not at all, and no other file is left behind or overwritten.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::support::{Place, file, ran, run};

#[test]
fn the_merged_file_replaces_an_older_one_and_is_private() {
    let place = Place::with_one_file();
    place.write("app.trace.merge", "old");
    assert_eq!(place.merge(["./app"]).status, Some(0));
    assert_eq!(place.read("app.trace.merge"), place.read("app.trace.9"));
    let mode = fs::metadata(place.path("app.trace.merge")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(place.names(), ["app.trace.9", "app.trace.merge"]);
}

#[test]
fn a_link_at_the_output_path_is_kept() {
    let place = Place::with_one_file();
    place.write("elsewhere", "old");
    std::os::unix::fs::symlink("elsewhere", place.path("link")).unwrap();
    assert_eq!(place.merge(["./app", "-o", "link"]).status, Some(0));
    assert_eq!(place.read("elsewhere"), place.read("app.trace.9"));
    assert!(fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
}

#[test]
fn an_output_that_cannot_be_written_is_named() {
    let place = Place::with_one_file();
    let ran = place.merge(["./app", "-o", "no/such/directory/out"]);
    assert_eq!(ran.status, Some(2));
    assert!(
        ran.err.contains("cannot write 'no/such/directory/out': No such file or directory; -o FILE"),
        "{}",
        ran.err
    );
    let ran = place.merge(["./app", "-o", "/dev/full"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("cannot write '/dev/full': No space left on device"), "{}", ran.err);
    assert_eq!(place.names(), ["app.trace.9"]);
}

#[test]
fn a_full_disk_leaves_no_partial_output() {
    let place = Place::with_one_file();
    place.write("app.trace.10", file(&run(5, 1), 10, &vec![4; 100_000]));
    place.write("app.trace.merge", "old");
    // Files beyond 512 KiB cannot be written; the signal for this is ignored.
    let mut shell = place.program("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 1024; exec \"$0\" ./app", env!("CARGO_BIN_EXE_tracemerge")]);
    let ran = ran(&mut shell);
    assert_eq!(ran.status, Some(2), "{}", ran.err);
    assert!(ran.err.contains("cannot write './app.trace.merge': File too large"), "{}", ran.err);
    assert_eq!(place.text("app.trace.merge"), "old");
    assert_eq!(place.names(), ["app.trace.10", "app.trace.9", "app.trace.merge"]);
}

#[test]
fn inputs_directories_and_the_application_are_not_overwritten() {
    let place = Place::with_one_file();
    place.write("app", "the application");
    fs::hard_link(place.path("app.trace.9"), place.path("other name")).unwrap();
    for (output, told) in [
        ("app.trace.9", "one of the traces"),
        ("other name", "one of the traces"),
        ("app", "the application itself"),
        ("tmp", "a directory"),
        (".", "a directory"),
    ] {
        let ran = place.merge(["./app", "-o", output]);
        assert_eq!(ran.status, Some(2), "{output}");
        assert!(ran.err.contains(told), "{output}: {}", ran.err);
    }
    assert_eq!(place.text("app"), "the application");
    assert_eq!(place.read("app.trace.9"), file(&run(5, 1), 9, &[3, 7]));
}

#[test]
fn devices_and_fifos_are_written_directly() {
    let place = Place::with_one_file();
    assert_eq!(place.merge(["./app", "-o", "/dev/null"]).status, Some(0));
    let via = place.merge(["./app", "-o", "/dev/stdout"]);
    assert_eq!((via.status, via.out), (Some(0), place.read("app.trace.9")));
    assert_eq!(ran(place.program("mkfifo").arg("fifo")).status, Some(0));
    let mut cat = place.program("cat").arg("fifo").stdout(Stdio::piped()).spawn().unwrap();
    let status = place.merge(["./app", "-o", "fifo"]).status;
    let mut got = Vec::new();
    cat.stdout.take().unwrap().read_to_end(&mut got).unwrap();
    cat.wait().unwrap();
    assert_eq!((status, got), (Some(0), place.read("app.trace.9")));
}

#[test]
fn a_reader_that_closes_the_pipe_is_not_a_failure() {
    let place = Place::with_one_file();
    place.write("app.trace.10", file(&run(5, 1), 10, &vec![4; 200_000]));
    let mut child = place.command().args(["./app", "-o", "-"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Returns whether the directory of the tests can have files without names.
#[cfg(target_os = "linux")]
fn knows_unnamed_files(place: &Place) -> bool {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    options.write(true).custom_flags(libc::O_TMPFILE).open(place.path("tmp")).is_ok()
}

#[cfg(target_os = "linux")]
#[test]
fn a_merge_killed_at_any_moment_leaves_only_complete_files() {
    use std::time::{Duration, Instant};
    let place = Place::with_one_file();
    if !knows_unnamed_files(&place) {
        return;
    }
    let many: Vec<u64> = (5..600_000).collect();
    place.write("app.trace.10", file(&run(5, 1), 10, &many));
    let start = Instant::now();
    assert_eq!(place.merge(["-q", "./app"]).status, Some(0));
    let takes = start.elapsed();
    let (whole, inputs) = (place.read("app.trace.merge"), ["app.trace.10", "app.trace.9"]);
    let mut killed = 0;
    for trial in 0..80 {
        // Every second time an older merged file exists.
        let older = trial % 2 == 1;
        fs::remove_file(place.path("app.trace.merge")).unwrap();
        if older {
            place.write("app.trace.merge", "old");
        }
        let mut child = place.command().args(["-q", "./app"]).spawn().unwrap();
        std::thread::sleep(takes * trial / 70 + Duration::from_micros(u64::from(trial) * 7));
        child.kill().unwrap();
        killed += u32::from(child.wait().unwrap().code().is_none());
        let merged = fs::read(place.path("app.trace.merge")).unwrap_or_default();
        let before: &[u8] = if older { b"old" } else { b"" };
        assert!(merged == whole || merged == before, "{trial}: {} bytes", merged.len());
        for name in place.names() {
            if !inputs.contains(&&*name) && name != "app.trace.merge" {
                assert!(older && place.read(&name) == whole, "{trial}: {name}");
                fs::remove_file(place.path(&name)).unwrap();
            }
        }
        if !place.path("app.trace.merge").exists() {
            place.write("app.trace.merge", "");
        }
    }
    assert!(killed > 0, "none was killed");
}

#[test]
#[allow(unsafe_code, reason = "std has no lock of a range")]
fn leftovers_of_a_killed_merge_are_deleted_by_merge_and_clean() {
    use std::os::fd::AsRawFd;
    for words in [&["./app"][..], &["clean", "./app"]] {
        let place = Place::with_one_file();
        let names = [".tracemerge-a1B2c3", ".tracemerge-locked", ".tracemerge-notours", "tracemerge-a1B2c3"];
        names.iter().for_each(|name| place.write(name, "half of a trace"));
        std::os::unix::fs::symlink("tracemerge-a1B2c3", place.path(".tracemerge-aalink")).unwrap();
        // A merge that still writes holds this kind of lock.
        let written = fs::File::options().write(true).open(place.path(".tracemerge-locked")).unwrap();
        // SAFETY: plain data, valid when all zero; then a call that reads it.
        unsafe {
            let mut lock: libc::flock = std::mem::zeroed();
            lock.l_type = libc::F_WRLCK as libc::c_short;
            lock.l_len = 1;
            assert_eq!(libc::fcntl(written.as_raw_fd(), libc::F_SETLK, &lock), 0);
        }
        let ran = place.merge(words);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        let says = ran.err.contains("deleted './.tracemerge-a1B2c3', a temporary file of a killed merge");
        assert_eq!(says, words[0] == "clean", "{}", ran.err);
        let left = [".tracemerge-aalink", ".tracemerge-locked", ".tracemerge-notours", "tracemerge-a1B2c3"];
        let hidden = place.names().into_iter().filter(|name| name.contains("tracemerge"));
        assert_eq!(hidden.collect::<Vec<_>>(), left);
    }
}
