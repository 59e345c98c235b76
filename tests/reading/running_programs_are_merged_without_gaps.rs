//! A program is merged at full speed: the merge has everything that each of its threads had traced before the merge
//! began, without a gap; of a flight recorder, it has the newest part of that. The merge does not affect the program.

use std::ffi::OsStr;
use support::APP;
use support::merges::{Merged, THREADS, Watched, by_thread, tracemerge};
use trace_format::meta::LossReason;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
/// The number of merged programs, and of merges of each.
const PROGRAMS: usize = 5;
const MERGES: u64 = 10;
/// The greatest number of records that each thread traces from one merge to the next.
const STEP: u64 = 3000;

/// A setting that makes threads wait for the flusher, however busy the machine is.
const PATIENT: (&str, &str) = ("TRACER_MAX_STALL", "100000");

/// Returns the messages that thread `thread` traces in the course of its record `n`.
fn messages(thread: usize, n: u64, plain: bool) -> Vec<String> {
    match n % 500 {
        7 | 107 | 207 => vec![format!("{thread} {n} {}", "long ".repeat(400))],
        8 | 108 | 208 => vec![format!("{thread} {n} \nand more\n")],
        9 if !plain => vec![format!("{thread} {n} {}", "longer ".repeat(3000))],
        10 | 110 | 210 if !plain => vec![format!("{thread} {n} outside"), format!("{thread} {n} inside")],
        _ => vec![format!("{thread} {n}")],
    }
}

/// Panics unless these are all messages from the first on; returns the number of their records.
fn assert_prefix(thread: usize, found: &Merged) -> u64 {
    assert_eq!(found.lost, [], "thread {thread}");
    let mut found = found.messages.iter();
    for n in 0.. {
        for (i, expected) in messages(thread, n, false).iter().enumerate() {
            match found.next() {
                Some(message) => assert!(message == expected, "{expected:?} became {message:?}"),
                None if i == 0 => return n,
                // A record that was made inside of another one appears only when it is known not to belong to a
                // later one.
                None => return n,
            }
        }
    }
    unreachable!("messages come to an end");
}

fn merge(watched: &Watched) -> (String, Vec<u8>) {
    let app = watched.scenario.directory.path().join(APP);
    let (output, merged) = watched.merge(&[app.as_os_str()], "merged");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    (said, merged)
}

#[test]
fn a_merge_has_every_record_that_was_traced_before_it_began() {
    let mut from_rings = 0;
    for program in 0..PROGRAMS {
        // Some rings are always full, some never are; some flushers run often, some rarely.
        let ring_size = ["16K", "1M", "64K", "16K", "1M"][program];
        let flush = ["1", "60000", "100", "100", "1"][program];
        let format = ["text", "raw", "raw", "text", "text"][program];
        let env =
            [("TRACER_RING_SIZE", ring_size), ("TRACER_FLUSH_MS", flush), PATIENT, ("TRACER_FORMAT", format)];
        let mut watched = Watched::start(SCENARIO, "all", &env);
        for merges in 1..=MERGES {
            watched.go_on_to(merges * STEP);
            let moved = || watched.returned().iter().all(|n| *n > (merges - 1) * STEP);
            support::wait_until(60, "all threads trace", moved);
            let returned = watched.returned();
            let (said, merged) = merge(&watched);
            from_rings += u64::from(said.contains(" rings of ") || said.contains(" ring of "));
            let threads = by_thread(&merged);
            assert_eq!(threads.len(), THREADS, "{said}");
            for (thread, found) in threads {
                let count = assert_prefix(thread, &found);
                assert!(
                    count >= returned[thread],
                    "thread {thread}: {count} of {}: {said}",
                    returned[thread]
                );
            }
        }
        let said = watched.end();
        let returned = watched.returned();
        let all = returned.iter().enumerate().flat_map(|(thread, n)| (0..*n).map(move |n| (thread, n)));
        let records: usize = all.map(|(thread, n)| messages(thread, n, false).len()).sum();
        assert_eq!(said.trim(), format!("records {records} lost 0"), "the program did not notice");
        for (thread, found) in by_thread(&merge(&watched).1) {
            assert_eq!(assert_prefix(thread, &found), returned[thread]);
        }
        let app = watched.scenario.directory.path().join(APP);
        let check = [OsStr::new("check"), app.as_os_str()];
        let check = tracemerge(SCENARIO, watched.scenario.runtime.path(), check).output().expect("a check");
        assert_eq!(check.status.code(), Some(0), "{}", String::from_utf8_lossy(&check.stderr));
        assert!(support::runs(watched.scenario.runtime.path()).is_empty());
    }
    assert!(from_rings > 0, "some records are in rings only");
}

#[test]
fn a_snapshot_of_a_flight_recorder_has_the_newest_records_without_gaps() {
    for (ring_size, merges) in [("64K", 40), ("1M", 10)] {
        let env = [("TRACER_FULL", "overwrite"), ("TRACER_RING_SIZE", ring_size)];
        let mut watched = Watched::start(SCENARIO, "plain", &env);
        watched.go_on_to(u64::MAX);
        support::wait_until(60, "all threads trace", || watched.returned().iter().all(|n| *n > 0));
        let pid = watched.child.id().to_string();
        for _ in 0..merges {
            let returned = watched.returned();
            let (output, merged) = watched.merge(&[OsStr::new("snapshot"), pid.as_ref()], "merged");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(0), "{said}");
            let threads = by_thread(&merged);
            assert_eq!(threads.len(), THREADS, "{said}");
            for (thread, found) in threads {
                let (first, reported) =
                    assert_newest(thread, &found, returned[thread], LossReason::Overwritten);
                // While the program goes on, it counts some overwritten records later.
                let known = reported + found.messages.len() as u64;
                assert!(reported <= first && known >= returned[thread], "{reported} lost before {first}");
            }
        }
        let said = watched.end();
        let records: u64 = watched.returned().iter().sum();
        assert_eq!(said.trim(), format!("records {records} lost 0"), "the program did not notice");
        let returned = watched.returned();
        let threads = by_thread(&merge(&watched).1);
        assert_eq!(threads.len(), THREADS);
        for (thread, found) in threads {
            let (first, reported) = assert_newest(thread, &found, returned[thread], LossReason::Overwritten);
            assert_eq!(reported, first, "in the end all are counted");
        }
    }
}

#[test]
fn a_merge_of_rotating_files_has_the_newest_records_without_gaps() {
    let env = [("TRACER_MAX_BYTES", "64K"), ("TRACER_RING_SIZE", "16K"), ("TRACER_FLUSH_MS", "1"), PATIENT];
    let mut watched = Watched::start(SCENARIO, "plain", &env);
    for merges in 1..=MERGES {
        watched.go_on_to(merges * STEP);
        let moved = || watched.returned().iter().all(|n| *n > (merges - 1) * STEP);
        support::wait_until(60, "all threads trace", moved);
        let returned = watched.returned();
        for (thread, found) in by_thread(&merge(&watched).1) {
            let (first, reported) = assert_newest(thread, &found, returned[thread], LossReason::Rotated);
            assert_eq!(reported, first, "the missing records are reported");
        }
    }
    watched.end();
    let returned = watched.returned();
    for (thread, found) in by_thread(&merge(&watched).1) {
        let (first, reported) = assert_newest(thread, &found, returned[thread], LossReason::Rotated);
        assert!(reported == first && first > 0, "files were replaced");
    }
}

/// Panics unless these are whole messages, one after the other, at least up to the last of `returned` records.
/// Returns the number of the first one, and the number of records reported lost, which must be for that reason.
fn assert_newest(thread: usize, found: &Merged, returned: u64, reason: LossReason) -> (u64, u64) {
    let number = |message: &String| -> u64 {
        message.split([' ', '\n']).nth(1).and_then(|n| n.parse().ok()).expect("a number")
    };
    let first = number(&found.messages[0]);
    for (n, message) in (first..).zip(&found.messages) {
        let [expected] = &messages(thread, n, true)[..] else { panic!("one message") };
        assert!(message == expected, "thread {thread}: {expected:?} became {message:?}");
    }
    let behind = first + found.messages.len() as u64;
    assert!(behind >= returned, "thread {thread}: {first}..{behind} of {returned}");
    assert!(found.lost.iter().all(|(reported, _)| *reported == reason), "{:?}", found.lost);
    (first, found.lost.iter().map(|(_, records)| records).sum())
}
