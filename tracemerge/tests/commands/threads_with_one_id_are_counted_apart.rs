//! The system gives the id of a thread that has ended to a later thread. Both are threads of their run, and all
//! commands count both; further files of one thread do not count as threads.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use serde_json::Value;
use trace_format::meta::Meta;

use crate::support::{Place, header, meta, run, whole_file};

#[test]
fn check_and_info_count_the_same_threads() {
    let (place, run) = (Place::new(), run(5, 0));
    let file = |since: u64, ticks: u64| {
        let line = format!("{ticks:016x}-00000009 : a message\n");
        let whole = whole_file(&run, 9, "worker", line.as_bytes());
        [meta(since, 9, &Meta::Run(run.clone())), whole[header(&run, 9).len()..].to_vec()].concat()
    };
    // The last file continues the one before.
    for (name, since, ticks) in
        [("app.trace.9", 0, 10), ("app.trace.9.1", 100, 110), ("app.trace.9.2", 100, 120)]
    {
        place.write(name, file(since, ticks));
    }
    let checked = place.merge(["check", "app"]);
    let text = String::from_utf8(checked.out).unwrap();
    assert!(text.contains(": 1 run, 2 threads, 3 records, "), "{text}{}", checked.err);
    let info: Value = serde_json::from_slice(&place.merge(["info", "--json", "app"]).out).unwrap();
    assert_eq!(info["threads"], 2, "{info}");
    let merged = place.merge(["app"]).err;
    assert!(merged.contains("(2 threads, "), "{merged}");
}
