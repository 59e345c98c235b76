//! Files are mapped and closed, so their number is not limited by that of descriptors.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

mod support;

use support::{Place, file, ran, run};

#[test]
fn ten_thousand_files_fit_256_descriptors() {
    let place = Place::new();
    for tid in 1..=10_000 {
        place.write(format!("app.trace.{tid}"), file(&run(5, 1), tid, &[tid % 97 + 2, 200 - tid % 83]));
    }
    let mut shell = place.program("sh");
    shell.args(["-c", "ulimit -n 256; exec \"$0\" ./app", env!("CARGO_BIN_EXE_tracemerge")]);
    let ran = ran(&mut shell);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(ran.err.contains("merged 10,000 files of 1 run (10,000 threads, 30,000 lines)"), "{}", ran.err);
    let text = place.text("app.trace.merge");
    // Ticks ascend, and so do thread ids among equal ticks.
    let keys: Vec<_> = text.lines().map(|line| &line[..25]).collect();
    assert_eq!(keys.len(), 30_000);
    assert!(keys.is_sorted());
}
