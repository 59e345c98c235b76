//! The newest run is merged, the older runs are counted, and `clean` deletes all of them.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::support::{Place, file, run};

/// Makes an older run, and the newest run with a fork and with another run that overlaps it.
fn place() -> Place {
    let place = Place::new();
    place.write("app.trace.1", file(&run(1, 10), 1, &[11, 20]));
    place.write("app.trace.2", file(&run(1, 10), 2, &[11, 20]));
    place.write("app.trace.3", file(&run(3, 40), 3, &[60]));
    place.write("app.trace.4", file(&run(4, 50), 4, &[55]));
    let mut fork = run(5, 70);
    fork.root = run(4, 50).root;
    place.write("app.trace.5", file(&fork, 5, &[80]));
    place
}

#[test]
fn older_runs_are_left_out_and_counted() {
    let place = place();
    let ran = place.merge(["./app"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(ran.err.contains("left out 1 older run (2 files); --all-runs merges it too\n"), "{}", ran.err);
    assert!(ran.err.contains("merged 3 files of 3 runs"), "{}", ran.err);
    assert!(!place.text("app.trace.merge").contains("-00000001 "));
}

#[test]
fn all_runs_are_merged_on_demand() {
    let place = place();
    let ran = place.merge(["--all-runs", "./app"]);
    assert!(ran.err.contains("merged 5 files of 4 runs"), "{}", ran.err);
    assert!(!ran.err.contains("left out"), "{}", ran.err);
}

#[test]
fn boots_are_ordered_by_wall_clock_and_not_by_ticks() {
    let place = Place::new();
    let (mut first, mut second) = (run(1, 900), run(2, 100));
    (first.boot, second.boot) = (b"z".to_vec(), b"a".to_vec());
    std::mem::swap(&mut first.wall, &mut second.wall);
    place.write("app.trace.1", file(&first, 1, &[950]));
    place.write("app.trace.2", file(&second, 2, &[150]));
    assert_eq!(place.merge(["--all-runs", "./app"]).status, Some(0));
    assert_eq!(
        place.read("app.trace.merge"),
        [place.read("app.trace.1"), place.read("app.trace.2")].concat()
    );
}

#[test]
fn clean_deletes_only_the_traces_and_the_merged_file() {
    let place = place();
    let others = [
        ".app.trace.1.000000ff.old",
        ".app.trace.1.00000010.tmp",
        "app",
        "app.trace.x",
        "app2.trace.1",
        "notes",
    ];
    for other in others {
        place.write(other, "precious");
    }
    // These are files that these runs have begun, or have replaced.
    place.write(".app.trace.1.00000010.old", "of process 1");
    place.write(".app.trace.3.00000030.new", "of process 3");
    assert_eq!(place.merge(["./app"]).status, Some(0));
    let ran = place.merge(["clean", "./app"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(ran.err.contains("deleted 5 trace files and './app.trace.merge'\n"), "{}", ran.err);
    let mut left = others;
    left.sort_unstable();
    assert_eq!(place.names(), left);
    let again = place.merge(["clean", "./app"]);
    assert_eq!(again.status, Some(0));
    assert!(again.err.contains("deleted 0 trace files\n"), "{}", again.err);
}
