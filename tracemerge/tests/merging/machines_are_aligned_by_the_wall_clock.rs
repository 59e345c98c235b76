//! Traces of machines that ran at the same time are put in order by the wall clock. Boots of one machine stand one
//! behind the other.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;

use crate::support::{Place, Ran, header, line, meta, run, sorted};
use trace_format::line::Ticks;
use trace_format::meta::{ClockKind, Meta, Run, SystemClocks};
use trace_format::wall::Wall;

const NS: u64 = 1_000_000_000;

/// Returns a trace of another boot. It begins `begin` seconds after the common start, with the ticks `first`,
/// and has a message each second; a second has `rate` ticks.
fn machine(boot: &str, tid: u64, begin: u64, first: u64, rate: u64, seconds: u64) -> Vec<u8> {
    let wall = |n: u64| Wall(1_795_187_462 * NS + (begin + n) * NS);
    let pid = u32::try_from(tid).unwrap();
    let run = Run { boot: boot.into(), ticks: Ticks(first), wall: wall(0), ..run(pid, 0) };
    let mut text = header(&run, tid);
    for n in 0..=seconds {
        text.extend(line(first + n * rate, tid, &format!("{} of {boot}", begin + n)));
    }
    let last = Ticks(first + seconds * rate);
    text.extend(meta(
        last.0,
        tid,
        &Meta::Clock { ticks: last, wall: wall(seconds), system: SystemClocks::default() },
    ));
    text
}

fn messages(ran: &Ran) -> Vec<String> {
    let text = String::from_utf8(ran.out.clone()).unwrap();
    let messages = text.lines().filter_map(|line| line.split_once(" : "));
    messages.map(|(_, text)| text.to_owned()).collect()
}

#[test]
fn machines_that_overlap_are_merged_line_by_line() {
    let place = Place::new();
    fs::create_dir(place.path("dir")).unwrap();
    place.write("dir/client.trace.8", machine("one", 8, 0, 900_000, 3 * NS, 5));
    place.write("dir/server.trace.9", machine("two", 9, 2, 17, 2 * NS, 5));
    let merged = place.merge(["dir", "-o", "-"]);
    assert_eq!(merged.status, Some(0), "{}", merged.err);
    assert!(merged.err.contains("2 machines traced at the same time"), "{}", merged.err);
    let by_time: Vec<u64> =
        messages(&merged).iter().map(|text| text.split(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(by_time, [0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7]);
    // The merged file is a sorted trace, and the lines of the first machine are unchanged.
    place.write("merged", &merged.out);
    assert_eq!(sorted(&place, ["merged"]), merged.out);
    let text = String::from_utf8(merged.out).unwrap();
    let first: String = text.split_inclusive('\n').filter(|line| line.contains("-00000008 ")).collect();
    assert_eq!(first.as_bytes(), place.read("dir/client.trace.8"));
    let times = place.merge(["dir", "--time", "utc", "--grep", "4 of"]);
    assert_eq!(
        String::from_utf8(times.out).unwrap(),
        "2026-11-20T15:11:06.000000000Z 8/00000008 : 4 of one\n\
         2026-11-20T15:11:06.000000000Z 9/00000009 : 4 of two\n"
    );
    let range = place.merge(["dir", "--since", "3.5s", "--until", "-1.5s"]);
    assert_eq!(messages(&range), ["4 of one", "4 of two", "5 of one", "5 of two"]);
    assert_eq!(messages(&place.merge(["dir", "--last", "3"])), ["5 of two", "6 of two", "7 of two"]);
}

/// Returns the trace of a machine as [`machine`] does, with all clocks of the system each second. Its wall clock is set
/// forward by 10 s after the second `set`.
fn machine_with_all_clocks(boot: &str, tid: u64, first: u64, rate: u64, set: u64) -> Vec<u8> {
    let mut text = machine(boot, tid, 0, first, rate, 0);
    for n in 1..=8 {
        let ticks = Ticks(first + n * rate);
        let since_boot = Some((first + n) * NS);
        let wall = Wall(1_795_187_462 * NS + (n + if n > set { 10 } else { 0 }) * NS);
        let system = SystemClocks { raw: since_boot, since_boot, ..SystemClocks::default() };
        text.extend(meta(ticks.0, tid, &Meta::Clock { ticks, wall, system }));
    }
    text
}

#[test]
fn a_set_clock_is_reported_for_the_machine_whose_clock_was_set() {
    let place = Place::new();
    fs::create_dir(place.path("dir")).unwrap();
    let shown = |set: [u64; 2]| {
        place.write("dir/client.trace.8", machine_with_all_clocks("one", 8, 900_000, 3 * NS, set[0]));
        place.write("dir/server.trace.9", machine_with_all_clocks("two", 9, 17, 2 * NS, set[1]));
        let ran = place.merge(["show", "dir", "--time", "utc"]);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        assert!(ran.err.contains("2 machines traced at the same time"), "{}", ran.err);
        (ran.err.matches("the wall clock was set ").count(), ran.err)
    };
    for (set, expected) in [([9, 9], 0), ([4, 9], 1), ([9, 4], 1), ([4, 4], 2)] {
        let (found, err) = shown(set);
        assert_eq!(found, expected, "{set:?}: {err}");
    }
}

#[test]
fn consecutive_boots_keep_their_ticks() {
    let place = Place::new();
    fs::create_dir(place.path("dir")).unwrap();
    place.write("dir/app.trace.8", machine("one", 8, 0, 900_000, 3 * NS, 5));
    place.write("dir/app.trace.9", machine("two", 9, 6, 17, 2 * NS, 5));
    let merged = place.merge(["dir", "-o", "-"]);
    assert!(!merged.err.contains("machines"), "{}", merged.err);
    assert_eq!(merged.out, [place.read("dir/app.trace.8"), place.read("dir/app.trace.9")].concat());
}

#[test]
fn runs_with_two_clocks_of_one_machine_are_ordered_by_the_wall_clock() {
    let place = Place::new();
    fs::create_dir(place.path("dir")).unwrap();
    let of_system = String::from_utf8(machine("one", 9, 2, 17, NS, 5)).unwrap();
    // The changed line gets a new checksum.
    let run_line = of_system.lines().next().unwrap();
    let Some(Meta::Run(run)) = Meta::parse(run_line.split_once("# ").unwrap().1.as_bytes()) else { panic!() };
    let run_line = format!("{run_line}\n");
    let header = String::from_utf8(header(&Run { clock: ClockKind::System, ..run }, 9)).unwrap();
    let of_system = of_system.replace(&run_line, &header);
    place.write("dir/counter.trace.8", machine("one", 8, 0, 900_000, 3 * NS, 5));
    place.write("dir/system.trace.9", of_system);
    let merged = place.merge(["dir", "-o", "-"]);
    assert_eq!(merged.status, Some(0), "{}", merged.err);
    assert!(merged.err.contains("recorded with two clocks"), "{}", merged.err);
    let by_time: Vec<u64> =
        messages(&merged).iter().map(|text| text.split(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(by_time, [0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7]);
}

#[test]
fn a_changed_clock_or_a_time_namespace_is_reported() {
    let place = Place::new();
    fs::create_dir(place.path("dir")).unwrap();
    let of = |pid: u32, wall_seconds: u64| {
        let begun = run(pid, 10 * NS);
        let run = Run { clock: ClockKind::System, wall: Wall(wall_seconds * NS), ..begun };
        [header(&run, pid.into()), line(11 * NS, pid.into(), "one")].concat()
    };
    place.write("dir/app.trace.8", of(8, 2_000_000_000));
    place.write("dir/app.trace.9", of(9, 2_000_000_000));
    assert!(!place.merge(["dir", "-o", "-"]).err.contains("time namespace"), "less than a second is no step");
    place.write("dir/app.trace.9", of(9, 2_000_100_000));
    let merged = place.merge(["dir", "-o", "-"]);
    assert!(merged.err.contains("differ by 100,000 s"), "{}", merged.err);
    fs::create_dir(place.path("other")).unwrap();
    fs::rename(place.path("dir/app.trace.9"), place.path("other/app.trace.9")).unwrap();
    let of_two = place.merge(["dir", "other", "-o", "-"]);
    assert_eq!(of_two.err.matches("differ by 100,000 s").count(), 1, "{}", of_two.err);
}
