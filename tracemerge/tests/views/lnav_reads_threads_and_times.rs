//! lnav, with the format in `extras/lnav`, correctly reads a merged file with times of day: each message and each call
//! has its thread and its time.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::BTreeMap;
use std::process::Command;

use crate::support::{Everything, Expected, everything, ran};

/// The path of the format, in the form that users install.
const FORMAT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../extras/lnav/tracemerge.json");

/// Counts of lines by second, millisecond, thread and mark.
type Counts = BTreeMap<(u64, u64, String), u64>;

/// Returns lnav with a configuration of its own.
fn lnav(all: &Everything) -> Command {
    let mut command = all.place.program("lnav");
    command.env("HOME", ".").env("XDG_CONFIG_HOME", "./config").env("TZ", "UTC").env("TERM", "dumb");
    command
}

fn expected(all: &Everything) -> Counts {
    let mut counts = Counts::new();
    for record in &all.records {
        let mark = match record.kind {
            "message" => ":",
            "enter" => ">",
            "leave" => "<",
            _ => continue,
        };
        *counts.entry((Expected::ns(record) / 1_000_000, record.tid, mark.to_owned())).or_default() += 1;
    }
    counts
}

#[test]
fn lnav_reads_each_message_and_call_in_its_thread_at_its_time() {
    if crate::support::programs::lacks(&["lnav"]) {
        return;
    }
    let all = everything(100_000);
    let merged = all.place.merge(["--time", "utc", "--all-runs", "-o", "merged.log", "app"]);
    assert_eq!(merged.status, Some(1), "{}", merged.err);
    let installed = ran(lnav(&all).args(["-i", FORMAT]));
    assert_eq!(installed.status, Some(0), "{}", installed.err);
    let query = ";SELECT CAST(strftime('%s', log_time) AS INTEGER) * 1000 + CAST(substr(log_time, 21, 3) AS INTEGER) AS ms, \
                 thread, mark, count(*) AS n FROM tracemerge WHERE mark IN (':', '>', '<') GROUP BY 1, 2, 3";
    let read = ran(lnav(&all).args(["-n", "-c", query, "-c", ":write-csv-to -", "merged.log"]));
    assert_eq!(read.status, Some(0), "{}", read.err);
    let out = String::from_utf8(read.out).unwrap();
    let mut found = Counts::new();
    for row in out.lines().skip(1) {
        let fields: Vec<&str> = row.split(',').collect();
        let [ms, thread, mark, count] = fields[..] else { panic!("{row}") };
        let key = (ms.parse().unwrap(), thread.parse().unwrap(), mark.to_owned());
        assert_eq!(found.insert(key, count.parse().unwrap()), None, "{row}");
    }
    let wanted = expected(&all);
    assert!(wanted.values().sum::<u64>() > 90_000, "there is something to compare");
    for (key, count) in &wanted {
        assert_eq!(found.get(key), Some(count), "{key:?}");
    }
    assert_eq!(found.len(), wanted.len());
}
