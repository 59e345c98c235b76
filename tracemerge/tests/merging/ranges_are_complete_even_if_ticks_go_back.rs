//! `--since`, `--until` and `--last` of non-monotonic files show the lines that a filter of the whole merge
//! leaves.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::support::{Place, Seeded, header, line, run};

fn ticks(line: &str) -> u64 {
    u64::from_str_radix(&line[..16], 16).unwrap()
}

/// Returns the lines of the whole merge.
fn all(place: &Place) -> Vec<String> {
    let ran = place.merge(["app", "-o", "all"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    let text = place.text("all");
    std::fs::remove_file(place.path("all")).unwrap();
    text.split_inclusive('\n').map(str::to_owned).collect()
}

/// Asserts that the command shows the lines of a period that a filter of `all` leaves, whether or not it reports
/// breaks. Returns the text of its stderr.
fn assert_range(place: &Place, all: &[String], since: u64, until: u64, what: &str) -> String {
    let (from, to) = (format!("@{since}"), format!("@{until}"));
    let expected: String =
        all.iter().filter(|line| (since..until).contains(&ticks(line))).map(String::as_str).collect();
    let mut said = String::new();
    // Bytes in a pipe cannot be taken back, but a file can be begun anew.
    for output in ["-", "part"] {
        let ran = place.merge(["-q", "app", "--since", &from, "--until", &to, "-o", output]);
        let shown = if output == "-" { ran.out } else { place.read("part") };
        let shown = String::from_utf8(shown).unwrap();
        assert!(shown == expected, "{what}, {since} to {until} into {output}: {shown}\nnot\n{expected}");
        said = ran.err;
    }
    said
}

fn assert_last(place: &Place, all: &[String], wanted: usize, what: &str) {
    let messages: Vec<&String> = all.iter().filter(|line| &line[26..27] == ":").collect();
    let expected: String =
        messages[messages.len().saturating_sub(wanted)..].iter().map(|line| line.as_str()).collect();
    let ran = place.merge(["app", "--last", &wanted.to_string()]);
    let shown = String::from_utf8(ran.out).unwrap();
    assert!(shown == expected, "{what}, the last {wanted}: {shown}\nnot\n{expected}");
}

/// Returns a file whose ticks advance by a few at each line, and now and then go back by some.
fn jumping(seeded: &mut Seeded, tid: u64, lines: u64, breaks: u64) -> Vec<u8> {
    let mut text = header(&run(5, 1), tid);
    let mut ticks = 100;
    for n in 0..lines {
        ticks += seeded.below(5);
        if seeded.below(lines) < breaks {
            ticks -= seeded.below(ticks.min(90));
        }
        text.extend(line(ticks, tid, &format!("line {n} of {tid}")));
    }
    text
}

#[test]
fn ranges_of_small_files_with_breaks_anywhere_are_complete() {
    let mut seeded = Seeded::new(11);
    for round in 0..12 {
        let place = Place::new();
        for tid in 7..10 {
            // Each file has only a few pages, so no break is too far off to be seen.
            let (lines, breaks) = (20 + seeded.below(60), seeded.below(5) + u64::from(tid == 7));
            place.write(format!("app.trace.{tid}"), jumping(&mut seeded, tid, lines, breaks));
        }
        // This line makes at least one break.
        let mut last = place.read("app.trace.7");
        last.extend(line(90, 7, "far back"));
        place.write("app.trace.7", last);
        let all = all(&place);
        for _ in 0..4 {
            let since = 60 + seeded.below(200);
            let until = since + seeded.below(100);
            assert_range(&place, &all, since, until, &format!("round {round}"));
        }
        assert_last(&place, &all, 1 + usize::try_from(seeded.below(60)).unwrap(), &format!("round {round}"));
    }
}

/// The file has a megabyte. In the middle its clock was set back permanently.
#[test]
fn a_clock_that_was_set_back_is_detected_from_any_range() {
    let place = Place::new();
    let mut text = header(&run(5, 1), 9);
    let first = (0..12_000).map(|n| 1_000_000 + n * 10);
    let second = (0..12_000).map(|n| 1_000_000 - 40_000 + n * 10);
    first.chain(second).enumerate().for_each(|(n, ticks)| text.extend(line(ticks, 9, &format!("line {n}"))));
    place.write("app.trace.9", text);
    let all = all(&place);
    for since in [0, 959_000, 965_000, 1_000_001, 1_050_000, 1_079_000, 1_085_000, 1_119_000, 1_200_000] {
        let said = assert_range(&place, &all, since, since + 1_000, "set back");
        assert!(said.contains("'./app.trace.9': ticks go back from "), "{since}: {said}");
    }
    assert_last(&place, &all, 10, "set back");
    assert_last(&place, &all, 20_000, "set back");
}

/// The wanted lines are on both sides of a break that is small against the file.
#[test]
fn a_small_step_back_is_detected_from_nearby() {
    let place = Place::new();
    let mut text = header(&run(5, 1), 9);
    for n in 0..20_000u64 {
        let ticks = 1_000_000 + n * 10 - if n >= 7_000 { 300 } else { 0 };
        text.extend(line(ticks, 9, &format!("line {n}")));
    }
    place.write("app.trace.9", text);
    let all = all(&place);
    for since in (1_069_600..1_070_100).step_by(50) {
        assert_range(&place, &all, since, since + 25, "a small step");
    }
}

#[test]
fn a_sound_file_is_not_reported_as_going_back() {
    let place = Place::new();
    let mut text = header(&run(5, 1), 9);
    (0..20_000u64).for_each(|n| text.extend(line(1_000 + n / 7, 9, "many at the same time")));
    place.write("app.trace.9", &text);
    let text = String::from_utf8(text).unwrap();
    let all: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    for since in [0, 1_000, 1_001, 2_000, 3_856, 3_857] {
        assert_eq!(assert_range(&place, &all, since, since + 100, "sound"), "");
    }
    let said = assert_range(&place, &all, 3_858, 3_958, "behind the end");
    assert!(said.starts_with("tracemerge: no records found; "), "{said}");
}
