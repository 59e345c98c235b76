//! The system gives the id of a thread that has ended to a later thread. Both are threads of their run, and all
//! commands count both; further files of one thread do not count as threads, and neither do files of thread states.
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
    let states = "0000000000000070-00000008 = started thread=9 cpu=0 raw=7\n";
    let states = whole_file(&run, 8, "tracer-states", states.as_bytes());
    let states = String::from_utf8(states).unwrap();
    place.write("app.trace.8", format!("{} states=1\n", states.trim_end()));
    let checked = place.merge(["check", "app"]);
    let text = String::from_utf8(checked.out).unwrap();
    assert!(text.contains(": 1 run, 2 threads, 3 records, "), "{text}{}", checked.err);
    let info: Value = serde_json::from_slice(&place.merge(["info", "--json", "app"]).out).unwrap();
    assert_eq!(info["threads"], 2, "{info}");
    let of_run = &info["runs"][0];
    assert_eq!(
        (of_run["threads"].as_array().unwrap().len(), &of_run["files"]),
        (2, &Value::from(4)),
        "{info}"
    );
    let merged = place.merge(["app"]).err;
    assert!(merged.contains("(2 threads, "), "{merged}");
}

#[test]
fn info_has_the_period_of_a_thread_that_records_no_messages() {
    let (place, run) = (Place::new(), run(5, 0));
    let calls = "0000000000000010-00000005 > app::work at src/main.rs:7\n\
                 0000000000000030-00000005 < app::work at src/main.rs:7\n";
    place.write("app.trace.5", whole_file(&run, 5, "app", calls.as_bytes()));
    let info: Value = serde_json::from_slice(&place.merge(["info", "--json", "app"]).out).unwrap();
    let thread = &info["runs"][0]["threads"][0];
    assert_eq!(
        (&thread["first_ns"], &thread["last_ns"]),
        (&Value::from(4000), &Value::from(12_000)),
        "{info}"
    );
    assert_eq!(info["span_ns"], 8000, "{info}");
}
