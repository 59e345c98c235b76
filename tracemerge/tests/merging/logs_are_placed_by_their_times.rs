//! `--with`: the lines of logs are placed by the times that they state, and the command says what it has assumed.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::support::{Place, Ran, file, ran, run};
use trace_format::line::Ticks;
use trace_format::meta::{ClockKind, Run};
use trace_format::wall::Wall;

const SECOND: u64 = 1_000_000_000;
/// Central European time, with its rules for summer.
const ZONE: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
/// The seconds of 2026-11-21T13:00:00Z and of 2026-10-25T00:00:00Z, as `date +%s` has them. At the second one, the hour
/// from two to three begins in Central Europe for the first time in that night.
const NOON: u64 = 1_795_266_000;
const NIGHT: u64 = 1_792_886_400;

/// Merges a log with a trace that begins at `begin`, in seconds since 1970, and takes `seconds`.
fn merge(begin: u64, seconds: u64, log: &[u8], options: &[&str]) -> Ran {
    let place = Place::new();
    let run = Run { ticks: Ticks(0), wall: Wall(begin * SECOND), clock: ClockKind::System, ..run(5, 0) };
    place.write("app.trace.9", file(&run, 9, &[0, seconds * SECOND]));
    place.write("x.log", log);
    let mut command = place.command();
    command.env("TZ", ZONE).args(["--with", "x.log", "./app", "-o", "-"]).args(options);
    ran(&mut command)
}

/// Returns the time of day of each line of the log, in UTC, with the line, in the order of the output, and the messages.
fn placed(begin: u64, log: &[u8]) -> (Vec<(String, String)>, String) {
    let ran = merge(begin, 3 * 3600, log, &["--time", "utc", "--thread", "0"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    let text = String::from_utf8(ran.out).unwrap();
    let line = |line: &str| {
        let text = line.split_once(" : x.log: ").or_else(|| line.split_once(" | ")).unwrap().1;
        (line[11..19].to_owned(), text.to_owned())
    };
    (text.lines().map(line).collect(), ran.err)
}

#[test]
fn times_without_a_zone_are_local_and_the_zone_is_said() {
    let log = "2026/11/21 14:00:06 ZEBRA: client 16 registered\n\
               2026/11/21 14:00:07 -12 degrees outside\n\
               2026/11/21 15:00:08 UTC+02:00 done\n";
    let (lines, said) = placed(NOON, log.as_bytes());
    let times: Vec<&str> = lines.iter().map(|(time, _)| &**time).collect();
    assert_eq!(times, ["13:00:06", "13:00:07", "13:00:08"]);
    let assumed = "'x.log': times without a zone were read as local time, UTC+01:00\n";
    assert!(said.contains(assumed), "{said}");
    let quiet = merge(NOON, 60, log.as_bytes(), &["-q"]);
    assert_eq!((quiet.status, &*quiet.err), (Some(0), ""));
    let (_, said) = placed(NOON, b"2026-11-21T13:00:06Z one\n2026-11-21T14:00:06+01:00 two\n");
    assert_eq!(said.lines().filter(|line| line.contains("x.log")).count(), 1, "nothing is assumed: {said}");
}

#[test]
fn dates_inside_of_messages_leave_lines_with_the_line_before() {
    let log = "Nov 21 14:00:05 host app[1]: phases = (\n   Delay = 1795266099;\n1795266099.125\n)\n\
               valid from Nov 20 14:00:05 on\n[Sat Nov 21 14:00:05 2026]\nNov 21 14:00:06 host app[1]: end\n";
    let (lines, said) = placed(NOON, log.as_bytes());
    let expected: Vec<(String, String)> = log
        .lines()
        .enumerate()
        .map(|(number, line)| (if number < 6 { "13:00:05" } else { "13:00:06" }.to_owned(), line.to_owned()))
        .collect();
    assert_eq!(lines, expected);
    assert!(said.contains("2 records placed by syslog times"), "{said}");
    assert!(
        said.contains("'x.log': 5 lines without a readable time placed with the line before; times"),
        "{said}"
    );
}

#[test]
fn an_hour_that_comes_twice_is_told_apart() {
    for (day, rest) in [("2026-10-25", "line"), ("Oct 25", "host app[1]: line")] {
        let local = ["02:00:30", "02:20:30", "02:40:30", "02:00:30", "02:20:30", "02:40:30", "03:00:30"];
        let log: String = local.map(|time| format!("{day} {time} {rest}\n")).concat();
        let (lines, said) = placed(NIGHT, log.as_bytes());
        let times: Vec<&str> = lines.iter().map(|(time, _)| &**time).collect();
        let utc = ["00:00:30", "00:20:30", "00:40:30", "01:00:30", "01:20:30", "01:40:30", "02:00:30"];
        assert_eq!(times, utc, "{day}");
        assert!(said.contains("local time, UTC+02:00 and UTC+01:00\n"), "{said}");
    }
}

#[test]
fn nul_bytes_marks_and_line_ends_are_no_part_of_a_line() {
    let log = [
        &[0; 300_000][..],
        b"[Sat Nov 21 14:00:05.250000 2026] [core:error] one\r\n  more\r\n",
        b"\0\0[Sat Nov 21 14:00:06.000000 2026] [core:error] two\r\n",
    ]
    .concat();
    let (lines, said) = placed(NOON, &log);
    let expected = [
        ("13:00:05", "[Sat Nov 21 14:00:05.250000 2026] [core:error] one"),
        ("13:00:05", "  more"),
        ("13:00:06", "[Sat Nov 21 14:00:06.000000 2026] [core:error] two"),
    ];
    assert_eq!(lines, expected.map(|(time, line)| (time.to_owned(), line.to_owned())));
    assert!(said.contains("1 line without a readable time"), "{said}");
    let (lines, _) = placed(NOON, b"\xef\xbb\xbf2026-11-21T13:00:05Z one\r\n");
    assert_eq!(lines, [("13:00:05".to_owned(), "2026-11-21T13:00:05Z one".to_owned())]);
}

#[test]
fn a_log_in_utf_16_is_named_as_such() {
    let log: Vec<u8> =
        "\u{feff}2026-11-21T13:00:05Z one\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let ran = merge(NOON, 60, &log, &[]);
    assert_eq!((ran.status, ran.out.len()), (Some(2), 0), "{}", ran.err);
    assert!(ran.err.contains("cannot read 'x.log': it is in UTF-16, little-endian"), "{}", ran.err);
}

#[test]
fn lines_from_before_the_counters_zero_have_no_time() {
    // The counter is zero at noon.
    let log = "2020-01-01T00:00:00Z old\n2026-11-21T12:59:59Z last\n2026-11-21T13:00:07Z new\n";
    let shown = |options: &[&str]| {
        let ran = merge(NOON, 60, log.as_bytes(), options);
        let lines = String::from_utf8(ran.out).unwrap();
        (
            lines.lines().filter(|line| line.contains("x.log: ")).map(str::to_owned).collect::<Vec<_>>(),
            ran.err,
        )
    };
    for (mode, older, new) in [
        ("utc", "before 2026-11-21T13:00:01Z    ", "2026-11-21T13:00:07.000000000Z "),
        ("wall", "before 2026-11-21 14:00:01   ", "2026-11-21 14:00:07.000000000 "),
        ("offset", "    <0.000000000 ", "     7.000000000 "),
    ] {
        let (lines, said) = shown(&["--time", mode]);
        let begins: Vec<bool> =
            lines.iter().zip([older, older, new]).map(|(line, begin)| line.starts_with(begin)).collect();
        assert_eq!(begins, [true; 3], "{lines:#?}");
        let placed = "'x.log': 2 records older than the counter's zero, at 2026-11-21T13:00:00.000000000Z, placed at that";
        assert!(said.contains(placed), "{said}");
    }
    for (format, unknown, known) in [
        ("csv", "0,,,", "7000000000,2026-11-21T13:00:07.000000000Z,1795266007000000000,"),
        (
            "jsonl",
            "{\"ticks\":0,\"tid\"",
            "{\"ticks\":7000000000,\"time\":\"2026-11-21T13:00:07.000000000Z\",\"ns\":1795266007000000000",
        ),
    ] {
        let (lines, _) = shown(&["--format", format]);
        let begins = lines.iter().zip([unknown, unknown, known]).all(|(line, begin)| line.starts_with(begin));
        assert!(begins && lines.len() == 3, "{lines:#?}");
    }
}

#[cfg(unix)]
#[test]
fn a_log_from_a_pipe_is_read_even_if_the_directory_for_temporary_files_is_missing() {
    let place = Place::new();
    let run = Run { ticks: Ticks(0), wall: Wall(NOON * SECOND), clock: ClockKind::System, ..run(5, 0) };
    place.write("app.trace.9", file(&run, 9, &[0, 60 * SECOND]));
    let mut shell = place.program("sh");
    shell.args(["-c", r#"echo "2026-11-21T13:00:06Z one" | "$0" --with /dev/stdin ./app -o -"#]);
    shell.arg(env!("CARGO_BIN_EXE_tracemerge")).env("TMPDIR", place.path("missing"));
    let ran = ran(&mut shell);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(String::from_utf8(ran.out).unwrap().contains("2026-11-21T13:00:06Z one"), "{}", ran.err);
}
