//! No command writes anything but text to a terminal, or to a pipe of text for people, with any names, messages,
//! places and values in traces and arguments.
#![cfg(unix)]
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    reason = "a terminal is opened by the C library; a failure in a test fails it"
)]

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use crate::support::{Place, header, line, meta, raw_file_of_records, run};
use trace_format::escape::{EscapeContext, escape_into};
use trace_format::meta::{Meta, RingPlace, Run, Thread};
use trace_format::sites::{Level, Site, SiteKind};

/// Text that controls a terminal: a title, colours that no palette has, a cleared screen, an 8-bit sequence, and
/// directions.
const HOSTILE: &str =
    "\u{1b}]2;TITLE\u{7}\u{1b}[35;7mFORGED\u{1b}[2J\r\u{8}\u{7f}\u{9b}31m\u{202e}evil\u{2066}\u{2028}\u{61c}";
/// The colours in it.
const COLOURS: &str = "\u{1b}[35;7m";

fn hostile(name: &str) -> String {
    format!("{name}{HOSTILE}")
}

/// Opens a terminal: the side that a user sees, and the side to which programs write.
fn terminal() -> (File, File) {
    let (mut seen, mut written) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: two integers are filled; name, modes and size may be left out.
    let opened = unsafe { libc::openpty(&raw mut seen, &raw mut written, none, none.cast(), none.cast()) };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: both are new, and no other code has them.
    unsafe { (File::from_raw_fd(seen), File::from_raw_fd(written)) }
}

/// Returns all bytes that come until no process can write to the terminal any more.
fn all_of(mut seen: File) -> Vec<u8> {
    let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        match seen.read(&mut bytes) {
            Ok(0) => return all,
            Ok(read) => all.extend_from_slice(&bytes[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Linux reports this error when the other side is closed.
            Err(_) => return all,
        }
    }
}

/// Runs a command whose standard output and standard error are terminals; returns the bytes that these show.
fn on_terminals(mut command: Command) -> [Vec<u8>; 2] {
    let [(out, out_end), (err, err_end)] = [terminal(), terminal()];
    command.stdin(Stdio::null()).stdout(out_end).stderr(err_end);
    let mut child = command.spawn().unwrap();
    // The child has the other ends.
    drop(command);
    let out = thread::spawn(|| all_of(out));
    let all = [all_of(err), out.join().unwrap()];
    child.wait().unwrap();
    let [err, out] = all;
    [out, err].map(|text| without_returns(&text))
}

/// Returns the text without the carriage return that a terminal puts before each line feed.
fn without_returns(text: &[u8]) -> Vec<u8> {
    let is_added = |at: usize| text[at] == b'\r' && text.get(at + 1) == Some(&b'\n');
    (0..text.len()).filter(|at| !is_added(*at)).map(|at| text[at]).collect()
}

/// Returns the text without the sequences that set colours.
fn without_colours(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        let codes = behind.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
        match behind[codes..].strip_prefix('m') {
            Some(behind) => rest = behind,
            None => {
                plain.push_str("\u{1b}[");
                rest = behind;
            }
        }
    }
    plain + rest
}

fn is_text(character: char, directions: bool) -> bool {
    let directs = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    matches!(character, '\n' | '\t') || !(character.is_control() || (directs && directions))
}

/// Panics unless `written` is text without forged sequences.
fn assert_text(written: &[u8], directions: bool, of: &str) {
    let text = std::str::from_utf8(written);
    let text = text.unwrap_or_else(|error| panic!("{of}: {error}: {}", String::from_utf8_lossy(written)));
    assert!(!text.contains(COLOURS), "{of}: colours are forged: {text:?}");
    let plain = without_colours(text);
    let odd = plain.find(|character| !is_text(character, directions));
    assert!(odd.is_none(), "{of}: {:?}", odd.map(|at| plain[at..].chars().take(80).collect::<String>()));
}

/// Returns a text in the form of a trace's lines.
fn escaped(text: &str) -> String {
    let mut line = Vec::new();
    escape_into(&mut line, text.as_bytes(), EscapeContext::Line);
    String::from_utf8(line).unwrap()
}

fn sites() -> Vec<Site> {
    let site = |id, kind, template: &str, descriptor: &[u8], names: &[String]| Site {
        id,
        line: 7,
        column: 1,
        module: hostile("module"),
        file: hostile("dir/file\n.rs"),
        format: template.to_owned(),
        descriptor: descriptor.to_vec(),
        kind,
        level: Level::Error,
        target: hostile("target"),
        function: hostile("function;"),
        template: template.to_owned(),
        names: names.to_vec(),
        shares_line: false,
    };
    vec![
        site(
            1,
            SiteKind::Message,
            &(hostile("template {0} and {1}")),
            b"em",
            &[hostile("one\n"), hostile("two")],
        ),
        site(2, SiteKind::Function, "", b"", &[]),
        site(3, SiteKind::Span, "", b"", &[]),
    ]
}

fn thread_line(name: &str) -> Meta {
    Meta::Thread(Thread {
        name: hostile(name).into_bytes(),
        ring: RingPlace::Shared,
        why: Vec::new(),
        file: None,
    })
}

fn module() -> Meta {
    let payload = format!(
        "module start={:016x} end={:016x} bias={:016x} build_id=ab path=\"{}\" after=0 seen=1",
        0x1000,
        0x9000,
        0,
        escaped(&hostile("/lib/").replace('"', "")),
    );
    Meta::parse(payload.as_bytes()).unwrap()
}

fn hostile_run(pid: u32, exe: &[u8]) -> Run {
    Run { exe: exe.to_vec(), boot: b"6c1e".to_vec(), ..run(pid, 1) }
}

/// Returns the texts of messages, also of locks, which views take apart.
fn messages() -> Vec<String> {
    let odd = HOSTILE;
    vec![
        hostile("message"),
        format!("lock wait id=1 for=lock made=\"{odd}:1\" at=\"{odd}:2\" holder=4 since=\"{odd}:3\""),
        format!("condvar wait id=2 lock=1 made=\"{odd}:1\" at=\"{odd}:2\""),
        format!("two lines {odd}\nwith {odd}"),
    ]
}

/// Makes a text file of a thread, with lines as the format specifies them, and damaged ones.
fn text_trace(run: &Run) -> Vec<u8> {
    let mut file = [header(run, 4), meta(1, 4, &thread_line("text")), meta(2, 4, &module())].concat();
    for (at, message) in (3..).zip(messages()) {
        let text = escaped(&message.replace('\n', " "));
        file.extend(line(at, 4, &text));
        file.extend(line(at, 4, &format!("lock got id=1 ns=5{odd}", odd = escaped(HOSTILE))));
    }
    file.extend(
        format!("{:016x}-00000004 > {} at {}:7\n", 20, escaped(&hostile("f")), escaped(&hostile("p")))
            .bytes(),
    );
    file.extend(format!("{:016x}-00000004 ^ 0x1234 ({}) ...\n", 21, escaped(&hostile("f"))).bytes());
    file.extend(
        format!("{:016x}-00000004 < {} at {}:7\n", 22, escaped(&hostile("f")), escaped(&hostile("p")))
            .bytes(),
    );
    file.extend(format!("{:016x}-00000004 # lost records=3 reason={}\n", 23, escaped("r\u{1b}[2J")).bytes());
    file.extend(format!("{:016x}-00000004 # stall ns=5 more={}\n", 24, escaped(HOSTILE)).bytes());
    // The rest is damage, and an end that is not a line.
    file.extend(format!("{:016x}-00000004 : {HOSTILE}\n{HOSTILE}\n\u{fffd}", 25).bytes());
    file.extend([0xff, 0x9b, b'\n', 0x1b]);
    file
}

fn raw_trace(run: &Run) -> Vec<u8> {
    let value = hostile("value");
    let mut captured = (value.len() as u32).to_le_bytes().to_vec();
    captured.extend(value.bytes());
    captured.extend(5u32.to_le_bytes());
    let mut records = vec![
        (4 | 0x1234 << 8, 3, Vec::new()),
        (9 | 2 << 32, 4, Vec::new()),
        (9 | 8 << 8 | 3 << 32, 5, 17u64.to_le_bytes().to_vec()),
        (3 | 1 << 32, 6, captured),
        (6, 7, [0x1234u64.to_le_bytes(), 0x2345u64.to_le_bytes()].concat()),
        (9 | (4 | 8) << 8 | 3 << 32, 8, 17u64.to_le_bytes().to_vec()),
        (9 | 4 << 8 | 2 << 32, 9, Vec::new()),
    ];
    let messages = messages().into_iter().map(|text| (2 | 1 << 32, 10, text.into_bytes()));
    records.extend(messages);
    records.push((2, 11, b"\xff\x9b\x1b[2J".to_vec()));
    let metas = [(1, &Meta::Run(run.clone())), (1, &thread_line("raw")), (2, &module())];
    raw_file_of_records(4, &metas.map(|(ticks, meta)| (ticks, meta)), &sites(), records)
}

/// A place whose application, directory and files have hostile names.
struct HostilePlace {
    place: Place,
    app: OsString,
}

impl HostilePlace {
    fn new(is_raw: bool) -> HostilePlace {
        let place = Place::new();
        let mut app = OsString::from(format!("a\n{}", HOSTILE.replace('/', "")));
        app.push(OsStr::from_bytes(b"\xff\x9b"));
        let path = place.path(&app);
        place.install(&app, fs::read("/bin/true").unwrap());
        let run = hostile_run(5, fs::canonicalize(&path).unwrap().as_os_str().as_bytes());
        let mut name = app.clone();
        name.push(".trace.4");
        place.write(&name, if is_raw { raw_trace(&run) } else { text_trace(&run) });
        name.push("4");
        place.write(&name, HOSTILE);
        place.write(hostile("log"), format!("2026-11-20T15:11:03Z {HOSTILE}\n{HOSTILE}\n"));
        HostilePlace { place, app }
    }

    fn trace(&self) -> PathBuf {
        let mut name = self.app.clone();
        name.push(".trace.4");
        self.place.path(name)
    }

    /// Returns a command that starts no pager and no viewer, with or without colours.
    fn command(&self, args: &[OsString], colours: bool) -> Command {
        let mut command = self.place.command();
        command.args(args).env("PAGER", "").env("TERM", "xterm").env("PATH", "/nowhere");
        if colours {
            command.env_remove("NO_COLOR")
        } else {
            command.env("NO_COLOR", "1")
        };
        command
    }
}

/// Returns the subcommands, as the command itself lists them.
fn subcommands(place: &Place) -> Vec<String> {
    let help = String::from_utf8(place.merge(["--help"]).out).unwrap();
    let listed = help.split_once("Commands:\n").unwrap().1;
    let names = listed.lines().take_while(|line| !line.is_empty());
    let names = names.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<String> = names.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect();
    assert!(names.iter().any(|name| name == "locks") && names.len() > 10, "{names:?}");
    names
}

/// Returns the formats of other programs, as the command itself lists them.
fn formats(place: &Place) -> Vec<String> {
    let refused = place.merge(["merge", "--format", "none", "app"]).err;
    let listed = refused.split_once("[possible values: ").unwrap().1.split_once(']').unwrap().0;
    let names: Vec<String> = listed.split(", ").map(str::to_owned).collect();
    assert!(names.len() >= 10, "{names:?}");
    names
}

/// Returns the arguments behind the name of a subcommand; a new subcommand gets the application.
fn arguments(of: &str, hostile: &HostilePlace) -> Vec<OsString> {
    let app = || hostile.app.clone();
    match of {
        "on" | "off" | "snapshot" => vec![std::process::id().to_string().into()],
        "completions" => vec!["bash".into()],
        "man" => vec![HOSTILE.into()],
        "dataset" => vec!["add".into(), "set".into(), app()],
        "diff" => vec![app(), hostile.trace().into()],
        "run" => vec![hostile.place.path(&hostile.app).into()],
        _ => vec![app()],
    }
}

/// Returns all command lines to try. The last one cleans.
fn command_lines(hostile: &HostilePlace) -> Vec<(Vec<OsString>, bool)> {
    let app = || hostile.app.clone();
    let mut lines = Vec::new();
    let mut names = subcommands(&hostile.place);
    names.retain(|name| name != "clean");
    for name in names {
        let words = [vec![OsString::from(&name)], arguments(&name, hostile)].concat();
        lines.push((words, false));
        // The parser repeats a word that the command does not know.
        lines.push((vec![name.into(), format!("--{HOSTILE}").into(), app()], false));
    }
    for format in formats(&hostile.place) {
        lines.push((vec!["--format".into(), format.into(), "-o".into(), "-".into(), app()], true));
    }
    let given: [&[&str]; 17] = [
        &["check", "-v"],
        &["show", "--columns", "time,delta,thread,process,level,target,module,site,function"],
        &["stats", "--json"],
        &["stats", "--csv"],
        &["report", "--json"],
        &["report", "--csv"],
        &["info", "--json"],
        &["report", "--format", "folded"],
        &["report", "--by-thread"],
        &["-o", "-"],
        &["-v", "-o", "-"],
        &["--symbols", "-o", "-"],
        &["--time", "wall"],
        &["--grep", "FORGED"],
        &["--site", "file"],
        &["--color", "always"],
        &["--since", HOSTILE],
    ];
    for words in given {
        let is_data = words.contains(&"--csv");
        let words: Vec<OsString> = words.iter().map(OsString::from).chain([app()]).collect();
        lines.push((words, is_data));
    }
    let log = OsString::from(self::hostile("log"));
    lines.push((vec!["--with".into(), log, "-o".into(), "-".into(), app()], false));
    lines.push((vec![HOSTILE.into()], false));
    lines.push((vec!["-o".into(), format!("/nowhere/{HOSTILE}").into(), app()], false));
    lines.push((vec!["clean".into(), app()], false));
    lines
}

fn nothing_but_text_is_written(is_raw: bool) {
    let hostile = HostilePlace::new(is_raw);
    for (words, is_data) in command_lines(&hostile) {
        let of = format!("{words:?}, raw: {is_raw}");
        for colours in [false, true] {
            let [out, err] = on_terminals(hostile.command(&words, colours));
            assert_text(&out, true, &format!("{of}, output on a terminal"));
            assert_text(&err, true, &format!("{of}, errors on a terminal"));
        }
        let ran = hostile.command(&words, false).stdin(Stdio::null()).output().unwrap();
        // Lines of a trace keep the directions of their texts.
        let is_trace = !words[0].as_bytes().first().is_some_and(u8::is_ascii_lowercase);
        if !is_data {
            assert_text(&ran.stdout, !is_trace, &format!("{of}, output in a pipe"));
        }
        assert_text(&ran.stderr, true, &format!("{of}, errors in a pipe"));
    }
}

#[test]
fn commands_write_text_about_hostile_text_files() {
    nothing_but_text_is_written(false);
}

#[test]
fn commands_write_text_about_hostile_raw_files() {
    nothing_but_text_is_written(true);
}

#[test]
fn a_pager_and_a_device_get_text() {
    let hostile = HostilePlace::new(false);
    let words = ["show", "--color", "never"].map(OsString::from);
    let mut command = hostile.place.command();
    // The input of a pager goes to its output: the pager is `cat`, under another name.
    command.args(&words).arg(&hostile.app).env("PAGER", "cat -").env("TERM", "xterm");
    let [out, err] = on_terminals(command);
    assert!(!out.is_empty());
    assert_text(&out, true, "output of a pager");
    assert_text(&err, true, "errors beside a pager");
    let csv = ["--format", "csv", "-o", "/dev/stdout"].map(OsString::from);
    let [out, _] =
        on_terminals(hostile.command(&[&csv[..], std::slice::from_ref(&hostile.app)].concat(), false));
    assert!(out.len() > 100);
    assert_text(&out, true, "csv on a device that is a terminal");
    let ran =
        hostile.command(&[&csv[..], std::slice::from_ref(&hostile.app)].concat(), false).output().unwrap();
    assert!(ran.stdout.contains(&0x1b), "data in a pipe is as it is");
}

#[test]
fn cargo_tracer_repeats_arguments_as_text() {
    let place = Place::new();
    for words in [[HOSTILE, "x"], ["tracer", HOSTILE], ["tracer", "--help"]] {
        let mut command = place.program(env!("CARGO_BIN_EXE_cargo-tracer"));
        command.args(words).env("TERM", "xterm");
        let [out, err] = on_terminals(command);
        assert!(!(out.is_empty() && err.is_empty()));
        assert_text(&out, true, "output of cargo tracer");
        assert_text(&err, true, "errors of cargo tracer");
    }
}

#[test]
fn a_message_cannot_forge_a_lock_record() {
    let hostile = HostilePlace::new(true);
    let ran = hostile.place.merge([OsStr::new("locks"), &hostile.app]);
    let out = String::from_utf8(ran.out).unwrap();
    assert!(out.starts_with("no lock was waited for"), "{out}");
    // The text is still there, in the program's own words.
    let ran = hostile.place.merge([
        OsStr::new("--format"),
        OsStr::new("jsonl"),
        OsStr::new("-o"),
        OsStr::new("-"),
        &hostile.app,
    ]);
    assert!(String::from_utf8(ran.out).unwrap().contains("\"lock wait id=1 for=lock"));
    let ran = hostile.place.merge([OsStr::new("-o"), OsStr::new("-"), &hostile.app]);
    assert!(String::from_utf8(ran.out).unwrap().contains(" : \\x6cock wait id=1 for=lock"));
}
