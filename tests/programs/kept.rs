//! A run whose files are to be kept: when it is killed, it leaves in memory and in files everything that a format can
//! express. `tests/kept/README.md` describes how the kept runs were made by it.

use crate::host::die;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc;
use support::scenarios::Scenario;
use tracer::{Tracer, trace};

pub const SCENARIOS: &[Scenario] = &[("kept", |_| kept())];

/// A value that traces while it is formatted.
struct Inside<'a>(&'a str, u32);

impl fmt::Display for Inside<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Tracer::get().trace(format_args!("{} {} inside", self.0, self.1));
        f.write_str("outside")
    }
}

/// Makes one of each kind of record, from number `n` on; returns the next number.
fn every_kind(who: &str, n: u32) -> u32 {
    Tracer::get().trace(format_args!("{who} {n} is plain"));
    trace!("{who} {} is captured: {:?} {:08.3} {:#x}", n + 1, Some("text"), f64::from(n) / 3.0, 255 ^ n);
    Tracer::get().trace(format_args!("{who} {} has {}", n + 2, Inside(who, n + 3)));
    Tracer::get().trace(format_args!("{who} {}\nhas\tlines and \u{1b}[31m\\x1b of others", n + 4));
    trace!("{who} {} is captured too: {}", n + 5, who.len());
    n + 6
}

/// Leaves a run behind: a thread that has ended, and one that goes on, each with a file and with more records in
/// its ring. The beginning of a line stands after the end of one file. A flight recorder overwrites most of its
/// records.
pub fn kept() {
    let recorder = std::env::var("TRACER_FULL").is_ok_and(|policy| policy == "overwrite");
    let (tell, wait) = mpsc::channel();
    let (go, told) = mpsc::channel();
    let second = std::thread::Builder::new().name("second".into()).spawn(move || {
        let n = every_kind("second", 0);
        tell.send(()).expect("main waits");
        told.recv().expect("main has flushed");
        every_kind("second", n);
    });
    let second = second.expect("a thread");
    wait.recv().expect("the thread has traced");
    let mut n = every_kind("main", 0);
    // Sites have their numbers from here on.
    Tracer::get().flush().expect("files");
    go.send(()).expect("the thread waits");
    second.join().expect("its end");
    if recorder {
        for _ in 0..300 {
            n = every_kind("main", n);
        }
    } else {
        append_half_a_line();
        n = every_kind("main", n);
        Tracer::get().trace(format_args!("main {n} is {}", "long ".repeat(600)));
        every_kind("main", n + 1);
    }
    die();
}

/// Appends half a line, as if a flusher had been killed while it wrote.
fn append_half_a_line() {
    let directory = PathBuf::from(std::env::var_os("TRACER_DIR").expect("the test sets it"));
    let path = directory.join(format!("scenario.trace.{}", std::process::id()));
    let mut file = OpenOptions::new().append(true).open(path).expect("it is there");
    file.write_all(b"0123456789abcdef-0000").expect("a write");
}
