//! A run that holds the lock on its manifest is alive: its torn tails are not damage, and its files are not deleted.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]
#![allow(unsafe_code, reason = "takes a lock that std has no name for")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use crate::support::{Place, file, run};
use trace_format::file::Encoding;
use trace_format::manifest::{Directory, Manifest};

/// A process that holds the lock of a run until this is dropped.
struct Holder(Child);

impl Holder {
    fn of(manifest: &File) -> Holder {
        let manifest = manifest.as_raw_fd();
        let take = move || {
            // SAFETY: all-zero is a valid `flock`.
            let mut lock: libc::flock = unsafe { std::mem::zeroed() };
            lock.l_type = libc::F_WRLCK as libc::c_short;
            // A run locks the first byte.
            lock.l_len = 1;
            // The program keeps the lock as long as it does not close the file.
            // SAFETY: both calls are about a descriptor of this process; `lock` is a `flock`.
            let taken = unsafe {
                libc::fcntl(manifest, libc::F_SETFD, 0) == 0
                    && libc::fcntl(manifest, libc::F_SETLK, &raw const lock) == 0
            };
            if taken { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        let mut command = Command::new("sleep");
        command.arg("600");
        // SAFETY: the closure only makes system calls.
        unsafe { command.pre_exec(take) };
        Holder(command.spawn().unwrap())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Makes a run whose thread 10 is in the middle of a line, and whose thread 11 has not begun; returns the
/// run's manifest, too.
fn place() -> (Place, File) {
    let place = Place::new();
    let run = run(5, 1);
    place.write("app.trace.9", file(&run, 9, &[3, 7]));
    place.write(
        "app.trace.10",
        [file(&run, 10, &[4]), b"0000000000000005-00000010 : half a".to_vec()].concat(),
    );
    place.write("app.trace.11", "");
    let directory = place.path(format!("runtime/{}-{:08x}", run.pid, run.id));
    fs::DirBuilder::new().mode(0o700).recursive(true).create(&directory).unwrap();
    let path = fs::canonicalize(place.path("")).unwrap().into_os_string().into_encoded_bytes();
    let directories = vec![Directory { path, identity: None }];
    let manifest = Manifest { run, directories, name: b"app".to_vec(), encoding: Encoding::Text };
    fs::write(directory.join("manifest"), manifest.write()).unwrap();
    let manifest = OpenOptions::new().read(true).write(true).open(directory.join("manifest")).unwrap();
    (place, manifest)
}

#[test]
fn torn_tails_and_new_files_are_not_damage_in_a_live_run() {
    let (place, manifest) = place();
    let holder = Holder::of(&manifest);
    let ran = place.merge(["./app"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(!place.text("app.trace.merge").contains("half a"));
    assert!(place.text("app.trace.merge").contains("line 0 of 10\n"));
    drop(holder);
    let ran = place.merge(["./app"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    assert!(
        ran.err.contains("may be incomplete") && ran.err.contains("'./app.trace.11' is empty"),
        "{}",
        ran.err
    );
    assert!(place.text("app.trace.merge").contains("half a\n"));
}

#[test]
fn files_of_a_live_run_are_not_deleted() {
    let (place, manifest) = place();
    place.write("app.trace.12", file(&run(6, 1), 12, &[3]));
    let holder = Holder::of(&manifest);
    let ran = place.merge(["clean", "./app"]);
    assert!(
        ran.err.contains("not deleted: 2 trace files of processes that are still running"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("deleted 1 trace file\n"), "{}", ran.err);
    drop(holder);
    let ran = place.merge(["clean", "./app"]);
    assert!(ran.err.contains("deleted 2 trace files\n"), "{}", ran.err);
}
