//! `tracemerge clean` deletes the trace files of processes that have ended, and the merged file, and leaves the trace
//! files of a process that still traces.

use std::path::{Path, PathBuf};
use std::process::Output;
use support::merges::{THREADS, Watched, tracemerge};
use support::{names, runs, wait_until};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// The number of records of each thread: more than a ring has room for, so that there are files while the program
/// runs.
const RECORDS: u64 = 1006;

/// Starts the program at `app`, and returns it when each of its threads has a file.
fn traced(app: &Path) -> Watched {
    let env = [("TRACER_FLUSH_MS", "60000"), ("TRACER_RING_SIZE", "16K"), ("TRACER_MAX_STALL", "100000")];
    let watched = Watched::start(app.to_str().unwrap(), "all", &env);
    watched.go_on_to(RECORDS);
    wait_until(60, "all have traced", || watched.returned() == [RECORDS; THREADS]);
    wait_until(60, "each has a file", || files(&watched).len() == THREADS);
    watched
}

fn files(watched: &Watched) -> Vec<PathBuf> {
    names(watched.scenario.directory.path())
}

/// Cleans with the user's consent to delete files wherever the program has put them.
fn clean(app: &Path, watched: &Watched) -> String {
    let words = ["clean".as_ref(), "--yes".as_ref(), app.as_os_str()];
    said(&tracemerge(SCENARIO, watched.scenario.runtime.path(), words).output().unwrap())
}

/// Returns the standard error of a command, which must succeed.
fn said(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    said
}

#[test]
fn clean_deletes_files_of_ended_processes_only() {
    // The program has a directory to itself, so that no other test's traces are cleaned. That is beside the
    // scenario program, so that a hard link can be made.
    let directory = tempfile::tempdir_in(Path::new(SCENARIO).parent().unwrap()).unwrap();
    let place = std::fs::canonicalize(directory.path()).unwrap();
    let app = place.join(format!("app{}", std::env::consts::EXE_SUFFIX));
    std::fs::hard_link(SCENARIO, &app).unwrap();
    let mut ended = traced(&app);
    ended.end();
    assert_eq!(files(&ended).len(), THREADS);
    let mut living = traced(&app);
    let of_living = files(&living);

    // The files are in another directory, and there is no user to ask.
    let words = ["clean".as_ref(), app.as_os_str()];
    let mut asked = tracemerge(SCENARIO, living.scenario.runtime.path(), words);
    let refused = asked.stdin(std::process::Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{told}");
    assert!(
        told.contains(&format!("not deleted: {THREADS} trace files in ")) && told.contains("--yes"),
        "{told}"
    );
    assert_eq!(files(&ended).len(), THREADS);

    let told = clean(&app, &living);
    assert!(
        told.contains(&format!("not deleted: {THREADS} trace files of processes that are still running\n")),
        "{told}"
    );
    assert!(told.contains(&format!("deleted {THREADS} trace files\n")), "{told}");
    assert_eq!(files(&ended), [] as [PathBuf; 0]);
    assert_eq!(files(&living), of_living);

    living.end();
    let merged = tracemerge(SCENARIO, living.scenario.runtime.path(), [&app]).output().unwrap();
    assert!(said(&merged).contains(&format!("merged {THREADS} files of 1 run")), "{}", said(&merged));
    let told = clean(&app, &living);
    assert!(told.contains(&format!("deleted {THREADS} trace files and ")), "{told}");
    assert_eq!(files(&living), [] as [PathBuf; 0]);
    assert_eq!(names(&place), [app], "neither the merged file is left nor the list of places");
    assert_eq!(runs(living.scenario.runtime.path()), [] as [PathBuf; 0]);
}
