//! `--split N` divides a trace into pages of at most N records. Each page has all calls, spans and waits of its time, also
//! those that began before it or end after it. What is expected comes from the lines of the trace.
#![cfg(feature = "html")]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::browser::Browser;
use crate::support::{Place, Seeded, header, run, whole_file};
use crate::the_page_agrees_with_report::{COPIED, check_data, merged_messages, reported, shown};

/// The length of a tick, in nanoseconds.
const TICK: u64 = 250;
/// The number of records of a page.
const RECORDS: usize = 1000;

/// A call: its thread, its function, and the ticks at which it began and ended.
type Call = (u64, String, u64, u64);

/// A trace whose calls, spans and waits are known.
struct Made {
    place: Place,
    calls: Vec<Call>,
    /// The ticks of a wait of thread 3, of a span of thread 2, and of the time in which thread 5 was in another span.
    wait: (u64, u64),
    span: (u64, u64),
    polled: (u64, u64),
}

/// Makes a trace of three threads, and of one of a process that is killed with open calls in the middle. A call of the
/// first thread is open from the first to the last record.
fn made() -> Made {
    let (place, mut random) = (Place::new(), Seeded::new(11));
    let mut lines = BTreeMap::<u64, String>::new();
    let mut open = BTreeMap::<u64, Vec<(String, u64)>>::new();
    let (mut ticks, mut calls, mut killed) = (1, Vec::new(), 0);
    let [mut wait, mut span, mut polled] = [(0, 0); 3];
    let mut put = |lines: &mut BTreeMap<u64, String>, tid: u64, text: &str| {
        ticks += 1 + random.below(30);
        *lines.entry(tid).or_default() += &format!("{ticks:016x}-{tid:08} {text}\n");
        ticks
    };
    let mut choice = Seeded::new(5);
    for number in 0..7000 {
        let tid = if number == 0 { 1 } else { 1 + choice.below(4) };
        if number == 900 {
            wait.0 = put(&mut lines, 3, "! futex wait address=0x10");
            span.0 = put(&mut lines, 2, ": INFO app: span=7 load{id=1} new");
        } else if number == 4200 {
            span.1 = put(&mut lines, 2, ": INFO app: span=7 load closed");
        } else if number == 3500 {
            // The time of the record is not known before it is written.
            let text = "! futex woken address=0x10 ns=PASSED result=0";
            wait.1 = put(&mut lines, 3, text);
            let passed = ((wait.1 - wait.0) * TICK).to_string();
            let of_thread = lines.get_mut(&3).unwrap();
            *of_thread = of_thread.replace("PASSED", &passed);
        }
        match number {
            1950 => polled.0 = put(&mut lines, 5, "> span=9 app::task at a.rs:9"),
            3050 => {
                polled.1 = put(&mut lines, 5, "< span=9 app::task at a.rs:9");
                calls.push((5, "app::task at a.rs:9".to_owned(), polled.0, polled.1));
            }
            _ => {}
        }
        if (tid == 3 && (900..3500).contains(&number)) || (tid == 4 && number >= 2500) {
            continue;
        }
        let open = open.entry(tid).or_default();
        match choice.below(5) {
            _ if number == 0 => {
                open.push(("app::whole at a.rs:1".to_owned(), put(&mut lines, 1, "> app::whole at a.rs:1")))
            }
            0 if open.len() < 6 => {
                let function = format!("app::f{} at a.rs:7", choice.below(9));
                let entered = put(&mut lines, tid, &format!("> {function}"));
                open.push((function, entered));
            }
            1 if open.len() > 1 => {
                let (function, entered) = open.pop().unwrap();
                let left = put(&mut lines, tid, &format!("< {function}"));
                calls.push((tid, function, entered, left));
            }
            2 if number % 97 == 0 => {
                put(&mut lines, tid, "# lost records=3 bytes=30 reason=full");
            }
            _ => {
                put(&mut lines, tid, &format!(": message {number} of {}", choice.below(100)));
            }
        }
        if tid == 4 {
            killed = u64::from_str_radix(&lines[&4].lines().last().unwrap()[..16], 16).unwrap();
        }
    }
    for (tid, open) in open {
        for (function, entered) in open.into_iter().rev() {
            let left = if tid == 4 { killed } else { put(&mut lines, tid, &format!("< {function}")) };
            calls.push((tid, function, entered, left));
        }
    }
    assert!(calls.iter().any(|call| call.0 == 4 && call.3 == killed), "the killed process has open calls");
    for (tid, text) in &lines {
        let bytes = match tid {
            4 => [&header(&run(6, 1), 4)[..], text.as_bytes()].concat(),
            _ => whole_file(&run(5, 1), *tid, &format!("thread {tid}"), text.as_bytes()),
        };
        place.write(format!("app.trace.{tid}"), bytes);
    }
    Made { place, calls, wait, span, polled }
}

fn split(place: &Place, more: &[&str]) -> crate::support::Ran {
    place.merge([&["--format", "html", "--all-runs", "--split", "1K", "app"], more].concat())
}

/// Returns the ticks of all lines of the trace, in the order of the merge.
fn all_ticks(place: &Place) -> Vec<u64> {
    let merged = place.merge(["--all-runs", "-o", "-", "app"]);
    let text = String::from_utf8(merged.out).unwrap();
    text.lines().map(|line| u64::from_str_radix(&line[..16], 16).unwrap()).collect()
}

#[test]
fn each_page_has_what_overlaps_its_time() {
    let Made { place, calls, wait, span, polled } = made();
    let ran = split(&place, &[]);
    assert!(ran.status.is_some_and(|status| status < 2), "{}", ran.err);
    let ticks = all_ticks(&place);
    let pages = ticks.len().div_ceil(RECORDS);
    assert!(pages >= 6);
    let page = |number: usize| place.path(format!("app.pages/page-{number}.html"));
    for number in 1..=pages {
        check_data(&std::fs::read_to_string(page(number)).unwrap());
    }
    assert!(!page(pages + 1).exists());
    if crate::support::programs::installed_programs(["chromium"]).is_empty() {
        return;
    }
    let time = |of: u64| (of - ticks[0]) * TICK;
    let mut browser = Browser::start(&place);
    let (mut copied, mut counted) = (Vec::new(), 0);
    for number in 0..pages {
        browser.open(&page(number + 1));
        let from = ticks[number * RECORDS];
        let next = ticks.get((number + 1) * RECORDS).copied();
        // The part of a period that the page shows, if there is any: from its true beginning on.
        let part = |begin: u64, end: u64| {
            let overlaps = next.is_none_or(|next| begin < next) && end >= from;
            overlaps.then(|| (time(begin), time(next.map_or(end, |next| next.min(end)))))
        };

        let found = browser.value(
            "trace.lanes.flatMap(lane => [...lane.start].map((start, call) => \
             [Number(lane.tid), functionName(lane.entry[call]), start, lane.end[call]]))",
        );
        let mut found: Vec<(u64, String, u64, u64)> = serde_json::from_value(found).unwrap();
        found.sort();
        let mut expected: Vec<Call> = calls
            .iter()
            .filter_map(|(tid, function, begin, end)| {
                let (begin, end) = part(*begin, *end)?;
                Some((*tid, function.split(' ').next().unwrap().to_owned(), begin, end))
            })
            .collect();
        expected.sort();
        let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
        assert_eq!((differs, found.len()), (None, expected.len()), "page {}", number + 1);

        let waits =
            browser.value("trace.lanes.flatMap(lane => lane.locks.map(({ begin, end }) => [begin, end]))");
        let one = |of: Option<(u64, u64)>| of.map_or(json!([]), |of| json!([of]));
        assert_eq!(waits, one(part(wait.0, wait.1)), "page {}", number + 1);
        // Nothing says that the other span has ended.
        let other = (polled.0, ticks[ticks.len() - 1]);
        let spans: Vec<_> = [span, other].into_iter().filter_map(|(begin, end)| part(begin, end)).collect();
        let found =
            browser.value("[...trace.spans.began].map((began, span) => [began, trace.spans.ended[span]])");
        assert_eq!(found, json!(spans), "page {}", number + 1);
        let busy = browser.value("[...trace.busy.begin].map((begin, at) => [begin, trace.busy.end[at]])");
        assert_eq!(busy, one(part(polled.0, polled.1)), "page {}", number + 1);
        let how = browser.value("[...trace.spans.how].filter(how => HOW[how] === 'continues').length");
        let goes_on = |(begin, end): (u64, u64)| next.is_some_and(|next| begin < next && end >= next);
        assert_eq!(how, json!([span, other].into_iter().filter(|of| goes_on(*of)).count()));
        let marked = browser.value(
            "trace.lanes.flatMap(lane => [...lane.flags]).filter(flags => flags & CONTINUED_CALL).length",
        );
        let continued = calls.iter().filter(|call| goes_on((call.2, call.3)));
        assert_eq!(marked, json!(continued.count()), "page {}", number + 1);

        // The table counts the calls that began in the page, as `report` counts those of its time.
        let seconds = |ns: u64| format!("{}.{:09}s", ns / 1_000_000_000, ns % 1_000_000_000);
        let (since, until) = (seconds(time(from)), next.map(|next| seconds(time(next))));
        let period = match &until {
            Some(until) => vec!["--since", &since, "--until", until],
            None => vec!["--since", &since],
        };
        let of_page = shown(&mut browser);
        assert_eq!(of_page, reported(&place, &period), "page {}", number + 1);
        counted += of_page.values().flatten().map(|numbers| numbers[0]).sum::<u64>();
        let lines = browser.value(COPIED);
        copied.extend(lines.as_str().unwrap().lines().map(str::to_owned));
        let state = browser.text("#state");
        assert!(state.contains(" records, "), "{state}");

        // The pages lead to each other.
        let links = browser
            .value("[...document.querySelectorAll('#neighbours a')].map(link => link.getAttribute('href'))");
        let neighbours = [number, number + 2].map(|of| format!("page-{of}.html"));
        let known = [number > 0, next.is_some()];
        let expected: Vec<&String> = neighbours.iter().zip(known).filter(|of| of.1).map(|of| of.0).collect();
        assert_eq!(links, json!(expected));
    }
    assert_eq!(counted, calls.len() as u64, "each call begins in one page");
    assert_eq!(copied, merged_messages(&place));

    browser.open(&page(2));
    let words = browser.value(
        "wordsOf({ lane: trace.lanes.find(lane => lane.start.length > 0 && functionName(lane.entry[0]) === 'app::whole'), \
         call: 0 })",
    );
    for word in ["began in an earlier page", "continues in the next page"] {
        assert!(words.as_array().unwrap().contains(&json!(word)), "{words}");
    }
    browser.click("#pageafter");
    browser
        .wait_for("document.title.endsWith('(page 3)') && document.documentElement.dataset.ready === 'yes'");
    browser.click("#pagebefore");
    browser
        .wait_for("document.title.endsWith('(page 2)') && document.documentElement.dataset.ready === 'yes'");
    let errors: Vec<&Value> = browser.events_of("Runtime.exceptionThrown");
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn the_directory_of_pages_is_replaced_as_a_whole_and_deleted_by_clean() {
    let place = Place::with_one_file();
    let lines: String =
        (0..2500).map(|number| format!("{:016x}-00000009 : line {number}\n", 1000 + number)).collect();
    place.write("app.trace.9", whole_file(&run(5, 1), 9, "worker", lines.as_bytes()));
    let pages = || {
        let found = std::fs::read_dir(place.path("app.pages")).unwrap();
        let mut names: Vec<String> =
            found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name.starts_with("page-"));
        names.sort();
        names
    };
    let ran = split(&place, &[]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert_eq!(pages(), ["page-1.html", "page-2.html", "page-3.html"]);
    let ran = split(&place, &["--head", "1500"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert_eq!(pages(), ["page-1.html", "page-2.html"]);

    // A file of the user in it stays, and so does the directory.
    place.write("app.pages/mine.html", "mine");
    assert_eq!(split(&place, &[]).status, Some(2));
    std::fs::remove_file(place.path("app.pages/mine.html")).unwrap();
    let ran = place.merge(["clean", "app"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(!place.path("app.pages").exists());
}

#[test]
fn a_division_that_makes_no_sense_is_refused() {
    let place = Place::with_one_file();
    for (args, why) in [
        (&["--split", "10", "--format", "html", "app"][..], "from 1,000 to 20,000,000"),
        (&["--split", "30M", "--format", "html", "app"], "from 1,000 to 20,000,000"),
        (&["--split", "10M", "--format", "csv", "app"], "--split has no effect on csv"),
        (&["--split", "10M", "app"], "--split has no effect on lines of traces"),
        (&["show", "--split", "10M", "app"], "--split has no effect on this view"),
        (&["--split", "10M", "--format", "html", "-o", "-", "app"], "standard output"),
    ] {
        let ran = place.merge(args);
        assert_eq!(ran.status, Some(2), "{args:?}");
        assert!(ran.err.contains(why), "{args:?}: {}", ran.err);
    }
}
