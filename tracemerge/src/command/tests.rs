//! Tests that give every kind of damaged file to every command that reads: the command does not panic, does not hang,
//! and merges the lines that can be read.
#![cfg(unix)]

#[path = "../../tests/support/raw.rs"]
mod raw_file;

use std::ffi::OsString;
use std::fs;
use std::iter;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proptest::prelude::*;
use tempfile::TempDir;
use trace_format::kinds::SeparateCounts;
use trace_format::line::{Line, Ticks};
use trace_format::meta::{
    Cause, ClockKind, End, EndReason, LossReason, Meta, RingPlace, Run, SystemClocks, Thread, Waited,
};
use trace_format::wall::Wall;

use self::raw_file::raw_file;
use crate::cli;
use crate::command::diff::{DiffOptions, DiffOutput, Percent, diff};
use crate::command::info::InfoOptions;
use crate::command::merge::{Job, run};
use crate::command::{check, info};
use crate::find::app::App;
use crate::find::choose::Choice;
use crate::symbols::Settings;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, Status};
use crate::view::export::text::TraceLayout;
use crate::view::rows::RowForm;

/// The name of the application, which must be unique because traces are searched in shared directories, too.
const APP: &str = "app-of-the-bad-input";

/// The thread of the sound file. Small damage cannot turn the id of the damaged file's thread, 9, into this one.
const SOUND: u64 = 77_777_777;

/// The lock that lets one test run at a time. A reader checks all runs with files for life, and cannot check a run
/// while another thread is checking it.
static TURN: Mutex<()> = Mutex::new(());

/// A directory with a sound file and a damaged one.
struct Place {
    directory: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Place {
    fn new() -> Place {
        // The files are created thousands of times, so they are in memory if possible.
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        fs::write(directory.path().join(format!("{APP}.trace.{SOUND}")), text(SOUND, 2)).unwrap();
        Place { directory, _turn: TURN.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn damaged(&self) -> PathBuf {
        self.path(&format!("{APP}.trace.9"))
    }

    fn app(&self) -> App {
        App::new(self.path(APP)).unwrap()
    }

    /// Merges with these options; returns the status and the merged lines.
    fn merge(&self, options: &[&str]) -> (Status, Vec<String>) {
        let (app, out) = (self.path(APP), self.path("out"));
        let all = ["tracemerge".into(), "-q".into(), "-o".into(), out.clone().into(), app.into()];
        let args: Vec<OsString> = all.into_iter().chain(options.iter().map(OsString::from)).collect();
        let parsed = cli::parse(args).unwrap();
        let mut messages = Messages::new(true);
        let request = parsed.merge.options.into_request(Arc::new(TraceLayout));
        let job = Job { apps: &[self.app()], request: &request, choice: Choice::All };
        told(run(&job, &mut messages), &mut messages);
        // There is no output if no thread matches.
        let text = String::from_utf8_lossy(&fs::read(&out).unwrap_or_default()).into_owned();
        let _ = fs::remove_file(out);
        (messages.status(), text.split_inclusive('\n').map(str::to_owned).collect())
    }

    /// Makes every command read the damaged file, which has these `bytes`; returns the status of the merge and the
    /// merged lines.
    fn read_by_all(&self, bytes: &[u8], what: &str) -> (Status, Vec<String>) {
        let merged = self.read_by_merge(bytes, what);
        for options in
            [["--last", "3"], ["--head", "3"], ["--grep", "e"], ["--time", "utc"], ["--thread", "9"]]
        {
            self.merge(&options);
        }
        let mut messages = Messages::new(true);
        told(check::check(&self.app(), Choice::All, true, false, &mut messages), &mut messages);
        assert_ne!(messages.status(), Status::Nothing, "{what}");
        for (json, csv) in [(false, false), (true, false), (false, true)] {
            let form = RowForm { json, csv };
            let options = InfoOptions { choice: Choice::All, form, sync: Vec::new(), machines: false };
            let text = info::text(&self.app(), &options, &mut Messages::new(true)).unwrap();
            assert!(text.contains("worker"), "{what}: {text}");
        }
        let (a, b) = (self.damaged(), self.path(&format!("{APP}.trace.{SOUND}")));
        let fail_over = Percent::parse("10%").ok();
        let options =
            DiffOptions { output: DiffOutput::Nothing, rows: 20, fail_over, symbols: Settings::default() };
        let same = diff(a, b, &options, &mut messages);
        told(same.map(|_| ()), &mut messages);
        merged
    }

    /// Merges the damaged file, which has these `bytes`, as a whole and within a period; returns the status of the
    /// whole merge and its lines.
    fn read_by_merge(&self, bytes: &[u8], what: &str) -> (Status, Vec<String>) {
        fs::write(self.damaged(), bytes).unwrap();
        let (status, all) = self.merge(&[]);
        assert_ne!(status, Status::Nothing, "{what}");
        let is_sound = |line: &&String| line[17..].starts_with("77777777 ");
        let of_sound: String = all.iter().filter(is_sound).map(String::as_str).collect();
        assert_eq!(of_sound.as_bytes(), text(SOUND, 2), "{what}");
        assert!(all.is_sorted_by_key(|line| &line[..16]), "{what}: {all:?}");
        let is_line = |line: &String| Line::parse(line.trim_end_matches('\n').as_bytes()).is_ok();
        assert!(all.iter().all(is_line), "{what}: {all:?}");
        // Bytes that are not UTF-8 have become U+FFFD here.
        let drives = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || c == '\u{fffd}';
        assert!(!all.iter().any(|line| line.contains(drives)), "{what}: {all:?}");
        let (_, mut within) = self.merge(&["--since", "@4", "--until", "@7"]);
        let inside = |line: &&String| (4..7).contains(&u64::from_str_radix(&line[..16], 16).unwrap());
        let mut expected: Vec<String> = all.iter().filter(inside).cloned().collect();
        if bytes.starts_with(b"TRCRAW") {
            // The line for a damaged record has the time of the record before it, or is at the beginning of the part
            // that is read.
            let is_shown = |line: &String| !line.contains(" # damaged ");
            within.retain(is_shown);
            expected.retain(is_shown);
        }
        // A record of a raw file whose ticks go back gets those of the line before it, which depend on the
        // part that is read.
        if !all.iter().any(|line| line.contains(" # backward ")) {
            assert_eq!(within, expected, "{what}");
        }
        (status, all)
    }
}

/// Reports an error to `messages`, as the command does.
fn told(result: Result<(), Error>, messages: &mut Messages) {
    if let Err(error) = result {
        messages.error(error);
    }
}

fn metas(first: u64) -> Vec<(u64, Meta)> {
    let wall = |ticks| Wall(1_795_187_462_000_000_000 + ticks * 1_000_000_000);
    let (exe, boot) = (b"/nowhere/app".to_vec(), b"b".to_vec());
    let run = Run {
        version: 1,
        id: 1,
        root: 1,
        pid: 5,
        exe,
        boot,
        ticks: Ticks(first),
        wall: wall(first),
        clock: ClockKind::Ordered,
    };
    let thread = Thread { name: b"worker".to_vec(), ring: RingPlace::Shared, why: Vec::new(), file: None };
    vec![
        (first, Meta::Run(run)),
        (first, Meta::Thread(thread)),
        (first, Meta::Lost { records: 2, reason: LossReason::Rotated }),
        (
            first + 1,
            Meta::Clock { ticks: Ticks(first + 1), wall: wall(first + 1), system: SystemClocks::default() },
        ),
    ]
}

const MESSAGES: [&str; 4] = ["one", "two\nlines", "three \\x41", "four"];

/// Returns a sound text file.
fn text(tid: u64, first: u64) -> Vec<u8> {
    let mut text = Vec::new();
    let meta = |ticks: u64, meta: &Meta, text: &mut Vec<u8>| {
        let mut payload = Vec::new();
        meta.write(&mut payload);
        text.extend(format!("{ticks:016x}-{tid:08} # {}\n", String::from_utf8(payload).unwrap()).bytes());
    };
    metas(first).iter().for_each(|(ticks, of)| meta(*ticks, of, &mut text));
    for (n, message) in MESSAGES.iter().enumerate() {
        for (line, kind) in message.split('\n').zip([':', '|']) {
            text.extend(format!("{:016x}-{tid:08} {kind} {line}\n", first + 2 + n as u64).bytes());
        }
    }
    meta(
        first + 6,
        &Meta::End(End {
            records: 4,
            lost: 2,
            reason: EndReason::Exit,
            files: None,
            cause: Cause::default(),
            seen: None,
            apart: SeparateCounts::default(),
            waited: Waited::default(),
        }),
        &mut text,
    );
    text
}

/// Returns a sound raw file with the same content.
fn raw(tid: u64, first: u64) -> Vec<u8> {
    let metas = metas(first);
    let metas: Vec<(u64, &Meta)> = metas.iter().map(|(ticks, meta)| (*ticks, meta)).collect();
    let messages = MESSAGES.iter().enumerate().map(|(n, text)| (first + 2 + n as u64, (*text).to_owned()));
    raw_file(tid, &metas, messages)
}

#[test]
fn a_file_truncated_at_any_byte_is_merged_up_to_that_byte() {
    let place = Place::new();
    for (what, whole) in [("text", text(9, 1)), ("raw", raw(9, 1))] {
        let (_, all) = place.read_by_all(&whole, what);
        let mut before = 0;
        for length in 0..whole.len() {
            // All commands together take long, so they read only some of these files.
            let read = if length % 32 == 0 { Place::read_by_all } else { Place::read_by_merge };
            let (_, merged) = read(&place, &whole[..length], &format!("{what} truncated to {length}"));
            // A line in the merge of a shorter file is in the merges of all longer ones, too.
            let there = all.iter().filter(|line| merged.contains(line)).count();
            assert!(there >= before, "{what} truncated to {length}: {merged:?}");
            before = there;
        }
    }
}

#[test]
fn nul_bytes_anywhere_are_tolerated_and_reported() {
    let place = Place::new();
    for (what, whole) in [("text", text(9, 1)), ("raw", raw(9, 1))] {
        for (at, length) in (0..whole.len()).step_by(23).flat_map(|at| [(at, 1), (at, 60), (at, 300)]) {
            let mut bytes = whole.clone();
            let end = bytes.len().min(at + length);
            bytes[at..end].fill(0);
            let (status, merged) = place.read_by_all(&bytes, &format!("{what} with {length} NULs at {at}"));
            // Missing text is reported. In a raw file, the NULs may replace only padding.
            if what == "text" {
                assert_ne!(status, Status::Complete, "{what} with {length} NULs at {at}: {merged:?}");
            }
        }
    }
}

#[test]
fn missing_or_misplaced_raw_lines_are_reported_as_damage() {
    let place = Place::new();
    let whole = raw(9, 1);
    let keys = |lines: &[String]| -> Vec<String> {
        // A changed message may have fewer lines.
        let of_damaged = lines.iter().filter(|line| line[16..].starts_with("-00000009 "));
        let of_damaged = of_damaged.filter(|line| !line[26..].starts_with('|'));
        of_damaged.map(|line| line[..27].to_owned()).collect()
    };
    let (_, sound) = place.read_by_merge(&whole, "sound");
    let mut changed = 0;
    // The magic and the thread stay: without the magic the file is not a trace, and only `check` detects a thread
    // other than the one in the file's name.
    for at in (16..whole.len()).step_by(8) {
        let mut bytes = whole.clone();
        let end = bytes.len().min(at + 8);
        bytes[at..end].fill(0xff);
        let (status, merged) = place.read_by_merge(&bytes, &format!("at {at}"));
        let (merged_keys, mut expected) = (keys(&merged), keys(&sound));
        // A merge cannot detect that the last line has greater ticks than before.
        if merged_keys.len() == expected.len() {
            expected.pop();
            expected.extend(merged_keys.last().cloned());
        }
        if merged_keys != expected {
            changed += 1;
            assert_eq!(status, Status::Damaged, "at {at}: {merged:?}");
        }
    }
    assert!(changed > 10, "{changed}");
}

#[test]
fn text_in_raw_files_and_raw_records_in_text_are_damage() {
    let place = Place::new();
    let (text, raw) = (text(9, 1), raw(9, 1));
    for (what, bytes) in [
        ("text, then raw", [&text[..], &raw].concat()),
        ("raw, then text", [&raw[..], &text].concat()),
        ("a magic, then text", [&raw[..8], &text].concat()),
        ("a text's beginning, then raw", [&text[..100], &raw].concat()),
    ] {
        let (status, _) = place.read_by_all(&bytes, what);
        assert_eq!(status, Status::Damaged, "{what}");
    }
}

#[test]
fn merge_tolerates_any_changed_bit_of_ticks() {
    let place = Place::new();
    let whole = text(9, 1);
    let lines = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    for line in iter::once(0).chain(lines).filter(|line| *line < whole.len()) {
        for (at, bit) in (line..line + 16).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            place.read_by_merge(&bytes, &format!("bit {bit} of byte {at} is another"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn all_commands_tolerate_any_changed_bytes(
        is_raw: bool, changes in prop::collection::vec((0..2000usize, 0..8u8, any::<u8>()), 1..6)
    ) {
        let place = Place::new();
        let mut bytes = if is_raw { raw(9, 1) } else { text(9, 1) };
        // The '# run' line stays, because lines of another boot would correctly be in another place.
        let run = memchr::memmem::find(&bytes, b"clock=ordered").unwrap() + 16;
        let length = bytes.len() - run;
        for (at, bit, byte) in &changes {
            let place = run + at % length;
            // Either one bit changes, or the whole byte.
            bytes[place] = if at % 2 == 0 { bytes[place] ^ (1 << bit) } else { *byte };
        }
        place.read_by_all(&bytes, &format!("raw: {is_raw}, {changes:?}"));
    }
}
