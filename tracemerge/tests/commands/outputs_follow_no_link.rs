//! A name that the user has not typed never leads through a link, into a FIFO, or over a file that is not the user's
//! own.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;

use crate::support::programs::lacks_root;
use crate::support::{Place, Ran, file, ran, run};

/// The outputs whose names are derived from that of the application, and the commands that write them.
const OUTPUTS: &[(&str, &[&str])] = &[
    ("app.trace.merge", &["app"]),
    ("app.trace.merge", &["--symbols", "./app"]),
    ("app.jsonl", &["--format", "jsonl", "app"]),
    ("app.csv", &["--format", "csv", "app"]),
    ("app.perfetto-trace", &["--format", "perfetto", "app"]),
    ("app.chrome.json", &["--format", "chrome", "app"]),
    ("app.folded", &["--format", "folded", "app"]),
    ("app.speedscope.json", &["--format", "speedscope", "app"]),
    ("app.uftrace", &["--format", "uftrace", "app"]),
    ("app.ctf", &["--format", "ctf", "app"]),
    ("app.trace.utc", &["open", "app"]),
    ("trace.merge", &["."]),
];

fn is_directory(output: &str) -> bool {
    ["app.uftrace", "app.ctf"].contains(&output)
}

fn merge(place: &Place, args: &[&str]) -> Ran {
    ran(place.command().env("TRACEMERGE_OPEN", "text:true").args(args))
}

/// Makes each output after `put` has put something under its name, and checks that the command refuses. Nothing else
/// may be made or changed; `precious` is a file of the user.
fn refused(put: impl Fn(&Place, &str), said: &str) {
    for (output, args) in OUTPUTS {
        let place = Place::with_one_file();
        place.write("precious", "precious");
        put(&place, output);
        let before = (place.names(), fs::symlink_metadata(place.path(output)).unwrap());
        let ran = merge(&place, args);
        assert_eq!(ran.status, Some(2), "{output}: {}", ran.err);
        assert!(ran.err.contains(output) && ran.err.contains(said), "{output}: {}", ran.err);
        assert!(ran.err.contains("-o "), "what the user can do is said: {}", ran.err);
        let after = (place.names(), fs::symlink_metadata(place.path(output)).unwrap());
        assert_eq!(before.0, after.0, "{output}");
        let is = |found: &fs::Metadata| (found.ino(), found.mode(), found.len(), found.mtime_nsec());
        assert_eq!(is(&before.1), is(&after.1), "{output}");
        assert_eq!(place.text("precious"), "precious", "{output}");
    }
}

#[test]
fn outputs_are_made_if_nothing_is_in_the_way() {
    for (output, args) in OUTPUTS {
        let place = Place::with_one_file();
        for _ in 0..2 {
            let ran = merge(&place, args);
            assert!(ran.status < Some(2), "{output}: {}", ran.err);
            let mut expected = ["app.trace.9", output];
            expected.sort_unstable();
            assert_eq!(place.names(), expected, "{output}");
            assert_eq!(place.path(output).is_dir(), is_directory(output), "{output}");
        }
    }
}

#[test]
fn a_link_is_not_followed() {
    refused(
        |place, output| symlink("precious", place.path(output)).unwrap(),
        "a symbolic link has this name",
    );
}

#[test]
fn a_link_to_nothing_is_not_followed() {
    refused(|place, output| symlink("nothing", place.path(output)).unwrap(), "a symbolic link has this name");
}

#[test]
fn a_link_to_a_directory_is_not_followed() {
    let put = |place: &Place, output: &str| {
        fs::create_dir(place.path("elsewhere")).unwrap();
        symlink("elsewhere", place.path(output)).unwrap();
    };
    refused(put, "a symbolic link has this name");
}

#[test]
fn a_link_to_an_earlier_output_is_not_followed() {
    let put = |place: &Place, output: &str| {
        if is_directory(output) {
            let made =
                merge(place, &["--format", output.strip_prefix("app.").unwrap(), "-o", "earlier", "app"]);
            assert!(made.status < Some(2), "{}", made.err);
        } else {
            place.write("earlier", "");
        }
        symlink("earlier", place.path(output)).unwrap();
    };
    refused(put, "a symbolic link has this name");
}

#[test]
fn a_fifo_is_not_opened() {
    let put = |place: &Place, output: &str| {
        assert_eq!(ran(place.program("mkfifo").arg(output)).status, Some(0));
    };
    refused(put, "a FIFO has this name");
}

#[test]
fn a_socket_is_not_replaced() {
    let put = |place: &Place, output: &str| drop(UnixListener::bind(place.path(output)).unwrap());
    refused(put, "a socket has this name");
}

#[test]
fn a_file_is_not_replaced_by_a_directory_nor_a_directory_by_a_file() {
    let put = |place: &Place, output: &str| {
        if is_directory(output) {
            place.write(output, "mine");
        } else {
            fs::create_dir(place.path(output)).unwrap();
        }
    };
    refused(put, " has this name");
}

#[test]
fn a_directory_whose_mark_is_a_fifo_is_not_replaced() {
    let put = |place: &Place, output: &str| {
        fs::create_dir(place.path(output)).unwrap();
        let fifo = place.path(output).join(".tracemerge");
        assert_eq!(ran(place.program("mkfifo").arg(fifo)).status, Some(0));
    };
    refused(put, "");
}

#[test]
fn another_program_is_not_replaced() {
    for start in [&b"\x7fELF"[..], b"#!/bin/sh\n", b"MZ\x90\0"] {
        let put = |place: &Place, output: &str| place.write(output, start);
        refused(put, " has this name");
    }
}

#[test]
fn an_output_path_given_by_the_user_follows_links() {
    let place = Place::with_one_file();
    place.write("elsewhere", "old");
    symlink("elsewhere", place.path("to file")).unwrap();
    symlink("new", place.path("to nothing")).unwrap();
    symlink("to nothing", place.path("to a link")).unwrap();
    for (output, behind) in [("to file", "elsewhere"), ("to nothing", "new"), ("to a link", "new")] {
        assert_eq!(place.merge(["-o", output, "app"]).status, Some(0));
        assert_eq!(place.read(behind), place.read("app.trace.9"));
        assert!(place.path(output).is_symlink());
        fs::remove_file(place.path(behind)).unwrap();
    }
    symlink("loop", place.path("loop")).unwrap();
    let ran = place.merge(["-o", "loop", "app"]);
    assert_eq!(ran.status, Some(2), "{}", ran.err);
    assert!(place.path("loop").is_symlink());
}

#[test]
fn the_directory_itself_may_be_a_link() {
    let place = Place::new();
    fs::create_dir(place.path("real")).unwrap();
    place.write("real/app.trace.9", file(&run(5, 1), 9, &[3, 7]));
    symlink("real", place.path("link")).unwrap();
    for args in [&["link/app"][..], &["--format", "ctf", "link/app"], &["link"]] {
        let ran = place.merge(args);
        assert!(ran.status < Some(2), "{}", ran.err);
    }
    for made in ["app.trace.merge", "app.ctf", "trace.merge"] {
        assert!(place.path("real").join(made).exists(), "{made}");
    }
}

/// Two users who are not root, and whose files the tests make.
const VICTIM: u32 = 65534;
const OTHER: u32 = 101;

/// Returns a place in which all users may write, with a trace of the victim and the command; `None`, with a message,
/// without the rights to make it.
fn shared_place() -> Option<Place> {
    if lacks_root() {
        return None;
    }
    let place = Place::with_one_file();
    for (path, mode) in [(".", 0o1777), ("tmp", 0o1777)] {
        fs::set_permissions(place.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    chown(place.path("app.trace.9"), Some(VICTIM), None).unwrap();
    // A separate program copies the command: a child of another test may hold a file open that this process writes.
    assert_eq!(ran(place.program("cp").args([env!("CARGO_BIN_EXE_tracemerge"), "tm"])).status, Some(0));
    fs::set_permissions(place.path("tm"), fs::Permissions::from_mode(0o755)).unwrap();
    Some(place)
}

fn as_user(place: &Place, user: u32, args: &[&str]) -> Ran {
    let mut command = place.program(place.path("tm"));
    ran(command.env("TRACEMERGE_OPEN", "text:true").uid(user).gid(user).args(args))
}

#[test]
fn a_file_of_another_user_is_not_replaced_even_by_root() {
    for (output, args) in OUTPUTS {
        let Some(place) = shared_place() else { return };
        if is_directory(output) {
            fs::create_dir(place.path(output)).unwrap();
            chown(place.path(output), Some(OTHER), None).unwrap();
        } else {
            place.write(output, "of the other");
            chown(place.path(output), Some(OTHER), None).unwrap();
            fs::set_permissions(place.path(output), fs::Permissions::from_mode(0o666)).unwrap();
        }
        let id = fs::metadata(place.path(output)).unwrap().ino();
        for user in [VICTIM, 0] {
            let ran = as_user(&place, user, args);
            assert_eq!(ran.status, Some(2), "{output}: {}", ran.err);
            assert!(ran.err.contains("of another user (101)"), "{output}: {}", ran.err);
        }
        assert_eq!(fs::metadata(place.path(output)).unwrap().ino(), id, "{output}");
    }
}

#[test]
fn root_does_not_follow_a_link_of_another_user() {
    let Some(place) = shared_place() else { return };
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), "of root").unwrap();
    fs::set_permissions(place.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    for path in [".", "app.trace.9"] {
        chown(place.path(path), Some(OTHER), None).unwrap();
    }
    std::os::unix::fs::symlink(secret.path(), place.path("app.trace.merge")).unwrap();
    std::os::unix::fs::lchown(place.path("app.trace.merge"), Some(OTHER), None).unwrap();
    let refused = as_user(&place, 0, &["app"]);
    assert_eq!(refused.status, Some(2), "{}", refused.err);
    assert_eq!(fs::read_to_string(secret.path()).unwrap(), "of root");
    fs::remove_file(place.path("app.trace.merge")).unwrap();
    let made = as_user(&place, 0, &["app"]);
    assert_eq!(made.status, Some(0), "{}", made.err);
    let merged = fs::metadata(place.path("app.trace.merge")).unwrap();
    assert_eq!((merged.uid(), merged.mode() & 0o777), (0, 0o600));
    assert!(Path::new(&place.path("app.trace.9")).exists());
}
