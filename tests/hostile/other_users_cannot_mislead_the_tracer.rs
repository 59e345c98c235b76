//! Other users may have put links, FIFOs, directories and files at the places where the tracer and `tracemerge` make or
//! read files. The tracer and `tracemerge` follow no such link, write to no such file, and trust no content of them.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::mounts::in_own_mounts;
use support::programs::{in_part, is_root, lacks_root};
use support::{APP, Scenario, ThreadTrace, names, parse, runs};
use tempfile::TempDir;
use trace_format::meta::{Meta, RingPlace};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
/// The user id of another user.
const OTHER: u32 = 65534;

/// A file that must stay as it is.
struct Victim {
    directory: TempDir,
    before: (u32, u64, i64, i64),
}

impl Victim {
    const TEXT: &str = "do not touch\n";

    fn new() -> Victim {
        // Hard links are possible on one file system only.
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("victim");
        fs::write(&path, Victim::TEXT).expect("a file");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("a change of mode");
        let before = Victim::facts(&path);
        Victim { directory, before }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("victim")
    }

    fn facts(path: &Path) -> (u32, u64, i64, i64) {
        let found = fs::metadata(path).expect("the victim");
        (found.mode(), found.len(), found.mtime(), found.mtime_nsec())
    }

    fn assert_untouched(&self) {
        assert_eq!(fs::read_to_string(self.path()).expect("the victim"), Victim::TEXT);
        assert_eq!(Victim::facts(&self.path()), self.before);
        assert_eq!(names(self.directory.path()), [self.path()], "no link to nowhere was followed");
    }
}

/// Returns the trace files of a directory that contains other things, too.
fn traces(directory: &Path) -> Vec<(String, ThreadTrace)> {
    let is_file = |path: &&PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let read = |path: &PathBuf| {
        let bytes = fs::read(path).expect("a file");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (bytes != Victim::TEXT.as_bytes() && bytes != b"an old file\n")
            .then(|| (name.clone(), parse(&name, &bytes)))
    };
    names(directory).iter().filter(is_file).filter_map(read).collect()
}

fn output(scenario: &mut Scenario) -> Output {
    let output = scenario.command().output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn planted_files_are_neither_followed_nor_written_nor_removed() {
    let victim = Victim::new();
    let path = victim.path();
    let mut scenario =
        Scenario::new(SCENARIO, &["planted", path.to_str().expect("UTF-8")]).env("TRACER_RING_SIZE", "64K");
    output(&mut scenario);
    victim.assert_untouched();

    let files = traces(scenario.directory.path());
    for (name, file) in &files {
        assert_eq!((file.end().records, file.end().lost), (file.messages.len() as u64, 0), "{name}");
        let number_of_name = name.split('.').nth(3);
        if file.texts()[0].starts_with("own name") {
            assert_eq!(number_of_name, Some("1"), "the plain name was taken: {name}");
        }
    }
    let mut texts: Vec<&str> = files.iter().flat_map(|(_, file)| file.texts()).collect();
    texts.sort_unstable();
    let mut expected = vec!["main".to_string()];
    expected.extend((0..6).flat_map(|n| [format!("own name {n}"), format!("unfinished name {n}")]));
    expected.extend((0..20).map(|n| format!("ring {n}")));
    expected.sort_unstable();
    assert_eq!(texts, expected);

    // The planted files are unchanged: two names each of six sorts. A file that looks like a trace is the tracer's.
    let plants = names(scenario.directory.path()).into_iter().filter(|path| {
        let found = fs::symlink_metadata(path).expect("an entry");
        !found.is_file() || fs::read(path).is_ok_and(|bytes| !bytes.starts_with(b"0"))
    });
    let mut kinds: Vec<String> = plants
        .map(|path| format!("{:?}", fs::symlink_metadata(path).expect("an entry").file_type()))
        .collect();
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds.len(), 4, "links, directories, files, FIFOs: {kinds:?}");
}

/// Runs a scenario after `plant` has prepared `/dev/shm/tracer-<uid>`; `VICTIM` is a directory elsewhere.
fn with_planted_runtime(plant: &str) {
    let victim = TempDir::new().expect("a directory");
    fs::set_permissions(victim.path(), PermissionsExt::from_mode(0o700)).expect("a change of mode");
    let script = format!(
        r#"mount -t tmpfs tmpfs /dev/shm
           unset TRACER_RUNTIME_DIR
           PLANT="/dev/shm/tracer-$(id -u)"
           {plant}
           before=$(stat -c '%F %a %u' "$PLANT")
           "$@"
           test "$before" = "$(stat -c '%F %a %u' "$PLANT")""#
    );
    let Some(scenario) = in_own_mounts(&script, &[SCENARIO, "return"]) else { return };
    let traced = scenario.env("VICTIM", victim.path().to_str().expect("UTF-8")).run().succeeded();
    assert_eq!(traced.messages(), ["the last words of main"]);
    traced.assert_whole();
    let Some(Meta::Thread(thread)) = traced.main_thread().metas.get(1) else { panic!("a `# thread` line") };
    assert_eq!(thread.ring, RingPlace::Private, "{plant}");
    assert!(traced.stderr().contains("/dev/shm/tracer-"), "{plant}: {}", traced.stderr());
    assert!(names(victim.path()).is_empty(), "{plant}: nothing was written there");
}

#[test]
fn a_planted_runtime_directory_is_rejected() {
    with_planted_runtime(r#"ln -s "$VICTIM" "$PLANT""#);
    with_planted_runtime(r#"ln -s "$VICTIM/none" "$PLANT""#);
    with_planted_runtime(r#"mkfifo "$PLANT""#);
    with_planted_runtime(r#"echo file > "$PLANT"; chmod 700 "$PLANT""#);
    with_planted_runtime(r#"mkdir -m 0770 "$PLANT""#);
    with_planted_runtime(r#"mkdir -m 0701 "$PLANT""#);
    if is_root() {
        with_planted_runtime(&format!(r#"mkdir -m 0700 "$PLANT"; chown {OTHER} "$PLANT""#));
    } else {
        in_part("root, who can make a directory of another user");
    }
}

#[test]
fn only_the_owner_has_rights_whatever_the_umask() {
    for umask in ["0", "022", "0277", "0777"] {
        let script = format!(r#"umask {umask}; exec "$0" killed"#);
        let mut scenario = Scenario::new("sh", &["-c", &script, SCENARIO]);
        let output = scenario.command().output().expect("the program runs");
        assert!(output.stderr.is_empty(), "umask {umask}: {}", String::from_utf8_lossy(&output.stderr));
        let mode = |path: &Path| fs::metadata(path).expect("an entry").mode() & 0o777;
        let [run] = &runs(scenario.runtime.path())[..] else { panic!("umask {umask}: one run") };
        assert_eq!(mode(run), 0o700, "umask {umask}: {run:?}");
        let files: Vec<_> = names(scenario.directory.path()).into_iter().chain(names(run)).collect();
        assert!(files.len() >= 4, "a trace, a manifest, sites, rings: {files:?}");
        for file in files {
            assert_eq!(mode(&file), 0o600, "umask {umask}: {file:?}");
        }
    }
}

#[test]
fn a_program_with_more_rights_than_its_caller_does_not_trace() {
    if lacks_root() {
        return;
    }
    let place = TempDir::new().expect("a directory");
    fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).expect("a change of mode");
    let program = place.path().join(APP);
    // `cp` writes the file: a child of another test would inherit a file that this process has open for writing.
    assert!(Command::new("cp").arg(SCENARIO).arg(&program).status().expect("cp runs").success());
    give_to_other_user(&program);
    let run = |mode: u32| {
        fs::set_permissions(&program, PermissionsExt::from_mode(mode)).expect("a change of mode");
        let scenario = Scenario::new(&program, &["return"]);
        give_to_other_user(scenario.directory.path());
        give_to_other_user(scenario.runtime.path());
        scenario.run().succeeded()
    };
    assert_eq!(run(0o755).messages(), ["the last words of main"], "without the bit it does");
    let traced = run(0o4755);
    assert_eq!(traced.files.len(), 0);
    let said = traced.stderr();
    assert!(said.starts_with("tracer: TRACER_ENABLE is ignored") && said.lines().count() == 1, "{said}");
    assert!(traced.left_in_runtime().is_empty());
}

fn give_to_other_user(path: &Path) {
    chown(path, Some(OTHER), None).expect("a change of owner");
}

/// Kills a run whose rings hold records, and returns it.
fn killed() -> Scenario {
    let mut scenario =
        Scenario::new(SCENARIO, &["prey"]).env("TRACER_FLUSH_MS", "60000").env("TRACER_RING_SIZE", "16K");
    assert!(!scenario.command().status().expect("the program runs").success());
    scenario
}

fn merge(scenario: &Scenario) -> Output {
    let mut merge = Command::new(SCENARIO);
    merge.arg("merge").arg(scenario.directory.path().join(APP));
    merge.env("TRACER_RUNTIME_DIR", scenario.runtime.path()).output().expect("the merge runs")
}

/// Returns the number of messages in the files.
fn recovered(scenario: &Scenario) -> usize {
    support::read_directory(scenario.directory.path()).values().map(|file| file.messages.len()).sum()
}

const IN_FILES: usize = 3 * 5;
const IN_RINGS: usize = 3 * (15 + 3);

#[test]
fn a_killed_run_is_recovered_if_all_files_belong_to_the_user() {
    let scenario = killed();
    assert_eq!(recovered(&scenario), IN_FILES);
    assert!(merge(&scenario).status.success());
    assert_eq!(recovered(&scenario), IN_FILES + IN_RINGS);
}

#[test]
fn a_run_behind_a_link_is_not_recovered() {
    let scenario = killed();
    let [run] = &runs(scenario.runtime.path())[..] else { panic!("one run") };
    let elsewhere = TempDir::new_in("/dev/shm").expect("a directory");
    let moved = elsewhere.path().join("run");
    fs::rename(run, &moved).expect("a new place");
    symlink(&moved, run).expect("a link");
    let before = names(&moved);
    merge(&scenario);
    assert_eq!(recovered(&scenario), IN_FILES, "what a link leads to is not recovered");
    assert_eq!(names(&moved), before, "nor removed");
}

#[test]
fn a_manifest_must_be_a_regular_file() {
    for plant in [
        (|manifest, copy| symlink(copy, manifest).expect("a link")) as fn(&Path, &Path),
        |manifest, _| assert!(Command::new("mkfifo").arg(manifest).status().expect("mkfifo").success()),
        |manifest, _| fs::create_dir(manifest).expect("a directory"),
    ] {
        let scenario = killed();
        let [run] = &runs(scenario.runtime.path())[..] else { panic!("one run") };
        let (manifest, copy) = (run.join("manifest"), run.join("copy"));
        fs::rename(&manifest, &copy).expect("a new name");
        plant(&manifest, &copy);
        let before = names(run);
        merge(&scenario);
        assert_eq!((recovered(&scenario), names(run)), (IN_FILES, before));
    }
}

#[test]
fn files_of_another_user_are_not_trusted() {
    if lacks_root() {
        return;
    }
    let run_of = |scenario: &Scenario| runs(scenario.runtime.path()).remove(0);
    type Part = fn(&Path) -> PathBuf;
    let cases: [(&str, Part); 3] = [
        ("the directory of runs", |run| run.parent().expect("a directory").to_path_buf()),
        ("the run's directory", Path::to_path_buf),
        ("the manifest", |run| run.join("manifest")),
    ];
    for (what, path) in cases {
        let scenario = killed();
        give_to_other_user(&path(&run_of(&scenario)));
        let before = names(&run_of(&scenario));
        merge(&scenario);
        assert_eq!((recovered(&scenario), names(&run_of(&scenario))), (IN_FILES, before), "{what}");
    }

    // One ring is planted: it is named, and the others are recovered.
    let scenario = killed();
    let run = run_of(&scenario);
    let used = |path: &PathBuf| fs::read(path).is_ok_and(|ring| ring.get(64) == Some(&1));
    let ring = names(&run).into_iter().filter(|p| p.to_string_lossy().contains("/ring-")).find(used);
    let ring = ring.expect("a ring that a thread had");
    give_to_other_user(&ring);
    let output = merge(&scenario);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&*ring.to_string_lossy()), "{said}");
    assert_eq!(recovered(&scenario), IN_FILES + IN_RINGS / 3 * 2);
    assert!(ring.exists(), "and left where it is");
}
