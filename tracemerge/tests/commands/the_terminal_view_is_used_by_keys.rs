//! `tui` in a terminal: real keys, the mouse, changes of size, colours and the end, seen by a model of the screen.
#![cfg(all(target_os = "linux", feature = "tui"))]
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    reason = "a terminal is opened by the C library; a failure in a test fails it"
)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Place, everything, ran, run, whole_file};
use trace_format::meta::Run;
use trace_format::wall::Wall;

/// The time after which a screen is not expected any more.
const PATIENCE: Duration = Duration::from_secs(120);

/// The command in a terminal.
struct Tui {
    child: Child,
    terminal: File,
    /// The program's side, which has the settings of the terminal.
    theirs: File,
    screen: Arc<Mutex<vt100::Parser>>,
    bytes: Arc<Mutex<Vec<u8>>>,
}

fn size(rows: u16, columns: u16) -> libc::winsize {
    libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Returns the settings of a terminal that a program in raw mode changes.
fn settings(terminal: &File) -> (u32, u32, u32) {
    // SAFETY: the settings are plain data, which the call fills.
    let mut settings: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, and the settings may be written.
    assert_eq!(unsafe { libc::tcgetattr(terminal.as_raw_fd(), &raw mut settings) }, 0);
    (settings.c_iflag, settings.c_oflag, settings.c_lflag)
}

impl Tui {
    fn start(command: &mut Command, rows: u16, columns: u16) -> Tui {
        let (mut ours, mut theirs, none) = (-1, -1, std::ptr::null_mut());
        let size = size(rows, columns);
        // SAFETY: two integers are filled; the size is read; name and settings may be left out.
        let made =
            unsafe { libc::openpty(&raw mut ours, &raw mut theirs, none, none.cast(), &raw const size) };
        assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: both are new, and no other code has them.
        let (terminal, theirs) = unsafe { (File::from_raw_fd(ours), File::from_raw_fd(theirs)) };
        let stream = || Stdio::from(theirs.try_clone().unwrap());
        command.stdin(stream()).stdout(stream()).stderr(stream());
        // SAFETY: both calls may be made between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (shown, written, mut seen) = (screen.clone(), bytes.clone(), terminal.try_clone().unwrap());
        thread::spawn(move || {
            let mut read = [0; 4096];
            while let Ok(count @ 1..) = seen.read(&mut read) {
                shown.lock().unwrap().process(&read[..count]);
                written.lock().unwrap().extend_from_slice(&read[..count]);
            }
        });
        Tui { child, terminal, theirs, screen, bytes }
    }

    fn keys(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until the screen is as expected.
    fn until(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let text = self.text();
            if is_there(&text) {
                return text;
            }
            assert!(begun.elapsed() < PATIENCE, "{what}:\n{text}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn resize(&self, rows: u16, columns: u16) {
        self.screen.lock().unwrap().set_size(rows, columns);
        let size = size(rows, columns);
        // SAFETY: the descriptor is open, and the size is read.
        let done = unsafe { libc::ioctl(self.terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(done, 0);
    }

    /// Waits for the end; returns the status and everything that was written.
    fn ended(&mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        let begun = Instant::now();
        while !String::from_utf8_lossy(&self.bytes.lock().unwrap()).contains("\x1b[?1049l")
            && begun.elapsed() < PATIENCE
        {
            thread::sleep(Duration::from_millis(10));
        }
        (status.code(), String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned())
    }
}

/// Makes a place with a complete trace of 1,000 lines.
fn place() -> Place {
    let place = Place::new();
    let line = |number: u64| format!("{:016x}-00000009 : line {number} of all\n", 4000 * (number + 1));
    let lines: String = (0..1000).map(line).collect();
    place.write("app.trace.9", whole_file(&run(5, 1), 9, "worker", lines.as_bytes()));
    place
}

fn command(place: &Place, args: &[&str]) -> Command {
    let mut command = place.command();
    command.args(args).env("TERM", "xterm-256color").env_remove("NO_COLOR").env_remove("TRACEMERGE_OPEN");
    command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    command
}

#[test]
fn keys_the_mouse_and_changes_of_size_do_what_the_help_says() {
    let place = place();
    let mut tui = Tui::start(&mut command(&place, &["tui", "app"]), 24, 80);
    // A lane, a rule, and 21 lines; then the line with the position.
    let text = tui.until("the first screen", |text| {
        text.contains("line 20 of all") && text.contains('|') && text.contains("h: help")
    });
    assert!(text.lines().next().unwrap().contains("worker"), "{text}");
    assert!(!text.contains("line 22 of all"), "{text}");
    assert!(text.lines().last().unwrap().contains("h: help"), "{text}");
    tui.keys("G");
    tui.until("the end", |text| text.contains("line 999 of all") && text.contains("line 1,000 of 1,000"));
    tui.keys("?line 500\r");
    tui.until("a found line", |text| text.contains("line 501 of 1,000"));
    // The wheel, and a click on the third line below the lanes.
    tui.keys("g");
    tui.until("the beginning", |text| text.contains("line 0 of all"));
    tui.keys("\x1b[<65;5;5M");
    tui.until("three lines further", |text| {
        !text.contains("line 2 of all") && text.contains("line 3 of all")
    });
    tui.keys("\x1b[<0;5;5M\x1b[<0;5;5m");
    tui.until("the clicked line", |text| text.contains("line 6 of 1,000"));
    tui.resize(60, 200);
    tui.until("a larger screen", |text| {
        text.contains("line 59 of all") && text.lines().nth(59).is_some_and(|last| last.contains("h: help"))
    });
    tui.keys("&line 7[0-9]{2}\r");
    tui.until("filtered lines", |text| text.contains("line 700 of all") && !text.contains("line 70 of all"));
    tui.keys("\\");
    tui.until("all lines", |text| text.contains("line 699 of all") || text.contains("line 701 of all"));
    tui.keys("h");
    tui.until("the help", |text| text.contains("search forward, backward"));
    tui.keys("h4");
    tui.until("what has not ended", |text| text.contains("every call and every wait has ended"));
    tui.keys("\x1b");
    tui.until("the lines again", |text| text.contains("of all"));
    tui.keys("y");
    tui.until("the copy", |text| text.contains("copied"));
    assert!(String::from_utf8_lossy(&tui.bytes.lock().unwrap()).contains("\x1b]52;c;"));
    tui.keys("q");
    assert_eq!(tui.ended().0, Some(0));
}

#[cfg(feature = "parquet")]
#[test]
fn a_data_set_is_shown_like_its_traces() {
    let place = place();
    let ran = place.merge(["dataset", "add", "--machine", "m-1", "set", "app"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    let mut tui = Tui::start(&mut command(&place, &["tui", "set"]), 24, 80);
    let text = tui.until("the first screen", |text| text.contains("line 20 of all"));
    assert!(text.lines().next().unwrap().contains("worker"), "{text}");
    tui.keys("G");
    tui.until("the end", |text| text.contains("line 999 of all") && text.contains("line 1,000 of 1,000"));
    tui.keys("q");
    assert_eq!(tui.ended().0, Some(0));
}

#[test]
fn lines_of_two_machines_are_in_the_order_of_their_messages() {
    let place = Place::new();
    // The clock of the second machine is an hour ahead, and a message takes 100 us.
    let ahead = 3_600_000_000_000;
    for (pid, boot, ahead, delay, word) in [(5, "one", 0, 0, "sent"), (6, "two", ahead, 400, "got")] {
        let begin = run(pid, 1);
        let begin = Run { boot: boot.into(), wall: Wall(begin.wall.0 + ahead), ..begin };
        let line = |n: u64| {
            let back = if word == "sent" { ("got", 800) } else { ("sent", 500) };
            let line = |ticks: u64, text: &str| format!("{ticks:016x}-{pid:08} : {text}\n");
            let at = 40_000 * (n + 1);
            line(at + delay, &format!("{word} q{n}.")) + &line(at + back.1, &format!("{} a{n}.", back.0))
        };
        let lines: String = (0..200).map(line).collect();
        place.write(format!("app.trace.{pid}"), whole_file(&begin, pid.into(), word, lines.as_bytes()));
    }
    let args = ["tui", "--all-runs", "--sync", r"sent (\S+)", r"got \1", "app"];
    let mut tui = Tui::start(&mut command(&place, &args), 24, 100);
    let text = tui.until("the first screen", |text| text.contains("got a2."));
    let shown = |text: &str| text.split(' ').find(|word| word.ends_with('.')).map(str::to_owned);
    let found: Vec<String> = text.lines().filter_map(shown).take(8).collect();
    assert_eq!(found, ["q0.", "q0.", "a0.", "a0.", "q1.", "q1.", "a1.", "a1."], "{text}");
    tui.keys("q");
    assert_eq!(tui.ended().0, Some(0));
}

#[test]
fn open_shows_the_view_if_there_is_no_browser() {
    let place = place();
    let mut tui = Tui::start(&mut command(&place, &["open", "app"]), 24, 80);
    tui.until("the first screen", |text| text.contains("line 20 of all"));
    tui.keys("q");
    assert_eq!(tui.ended().0, Some(0));
}

#[test]
fn new_records_are_followed() {
    let place = place();
    let mut tui = Tui::start(&mut command(&place, &["tui", "-f", "app"]), 24, 80);
    tui.until("the last lines", |text| text.contains("line 999 of all"));
    let more = format!("{:016x}-00000010 : one more\n", 5_000_000);
    place.write("app.trace.10", whole_file(&run(5, 1), 10, "other", more.as_bytes()));
    tui.until("the new line", |text| text.contains("one more"));
    tui.keys("q");
    assert_eq!(tui.ended().0, Some(0));
}

#[test]
fn the_terminal_is_given_back_at_each_end() {
    let place = place();
    for end in ["key", "signal"] {
        let mut tui = Tui::start(&mut command(&place, &["tui", "app"]), 24, 80);
        tui.until("the first screen", |text| text.contains("line 0 of all"));
        let taken = settings(&tui.theirs);
        if end == "key" {
            tui.keys("q");
        } else {
            // SAFETY: the process is a child that was not waited for.
            unsafe { libc::kill(tui.child.id() as i32, libc::SIGTERM) };
        }
        let (_, bytes) = tui.ended();
        assert!(bytes.contains("\x1b[?1049l") && bytes.contains("\x1b[?25h"), "{end}");
        assert!(bytes.contains("\x1b[?1000l"), "{end}: the mouse");
        let now = settings(&tui.theirs);
        assert_ne!(now.2 & libc::ICANON, 0, "{end}");
        assert_eq!(taken.2 & libc::ICANON, 0, "{end}");
    }
}

/// A library whose clock fails once as soon as the file `FAILS` exists: the standard library of Rust panics then. It
/// fails for the first thread, or if `IN_OTHERS` is set, for any other one.
const FAILING_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    static int has_failed;
    const char *path = getenv("FAILS");
    int is_first = syscall(SYS_gettid) == getpid();
    if (path && !has_failed && is_first == !getenv("IN_OTHERS") && access(path, F_OK) == 0) {
        has_failed = 1;
        errno = EINVAL;
        return -1;
    }
    return syscall(SYS_clock_gettime, clock, time);
}
"#;

#[test]
fn a_panic_gives_the_terminal_back_before_its_message() {
    let place = place();
    place.write("clock.c", FAILING_CLOCK);
    let compiled = ran(place.program("cc").args(["-shared", "-fPIC", "-o", "clock.so", "clock.c"]));
    assert_eq!(compiled.status, Some(0), "{}", compiled.err);
    // The first thread, and one that makes a view in the background.
    for (others, expected) in [(None, 101), (Some("yes"), 2)] {
        let mut command = command(&place, &["tui", "app"]);
        command.env("LD_PRELOAD", place.path("clock.so")).env("FAILS", place.path("fails"));
        command.env_remove("RUST_BACKTRACE").envs(others.map(|yes| ("IN_OTHERS", yes)));
        let mut tui = Tui::start(&mut command, 24, 80);
        tui.until("the first screen", |text| text.contains("line 0 of all") && text.contains('|'));
        assert_eq!(settings(&tui.theirs).2 & libc::ICANON, 0, "taken");
        place.write("fails", "");
        if others.is_some() {
            tui.keys("2");
        }
        let (status, _) = tui.ended();
        assert_eq!(status, Some(expected));
        let text = tui.until("the message on the earlier screen", |text| text.contains("panicked at"));
        assert!(!text.contains("line 0 of all"), "{text}");
        let bytes = String::from_utf8_lossy(&tui.bytes.lock().unwrap()).into_owned();
        let (screen, after) = bytes.split_once("\x1b[?1049l").unwrap();
        assert!(!screen.contains("panicked at") && after.contains("panicked at"), "{bytes:?}");
        assert!(screen.contains("\x1b[?1000l") && screen.contains("\x1b[?25h"), "{bytes:?}");
        assert_ne!(settings(&tui.theirs).2 & libc::ICANON, 0);
        std::fs::remove_file(place.path("fails")).unwrap();
    }
}

#[test]
fn a_place_in_the_source_selects_lines_from_the_start_on() {
    let all = everything(400);
    let site = ["--all-runs", "--time", "ticks", "--site", "net \"q\", é.rs:13"];
    let messages = |more: &[&str]| {
        let of = [&["show", "--color", "never", "--no-pager"], more, &["app"]].concat();
        let text = String::from_utf8(all.place.merge(of).out).unwrap();
        text.lines().filter(|line| line.contains("peer ") || line.contains("sent ")).count()
    };
    let (selected, whole) = (messages(&site), messages(&site[..3]));
    assert!(selected > 0 && selected < whole, "{selected} of {whole}");
    let args = [&["tui"], &site[..], &["app"]].concat();
    let mut tui = Tui::start(&mut command(&all.place, &args), 200, 200);
    let shown = |text: &str, word: &str| text.lines().filter(|line| line.contains(word)).count();
    tui.until("the selected lines", |text| shown(text, "peer ") == selected && !text.contains("sent "));
    tui.keys("\\");
    tui.until("all lines", |text| text.contains("sent "));
    tui.keys("q");
    assert!(tui.ended().0.is_some_and(|status| status < 2), "the trace is damaged in one place");
}

#[test]
fn there_are_no_colours_if_nobody_wants_them() {
    let place = place();
    let is_coloured = |bytes: &str| {
        bytes.split("\x1b[").any(|rest| {
            let codes = rest.split('m').next().unwrap_or_default();
            codes.split(';').any(|code| matches!(code, "31" | "32" | "33" | "34" | "35" | "36" | "2"))
                && codes.bytes().all(|byte| byte.is_ascii_digit() || byte == b';')
        })
    };
    for (name, value, args) in
        [("NO_COLOR", "1", &[][..]), ("TERM", "dumb", &[]), ("LANG", "C", &["--color", "never"])]
    {
        let args = [&["tui", "app"], args].concat();
        let mut tui = Tui::start(command(&place, &args).env(name, value), 24, 80);
        tui.until("the first screen", |text| text.contains("line 0 of all") && text.contains("|"));
        tui.keys("q");
        let (status, bytes) = tui.ended();
        assert!(status == Some(0) && !is_coloured(&bytes), "{name}: {bytes:?}");
    }
    let mut tui = Tui::start(&mut command(&place, &["tui", "app"]), 24, 80);
    tui.until("the first screen", |text| text.contains("line 0 of all") && text.contains("|"));
    tui.keys("q");
    assert!(is_coloured(&tui.ended().1));
}

#[test]
fn without_a_terminal_the_error_names_show() {
    let place = place();
    let refused = ran(command(&place, &["tui", "app"]).stdin(Stdio::null()));
    assert_eq!(refused.status, Some(2));
    assert!(refused.err.contains("tracemerge show"), "{}", refused.err);
}
