//! A run's identity decides what is shown. If any single bit of one `# run` line is changed, no thread is missing
//! from the merged output unless a warning names its file.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;
use std::path::PathBuf;

use crate::support::{Place, Ran, file, ran, raw_file, run};
use trace_format::meta::{Meta, Run};
use trace_store::sys::real_path;

/// The threads of the run whose `# run` lines are changed.
const THREADS: [u64; 4] = [11, 12, 13, 14];
/// The thread of another run at the same time.
const BESIDE: u64 = 21;
/// The factor by which fewer bits are changed if a program takes a tenth of a second to start.
const FEWER: usize = if cfg!(windows) { 13 } else { 1 };

/// The form of the traces, or their place.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Text,
    Version1,
    Raw,
    /// The traces are text, in a directory that the application shares with others.
    Shared,
}

struct Traces {
    place: Place,
    kind: Kind,
    /// The bytes of the `# run` line's payload in the file of each thread.
    payload: Vec<std::ops::Range<usize>>,
}

impl Traces {
    /// Writes a run of four threads, another run at the same time, and an older run.
    fn new(kind: Kind) -> Traces {
        let place = Place::new();
        fs::create_dir(place.path("shared")).unwrap();
        let mut payload = Vec::new();
        for (tid, pid, start) in
            THREADS.map(|tid| (tid, 5, 40)).into_iter().chain([(BESIDE, 7, 42), (31, 3, 10)])
        {
            let mut run = run(pid, start);
            if kind == Kind::Version1 {
                run.version = 1;
            }
            if kind == Kind::Shared {
                // In such a directory, only files that name the executable are its traces.
                place.write("app", "");
                run.exe = real_path(&place.path("app")).unwrap().into_os_string().into_encoded_bytes();
            }
            let ticks = [start + 3, start + 5];
            let bytes = match kind {
                Kind::Raw => raw(&run, tid, &ticks),
                _ => file(&run, tid, &ticks),
            };
            let at = memchr::memmem::find(&bytes, b"run version=").unwrap();
            let length = written(&run).len();
            payload.push(at..at + length);
            fs::write(Traces::path_in(&place, kind, tid), bytes).unwrap();
        }
        Traces { place, kind, payload }
    }

    fn path_in(place: &Place, kind: Kind, tid: u64) -> PathBuf {
        let directory = if kind == Kind::Shared { "shared/" } else { "" };
        place.path(format!("{directory}app.trace.{tid}"))
    }

    fn path(&self, tid: u64) -> PathBuf {
        Traces::path_in(&self.place, self.kind, tid)
    }

    fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.place.command();
        if self.kind == Kind::Shared {
            command.env("TRACER_DIR", self.place.path("shared"));
        }
        ran(command.args(args))
    }

    /// Changes a bit of a thread's file, passes the result of a merge to `see`, and changes the bit back.
    fn with_bit(&self, tid: u64, at: usize, bit: u32, see: impl FnOnce(&Ran)) {
        let path = self.path(tid);
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        fs::write(&path, bytes).unwrap();
        see(&self.run(&["-o", "-", "./app"]));
        fs::write(&path, whole).unwrap();
    }
}

fn written(run: &Run) -> Vec<u8> {
    let mut out = Vec::new();
    Meta::Run(run.clone()).write(&mut out);
    out
}

fn raw(run: &Run, tid: u64, ticks: &[u64]) -> Vec<u8> {
    let messages = ticks.iter().enumerate().map(|(n, &t)| (t, format!("line {n} of {tid}")));
    raw_file(tid, &[(run.ticks.0, &Meta::Run(run.clone()))], messages)
}

/// Returns whether the output has all messages of a thread.
fn has_all(ran: &Ran, tid: u64) -> bool {
    let text = String::from_utf8_lossy(&ran.out);
    (0..2).all(|n| text.contains(&format!("line {n} of {tid}\n")))
}

/// Returns whether a warning names the file of a thread.
fn names(ran: &Ran, tid: u64) -> bool {
    let name = format!("app.trace.{tid}'");
    ran.status == Some(1)
        && ran.err.lines().any(|line| line.starts_with("tracemerge: warning: ") && line.contains(&name))
}

/// Changes bits of the `# run` line one after the other: each `step`th of the first file, and each
/// `of_others`th of the other files.
fn every_bit(kind: Kind, step: usize, of_others: usize) {
    let traces = Traces::new(kind);
    let sound = traces.run(&["-o", "-", "./app"]);
    assert_eq!(sound.status, Some(0), "{}", sound.err);
    assert!(THREADS.iter().chain([&BESIDE]).all(|tid| has_all(&sound, *tid)) && !has_all(&sound, 31));
    for (number, tid) in THREADS.into_iter().enumerate() {
        let payload = &traces.payload[number];
        // The key of the line is changed, too, or the header of the record.
        let line = payload.start.saturating_sub(28)..payload.end + 1;
        let step = if number == 0 { step } else { of_others };
        for (at, bit) in line.flat_map(|at| (0..8).map(move |bit| (at, bit))).step_by(step * FEWER) {
            traces.with_bit(tid, at, bit, |ran| {
                let what = format!("{kind:?}: bit {bit} of byte {at} of thread {tid}\n{}", ran.err);
                for other in THREADS.into_iter().chain([BESIDE]).filter(|other| *other != tid) {
                    assert!(has_all(ran, other) || names(ran, other), "{other} is missing, {what}");
                }
                let is_named = names(ran, tid);
                assert!(has_all(ran, tid) || is_named, "{what}");
                let is_checked = kind != Kind::Version1 && payload.contains(&at);
                assert!(is_named || !is_checked, "{what}");
                // If several applications share a directory, a file that cannot be read may belong to another one.
                assert!(has_all(ran, tid) || kind == Kind::Shared || !payload.contains(&at), "{what}");
            });
        }
    }
}

#[test]
fn any_changed_bit_of_a_run_line_is_tolerated() {
    every_bit(Kind::Text, 1, 37);
}

#[test]
fn any_changed_bit_of_a_run_line_without_checksum_is_tolerated() {
    every_bit(Kind::Version1, 1, 37);
}

#[test]
fn any_changed_bit_of_a_run_line_in_a_raw_file_is_tolerated() {
    every_bit(Kind::Raw, 3, 61);
}

#[test]
fn any_changed_bit_is_tolerated_if_applications_share_a_directory() {
    every_bit(Kind::Shared, 3, 61);
}

/// Returns the bytes of a `# run` line with one value replaced, and with its old checksum.
fn with_value(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(text.contains(from), "{text}");
    text.replacen(from, to, 1).into_bytes()
}

#[test]
fn every_command_reports_a_damaged_run_line_and_shows_the_file() {
    let traces = Traces::new(Kind::Text);
    let path = traces.path(12);
    let later = with_value(&fs::read(&path).unwrap(), "wall=2026", "wall=2027");
    fs::write(&path, later).unwrap();
    for args in
        [&["-o", "-", "./app"][..], &["check", "./app"], &["info", "./app"], &["--last", "9", "./app"]]
    {
        let ran = traces.run(args);
        assert_eq!(ran.status, Some(1), "{args:?}: {}", ran.err);
        let told = "app.trace.12': the '# run' line is damaged: its checksum is wrong; the file is merged as one of process 5";
        assert!(ran.err.contains(told), "{args:?}: {}", ran.err);
        assert!(ran.err.contains("left out 1 older run (1 file)"), "{args:?}: {}", ran.err);
    }
    let told = String::from_utf8(traces.run(&["check", "./app"]).out).unwrap();
    assert!(
        told.ends_with("in order\n") && told.contains("not whole: 2 runs, 5 threads, 10 records"),
        "{told}"
    );
    let info = String::from_utf8(traces.run(&["info", "./app"]).out).unwrap();
    assert!((11..15).all(|tid| info.contains(&format!("{tid} "))), "{info}");
    let diff = traces.run(&["diff", "app.trace.12", "app.trace.12"]);
    assert!(diff.err.contains("app.trace.12': a '# run' line is damaged"), "{}", diff.err);
}

#[test]
fn contradictory_files_and_all_possibly_newest_runs_are_shown() {
    for (wall, is_newest) in [(1_795_187_502_000_000_000u64, true), (1_695_187_502_000_000_000, false)] {
        let place = Place::new();
        let (mut one, mut other, mut before) = (run(5, 40), run(5, 40), run(3, 10));
        (one.version, other.version, before.version) = (1, 1, 1);
        other.wall.0 = wall + 7_000_000_000;
        place.write("app.trace.1", file(&one, 1, &[43]));
        place.write("app.trace.2", file(&other, 2, &[44]));
        place.write("app.trace.3", file(&before, 3, &[13]));
        let ran = place.merge(["-o", "-", "./app"]);
        assert_eq!(ran.status, Some(1), "{}", ran.err);
        let text = String::from_utf8(ran.out).unwrap();
        assert!([1, 2].iter().all(|tid| text.contains(&format!("line 0 of {tid}\n"))), "{wall}: {text}");
        // It is not known when the first run began, so the run of process 3 may be the newest.
        assert!(text.contains("line 0 of 3\n"), "{wall}: {is_newest}: {text}");
        assert!(ran.err.contains("its '# run' line has another wall= than another file"), "{}", ran.err);
    }
}

#[test]
fn the_majority_of_the_files_of_a_run_decides() {
    type Change = fn(&mut Run);
    let change: [(&str, Change); 6] = [
        ("boot", |run| run.boot = b"another".to_vec()),
        ("wall", |run| run.wall.0 += 1 << 55),
        ("root", |run| run.root ^= 1),
        ("exe", |run| run.exe.push(b'x')),
        ("clock", |run| run.clock = trace_format::meta::ClockKind::System),
        ("ticks", |run| run.ticks.0 -= 8),
    ];
    for (key, change) in change {
        for version in [1, 2] {
            let place = Place::new();
            for tid in 1..4 {
                let mut run = run(5, 40);
                run.version = version;
                if tid == 2 {
                    change(&mut run);
                }
                place.write(format!("app.trace.{tid}"), file(&run, tid, &[43]));
            }
            let ran = place.merge(["-o", "-", "./app"]);
            if key == "boot" && version == 2 {
                // Lines with the right checksum were written in this way, so there are two runs.
                assert!(ran.err.contains("left out 1 older run"), "{}", ran.err);
                continue;
            }
            assert_eq!(ran.status, Some(1), "{key}: {}", ran.err);
            let told = format!(
                "app.trace.2': its '# run' line has another {key}= than the other files of the same run"
            );
            assert!(ran.err.contains(&told), "{key}: {}", ran.err);
            let text = String::from_utf8(ran.out).unwrap();
            assert!((1..4).all(|tid| text.contains(&format!("line 0 of {tid}\n"))), "{key}: {text}");
            let check = place.merge(["check", "./app"]);
            assert!(check.status == Some(1) && check.err.contains(&told), "{key}: {}", check.err);
        }
    }
}
