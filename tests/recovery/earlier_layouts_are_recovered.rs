//! Runs of earlier versions, in `tests/kept`, are recovered and merged as those versions would have done it. A run
//! that a later version may have left is refused by name and left as it is.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use support::{APP, names, tracemerge};
use tempfile::TempDir;
use trace_format::meta::Cause;
use trace_store::recovery::{Recovered, recover};

/// The positions in bytes of the parts of a ring's header, as in `docs/trace-format.md`.
const VERSION: u64 = 8;
const STATE: u64 = 64;
const TID: u64 = 72;
const HEAD: u64 = 128;
const SELECTED: u64 = 320;
const SLOTS: [u64; 2] = [384, 640];
/// The positions of a slot's fields in bytes, from the start of the slot.
const CONSUMED: u64 = 0;
const DEVICE: u64 = 24;
const INODE: u64 = 32;
const FILE_NUMBER: u64 = 40;
/// The position in bytes at which the data of a ring begin.
const DATA: u64 = 4096;

/// A copy of a kept run, in directories of its own.
struct Kept {
    /// The directory that contains the directories of runs.
    runtime: TempDir,
    run: PathBuf,
    traces: TempDir,
    /// The output of `tracemerge` of that version.
    merged: Vec<u8>,
}

impl Kept {
    /// Copies the run `name`, and adapts the parts that depend on its place: the directory in the manifest, device
    /// and inode in the slots.
    fn copy(name: &str) -> Kept {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept").join(name);
        let private = || {
            let owner_only = fs::Permissions::from_mode(0o700);
            tempfile::Builder::new().permissions(owner_only).tempdir().expect("a directory")
        };
        let (runtime, traces) = (private(), private());
        let run = runtime.path().join("1-kept");
        fs::create_dir(&run).expect("a directory");
        fs::set_permissions(&run, PermissionsExt::from_mode(0o700)).expect("a change of mode");
        for (from, to) in [("run", run.as_path()), ("traces", traces.path())] {
            for file in names(&kept.join(from)) {
                let copy = to.join(file.file_name().expect("a name"));
                fs::copy(&file, &copy).expect("a copy");
                fs::set_permissions(&copy, PermissionsExt::from_mode(0o600)).expect("a change of mode");
            }
        }
        let manifest = fs::read_to_string(run.join("manifest")).expect("a manifest");
        let here = traces.path().to_str().expect("a path in UTF-8");
        let manifest = manifest.replace("dir=\"/srv/kept/traces\"", &format!("dir=\"{here}\""));
        assert!(manifest.contains(here));
        fs::write(run.join("manifest"), manifest).expect("a manifest");
        let merged = fs::read(kept.join("merged")).expect("what was merged");
        let kept = Kept { runtime, run, traces, merged };
        kept.rings().iter().for_each(|ring| kept.update_file_identity_in(ring));
        kept
    }

    fn rings(&self) -> Vec<PathBuf> {
        let is_ring = |path: &PathBuf| path.to_string_lossy().contains("/ring-");
        names(&self.run).into_iter().filter(is_ring).collect()
    }

    /// Returns the ring of a thread that was alive.
    fn ring_of_living_thread(&self) -> PathBuf {
        let owned = |ring: &PathBuf| word(ring, STATE) as u32 == 1;
        self.rings().into_iter().find(owned).expect("a thread was alive")
    }

    /// Returns all files with their contents.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let all = names(&self.run).into_iter().chain(names(self.traces.path()));
        all.map(|path| (path.clone(), fs::read(path).expect("a file"))).collect()
    }

    fn update_file_identity_in(&self, ring: &Path) {
        for slot in SLOTS.into_iter().filter(|slot| word(ring, slot + INODE) != 0) {
            let number = match word(ring, slot + FILE_NUMBER) {
                0 => String::new(),
                number => format!(".{number}"),
            };
            let file = self.traces.path().join(format!("scenario.trace.{}{number}", word(ring, TID)));
            let found = fs::metadata(file).expect("the thread's file");
            set_word(ring, slot + DEVICE, found.dev());
            set_word(ring, slot + INODE, found.ino());
        }
    }

    fn recover(&self) -> Recovered {
        let mut runs = recover(&[self.runtime.path().to_path_buf()], |_, _| true, |_| Cause::default()).runs;
        assert_eq!(runs.len(), 1, "the run is dead");
        runs.remove(0)
    }

    /// Merges the files; no run is looked for.
    fn merge(&self) -> Vec<u8> {
        let (app, output) = (self.traces.path().join(APP), self.runtime.path().join("merged"));
        let words = ["-q".as_ref(), app.as_os_str(), "-o".as_ref(), output.as_os_str()];
        assert_eq!(tracemerge(&words), 0);
        fs::read(output).expect("what was merged")
    }
}

fn word(path: &Path, at: u64) -> u64 {
    let mut word = [0; 8];
    fs::File::open(path).and_then(|file| file.read_exact_at(&mut word, at)).expect("a word of a ring");
    u64::from_le_bytes(word)
}

fn set_word(path: &Path, at: u64, word: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).expect("a ring");
    file.write_all_at(&word.to_le_bytes(), at).expect("a word is written");
}

#[test]
fn a_run_of_layout_2_is_recovered_to_the_same_bytes() {
    assert_recovered_to_the_same_bytes("layout-2");
}

#[test]
fn a_run_of_layout_4_is_recovered_to_the_same_bytes() {
    assert_recovered_to_the_same_bytes("layout-4");
}

fn assert_recovered_to_the_same_bytes(layout: &str) {
    for (name, threads) in [("text", [6, 13]), ("raw", [6, 13]), ("recorder", [6, 427])] {
        let kept = Kept::copy(&format!("{layout}/{name}"));
        let recovered = kept.recover();
        assert!(recovered.errors.is_empty(), "{name}: {recovered:?}");
        let mut records: Vec<u64> = recovered.threads.iter().map(|thread| thread.records).collect();
        records.sort_unstable();
        assert_eq!(records, threads, "{name}");
        assert!(!kept.run.exists(), "{name}: nothing is left in memory");
        let (merged, expected) = (kept.merge(), &kept.merged);
        assert!(merged == *expected, "{name}:\n{}", String::from_utf8_lossy(&merged));
    }
}

#[test]
fn rings_of_an_unknown_version_are_left_unchanged() {
    for version in [1, 6, 7, u32::MAX] {
        let kept = Kept::copy("layout-2/text");
        for ring in kept.rings() {
            let word = word(&ring, VERSION) & !0xffff_ffff;
            set_word(&ring, VERSION, word | u64::from(version));
        }
        let before = kept.files();
        let recovered = kept.recover();
        // One ring of an unknown layout suffices: nothing of the run is touched.
        assert_eq!((recovered.errors.len(), recovered.threads.len()), (1, 0), "{recovered:?}");
        for error in recovered.errors {
            let (error, named) =
                (error.to_string(), format!("ring layout {version} is unknown (this program reads 2 to 5)"));
            assert!(error.contains(&named) && error.contains("/ring-"), "{error}");
        }
        assert_eq!(kept.files(), before, "version {version}: nothing was touched");
    }
}

/// Changes the next record to be read to a kind that only a later version knows: it is neither taken for damage nor
/// lost with its ring, and the records of the run's other rings wait with it.
#[test]
fn a_run_with_a_record_of_an_unknown_kind_is_left_unchanged() {
    for name in ["text", "raw", "recorder"] {
        for kind in [7, 8].into_iter().chain(12..=31) {
            let kept = Kept::copy(&format!("layout-2/{name}"));
            let ring = kept.ring_of_living_thread();
            let (head, capacity) = (word(&ring, HEAD), 16 << 10);
            let consumed = word(&ring, SLOTS[(word(&ring, SELECTED) & 1) as usize] + CONSUMED);
            // The first record of a readable block.
            let block = if name == "recorder" { head / 2048 * 2048 } else { consumed };
            assert!(block < head);
            let place = DATA + block % capacity;
            set_word(&ring, place, word(&ring, place) & !0xff | kind);
            let before = kept.files();
            let recovered = kept.recover();
            assert_eq!((recovered.errors.len(), recovered.threads.len()), (1, 0), "{recovered:?}");
            let error = recovered.errors[0].to_string();
            let named = format!("record kind {kind} is unknown");
            assert!(error.contains(&named) && error.contains(ring.to_str().expect("UTF-8")), "{error}");
            assert_eq!(kept.files(), before, "{name}, kind {kind}: nothing was touched");
        }
    }
}
