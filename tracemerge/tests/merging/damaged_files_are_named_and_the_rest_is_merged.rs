//! Each kind of damage has a defined result, and everything that is not damaged is still merged.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{Place, Ran, file, header, line, meta, ran, run, whole_file};
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
fn a_torn_last_line_is_kept_and_reported() {
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
fn ticks_that_go_backwards_are_sorted_and_reported() {
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
fn ticks_that_go_backwards_are_reported_for_any_output() {
    for output in ["/dev/null", "/dev/stdout", "file"] {
        let place = Place::with_one_file();
        place.write("app.trace.10", file(&run(5, 1), 10, &[5, 6, 2]));
        let ran = place.merge(["./app", "-o", output]);
        assert_eq!(ran.status, Some(1), "{output}: {}", ran.err);
        assert_eq!(ran.err.matches("ticks go back from").count(), 1, "{output}: {}", ran.err);
        let mut command = place.command();
        command.args(["./app", "-o", "-"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let discarded = crate::support::ran(&mut command);
        assert_eq!((discarded.status, discarded.err), (Some(1), place.merge(["./app", "-o", "-"]).err));
    }
}

#[test]
fn a_hundred_thousand_breaks_are_merged_fast_and_reported_briefly() {
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
fn files_that_are_not_traces_are_left_out_and_reported() {
    let place = Place::with_one_file();
    place.write("app.trace.20", "");
    place.write("app.trace.21", "this is\nno trace\n");
    place.write("app.trace.22", vec![0; 300_000]);
    let trace = String::from_utf8(whole_file(&run(5, 0), 25, "main", b"")).unwrap();
    place.write("app.trace.25", trace.replace('\n', "\r\n"));
    fs::create_dir(place.path("app.trace.23")).unwrap();
    assert_eq!(ran(place.program("mkfifo").arg("app.trace.24")).status, Some(0));
    let (ran, _) = merged(&place);
    assert_eq!(ran.status, Some(1));
    for told in [
        "'./app.trace.20' is empty",
        "'./app.trace.21' is not a trace",
        "'./app.trace.22' is not a trace",
        "'./app.trace.23': it is a directory",
        "'./app.trace.24': it is not a regular file",
        "'./app.trace.25' is a trace whose line ends were changed to CR LF",
    ] {
        assert!(ran.err.contains(told), "{told}: {}", ran.err);
    }
    assert!(ran.err.contains("merged 1 file of 1 run"), "{}", ran.err);
}

#[test]
fn nothing_is_written_if_no_file_is_a_trace() {
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
    // Root can read every file, so another user runs a copy of the command.
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
fn losses_recorded_in_the_traces_are_summed() {
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
fn every_command_reports_losses_with_reasons_of_later_versions() {
    let place = Place::with_one_file();
    let meta = |payload: &str| format!("0000000000000009-00000010 # {payload}\n").into_bytes();
    let (lost, end) = (meta("lost records=7 reason=of_2050"), meta("end records=1 lost=7 reason=in_2050"));
    place.write("app.trace.10", [file(&run(5, 1), 10, &[4]), lost, end].concat());
    let (ran, text) = merged(&place);
    assert_eq!(ran.status, Some(1));
    let told = "warning: the traces say that 7 records were lost (reason=of_2050: 7)\n";
    assert!(ran.err.contains(told), "{}", ran.err);
    assert!(text.contains("# lost records=7 reason=of_2050\n") && text.contains("reason=in_2050\n"));
    let ran = place.merge(["check", "./app"]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.err.contains("app.trace.10': 7 records lost (of_2050: 7)"), "{}", ran.err);
    assert!(!ran.err.contains("app.trace.10': no '# end' line"), "{}", ran.err);
    assert!(!ran.err.contains("the '# end' line counts"), "{}", ran.err);
    assert!(String::from_utf8_lossy(&ran.out).contains("ended (in_2050)"));
    let info = String::from_utf8(place.merge(["info", "--json", "./app"]).out).unwrap();
    assert!(info.contains("\"of_2050\": 7") && info.contains("\"end\": \"in_2050\""), "{info}");
}

#[test]
fn no_command_writes_disallowed_bytes_to_a_terminal() {
    let bad: [&[u8]; 7] =
        [b"\x1b]0;owned\x07", b"\r", b"\x7f", b"\xc2\x9b31m", b"\xff", b"\xe4\xbd", b"\xc2\x85"];
    for bad in bad {
        let place = Place::with_one_file();
        let planted = [&line(5, 10, "planted ")[..35], bad, b"31m\n"].concat();
        let before = file(&run(5, 1), 10, &[4]);
        place.write("app.trace.10", [&before[..], &planted, &line(6, 10, "behind it")].concat());
        let damaged =
            format!("app.trace.10': {} bytes at offset {} are not a trace line", planted.len(), before.len());
        let shown = br"0000000000000004-00000010 # damaged file=";
        let shows = |bytes: &[u8]| memchr::memmem::find(bytes, shown).is_some();
        for args in [&["-o", "-", "./app"][..], &["--head", "9", "./app"], &["--time", "offset", "./app"]] {
            let ran = place.merge(args);
            assert_eq!(ran.status, Some(1), "{args:?} {bad:x?}: {}", ran.err);
            assert!(ran.err.contains(&damaged), "{args:?} {bad:x?}: {}", ran.err);
            let text = String::from_utf8(ran.out).unwrap();
            assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{args:?}: {text:?}");
            assert!(args[0] != "-o" || shows(text.as_bytes()), "{args:?}: {text}");
            let is_planted =
                |line: &str| line.contains("-00000010 : planted") && !line.contains(" # damaged ");
            assert!(text.contains(": behind it\n") && !text.lines().any(is_planted), "{args:?}: {text}");
        }
        for args in
            [&["check", "./app"][..], &["info", "./app"], &["diff", "./app.trace.10", "./app.trace.10"]]
        {
            let ran = place.merge(args);
            let told = [&ran.out[..], ran.err.as_bytes()].concat();
            let told = String::from_utf8(told).unwrap();
            assert!(!told.contains(|c: char| c.is_control() && c != '\n'), "{args:?}: {told:?}");
            let says = match args[0] {
                "check" => told.contains(&format!(
                    "{} bytes are damaged: no line of this thread's trace",
                    planted.len()
                )),
                "info" => told.contains("1 damaged"),
                _ => told.contains(&format!("{} bytes at offset {}", planted.len(), before.len())),
            };
            assert!(says, "{args:?} {bad:x?}: {told}");
        }
        // The damaged line does not count among the last messages.
        let last = String::from_utf8(place.merge(["--last", "2", "--thread", "10", "./app"]).out).unwrap();
        assert_eq!(last.lines().filter(|line| line[16..].starts_with("-00000010 : ")).count(), 2, "{last}");
    }
}

#[test]
fn lines_of_logs_are_escaped_and_not_reported_as_damage() {
    let place = Place::new();
    let mut run = run(5, 1);
    run.clock = trace_format::meta::ClockKind::System;
    place.write("app.trace.9", file(&run, 9, &[3, 7]));
    let long = "\u{e9}".repeat(600_000);
    let log = [b"2026-11-20T15:11:03Z one \x1b[31m \xff \xc2\x9b \x7f\n  two \r\0\n", long.as_bytes(), b"\n"]
        .concat();
    place.write("a\u{1b}.log", log);
    let ran = place.merge(["--with", "a\u{1b}.log", "-o", "-", "./app"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    let text = String::from_utf8(ran.out).unwrap();
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
    let one = r"00000000 : a\x1b.log: 2026-11-20T15:11:03Z one \x1b[31m \xff \xc2\x9b \x7f";
    assert!(text.contains(&format!("{one}\n")), "{}", &text[..900]);
    assert!(text.contains("00000000 |   two \\x0d\\x00\n"), "{}", &text[..900]);
    assert_eq!(
        text.matches('\u{e9}').count() + text.matches("\\xc3\\xa9").count(),
        600_000,
        "however the line is divided"
    );
}

#[test]
fn a_gigantic_line_and_a_gigantic_hole_are_skipped() {
    let place = Place::with_one_file();
    for (tid, filling) in [(10, None), (11, Some(b"0000000000000005-00000011 : "))] {
        let path = place.path(format!("app.trace.{tid}"));
        let mut head = file(&run(5, 1), tid, &[4]);
        head.extend(filling.into_iter().flatten());
        fs::write(&path, &head).unwrap();
        // The file is sparse and costs no space. (A gigabyte works as well, but costs the kernel time.)
        fs::OpenOptions::new().append(true).open(&path).unwrap().set_len(1 << 25).unwrap();
    }
    let ran = place.merge(["./app", "-o", "merged"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    let text = place.text("merged");
    assert!(text.len() < 10_000);
    assert_eq!(text.matches("# damaged").count(), 2);
    assert!(text.contains("0000000000000005-00000011 : \n"), "what stands before the hole is kept");
}

/// Returns a whole file with its number among the files of its run, which has made `files` files.
fn numbered(pid: u32, tid: u64, file: u32, files: u64) -> Vec<u8> {
    let run = run(pid, 1);
    let thread = format!("{:016x}-{tid:08} # thread name=\"t\" ring=shared file={file}\n", 1);
    let end = format!("{:016x}-{tid:08} # end records=2 lost=0 reason=exit files={files}\n", 90);
    let lines = [line(30 + tid, tid, "one"), line(60 + tid, tid, "two")].concat();
    [header(&run, tid), thread.into_bytes(), lines, end.into_bytes()].concat()
}

/// Runs each command on an application with two files and another one, which is left out.
fn is_shown_once(name: &str, bytes: Vec<u8>) {
    let place = Place::new();
    place.write("app.trace.9", numbered(5, 9, 1, 2));
    place.write("app.trace.10", numbered(5, 10, 2, 2));
    let sound = place.merge(["./app", "-o", "-"]);
    assert_eq!(sound.status, Some(0), "{}", sound.err);
    place.write(name, bytes);
    let merged = place.merge(["./app", "-o", "-"]);
    assert_eq!(merged.status, Some(1), "{}", merged.err);
    assert_eq!(merged.out, sound.out);
    let named = format!(
        "'./{name}' is left out: its first lines say that it is the same trace file of process 5 as './app.trace."
    );
    assert!(merged.err.contains(&named), "{}", merged.err);
    let check = place.merge(["check", "./app"]);
    assert_eq!(check.status, Some(1));
    let report = String::from_utf8(check.out).unwrap();
    assert!(report.contains("not whole: 1 run, 2 threads, 4 records, 0 lost"), "{report}");
    for command in ["stats", "show", "info"] {
        assert!(place.merge([command, "./app"]).err.contains(&named), "{command}");
    }
}

#[test]
fn a_copy_of_a_file_is_left_out_and_named() {
    is_shown_once("app.trace.9.1", numbered(5, 9, 1, 2));
    is_shown_once("app.trace.11", numbered(5, 9, 1, 2));
}

#[test]
fn a_copy_that_was_continued_under_another_name_is_shown() {
    let place = Place::new();
    let whole = numbered(5, 9, 1, 2);
    place.write("app.trace.9", &whole);
    let sound = place.merge(["./app", "-o", "-"]);
    // Recovery appends to the copy if the original was replaced and the copy has its inode number.
    place.write("app.trace.9", &whole[..whole.len() - 70]);
    place.write("app.trace.77", &whole);
    let merged = place.merge(["./app", "-o", "-"]);
    assert_eq!((merged.status, merged.out), (Some(1), sound.out), "{}", merged.err);
    assert!(merged.err.contains("'./app.trace.9' is left out"), "{}", merged.err);
}

#[test]
fn a_copy_of_a_directory_given_with_the_original_is_left_out() {
    let place = Place::new();
    for directory in ["original", "backup"] {
        fs::create_dir(place.path(directory)).unwrap();
        place.write(format!("{directory}/app.trace.9"), numbered(5, 9, 1, 1));
    }
    let sound = place.merge(["original", "-o", "-"]);
    assert_eq!(sound.status, Some(0), "{}", sound.err);
    let both = place.merge(["original", "backup", "-o", "-"]);
    assert_eq!((both.status, both.out), (Some(1), sound.out), "{}", both.err);
    assert!(
        both.err.contains("is left out: its first lines say that it is the same trace file"),
        "{}",
        both.err
    );
}

#[test]
fn files_of_two_threads_with_one_number_are_both_shown() {
    let place = Place::new();
    place.write("app.trace.9", numbered(5, 9, 1, 1));
    place.write("app.trace.10", numbered(5, 10, 1, 1));
    let merged = place.merge(["./app", "-o", "-"]);
    assert!(!merged.err.contains("is left out"), "{}", merged.err);
    let lines = String::from_utf8(merged.out).unwrap();
    assert_eq!(lines.matches(" : ").count(), 4, "{lines}");
}

#[test]
fn a_copy_that_was_made_earlier_is_left_out() {
    let text = numbered(5, 9, 1, 2);
    let torn = text[..text.len() - 70].to_vec();
    is_shown_once("app.trace.9.1", torn);
}

#[test]
fn a_merged_file_under_the_name_of_a_trace_is_left_out() {
    let place = Place::new();
    place.write("app.trace.9", numbered(5, 9, 1, 2));
    place.write("app.trace.10", numbered(5, 10, 2, 2));
    let merged = place.merge(["./app", "-o", "-"]).out;
    is_shown_once("app.trace.1", merged);
}

#[test]
fn a_copy_of_a_file_without_a_number_is_left_out() {
    let place = Place::with_one_file();
    let sound = place.merge(["./app", "-o", "-"]);
    let bytes = place.read("app.trace.9");
    // A copy that was made earlier has fewer lines.
    for (name, bytes) in [
        ("app.trace.9.1", &bytes[..]),
        ("app.trace.11", &bytes),
        ("app.trace.9.1", &bytes[..bytes.len() - 1]),
    ] {
        place.write(name, bytes);
        let merged = place.merge(["./app", "-o", "-"]);
        assert_eq!((merged.status, merged.out), (Some(1), sound.out.clone()), "{}", merged.err);
        assert!(merged.err.contains(&format!("'./{name}' is left out")), "{}", merged.err);
        fs::remove_file(place.path(name)).unwrap();
    }
}
