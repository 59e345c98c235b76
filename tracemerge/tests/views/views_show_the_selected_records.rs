//! A view by thread, process, time, pattern or number has the lines that a filter of the whole merge leaves, and its
//! times are those that `date` prints.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::support::{Place, Ran, Seeded, header, line, meta, ran, run};
use trace_format::kinds::SeparateCounts;
use trace_format::line::Ticks;
use trace_format::meta::{
    Cause, End, EndReason, LossReason, Meta, RingPlace, Run, SystemClocks, Thread, Waited,
};
use trace_format::wall::Wall;

/// Makes traces of two processes with three threads each. Some of their messages have several lines.
fn two_processes() -> Place {
    let place = Place::new();
    let mut seeded = Seeded::new(7);
    for (pid, start) in [(5, 1000), (6, 1400)] {
        let run = Run { wall: Wall(1_795_187_462_000_000_000), ticks: Ticks(1000), ..run(pid, 0) };
        for thread in 0..3u64 {
            let tid = u64::from(pid) * 10 + thread;
            let mut ticks = start + thread;
            let mut text = meta(ticks, tid, &Meta::Run(run.clone()));
            let name = format!("worker {thread}").into_bytes();
            text.extend(meta(
                ticks,
                tid,
                &Meta::Thread(Thread { name, ring: RingPlace::Shared, why: Vec::new(), file: None }),
            ));
            for n in 0..200 {
                ticks += seeded.below(9);
                text.extend(line(ticks, tid, &format!("message {n} of {}", seeded.below(50))));
                if seeded.below(5) == 0 {
                    text.extend(format!("{ticks:016x}-{tid:08} | goes on {n}\n").bytes());
                }
                if seeded.below(60) == 0 {
                    text.extend(meta(ticks, tid, &Meta::Lost { records: 0, reason: LossReason::Full }));
                }
            }
            // A tick is 250 ns.
            let wall = Wall(run.wall.0 + (ticks - 1000) * 250);
            text.extend(meta(
                ticks,
                tid,
                &Meta::Clock { ticks: Ticks(ticks), wall, system: SystemClocks::default() },
            ));
            let end = End {
                records: 200,
                lost: 0,
                reason: EndReason::Exit,
                files: None,
                cause: Cause::default(),
                seen: None,
                apart: SeparateCounts::default(),
                waited: Waited::default(),
            };
            text.extend(meta(ticks, tid, &Meta::End(end)));
            place.write(format!("app.trace.{tid}"), text);
        }
    }
    place
}

fn all(place: &Place) -> Vec<String> {
    let ran = place.merge(["app", "--all-runs", "-o", "all"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    place.text("all").lines().map(|line| format!("{line}\n")).collect()
}

fn view(place: &Place, args: &[&str]) -> String {
    let Ran { status, out, err } = place.merge(["app", "--all-runs"].iter().chain(args));
    assert_eq!(status, Some(0), "{err}");
    String::from_utf8(out).unwrap()
}

fn ticks(line: &str) -> u64 {
    u64::from_str_radix(&line[..16], 16).unwrap()
}

fn tid(line: &str) -> u64 {
    line[17..25].parse().unwrap()
}

/// Joins lines to records: messages with the lines that continue them, and `#` lines.
fn records(lines: &[String]) -> Vec<String> {
    let mut records: Vec<String> = Vec::new();
    for line in lines {
        match records.last_mut() {
            Some(record) if &line[26..27] == "|" => record.push_str(line),
            _ => records.push(line.clone()),
        }
    }
    records
}

#[test]
fn selecting_threads_and_processes_equals_filtering_the_merge() {
    let place = two_processes();
    let all = all(&place);
    let by = |wanted: &dyn Fn(u64) -> bool| -> String {
        all.iter().filter(|line| wanted(tid(line))).map(String::as_str).collect()
    };
    assert_eq!(view(&place, &["--thread", "51"]), by(&|tid| tid == 51));
    assert_eq!(view(&place, &["--thread", "51", "--thread", "worker [02]"]), by(&|tid| tid != 61));
    assert_eq!(view(&place, &["--process", "6"]), by(&|tid| tid >= 60));
    assert_eq!(view(&place, &["--process", "6", "--thread", "*2"]), by(&|tid| tid == 62));
    assert_eq!(view(&place, &["--process", "5", "--process", "6"]), all.concat());
    let none = place.merge(["app", "--thread", "boss*"]);
    assert_eq!(none.status, Some(2));
    assert!(none.err.contains("51 'worker 1' of process 5"), "{}", none.err);
}

#[test]
fn selecting_by_times_of_any_form_equals_filtering_the_merge() {
    let place = two_processes();
    let all = all(&place);
    let (first, last) = (ticks(&all[0]), ticks(all.last().unwrap()));
    let check = |args: &[&str], since: u64, until: u64| {
        let expected: String = all
            .iter()
            .filter(|line| since <= ticks(line) && ticks(line) < until)
            .map(String::as_str)
            .collect();
        assert_eq!(view(&place, args), expected, "{args:?}");
    };
    let end = last + 1;
    check(&["--since", "0x5dc"], 1500, end);
    check(&["--since", "@1500", "--until", "@1700"], 1500, 1700);
    check(&["--until", "00000000000005dc-00000051"], 0, 1500);
    check(&["--since", "100us"], first + 400, end);
    check(&["--since", "-100us"], last - 400, end);
    check(&["--since", "100us", "--until", "0.000200"], first + 400, first + 800);
    check(&["--since", "2026-11-20T15:11:02.000125Z"], 1500, end);
    check(&["--since", "2026-11-20 16:11:02.000125+01:00"], 1500, end);
    check(&["--since", "15:11:02.000125Z", "--until", "15:11:02.000175Z"], 1500, 1700);
    check(&["--since", "1h"], end, end);
    check(&["--since", "@1700", "--until", "@1500"], end, end);
    let mut local = place.command();
    local.env("TZ", "America/New_York").args(["app", "--all-runs", "--since", "10:11:02.000125"]);
    assert_eq!(String::from_utf8(ran(&mut local).out).unwrap(), view(&place, &["--since", "@1500"]));
}

#[test]
fn selecting_by_patterns_and_numbers_equals_filtering_the_merge() {
    let place = two_processes();
    let records = records(&all(&place));
    let messages: Vec<&String> = records.iter().filter(|record| &record[26..27] == ":").collect();
    let found: Vec<&String> = messages.iter().filter(|m| m.contains("of 7\n")).copied().collect();
    let join = |records: &[&String]| records.iter().map(|record| record.as_str()).collect::<String>();
    assert!(found.len() > 4);
    assert_eq!(view(&place, &["--grep", "of 7$"]), join(&found));
    assert_eq!(view(&place, &["--grep", "of 7$", "--last", "3"]), join(&found[found.len() - 3..]));
    assert_eq!(view(&place, &["--grep", "of 7$", "--head", "3"]), join(&found[..3]));
    let others: Vec<&String> = messages.iter().filter(|m| !m.contains("of 7\n")).copied().collect();
    assert_eq!(view(&place, &["--grep", "of 7$", "--invert"]), join(&others));
    let lines: Vec<&String> = messages.iter().filter(|m| m.contains("goes on 12")).copied().collect();
    assert_eq!(view(&place, &["--grep", "^goes on 12"]), join(&lines));
    // Only the '#' lines between messages that warn are shown.
    let shown: Vec<&String> = records
        .iter()
        .filter(|record| &record[26..27] == ":" || record[26..].starts_with("# lost"))
        .collect();
    let at = |n: usize| shown.iter().position(|record| *record == messages[n]).unwrap();
    for n in [1, 10, 300] {
        assert_eq!(view(&place, &["--head", &n.to_string()]), join(&shown[..=at(n - 1)]));
        let last = view(&place, &["--last", &n.to_string()]);
        assert_eq!(last, join(&shown[at(messages.len() - n)..]));
        assert_eq!(
            view(&place, &["--grep", "", "--last", &n.to_string()]),
            join(&messages[messages.len() - n..])
        );
    }
    assert_eq!(view(&place, &["--head", "0"]), "");
    assert_eq!(view(&place, &["--last", "0"]), "");
}

#[cfg(unix)]
#[test]
fn times_agree_with_those_of_date() {
    use std::fmt::Write;

    let place = two_processes();
    let lines = view(&place, &["--thread", "62", "--since", "-50us"]);
    let mut expected = String::new();
    for line in lines.lines() {
        let ns = 1_795_187_462_000_000_000 + (ticks(line) - 1000) * 250;
        let at = format!("@{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        let mut date = std::process::Command::new("date");
        date.env("TZ", "America/New_York").args(["-d", &at, "+%Y-%m-%d %H:%M:%S.%N"]);
        let date = String::from_utf8(date.output().unwrap().stdout).unwrap();
        writeln!(expected, "{} {}", date.trim(), &line[17..]).unwrap();
    }
    let mut wall = place.command();
    wall.env("TZ", "America/New_York");
    wall.args(["app", "--all-runs", "--thread", "62", "--since", "-50us", "--time", "wall"]);
    let wall = String::from_utf8(ran(&mut wall).out).unwrap();
    assert!(lines.lines().count() > 3);
    assert_eq!(wall, expected);
    let both = view(&place, &["--time", "utc", "--head", "1"]);
    assert!(both.contains("Z 5/000000"), "{both}");
}

#[test]
fn lines_outside_the_time_range_are_not_read() {
    let place = Place::new();
    let mut text = header(&run(5, 1), 9);
    for n in 0..1000 {
        text.extend(line(n * 10 + 10, 9, &format!("line {n}")));
        // A binary search finds only the few of these bytes that it happens to look at.
        text.extend(b"this is no line\n");
    }
    place.write("app.trace.9", text);
    let whole = place.merge(["app", "-o", "all"]);
    assert_eq!(whole.status, Some(1), "{}", whole.err);
    let part = place.merge(["app", "--since", "@5001", "--until", "@5020"]);
    assert_eq!(part.status, Some(1), "{}", part.err);
    assert!(part.err.contains("16 bytes at offset"), "{}", part.err);
    assert!(!part.err.contains("more damaged"), "{}", part.err);
    let all = place.text("all");
    let expected: String =
        all.split_inclusive('\n').filter(|line| (5001..5020).contains(&ticks(line))).collect();
    assert_eq!(String::from_utf8(part.out).unwrap(), expected);
}

#[test]
fn a_view_of_all_lines_equals_the_merge_including_damage() {
    let place = Place::new();
    let mut text = crate::support::file(&run(5, 1), 9, &[3, 4]);
    text.extend(b"no line\n\0\0\0");
    text.extend(line(5, 9, "before a hole"));
    text.extend(b"0000000000000006-00000009 : torn by a hole\0\0\0\0");
    text.extend(b"0000000000000007-00000009 | continues nothing\n0000000000000008-00000009 :\n");
    text.extend(b"0000000000000009-00000009 : torn");
    place.write("app.trace.9", text);
    place.write("app.trace.8", crate::support::file(&run(5, 1), 8, &[4, 5, 6, 7]));
    let whole = place.merge(["app", "-o", "-"]);
    for args in [&["--process", "5"][..], &["--since", "0x0"], &["--thread", "8", "--thread", "9"]] {
        let part = place.merge(["app"].iter().chain(args));
        assert_eq!(part.status, whole.status, "{args:?}");
        assert_eq!(
            String::from_utf8(part.out).unwrap(),
            String::from_utf8(whole.out.clone()).unwrap(),
            "{args:?}"
        );
    }
    let times = place.merge(["app", "--time", "offset"]);
    assert_eq!(times.out.split(|&b| b == b'\n').count(), whole.out.split(|&b| b == b'\n').count());
}

#[test]
fn a_view_orders_lines_whose_ticks_go_back() {
    let place = Place::new();
    place.write("app.trace.9", crate::support::file(&run(5, 1), 9, &[10, 20, 15, 30]));
    let shown = place.merge(["app", "--time", "ticks", "--thread", "9"]);
    let lines = String::from_utf8(shown.out).unwrap();
    let shown: Vec<u64> = lines.lines().map(ticks).collect();
    assert_eq!(shown, [1, 10, 15, 20, 30]);
    let last = String::from_utf8(place.merge(["app", "--grep", "line", "--last", "2"]).out).unwrap();
    assert_eq!(last.lines().map(ticks).collect::<Vec<_>>(), [20, 30]);
}

#[test]
fn a_view_is_written_to_a_file_if_one_is_given() {
    let place = two_processes();
    let ran = place.merge(["app", "--all-runs", "--last", "2", "-o", "last"]);
    assert!(ran.err.contains(" lines of 2 runs into 'last'"), "{}", ran.err);
    assert!(ran.out.is_empty());
    assert_eq!(place.text("last"), view(&place, &["--last", "2"]));
}

#[test]
fn a_run_without_a_recorded_rate_has_times_and_a_warning() {
    let place = Place::with_one_file();
    let ran = place.merge(["app", "--time", "offset"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    assert!(ran.err.contains("the length of a tick is unknown"), "{}", ran.err);
    assert!(String::from_utf8(ran.out).unwrap().contains("     0.000000006 00000009 : line 1 of 9"));
}

#[test]
fn drift_is_corrected_between_clock_lines() {
    const S: u64 = 1_000_000_000;
    let place = Place::new();
    let run = Run { ticks: Ticks(0), ..run(5, 0) };
    // Each ten seconds the wall clock gains a millisecond more than in the ten seconds before.
    let wall = |n: u64| Wall(run.wall.0 + n * 10 * S + n * n * 1_000_000);
    let mut text = header(&run, 9);
    for n in 1..=10 {
        text.extend(line((n * 10 - 5) * S, 9, &wall(n - 1).to_string()));
        text.extend(meta(
            n * 10 * S,
            9,
            &Meta::Clock { ticks: Ticks(n * 10 * S), wall: wall(n), system: SystemClocks::default() },
        ));
    }
    place.write("app.trace.9", text);
    for args in [&["--grep", ""][..], &["--since", "31s", "--grep", ""], &["--last", "4"]] {
        let shown = view(&place, &[args, &["--time", "utc"]].concat());
        assert!(shown.lines().count() > 3);
        for (n, line) in shown.lines().rev().enumerate() {
            let n = 9 - n as u64;
            let (time, begin) = (line.split(' ').next().unwrap(), line.rsplit(' ').next().unwrap());
            let parse = |text: &str| Wall::parse(text.as_bytes()).unwrap().0;
            // Half of the ten seconds have passed, and half of the gain in them.
            let expected = parse(begin) + 5 * S + (2 * n + 1) * 500_000;
            if args[0] == "--grep" || n > 4 {
                assert_eq!(parse(time), expected, "{args:?} {line}");
            }
        }
    }
}
