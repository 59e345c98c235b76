//! Each kind of damage has a defined result; what is not damaged is merged all the same.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use support::{Place, Ran, file, header, line, meta, ran, run};
use trace_format::meta::{LossReason, Meta};

fn merged(place: &Place) -> (Ran, String) {
    let ran = place.merge(["./app"]);
    let text = String::from_utf8(place.read("app.trace.merge")).unwrap();
    assert!(text.contains("line 1 of 9\n"), "the sound file is there");
    let keys: Vec<_> = text.lines().map(|line| &line[..16]).collect();
    assert!(keys.is_sorted(), "{text}");
    (ran, text)
}

#[test]
fn a_torn_last_line_is_kept_and_told() {
    let place = Place::with_one_file();
    let torn = [file(&run(5, 1), 10, &[4]), b"0000000000000005-00000010 : half a mess".to_vec()].concat();
    place.write("app.trace.10", &torn);
    let (ran, text) = merged(&place);
    assert_eq!(ran.status, Some(1));
    assert!(text.contains("0000000000000005-00000010 : half a mess\n"), "{text}");
    let offset = torn.len() - 39;
    let told = format!("warning: './app.trace.10': the last line, at offset {offset}, has no line end");
    assert!(ran.err.contains(&told), "{}", ran.err);
}

#[test]
fn a_last_line_torn_in_its_key_is_shown_as_damaged() {
    let place = Place::with_one_file();
    place.write("app.trace.10", [file(&run(5, 1), 10, &[4]), b"000000000".to_vec()].concat());
    let (ran, text) = merged(&place);
    assert_eq!(ran.status, Some(1));
    assert!(text.contains("0000000000000004-00000010 # damaged file=\"./app.trace.10\" offset="), "{text}");
    assert!(text.contains("bytes=9 text=\"000000000\"\n"), "{text}");
}

#[test]
fn lines_without_a_key_are_replaced_by_one_line() {
    let place = Place::with_one_file();
    let before = file(&run(5, 1), 10, &[4]);
    let file = [&before[..], b"junk\n\nmore \x1b junk\n\0\0\0\0", &line(6, 10, "after")].concat();
    place.write("app.trace.10", file);
    let (ran, text) = merged(&place);
    assert_eq!(ran.status, Some(1));
    let offset = before.len();
    let shown = format!(
        "0000000000000004-00000010 # damaged file=\"./app.trace.10\" offset={offset} bytes=22 \
        text=\"junk\\x0a\\x0amore \\x1b junk\\x0a\\x00\\x00\\x00\\x00\"\n"
    );
    assert!(text.contains(&shown), "{text}");
    assert!(text.contains("after\n"));
    assert!(ran.err.contains(&format!("'./app.trace.10': 22 bytes at offset {offset}")), "{}", ran.err);
}

#[test]
fn ticks_that_go_backwards_are_sorted_and_told() {
    for output in [&["./app"][..], &["./app", "-o", "-"]] {
        let place = Place::with_one_file();
        place.write("app.trace.10", file(&run(5, 1), 10, &[5, 6, 2, 4, 3, 8]));
        let ran = place.merge(output);
        assert_eq!(ran.status, Some(1));
        let text = if ran.out.is_empty() { place.read("app.trace.merge") } else { ran.out };
        let text = String::from_utf8(text).unwrap();
        let order: Vec<_> = text.lines().skip(2).map(|line| &line[15..25]).collect();
        assert_eq!(
            order,
            [
                "2-00000010",
                "3-00000009",
                "3-00000010",
                "4-00000010",
                "5-00000010",
                "6-00000010",
                "7-00000009",
                "8-00000010"
            ]
        );
        let told = ran.err.matches("ticks go back from").count();
        assert_eq!(told, 2, "{}", ran.err);
        assert!(ran.err.contains("from 0000000000000006 to 0000000000000002 at offset"), "{}", ran.err);
    }
}

#[test]
fn ticks_that_go_backwards_are_told_whatever_the_output() {
    for output in ["/dev/null", "/dev/stdout", "file"] {
        let place = Place::with_one_file();
        place.write("app.trace.10", file(&run(5, 1), 10, &[5, 6, 2]));
        let ran = place.merge(["./app", "-o", output]);
        assert_eq!(ran.status, Some(1), "{output}: {}", ran.err);
        assert_eq!(ran.err.matches("ticks go back from").count(), 1, "{output}: {}", ran.err);
    }
}

#[test]
fn a_hundred_thousand_breaks_take_no_time_and_few_words() {
    let place = Place::with_one_file();
    let ticks: Vec<u64> = (0..100_000).map(|n| 1_000_000 - n).collect();
    place.write("app.trace.10", file(&run(5, 1), 10, &ticks));
    let start = Instant::now();
    let (ran, text) = merged(&place);
    assert_eq!(text.lines().count(), 3 + 100_001);
    assert!(ran.err.contains("ticks go back in 99,996 places more"), "{}", ran.err);
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn what_is_no_trace_is_left_out_and_named() {
    let place = Place::with_one_file();
    place.write("app.trace.20", "");
    place.write("app.trace.21", "this is\nno trace\n");
    place.write("app.trace.22", vec![0; 300_000]);
    fs::create_dir(place.path("app.trace.23")).unwrap();
    assert_eq!(ran(place.program("mkfifo").arg("app.trace.24")).status, Some(0));
    let (ran, _) = merged(&place);
    assert_eq!(ran.status, Some(1));
    for told in [
        "'./app.trace.20' is empty",
        "'./app.trace.21' is no trace",
        "'./app.trace.22' is no trace",
        "'./app.trace.23': it is a directory",
        "'./app.trace.24': it is not a regular file",
    ] {
        assert!(ran.err.contains(told), "{told}: {}", ran.err);
    }
    assert!(ran.err.contains("merged 1 file of 1 run"), "{}", ran.err);
}

#[test]
fn where_nothing_is_a_trace_nothing_is_done() {
    let place = Place::new();
    place.write("app.trace.20", "");
    place.write("app.trace.21", "no trace");
    let ran = place.merge(["./app"]);
    assert_eq!(ran.status, Some(2), "{}", ran.err);
    assert_eq!(place.names(), ["app.trace.20", "app.trace.21"]);
}

#[test]
fn an_unreadable_file_is_named_and_the_rest_is_merged() {
    let place = Place::with_one_file();
    place.write("app.trace.10", file(&run(5, 1), 10, &[4]));
    // As root nothing is unreadable: somebody else runs a copy.
    place.write("tracemerge", fs::read(env!("CARGO_BIN_EXE_tracemerge")).unwrap());
    let modes =
        [(".", 0o777), ("tmp", 0o777), ("tracemerge", 0o755), ("app.trace.9", 0o644), ("app.trace.10", 0)];
    for (name, mode) in modes {
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut command = place.program(place.path("tracemerge"));
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        command.uid(65534).gid(65534);
    }
    let ran = ran(command.arg("./app"));
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    assert!(ran.err.contains("warning: cannot open './app.trace.10': Permission denied\n"), "{}", ran.err);
    assert!(place.text("app.trace.merge").contains("line 1 of 9\n"));
}

#[test]
fn a_file_without_a_run_line_is_merged_with_a_warning() {
    let place = Place::with_one_file();
    place.write("app.trace.10", line(4, 10, "whose am I"));
    let (ran, text) = merged(&place);
    assert_eq!(ran.status, Some(1));
    assert!(text.contains("whose am I\n"));
    assert!(ran.err.contains("'./app.trace.10' does not begin with a readable '# run' line"), "{}", ran.err);
}

#[test]
fn losses_that_the_traces_tell_are_summed_up() {
    let place = Place::with_one_file();
    let lost = |ticks, records, reason| meta(ticks, 10, &Meta::Lost { records, reason });
    let file = [
        header(&run(5, 1), 10),
        lost(2, 12, LossReason::Full),
        lost(3, 1, LossReason::Torn),
        lost(4, 3, LossReason::Full),
        line(5, 10, "lost records=7 reason=full"),
    ]
    .concat();
    place.write("app.trace.10", file);
    let (ran, _) = merged(&place);
    assert_eq!(ran.status, Some(1));
    let told = "warning: the traces say that 16 records were lost (reason=full: 15, reason=torn: 1)\n";
    assert!(ran.err.contains(told), "{}", ran.err);
}

#[test]
fn a_gigantic_line_and_a_gigantic_hole_are_passed_over() {
    let place = Place::with_one_file();
    for (tid, filling) in [(10, None), (11, Some(b"0000000000000005-00000011 : "))] {
        let path = place.path(format!("app.trace.{tid}"));
        let mut head = file(&run(5, 1), tid, &[4]);
        head.extend(filling.into_iter().flatten());
        fs::write(&path, &head).unwrap();
        // A sparse file: it costs no space. (A gigabyte does as well, but takes the kernel its time.)
        fs::OpenOptions::new().append(true).open(&path).unwrap().set_len(1 << 25).unwrap();
    }
    let ran = place.merge(["./app", "-o", "merged"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    let text = place.text("merged");
    assert!(text.len() < 10_000);
    assert_eq!(text.matches("# damaged").count(), 2);
    assert!(text.contains("0000000000000005-00000011 : \n"), "what stands before the hole is kept");
}
