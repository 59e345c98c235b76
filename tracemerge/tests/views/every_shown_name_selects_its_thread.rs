//! Each name of a thread that a command prints, given to `--thread`, selects exactly the records of that thread, also
//! if threads were renamed, have no name or the same name, or if several processes are shown.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Place, meta, ran, run};
use serde_json::Value;
use trace_format::kinds::SeparateCounts;
use trace_format::line::Ticks;
use trace_format::meta::{Cause, End, EndReason, Meta, RingPlace, Run, SystemClocks, Thread, Waited};
use trace_format::wall::Wall;

/// A thread of a made trace.
struct Made {
    pid: u32,
    tid: u64,
    /// The name when its file was made, and the last one, if that is another.
    names: (&'static str, Option<&'static str>),
    /// The label in a trace of its process alone.
    label: &'static str,
}

/// The threads of two processes of `/nowhere/app`. Threads that were given no name have that of the program.
const THREADS: [Made; 13] = [
    Made { pid: 50, tid: 50, names: ("app", None), label: "main" },
    Made { pid: 50, tid: 61, names: ("app", None), label: "thread 1" },
    Made { pid: 50, tid: 62, names: ("app", Some("reader")), label: "reader" },
    Made { pid: 50, tid: 63, names: ("worker", None), label: "worker 63 63" },
    Made { pid: 50, tid: 64, names: ("starting", Some("worker")), label: "worker 64" },
    // The program has given its names in a way that confuses them with other threads.
    Made { pid: 50, tid: 65, names: ("worker 63", None), label: "worker 63 65" },
    Made { pid: 50, tid: 66, names: ("61", None), label: "61" },
    Made { pid: 50, tid: 67, names: ("reader*", None), label: "reader*" },
    Made { pid: 50, tid: 68, names: ("[", None), label: "[" },
    Made { pid: 50, tid: 69, names: ("app", None), label: "thread 2" },
    Made { pid: 70, tid: 70, names: ("app", Some("renamed")), label: "main" },
    Made { pid: 70, tid: 71, names: ("worker", None), label: "worker" },
    Made {
        pid: 70,
        tid: 72,
        names: ("a name of more than 24 characters", None),
        label: "a name of more than 24 …",
    },
];

/// The number of messages of each thread, of which each has its thread's id in its text.
const MESSAGES: u64 = 5;

fn threads_of(pids: &[u32]) -> impl Iterator<Item = &'static Made> {
    let pids = pids.to_vec();
    THREADS.iter().filter(move |thread| pids.contains(&thread.pid))
}

/// Makes the traces of these processes. Each thread records messages, a call, and a wait for a lock that does not end.
fn traces(pids: &[u32]) -> Place {
    let place = Place::new();
    for (number, made) in (0u64..).zip(threads_of(pids)) {
        let tid = made.tid;
        let run = Run { wall: run(1, 0).wall, ..run(made.pid, 1000) };
        let mut text = meta(1000 + number, tid, &Meta::Run(run.clone()));
        let name = made.names.0.into();
        let thread = Thread { name, ring: RingPlace::Shared, why: Vec::new(), file: None };
        text.extend(meta(1000 + number, tid, &Meta::Thread(thread)));
        let mut put = |ticks: u64, rest: &str| {
            text.extend(format!("{:016x}-{tid:08} {rest}\n", ticks + number).bytes());
        };
        put(2000, "> app::work at src/main.rs:7");
        (0..MESSAGES).for_each(|n| put(3000 + n * 100, &format!(": message {n} of <{tid}>")));
        put(4000, "< app::work at src/main.rs:7");
        put(
            5000,
            &format!(
                "! lock wait id={tid} for=lock made=\"src/a.rs:1\" at=\"src/a.rs:{tid}\" holder=0 since=\"?:0\""
            ),
        );
        let mut meta = |line: &Meta| text.extend(meta(6000 + number, tid, line));
        if let Some(name) = made.names.1 {
            meta(&Meta::Name { ticks: Ticks(3500), name: name.into() });
        }
        let clock = (Ticks(6000 + number), Wall(run.wall.0 + 5000 + number));
        meta(&Meta::Clock { ticks: clock.0, wall: clock.1, system: SystemClocks::default() });
        meta(&Meta::End(end_of(MESSAGES + 3)));
        place.write(format!("app.trace.{tid}"), text);
    }
    place
}

/// Returns the end of a thread that made as many records.
fn end_of(records: u64) -> End {
    End {
        records,
        lost: 0,
        reason: EndReason::Exit,
        files: None,
        cause: Cause::default(),
        seen: None,
        apart: SeparateCounts::default(),
        waited: Waited::default(),
    }
}

fn output(place: &Place, args: &[&str]) -> String {
    let ran = ran(place.command().args(args).args(["--all-runs", "./app"]));
    assert_eq!(ran.status, Some(0), "{args:?}: {}", ran.err);
    String::from_utf8(ran.out).unwrap()
}

/// Returns the threads that the messages in an output name.
fn of_messages(text: &str) -> BTreeSet<u64> {
    let tid = |line: &str| Some(line.split_once(" of <")?.1.split_once('>')?.0.parse().unwrap());
    text.lines().filter_map(tid).collect()
}

/// Checks that `shown`, names with the id of the thread that they stand for, are those of all threads, and that each
/// selects its thread.
fn each_selects_its_thread(place: &Place, view: &str, pids: &[u32], shown: &BTreeMap<String, u64>) {
    let all: BTreeMap<String, u64> = threads_of(pids)
        .map(|made| {
            let process = if pids.len() > 1 { format!("{}/", made.pid) } else { String::new() };
            // A name that looks like the id of another thread has its own thread's id behind it.
            let own = match made.tid {
                66 if pids.len() == 1 => "61 66",
                // Records have the name of their time.
                64 if ["show", "tree"].contains(&view) => "starting",
                _ => made.label,
            };
            (process + own, made.tid)
        })
        .collect();
    assert_eq!(*shown, all, "{view} of processes {pids:?}");
    for (label, tid) in shown {
        let lines = output(place, &["--thread", label, "-o", "-"]);
        assert_eq!(of_messages(&lines), BTreeSet::from([*tid]), "{label}");
        assert_eq!(
            lines.lines().filter(|line| line.contains(" : message")).count() as u64,
            MESSAGES,
            "{label}"
        );
        assert!(lines.lines().all(|line| line.contains(&format!("-{tid:08} "))), "{label}: {lines}");
    }
}

/// Returns the text in a column that is `skipped` characters behind the beginning of a line, and ends before two
/// spaces.
fn column(line: &str, skipped: usize) -> String {
    let rest: String = line.chars().skip(skipped).collect();
    rest.split("  ").next().unwrap().to_owned()
}

#[test]
fn each_name_that_a_command_prints_selects_exactly_its_thread() {
    for pids in [&[50][..], &[70], &[50, 70]] {
        let place = traces(pids);
        let show = output(&place, &["show"]);
        let shown = show.lines().filter(|line| line.contains(" of <"));
        let named = shown.map(|line| (column(line, 18), *of_messages(line).first().unwrap()));
        each_selects_its_thread(&place, "show", pids, &named.collect());

        let tree = output(&place, &["tree"]);
        let shown = tree.lines().filter(|line| line.contains(" of <"));
        let named = shown.map(|line| (column(line, 18), *of_messages(line).first().unwrap()));
        each_selects_its_thread(&place, "tree", pids, &named.collect());

        let info = output(&place, &["info"]);
        let shown = info.lines().filter(|line| line.ends_with("exit"));
        let named = shown.map(|line| {
            let line = line.trim_start();
            let label = column(line, 0);
            (label.clone(), line[label.len()..].trim_start().split(' ').next().unwrap().parse().unwrap())
        });
        each_selects_its_thread(&place, "info", pids, &named.collect());
        let json: Value = serde_json::from_str(&output(&place, &["info", "--json"])).unwrap();
        let threads =
            json["runs"].as_array().unwrap().iter().flat_map(|run| run["threads"].as_array().unwrap());
        let named = threads
            .map(|thread| (thread["label"].as_str().unwrap().to_owned(), thread["tid"].as_u64().unwrap()));
        each_selects_its_thread(&place, "info --json", pids, &named.collect());

        // A wait has the number and the line of its thread.
        let locks = output(&place, &["locks"]);
        let shown = locks.lines().filter(|line| line.contains(" for lock "));
        let named = shown.map(|line| {
            let (label, rest) = line.trim_start().rsplit_once(": ").unwrap();
            let tid = rest.split_once(" for lock ").unwrap().1.split(' ').next().unwrap();
            (label.to_owned(), tid.parse().unwrap())
        });
        each_selects_its_thread(&place, "locks", pids, &named.collect());
    }
}

#[test]
fn each_name_in_a_report_selects_a_report_of_its_thread() {
    let place = traces(&[50, 70]);
    let report = |args: &[&str]| output(&place, &[&["report", "--by-thread", "--json"], args].concat());
    let rows = |text: &str| -> Vec<Value> {
        serde_json::from_str::<Value>(text).unwrap()["functions"].as_array().unwrap().clone()
    };
    let all = rows(&report(&[]));
    assert_eq!(all.len(), THREADS.len());
    let rates = output(&place, &["rates", "--json"]);
    let rates: Value = serde_json::from_str(&rates).unwrap();
    let rates: BTreeSet<&str> =
        rates["periods"].as_array().unwrap().iter().map(|row| row["thread"].as_str().unwrap()).collect();
    assert_eq!(rates, all.iter().map(|row| row["thread"].as_str().unwrap()).collect());
    for row in &all {
        assert_eq!(rows(&report(&["--thread", row["thread"].as_str().unwrap()])), std::slice::from_ref(row));
    }
}

#[test]
fn patterns_ids_and_names_within_processes_select_threads_too() {
    let place = traces(&[50, 70]);
    let selected = |wanted: &str| of_messages(&output(&place, &["--thread", wanted, "-o", "-"]));
    assert_eq!(selected("main"), BTreeSet::from([50, 70]));
    assert_eq!(selected("thread 2"), BTreeSet::from([69]));
    assert_eq!(selected("64"), BTreeSet::from([64]));
    assert_eq!(selected("61"), BTreeSet::from([61]));
    assert_eq!(selected("work*"), BTreeSet::from([63, 64, 65, 71]));
    assert_eq!(selected("reader*"), BTreeSet::from([62, 67]));
    assert_eq!(selected("50/reader*"), BTreeSet::from([67]));
    // An earlier name of a thread selects it, too.
    assert_eq!(selected("starting"), BTreeSet::from([64]));
    // The name of the program is no name of threads that got one later.
    assert_eq!(selected("app"), BTreeSet::from([50, 61, 69]));
    assert_eq!(selected("rename?"), BTreeSet::from([70]));
    let none = ran(place.command().args(["./app", "--all-runs", "--thread", "{"]));
    assert_eq!(none.status, Some(2));
    assert!(
        none.err.contains("no thread or process fits --thread and --process (error parsing glob '{'"),
        "{}",
        none.err
    );
}

#[test]
fn a_name_in_the_middle_of_a_long_file_selects_its_thread() {
    let place = Place::new();
    for (tid, name) in [(50, "early"), (51, "other")] {
        let mut text = meta(1000, tid, &Meta::Run(run(50, 1000)));
        let thread = Thread { name: b"first".into(), ring: RingPlace::Shared, why: Vec::new(), file: None };
        text.extend(meta(1000, tid, &Meta::Thread(thread)));
        let filled = |from: u64| {
            let line = |n| format!("{:016x}-{tid:08} : {}\n", from + n, "x".repeat(1000));
            (0..1000).map(line).collect::<String>()
        };
        text.extend(filled(2000).bytes());
        text.extend(meta(3000, tid, &Meta::Name { ticks: Ticks(3000), name: name.into() }));
        text.extend(filled(3000).bytes());
        let wall = Wall(run(50, 1000).wall.0 + 4000);
        let clock = Meta::Clock { ticks: Ticks(5000), wall, system: SystemClocks::default() };
        text.extend(meta(5000, tid, &clock));
        text.extend(meta(5000, tid, &Meta::End(end_of(2000))));
        place.write(format!("app.trace.{tid}"), text);
    }
    let lines = |wanted: &str| {
        let text = output(&place, &["--thread", wanted, "-o", "-"]);
        let of = |tid: u64| text.lines().filter(|line| line.contains(&format!("-{tid:08} : x"))).count();
        (of(50), of(51))
    };
    assert_eq!(lines("early"), (2000, 0));
    assert_eq!(lines("o?her"), (0, 2000));
    // A pattern takes both. `first` is also a label, because no later name of thread 51 is near an end of its file:
    // it takes its thread alone.
    assert_eq!(lines("f?rst"), (2000, 2000));
    assert_eq!(lines("first"), (0, 2000));
    // Records have the name of their time, wherever it is in the file.
    let show = output(&place, &["show"]);
    let named = |name: &str| show.lines().filter(|line| column(line, 18) == name).count();
    assert_eq!(["main", "first", "other"].map(named), [2000, 1000, 1000]);
}

/// Two threads that have these names, the second from ticks 3000 on, and the third from ticks 5000 on, with a message of
/// each between.
fn renamed_threads(names: [[&str; 3]; 2]) -> Place {
    let place = Place::new();
    for (tid, names) in [51_u64, 52].into_iter().zip(names) {
        let mut text = meta(1000, tid, &Meta::Run(run(50, 1000)));
        let ring = RingPlace::Shared;
        let first = Thread { name: names[0].into(), ring, why: Vec::new(), file: None };
        text.extend(meta(1000, tid, &Meta::Thread(first)));
        for (number, name) in names.into_iter().enumerate() {
            let ticks = Ticks(1000 + 2000 * number as u64);
            if number > 0 {
                text.extend(meta(ticks.0, tid, &Meta::Name { ticks, name: name.into() }));
            }
            text.extend(format!("{:016x}-{tid:08} : message {number} of <{tid}>\n", ticks.0 + tid).bytes());
        }
        place.write(format!("app.trace.{tid}"), text);
    }
    place
}

#[test]
fn a_selected_record_has_the_name_that_its_thread_had_at_that_time() {
    // They swap their names.
    let place = renamed_threads([["reader", "writer", "late"], ["writer", "reader", "later"]]);
    for view in ["show", "tree"] {
        let lines = |args: &[&str]| -> Vec<String> {
            let ran = ran(place.command().arg(view).args(args).arg("./app"));
            let text = String::from_utf8(ran.out).unwrap();
            text.lines().filter(|line| line.contains("message")).map(str::to_owned).collect()
        };
        let all = lines(&["--time", "ticks"]);
        assert_eq!(all.len(), 6, "{all:?}");
        let names: BTreeSet<&str> = all.iter().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
        assert!(["reader", "writer", "late", "later"].iter().all(|name| names.contains(name)), "{all:?}");
        let words = |lines: &[String]| -> Vec<Vec<String>> {
            lines.iter().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
        };
        for (options, kept) in [
            (&["--grep", "message 1"][..], 2..4),
            (&["--last", "3"], 3..6),
            (&["--head", "3"], 0..3),
            (&["--since", "0xbb8"], 2..6),
            (&["--until", "0x1388"], 0..4),
        ] {
            let selected = lines(&[options, &["--time", "ticks"]].concat());
            assert_eq!(words(&selected), words(&all)[kept], "{view} {options:?}");
        }
    }
}

#[test]
fn a_name_that_two_threads_had_has_an_id_behind_it_in_each_record() {
    let place = renamed_threads([["outer", "inner", "back 2"], ["inner", "outer", "back 2"]]);
    for view in ["show", "tree"] {
        let text = String::from_utf8(ran(place.command().args([view, "./app"])).out).unwrap();
        let records: Vec<_> = text.lines().filter(|line| line.contains(" of <")).collect();
        assert_eq!(records.len(), 6, "{text}");
        let mut labels = BTreeSet::new();
        for line in records {
            let (label, tid) = (column(line, 18), *of_messages(line).first().unwrap());
            assert!(label.ends_with(&format!(" {tid}")), "{text}");
            let selected = ran(place.command().args(["--thread", &label, "-o", "-", "./app"])).out;
            let selected = of_messages(&String::from_utf8(selected).unwrap());
            assert_eq!(selected, BTreeSet::from([tid]), "{label}");
            labels.insert(label);
        }
        assert_eq!(labels.len(), 6, "{labels:?}");
    }
}
