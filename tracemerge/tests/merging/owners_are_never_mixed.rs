//! In a directory that several users may write to, files of other users are not shown in place of the user's own, nor
//! together with them in one run, nor deleted.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use crate::support::{Place, Ran, file, line, meta, ran, raw_file, run};
use trace_format::meta::{Meta, Run};

/// The id of a user who is not the caller.
const OTHER: u32 = 65534;
/// The id of a third user.
const ANOTHER: u32 = 1234;

/// Makes a place with a directory that all users may write to; `None` if files cannot be given to other users.
fn shared_place() -> Option<Place> {
    if crate::support::programs::lacks_root() {
        return None;
    }
    let place = Place::new();
    fs::create_dir(place.path("shared")).unwrap();
    fs::set_permissions(place.path("shared"), PermissionsExt::from_mode(0o1777)).unwrap();
    place.write("app", "an executable");
    Some(place)
}

/// Returns a run of the executable in `place`.
fn run_of(place: &Place, pid: u32, start: u64) -> Run {
    let exe = fs::canonicalize(place.path("app")).unwrap().into_os_string().into_encoded_bytes();
    Run { exe, ..run(pid, start) }
}

fn write(place: &Place, owner: u32, tid: u64, bytes: impl AsRef<[u8]>) {
    let name = format!("shared/app.trace.{tid}");
    place.write(&name, bytes);
    chown(place.path(&name), Some(owner), None).unwrap();
}

fn tracemerge(place: &Place, args: &[&str]) -> Ran {
    ran(place.command().env("TRACER_DIR", "shared").args(args))
}

fn merged(place: &Place, args: &[&str]) -> (Ran, String) {
    let ran = tracemerge(place, &[&["-o", "-", "./app"], args].concat());
    let text = String::from_utf8_lossy(&ran.out).into_owned();
    (ran, text)
}

fn names(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

#[test]
fn files_planted_by_others_are_neither_shown_nor_deleted() {
    let Some(place) = shared_place() else { return };
    for tid in 1..5 {
        write(&place, 0, tid, file(&run_of(&place, 5, 40), tid, &[43, 45]));
    }
    let (_, alone) = merged(&place, &[]);
    for tid in 1000..1750 {
        // Some planted files belong to another, later run, and some to the caller's run.
        let planted = if tid % 2 == 0 { run_of(&place, 6, 90_000) } else { run_of(&place, 5, 40) };
        write(&place, OTHER, tid, file(&planted, tid, &[44, 90_001]));
    }
    let (ran, text) = merged(&place, &[]);
    assert_eq!((ran.status, &text), (Some(0), &alone), "{}", ran.err);
    let told = "left out files of other users: 750 files of user 65534; --all-runs includes them, and so does tracemerge if these users run it";
    assert!(ran.err.contains(told), "{}", ran.err);
    for args in [&["check", "./app"][..], &["info", "./app"]] {
        let ran = tracemerge(&place, args);
        assert!(
            ran.err.contains(told) && String::from_utf8_lossy(&ran.out).contains("process 5"),
            "{}",
            ran.err
        );
        assert!(!String::from_utf8_lossy(&ran.out).contains("process 6"), "{}", ran.err);
    }

    let (ran, all) = merged(&place, &["--all-runs"]);
    assert_eq!(all.lines().count(), alone.lines().count() + 750 * 3);
    assert!(
        ran.err.contains("some files shown belong to other users: 750 files of user 65534"),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("754 files of 3 runs"),
        "none of the others' is of the caller's run: {}",
        ran.err
    );

    let ran = tracemerge(&place, &["clean", "./app"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(ran.err.contains("not deleted: 750 files of user 65534"), "{}", ran.err);
    assert!(ran.err.contains("deleted 4 trace files"), "{}", ran.err);
    assert_eq!(names(&place.path("shared")), 750);
}

#[test]
fn files_of_others_are_shown_with_a_note_if_the_caller_has_none() {
    let Some(place) = shared_place() else { return };
    write(&place, OTHER, 1, file(&run_of(&place, 5, 40), 1, &[43]));
    let (ran, text) = merged(&place, &[]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(text.contains("line 0 of 1\n"));
    assert!(ran.err.contains("some files shown belong to other users: 1 file of user 65534"), "{}", ran.err);
    let ran = tracemerge(&place, &["clean", "./app"]);
    assert!(
        ran.err.contains("deleted 0 trace files") && ran.err.contains("not deleted: 1 file of user"),
        "{}",
        ran.err
    );
    // The run of a third user is not mixed with that one, although it was at the same time.
    write(&place, ANOTHER, 2, file(&run_of(&place, 6, 41), 2, &[44]));
    let (ran, text) = merged(&place, &[]);
    assert!(text.contains("line 0 of 2\n") && !text.contains("line 0 of 1\n"), "{text}");
    assert!(ran.err.contains("left out files of other users: 1 file of user 65534"), "{}", ran.err);
}

#[test]
fn the_executables_owner_comes_before_others() {
    let Some(place) = shared_place() else { return };
    chown(place.path("app"), Some(ANOTHER), None).unwrap();
    write(&place, ANOTHER, 1, file(&run_of(&place, 5, 40), 1, &[43]));
    write(&place, OTHER, 2, file(&run_of(&place, 6, 90), 2, &[93]));
    let (ran, text) = merged(&place, &[]);
    assert!(text.contains("line 0 of 1\n") && !text.contains("line 0 of 2\n"), "{text}");
    assert!(
        ran.err.contains("1 file of user 65534") && ran.err.contains("1 file of user 1234"),
        "{}",
        ran.err
    );
    // The caller's own files come before those of both, however old they are.
    write(&place, 0, 3, file(&run_of(&place, 4, 10), 3, &[13]));
    let (ran, text) = merged(&place, &[]);
    assert!(text.contains("line 0 of 3\n") && text.lines().count() == 2, "{text}");
    assert!(ran.err.contains("1 file of user 1234, 1 file of user 65534"), "{}", ran.err);
    let ran = tracemerge(&place, &["clean", "./app"]);
    assert!(ran.err.contains("deleted 1 trace file"), "{}", ran.err);
    let ran = tracemerge(&place, &["clean", "./app"]);
    assert!(
        ran.err.contains("deleted 1 trace file") && ran.err.contains("not deleted: 1 file of user 65534"),
        "{}",
        ran.err
    );
}

#[test]
fn a_run_that_recorded_a_change_of_user_has_files_of_both_users() {
    for is_raw in [false, true] {
        let Some(place) = shared_place() else { return };
        let run = run_of(&place, 5, 40);
        let became = Meta::Credentials { uid: OTHER };
        let first = if is_raw {
            let metas = [(40, &Meta::Run(run.clone())), (41, &became)];
            raw_file(1, &metas, [(43, "line 0 of 1".to_owned())])
        } else {
            [file(&run, 1, &[43]), meta(44, 1, &became)].concat()
        };
        write(&place, 0, 1, first);
        write(&place, OTHER, 2, file(&run, 2, &[45]));
        // The same id in another boot is another run, and this run names no third user.
        let mut planted = run.clone();
        planted.boot = b"another".to_vec();
        write(&place, OTHER, 3, file(&planted, 3, &[46]));
        write(&place, ANOTHER, 4, file(&run, 4, &[47]));
        let (ran, text) = merged(&place, &[]);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        let shown: Vec<u64> = (1..5).filter(|tid| text.contains(&format!("line 0 of {tid}\n"))).collect();
        assert_eq!(shown, [1, 2], "{}", ran.err);
        assert!(ran.err.contains("merged 2 files of 1 run"), "{}", ran.err);
        assert!(ran.err.contains("1 file of user 1234, 1 file of user 65534"), "{}", ran.err);
    }
}

#[test]
fn users_cannot_draw_files_of_others_into_their_runs() {
    let Some(place) = shared_place() else { return };
    let run = run_of(&place, 5, 40);
    write(&place, 0, 1, [file(&run, 1, &[43]), line(44, 1, "credentials uid=65534")].concat());
    let planted = [file(&run, 2, &[45]), meta(46, 2, &Meta::Credentials { uid: 0 })].concat();
    write(&place, OTHER, 2, planted);
    let (ran, text) = merged(&place, &[]);
    assert!(text.contains("line 0 of 1\n") && !text.contains("line 0 of 2\n"), "{text}");
    assert!(ran.err.contains("1 file of user 65534"), "{}", ran.err);
}
