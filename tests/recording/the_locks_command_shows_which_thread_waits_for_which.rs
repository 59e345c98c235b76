//! Locks of `tracer::sync`, both those with the interface of `std` and those with that of `parking_lot`, record
//! each wait and nothing else. `tracemerge locks` reports which thread waited for which, deadlocks, locks held over
//! an await, and which thread woke which.

use std::collections::HashMap;
use std::process::Command;

use support::merges::tracemerge;
use support::programs::readers;
use support::{APP, Scenario, Traced};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// The prefixes of the scenarios' names, one for the locks of each interface.
const INTERFACES: [&str; 2] = ["", "parking-lot-"];

/// Returns the output of `tracemerge locks` for a program that has ended, and the values that the program printed,
/// by name.
fn locks(traced: &Traced) -> (String, HashMap<String, String>) {
    let mut command = tracemerge(SCENARIO, traced.runtime.path(), ["locks", APP]);
    let ran = command.current_dir(traced.directory.path()).output().expect("the command can be run");
    let said = traced.stdout();
    let said = said.lines().filter_map(|line| line.split_once('='));
    let said = said.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    (String::from_utf8(ran.stdout).expect("UTF-8"), said)
}

fn run(interface: &str, scenario: &str, argument: &str, format: &str) -> Traced {
    Scenario::new(SCENARIO, &[&format!("{interface}{scenario}"), argument])
        .env("TRACER_FORMAT", format)
        .run()
        .succeeded()
}

/// Reads traces of a version in which locks had no record kind of their own. The command warns that it reads the
/// text of messages.
#[test]
fn locks_of_an_earlier_version_are_read_from_messages() {
    for format in ["text", "raw"] {
        let place = tempfile::TempDir::new().expect("a directory");
        let kept = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept/version-2").join(format);
        for file in support::names(&kept) {
            std::fs::copy(&file, place.path().join(file.file_name().expect("a name"))).expect("a copy");
        }
        let mut command = tracemerge(SCENARIO, place.path(), ["locks", "scenario"]);
        let ran = command.current_dir(place.path()).output().expect("the command can be run");
        let (told, said) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(told.starts_with("2 locks waited for\n"), "{format}: {told}{said}");
        assert!(said.contains("lock records read from the text of messages"), "{format}: {said}");
    }
}

/// Returns the lines from the one that begins with `kind` and names this place, up to the next empty line.
fn about<'a>(text: &'a str, kind: &str, line: &str) -> Vec<&'a str> {
    let place = format!("locks.rs:{line})");
    let mut lines = text.lines().skip_while(|text| !(text.starts_with(kind) && text.contains(&place)));
    let about: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    assert!(!about.is_empty(), "{kind} {place}: {text}");
    about
}

/// Returns the records of locks without the values that differ from run to run (the holder's number and the
/// nanoseconds) and without the places where locks were made, which locks of `parking_lot` do not know.
fn records(traced: &Traced) -> Vec<String> {
    let brief = |text: &String| {
        let words = text.split(' ').map(|word| match word.split_once('=') {
            Some((name @ ("ns" | "made" | "holder"), _)) => name.to_owned(),
            _ => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let mut records: Vec<_> = traced.messages().iter().map(brief).collect();
    records.sort();
    records
}

#[test]
fn each_wait_is_recorded_and_free_locks_record_nothing() {
    for format in ["text", "raw"] {
        let [std, parking_lot] = INTERFACES.map(|interface| {
            let traced = run(interface, "locks", "7", format);
            assert_waits_are_reported(&traced, interface == INTERFACES[0]);
            // Nine threads have waited (seven, a reader and a writer): two records each, and "about to wait".
            assert_eq!(traced.messages().len(), 9 * 3 + 1, "{:#?}", traced.messages());
            records(&traced)
        });
        assert_eq!(std, parking_lot, "{format}");
    }
}

/// Checks the report of `tracemerge locks` on a program whose threads wait for locks. The report identifies a lock
/// by the place where it was made or, if that is unknown, by the place where a thread first waited for it.
fn assert_waits_are_reported(traced: &Traced, has_creation_places: bool) {
    let (text, said) = locks(traced);
    assert!(text.starts_with("2 locks waited for\n"), "{text}");
    let known_by =
        if has_creation_places { ["mutex made", "rwlock made"] } else { ["mutex waited", "reader waited"] };
    let [mutex, rwlock] = known_by.map(|place| about(&text, "lock ", &said[place]));
    assert!(mutex[0].contains(": 7 waits, "), "{text}");
    // All waits are alike: one line below the headings.
    let [_, _, line] = mutex[..] else { panic!("{mutex:#?}") };
    let ends = |line: &str, waited: &str, held: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [at, holder, since] = words[words.len() - 3..] else { panic!("{line}") };
        assert!(at.ends_with(&format!("locks.rs:{}", said[waited])), "{line}");
        assert!(since.ends_with(&format!("locks.rs:{}", said[held])), "{line}");
        assert_eq!(holder, "main", "{line}");
    };
    ends(line, "mutex waited", "mutex held");
    assert!(rwlock[0].contains(": 2 waits, "), "{text}");
    let find = |line: &str| {
        let place = format!("locks.rs:{} ", said[line]);
        rwlock.iter().copied().find(|text| text.contains(&place)).unwrap_or_else(|| panic!("{text}"))
    };
    ends(find("reader waited"), "reader waited", "rwlock written");
    ends(find("writer waited"), "writer waited", "rwlock read");
}

#[test]
fn a_deadlock_is_reported_with_both_threads() {
    for interface in INTERFACES {
        let (text, _) = locks(&run(interface, "locks-deadlocked", "", "text"));
        assert!(text.starts_with("2 locks waited for; 2 waits have not ended\n"), "{text}");
        assert!(
            text.contains("\n  deadlock: left -> right -> left\n")
                || text.contains("\n  deadlock: right -> left -> right\n"),
            "{text}"
        );
    }
}

#[test]
fn a_lock_held_across_an_await_is_reported() {
    for interface in INTERFACES {
        let (text, said) = locks(&run(interface, "locks-held-over-an-await", "", "text"));
        assert!(text.contains("\n  deadlock: executor waits for itself\n"), "{text}");
        let waited = format!("locks.rs:{}\n    held by the thread itself since ", said["waited"]);
        let (_, since) = text.split_once(&waited).unwrap_or_else(|| panic!("{waited}: {text}"));
        let (since, _) = since.split_once('\n').expect("a line");
        assert!(
            since.contains(&format!("locks.rs:{}: locked twice, or held across an await", said["held"])),
            "{text}"
        );
    }
}

/// Checks that Perfetto's trace processor, if `.ci/readers` has installed it, finds a flow from each notification
/// to the thread that it woke, in both formats that it reads.
#[test]
fn perfetto_shows_a_flow_from_a_notification_to_the_woken_thread() {
    let Some(readers) = readers() else { return };
    let traced = run(INTERFACES[0], "locks-notified", "100", "raw");
    let woken = traced.messages().iter().filter(|message| message.contains(" woken id=")).count();
    assert!(woken > 50, "{woken}");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tracemerge/tests/readers/trace_processor.mjs");
    let query = "select count(*), sum(later.ts >= earlier.ts and later.name like 'condvar woken%' and earlier.name like \
                 'condvar notify%') from flow join slice earlier on flow.slice_out = earlier.id \
                 join slice later on flow.slice_in = later.id";
    let errors = "select name, value from stats where severity in ('error', 'data_loss') and value > 0";
    for (format, extension) in [("perfetto", "perfetto-trace"), ("chrome", "chrome.json")] {
        let mut command = tracemerge(SCENARIO, traced.runtime.path(), ["-q", "--format", format, APP]);
        assert!(command.current_dir(traced.directory.path()).status().expect("it runs").success());
        let mut asked = Command::new("node");
        asked.arg(script).arg(&readers).arg(traced.directory.path().join(format!("{APP}.{extension}")));
        let answer = asked.args([query, errors]).output().expect("node can be run");
        let (told, said) = (String::from_utf8_lossy(&answer.stdout), String::from_utf8_lossy(&answer.stderr));
        assert_eq!(told.trim(), format!("[[{woken},{woken}]]\n[]"), "{format}: {said}");
    }
}

#[test]
fn notifications_and_the_woken_threads_are_reported() {
    for interface in INTERFACES {
        let (text, _) = locks(&run(interface, "locks-notified", "5", "text"));
        let condition = text.lines().find(|line| line.starts_with("condition ")).expect("the condition");
        let number = |before: &str, after: &str| -> u64 {
            let end = condition.find(after).unwrap_or_else(|| panic!("{after}: {condition}"));
            let start = condition[..end].rfind(before).expect("what is before") + before.len();
            condition[start..end].parse().expect("a number")
        };
        // A condition may wake a thread spuriously; the thread then waits again.
        assert!((6..=8).contains(&number(": ", " waits,")), "{condition}");
        assert_eq!(number(", ", " timed out"), 1, "{condition}");
        assert_eq!(number("; ", " notifications"), 6, "{condition}");
        let woken: Vec<&str> = text.lines().filter(|line| line.contains("  main  ")).collect();
        assert!(woken.len() == 1 && woken[0].trim_start().starts_with('5'), "{text}");
        assert!(condition.contains(" notifications, 1 found nobody waiting; "), "{condition}");
    }
}
