//! Rings of a killed run have absurd headers, flipped bits and missing ends. Recovery takes all records that are
//! readable, names the ring that it cannot read, and touches only the run's own files.
//!
//! The tests call recovery in their own process, so they would notice a panic, a SIGBUS or an endless loop.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "looks at a copy of a ring's header")]

use std::collections::BTreeMap;
use std::fs;
use std::mem::offset_of;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use support::{Scenario, names, runs};
use tempfile::TempDir;
use trace_format::line::Line;
use trace_format::meta::{Cause, Meta};
use trace_format::ring::{HEADER_BYTES, Header, Progress, State, Tenancy};
use trace_store::recovery::{Recovered, recover};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// A killed run, as it was left. One of its rings is the target.
struct KilledRun {
    scenario: Scenario,
    /// The directory of its files. It is in memory, because they are made anew thousands of times.
    traces: TempDir,
    run: PathBuf,
    /// The files of the run's directory and of that of the traces, with their contents.
    left: BTreeMap<PathBuf, Vec<u8>>,
    target: PathBuf,
    target_file: PathBuf,
    /// The content that recovery gives to the other threads' files.
    others: BTreeMap<PathBuf, Vec<u8>>,
    /// Files that do not belong to the run: another run's trace, and something else.
    bystanders: [PathBuf; 2],
}

/// The id of a thread that has a trace here, but no run.
const STRANGER: u64 = 99_999;

impl KilledRun {
    fn new() -> KilledRun {
        let mut scenario =
            Scenario::new(SCENARIO, &["prey"]).env("TRACER_FLUSH_MS", "60000").env("TRACER_RING_SIZE", "16K");
        let memory = scenario.runtime.path().parent().expect("a directory").to_path_buf();
        let directory = TempDir::new_in(memory).expect("a directory");
        let command = scenario.command().env("TRACER_DIR", directory.path());
        assert!(!command.status().expect("the program runs").success());
        let [run] = &runs(scenario.runtime.path())[..] else { panic!("one run") };
        let run = run.clone();
        let traces = names(directory.path());
        assert_eq!(traces.len(), 3);

        let bystanders =
            [directory.path().join(format!("scenario.trace.{STRANGER}")), directory.path().join("notes.txt")];
        let stranger = Scenario::new(SCENARIO, &["return"]).run().succeeded();
        let [file] = &names(stranger.directory.path())[..] else { panic!("one file") };
        fs::copy(file, &bystanders[0]).expect("a copy");
        fs::write(&bystanders[1], "notes of somebody\nwho traces nothing\n".repeat(100)).expect("a file");

        let rings: Vec<PathBuf> =
            names(&run).into_iter().filter(|path| has_state(path, State::Owned)).collect();
        assert_eq!(rings.len(), 3);
        // One free ring is enough.
        for path in names(&run).iter().filter(|path| has_state(path, State::Free)).skip(1) {
            fs::remove_file(path).expect("a removal");
        }
        let target = rings[1].clone();
        let tid = read_header_page(&target).expect("a ring").header().tenancy.tid.load(Relaxed);
        let target_file = directory.path().join(format!("scenario.trace.{tid}"));
        let left = names(&run).into_iter().chain(names(directory.path()));
        let left = left.map(|path| (path.clone(), fs::read(path).expect("a file"))).collect();
        let others = BTreeMap::new();
        let mut prey =
            KilledRun { scenario, traces: directory, run, left, target, target_file, others, bystanders };

        let recovered = prey.recover();
        assert!(recovered.errors.is_empty() && recovered.threads.len() == 3, "{recovered:?}");
        assert!(recovered.threads.iter().all(|thread| thread.records == 18), "{recovered:?}");
        for file in traces.into_iter().filter(|file| *file != prey.target_file) {
            let bytes = fs::read(&file).expect("a file");
            assert_ne!(bytes, prey.left[&file], "there was something to recover");
            prey.others.insert(file, bytes);
        }
        prey
    }

    /// Restores everything as the kill has left it, including the inode numbers of the files.
    fn restore(&self) {
        let _ = fs::remove_dir_all(&self.run);
        fs::create_dir(&self.run).expect("a directory");
        fs::set_permissions(&self.run, PermissionsExt::from_mode(0o700)).expect("a change of mode");
        for path in names(self.traces.path()) {
            if !self.left.contains_key(&path) {
                fs::remove_file(path).expect("a removal");
            }
        }
        for (path, bytes) in &self.left {
            let mut options = fs::OpenOptions::new();
            let file =
                options.write(true).create(true).truncate(true).mode(0o600).open(path).expect("a file");
            std::io::Write::write_all(&mut &file, bytes).expect("a write");
        }
    }

    fn recover(&self) -> Recovered {
        let directories = [self.scenario.runtime.path().to_path_buf()];
        let mut runs = recover(&directories, |_, _| true, |_| Cause::default()).runs;
        assert_eq!(runs.len(), 1, "the run is dead");
        runs.remove(0)
    }

    /// Does `harm` to the target, and recovers.
    fn hunt(&self, what: &str, harm: impl FnOnce(&Path)) -> Recovered {
        self.restore();
        harm(&self.target);
        let attempt = catch_unwind(AssertUnwindSafe(|| {
            let recovered = self.recover();
            self.check(&recovered);
            recovered
        }));
        attempt.unwrap_or_else(|_| panic!("{what}"))
    }

    fn check(&self, recovered: &Recovered) {
        // A program that does not know a layout changes nothing of the run.
        let unknown = ["ring layout ", "record kind "];
        let names_unknown =
            |error: &std::io::Error| unknown.iter().any(|what| error.to_string().contains(what));
        if recovered.errors.iter().any(names_unknown) {
            for (path, before) in self.left.iter().filter(|(path, _)| **path != self.target) {
                assert!(fs::read(path).is_ok_and(|bytes| bytes == *before), "{path:?} was changed");
            }
            return;
        }
        for (file, expected) in &self.others {
            let found = fs::read(file).map(|bytes| without_count(&bytes));
            assert!(
                found.is_ok_and(|text| text == without_count(expected)),
                "{file:?} is not as it should be"
            );
        }
        for bystander in &self.bystanders {
            assert!(
                fs::read(bystander).is_ok_and(|bytes| bytes == self.left[bystander]),
                "{bystander:?} was changed"
            );
        }
        for file in names(self.traces.path()) {
            let name = file.file_name().expect("a name").to_string_lossy().into_owned();
            assert!(name.starts_with("scenario.trace.") || file == self.bystanders[1], "{name}");
            if !self.left.contains_key(&file) {
                assert_is_a_trace(&file);
            }
        }
        let target = format!("{:?}", self.target);
        for error in &recovered.errors {
            assert!(error.to_string().contains(&target), "the ring is named: {error}");
        }
        if recovered.errors.is_empty() {
            assert!(!self.run.exists(), "nothing is left in memory");
        } else {
            assert!(fs::symlink_metadata(&self.target).is_ok(), "what cannot be read is left where it is");
        }
    }
}

/// Panics unless every line is valid and in order, and the first one is that of a run.
fn assert_is_a_trace(file: &Path) {
    let bytes = fs::read(file).expect("a file");
    let text = bytes.strip_suffix(b"\n").expect("whole lines");
    let lines: Vec<Line<'_>> =
        text.split(|b| *b == b'\n').map(|line| Line::parse(line).expect("a line")).collect();
    assert!(lines.is_sorted_by_key(|line| line.key.ticks));
    assert!(matches!(Meta::parse(lines[0].payload), Some(Meta::Run(_))));
}

/// A copy of a ring's header, aligned as a mapping is.
#[repr(C, align(4096))]
struct Page([u8; HEADER_BYTES]);

impl Page {
    fn header(&self) -> &Header {
        // SAFETY: the memory is large enough and aligned; a header has only atomics, for which any bytes are valid.
        unsafe { &*self.0.as_ptr().cast() }
    }
}

/// Returns the header of the ring in a file; `None` if it is too short, or not a ring.
fn read_header_page(path: &Path) -> Option<Box<Page>> {
    let ring = fs::read(path).ok()?;
    ring.starts_with(b"TRCRING\n").then_some(())?;
    ring.first_chunk().map(|bytes| Box::new(Page(*bytes)))
}

fn has_state(path: &Path, state: State) -> bool {
    read_header_page(path).is_some_and(|page| page.header().tenancy.state() == Ok(state))
}

/// Writes into an existing file.
fn overwrite(path: &Path, at: usize, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = fs::OpenOptions::new().write(true).open(path).expect("a ring");
    file.write_all_at(bytes, at as u64).expect("a write");
}

/// Publishes another progress, for another thread if `tid` is given.
fn publish(path: &Path, tid: Option<u64>, change: impl Fn(&mut Progress)) {
    let page = read_header_page(path).expect("a ring");
    let header = page.header();
    let mut progress = header.published();
    change(&mut progress);
    header.publish(&progress);
    header.publish(&progress);
    header.tenancy.tid.store(tid.unwrap_or(header.tenancy.tid.load(Relaxed)), Relaxed);
    overwrite(path, 0, &page.0);
}

/// Returns a file's text without the number of files of its run, which is one more if the target's file is made
/// anew.
fn without_count(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    match text.split_once(" files=") {
        Some((before, after)) => before.to_owned() + after.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => text,
    }
}

#[test]
fn any_word_of_a_ring_header_may_have_any_value() {
    let prey = KilledRun::new();
    let ring = &prey.left[&prey.target];
    let number = |path: &Path| fs::metadata(path).expect("a file").ino();
    let other = prey.others.keys().next().expect("another thread's file");
    let (others, strangers, notes) =
        (number(other), number(&prey.bystanders[0]), number(&prey.bystanders[1]));
    let mut named = 0;
    for at in (0..size_of::<Header>()).step_by(8) {
        let old = u64::from_le_bytes(ring[at..at + 8].try_into().expect("eight bytes"));
        let near = [1, 7, 8, 16, 4096, 16 << 10]
            .into_iter()
            .flat_map(|d| [old.wrapping_add(d), old.wrapping_sub(d)]);
        let far = [
            0,
            1,
            7,
            8,
            u64::MAX,
            u64::MAX - 7,
            i64::MAX as u64,
            1 << 32,
            STRANGER,
            others,
            strangers,
            notes,
        ];
        for value in near.chain(far) {
            let what = format!("the word at {at} is {value:#x}");
            named += prey.hunt(&what, |ring| overwrite(ring, at, &value.to_le_bytes())).errors.len();
        }
    }
    for at in (0..size_of::<Header>()).step_by(4) {
        let old = u32::from_le_bytes(ring[at..at + 4].try_into().expect("four bytes"));
        for value in [0, 1, 2, 3, 7, 1 << 31, u32::MAX, old ^ 1, old.wrapping_add(8)] {
            let what = format!("the half word at {at} is {value:#x}");
            named += prey.hunt(&what, |ring| overwrite(ring, at, &value.to_le_bytes())).errors.len();
        }
    }
    assert!(named > 100, "many of these are impossible, and said to be: {named}");
}

#[test]
fn a_ring_with_an_invalid_state_is_reported_and_others_are_recovered() {
    let prey = KilledRun::new();
    let at = offset_of!(Header, tenancy) + offset_of!(Tenancy, state);
    let recovered = prey.hunt("state 7", |ring| overwrite(ring, at, &7u32.to_le_bytes()));
    assert_eq!((recovered.errors.len(), recovered.threads.len()), (1, 2), "{recovered:?}");
    let error = recovered.errors[0].to_string();
    assert!(error.contains("state 7"), "{error}");
}

/// Claims the number of a file that is not the run's: the system gives a deleted file's number to the next file
/// that is made.
#[test]
fn a_file_with_the_inode_of_a_deleted_one_is_not_written() {
    let prey = KilledRun::new();
    let other = prey.others.keys().next().expect("another thread's file").clone();
    let own = prey.bystanders.iter().chain([&other]);
    for file in own {
        let found = fs::metadata(file).expect("a file");
        for length in [0, 10, found.len() - 1, found.len()] {
            for tid in [None, Some(STRANGER)] {
                let claim = |progress: &mut Progress| {
                    (progress.device, progress.inode) = (found.dev(), found.ino());
                    (progress.file_length, progress.file_number) = (length, 0);
                };
                let what = format!("{file:?} is claimed with {length} bytes by {tid:?}");
                let recovered = prey.hunt(&what, |ring| publish(ring, tid, claim));
                assert!(recovered.errors.is_empty(), "{what}: {recovered:?}");
                let records: Vec<u64> = recovered.threads.iter().map(|thread| thread.records).collect();
                assert_eq!(records, [18; 3], "{what}: what the ring holds is kept, in a new file");
            }
        }
    }
}

#[test]
fn flipped_bytes_of_header_and_data_do_no_harm() {
    let prey = KilledRun::new();
    let seed = 0x9e37_79b9_7f4a_7c15;
    let mut state: u64 = seed;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    // The written bytes lie at the beginning of the ring and of the nested ring.
    let parts =
        [0..size_of::<Header>(), HEADER_BYTES..HEADER_BYTES + 6000, HEADER_BYTES + (16 << 10)..24 << 10];
    let (mut lost, mut refused) = (0, 0);
    for round in 0..3000 {
        let flips: Vec<(usize, u8)> = (0..=next(20))
            .map(|_| {
                // The header is chosen less often, because its damage is noticed at once.
                let part = &parts[[1, 1, 1, 1, 1, 2, 2, 0][next(if round % 2 == 0 { 7 } else { 8 })]];
                let at = part.start + next(part.len());
                // Either the words that describe a record are changed, or any byte.
                (if next(2) == 0 { at } else { at & !7 }, next(256) as u8)
            })
            .collect();
        let harm = |ring: &Path| flips.iter().for_each(|(at, byte)| overwrite(ring, *at, &[*byte]));
        let recovered = prey.hunt(&format!("round {round} of {seed:#x}: {flips:?}"), harm);
        let unknown = recovered.errors.first().is_some_and(|e| e.to_string().contains("record kind"));
        if unknown {
            refused += 1;
        } else if flips.iter().all(|(at, _)| *at >= HEADER_BYTES) {
            assert_eq!(
                (recovered.errors.len(), recovered.threads.len()),
                (0, 3),
                "damaged data is reported in the file"
            );
            assert_is_a_trace(&prey.target_file);
            lost +=
                u64::from(fs::read_to_string(&prey.target_file).is_ok_and(|text| text.contains("# lost ")));
        }
    }
    assert!(lost > 100, "many records are damaged, and said to be: {lost}");
    assert!(refused < 300, "few bytes look like a kind of record that a later version has: {refused}");
}

#[test]
fn a_truncated_or_replaced_ring_is_reported_and_others_are_recovered() {
    let prey = KilledRun::new();
    let whole = prey.left[&prey.target].len() as u64;
    let lengths = [0, 1, 8, 63, 64, 100, 128, 384, 1024, 4095, 4096, 4097, whole - 1, whole - 4096];
    for length in lengths.into_iter().chain((512..whole).step_by(1536)) {
        let cut = |ring: &Path| {
            fs::OpenOptions::new()
                .write(true)
                .open(ring)
                .and_then(|file| file.set_len(length))
                .expect("a cut");
        };
        let recovered = prey.hunt(&format!("cut to {length}"), cut);
        // An empty ring was just being made: no thread can have had it.
        let errors = usize::from(length > 0);
        assert_eq!((recovered.errors.len(), recovered.threads.len()), (errors, 2), "{length}: {recovered:?}");
    }
    for length in [whole + 1, whole * 2, 1 << 40] {
        let stretch = |ring: &Path| {
            fs::OpenOptions::new()
                .write(true)
                .open(ring)
                .and_then(|file| file.set_len(length))
                .expect("room");
        };
        let recovered = prey.hunt(&format!("stretched to {length}"), stretch);
        assert_eq!((recovered.errors.len(), recovered.threads.len()), (0, 3), "{length}: {recovered:?}");
    }

    type Plant = fn(&Path, &Path);
    let plants: [(&str, Plant); 6] = [
        ("a directory", |ring, _| fs::create_dir(ring).expect("a directory")),
        ("a FIFO", |ring, _| assert!(Command::new("mkfifo").arg(ring).status().expect("mkfifo").success())),
        ("a link", |ring, notes| symlink(notes, ring).expect("a link")),
        ("a link to nowhere", |ring, _| symlink("/nonexistent", ring).expect("a link")),
        ("a socket", |ring, _| drop(UnixListener::bind(ring).expect("a socket"))),
        ("a text", |ring, _| fs::write(ring, "no ring\n".repeat(4000)).expect("a file")),
    ];
    for (what, plant) in plants {
        let replace = |ring: &Path| {
            fs::remove_file(ring).expect("a removal");
            plant(ring, &prey.bystanders[1]);
        };
        let recovered = prey.hunt(what, replace);
        assert_eq!((recovered.errors.len(), recovered.threads.len()), (1, 2), "{what}: {recovered:?}");
    }
}
