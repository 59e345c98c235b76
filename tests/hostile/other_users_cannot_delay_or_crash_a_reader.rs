//! Root reads the runs and files of other users: planted runs cost two seconds at most, rings that their owner cuts
//! end no reader, and no signal of the owner reaches it. Skipped runs are named, with status 1; a requested trace
//! is read to its end.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "calls of the C library")]

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::programs::lacks_root;
use support::quiet::quiet;
use support::{APP, names, read_directory};
use tempfile::TempDir;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
/// The number of messages that a killed `prey` has in files, and in rings.
const IN_FILES: usize = 3 * 5;
const IN_RINGS: usize = 3 * (15 + 3);
/// The greatest time of a command whose budget for other users is two seconds.
const GENEROUS: Duration = Duration::from_secs(10);

/// A directory in which all users may write, and user ids that no other process here has.
struct Place {
    directory: TempDir,
    users: Vec<u32>,
    _quiet: MutexGuard<'static, ()>,
}

impl Place {
    /// Returns `None` if this process is not root's, because only root can act for two users.
    fn new() -> Option<Place> {
        if lacks_root() {
            return None;
        }
        let directory = TempDir::new().expect("a directory");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o1777)).expect("a change of mode");
        let place = Place { directory, users: Vec::new(), _quiet: quiet() };
        // `cp` writes the file: a process that another test starts meanwhile would inherit a file that this process
        // has open for writing.
        let copied = Command::new("cp").arg(SCENARIO).arg(place.app()).status();
        assert!(copied.expect("cp runs").success());
        Some(place)
    }

    fn user(&mut self) -> u32 {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let user = 700_000 + std::process::id() % 10_000 * 10 + NEXT.fetch_add(1, Ordering::Relaxed);
        self.users.push(user);
        user
    }

    /// Returns the command by which `user`, or root, runs the scenario with these words.
    fn command(&self, user: u32, words: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()]);
        command.arg(self.app()).args(words).stdin(Stdio::null());
        command.env("TRACER_ENABLE", "1").env("TRACER_DIR", self.directory.path());
        command.env_remove("TRACER_RUNTIME_DIR").env("TRACER_FLUSH_MS", "60000");
        command
    }

    /// Kills a run of `user`; returns the directory with its rings.
    fn killed(&self, user: u32) -> PathBuf {
        let before = runs_of(user);
        let mut command = self.command(user, &["prey"]);
        assert!(!command.status().expect("the program runs").success());
        let left = runs_of(user).into_iter().find(|run| !before.contains(run));
        left.expect("a run that was left")
    }

    fn app(&self) -> PathBuf {
        self.directory.path().join(APP)
    }

    /// Returns the files that are here besides the program.
    fn traces(&self) -> Vec<PathBuf> {
        names(self.directory.path()).into_iter().filter(|path| *path != self.app()).collect()
    }

    /// Calls `tracemerge` as root; returns its output and its duration.
    fn tracemerge(&self, words: &[&OsStr]) -> (Output, Duration) {
        let begun = Instant::now();
        let mut command = Command::new(SCENARIO);
        command.arg("tracemerge").args(words).env_remove("TRACER_RUNTIME_DIR").env_remove("TRACER_DIR");
        (command.output().expect("it runs"), begun.elapsed())
    }

    fn check(&self) -> (Output, Duration) {
        self.tracemerge(&["check".as_ref(), self.app().as_os_str()])
    }

    /// Returns the number of messages in the files of `user`.
    fn messages_of(&self, user: u32) -> usize {
        let files = read_directory(self.directory.path());
        let of_user = |name: &String| {
            fs::metadata(self.directory.path().join(name)).is_ok_and(|found| found.uid() == user)
        };
        files.iter().filter(|(name, _)| of_user(name)).map(|(_, file)| file.messages.len()).sum()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for user in &self.users {
            let _ = fs::remove_dir_all(rings_of(*user));
        }
    }
}

fn rings_of(user: u32) -> PathBuf {
    Path::new("/dev/shm").join(format!("tracer-{user}"))
}

fn runs_of(user: u32) -> Vec<PathBuf> {
    let entries = if rings_of(user).is_dir() { names(&rings_of(user)) } else { Vec::new() };
    // The list of places of their files stands beside the runs.
    entries.into_iter().filter(|path| path.is_dir()).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Plants `number` copies of a run beside it. The returned files hold the locks of their recoverers as long as they
/// live.
fn plant_locked(run: &Path, user: u32, number: u32) -> Vec<File> {
    let mut held = Vec::new();
    for n in 0..number {
        let copy = run.with_file_name(format!("{}-{n:08x}", 4_000_000 + n));
        fs::create_dir(&copy).expect("a directory");
        fs::set_permissions(&copy, Permissions::from_mode(0o700)).expect("a change of mode");
        chown(&copy, Some(user), None).expect("a change of owner");
        for name in ["life", "sites", "manifest"] {
            fs::copy(run.join(name), copy.join(name)).expect("a copy");
            chown(copy.join(name), Some(user), None).expect("a change of owner");
        }
        let life = File::options().read(true).write(true).open(copy.join("life")).expect("the life file");
        // SAFETY: the descriptor is open; the request is plain memory.
        let locked = unsafe {
            let mut request: libc::flock = std::mem::zeroed();
            request.l_type = libc::F_WRLCK as _;
            request.l_whence = libc::SEEK_SET as _;
            request.l_start = libc::off_t::from(trace_format::life::RECOVERY_BYTE);
            request.l_len = 1;
            libc::fcntl(life.as_raw_fd(), libc::F_OFD_SETLK, &raw const request)
        };
        assert_eq!(locked, 0, "the lock of a recoverer");
        held.push(life);
    }
    held
}

#[test]
fn planted_runs_take_at_most_two_seconds_and_are_reported() {
    let Some(mut place) = Place::new() else { return };
    let (attacker, other) = (place.user(), place.user());
    let own = place.command(0, &["return"]).status().expect("the program runs");
    assert!(own.success());
    let (output, _) = place.check();
    assert!(output.status.success(), "{}", text(&output.stderr));

    place.killed(other);
    let run = place.killed(attacker);
    let held = plant_locked(&run, attacker, 200);
    fs::remove_dir_all(&run).expect("a removal");
    for words in [&["check"][..], &["info"], &["-o", "-"], &["clean"]] {
        let app = place.app();
        let words: Vec<&OsStr> = words.iter().map(OsStr::new).chain([app.as_os_str()]).collect();
        let (output, took) = place.tracemerge(&words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(took < GENEROUS, "{words:?} took {took:?}");
        let named = format!("200 runs of user {attacker} in '{}' were skipped", rings_of(attacker).display());
        assert!(said.contains(&named), "{words:?}: {said}");
        assert!(!said.contains(&format!("of user {other} in")), "nobody else's run is skipped: {said}");
    }
    assert_eq!(place.messages_of(other), IN_FILES + IN_RINGS, "and is recovered");
    assert_eq!(runs_of(attacker).len(), 200);
    drop(held);
    // The locks are free now, so each call recovers as many runs as it has time for.
    for _ in 0..20 {
        if runs_of(attacker).is_empty() {
            break;
        }
        place.tracemerge(&["--all-runs".as_ref(), "-o".as_ref(), "-".as_ref(), place.app().as_os_str()]);
    }
    assert_eq!(runs_of(attacker).len(), 0);
}

#[test]
fn a_requested_trace_is_recovered_for_any_owner() {
    let Some(mut place) = Place::new() else { return };
    let user = place.user();
    let run = place.killed(user);
    let held = plant_locked(&run, user, 20);
    let (output, took) = place.check();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(took < GENEROUS, "{took:?}");
    assert_eq!(place.messages_of(user), IN_FILES + IN_RINGS, "{}", text(&output.stderr));
    assert!(!run.exists(), "nothing is left of it in memory");
    drop(held);
    // They have no rings, which would be reported as missing.
    runs_of(user).iter().for_each(|copy| fs::remove_dir_all(copy).expect("a removal"));
    let (output, _) = place.check();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("process") && text(&output.stdout).contains("whole: 1 run"));
}

#[test]
fn truncating_a_ring_does_not_crash_its_reader() {
    let Some(mut place) = Place::new() else { return };
    let user = place.user();
    assert!(place.command(0, &["return"]).status().expect("the program runs").success());
    for delay in (0..600).step_by(15) {
        let run = place.killed(user);
        let rings: Vec<PathBuf> =
            names(&run).into_iter().filter(|path| path.to_string_lossy().contains("/ring-")).collect();
        let cutter = cut_when_opened(rings, Duration::from_micros(delay));
        let (output, _) = place.check();
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{delay}: {}: {}",
            output.status,
            text(&output.stderr)
        );
        cutter();
        let _ = fs::remove_dir_all(&run);
    }
}

/// Cuts the files to their first page as soon as a process opens one of them and `delay` has passed. Returns a
/// function that ends that.
fn cut_when_opened(files: Vec<PathBuf>, delay: Duration) -> impl FnOnce() {
    // SAFETY: the descriptor is a new one that no other code has; the paths are C strings that outlive the calls.
    let events = unsafe {
        let events = libc::inotify_init1(libc::IN_CLOEXEC);
        assert!(events >= 0, "inotify");
        for file in &files {
            let path = std::ffi::CString::new(file.as_os_str().as_bytes()).expect("a path");
            assert!(libc::inotify_add_watch(events, path.as_ptr(), libc::IN_OPEN) >= 0, "{file:?}");
        }
        File::from_raw_fd(events)
    };
    let first = files[0].clone();
    let cutter = thread::spawn(move || {
        let _ = std::io::Read::read(&mut &events, &mut [0; 4096]);
        let begun = Instant::now();
        while begun.elapsed() < delay {}
        for file in files {
            let path = std::ffi::CString::new(file.as_os_str().as_bytes()).expect("a path");
            // SAFETY: the path is a C string that outlives the call. The file may be gone.
            unsafe { libc::truncate(path.as_ptr(), 4096) };
        }
    });
    move || {
        // The cutter may still wait, if no process has opened them.
        let _ = File::open(first);
        cutter.join().expect("the cutter");
    }
}

#[test]
fn the_owner_cannot_signal_the_reader() {
    let Some(mut place) = Place::new() else { return };
    let user = place.user();
    assert!(place.command(0, &["return"]).status().expect("the program runs").success());
    let run = place.killed(user);
    // A reader that waits for these locks has its thread for that user all the time.
    let _held = plant_locked(&run, user, 3);
    let mut reader = Command::new(SCENARIO);
    reader.args(["tracemerge", "check"]).arg(place.app()).env_remove("TRACER_RUNTIME_DIR");
    let reader = reader.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let tasks = format!("/proc/{}/task", reader.id());
    let (mut seen, mut tries) = (0, 0);
    while fs::read_dir(&tasks).is_ok_and(|tasks| tasks.count() > 0) && tries < 300 {
        for task in names(Path::new(&tasks)) {
            let status = fs::read_to_string(task.join("status")).unwrap_or_default();
            let Some(ids) = status.lines().find_map(|line| line.strip_prefix("Uid:")) else { continue };
            let ids: Vec<u32> = ids.split_whitespace().filter_map(|id| id.parse().ok()).collect();
            let [real, effective, saved, of_files] = ids[..] else { panic!("{status}") };
            assert_eq!([real, effective, saved], [0; 3], "who may send it signals");
            if of_files == user {
                seen += 1;
                let tid = task.file_name().expect("a task").to_string_lossy().into_owned();
                let mut kill = Command::new("setpriv");
                kill.args([
                    format!("--reuid={user}"),
                    format!("--regid={user}"),
                    "--clear-groups".to_owned(),
                ]);
                let sent =
                    kill.args(["kill", "-9", &tid]).stderr(Stdio::null()).status().expect("setpriv runs");
                assert!(!sent.success(), "the signal was sent");
            }
        }
        tries += 1;
        thread::sleep(Duration::from_millis(5));
        if seen > 3 {
            break;
        }
    }
    let output = reader.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(seen > 0, "the reader was seen at work for that user");
}

/// Makes a trace of `user` larger by a hole of a tebibyte, with a line after that if `and_a_line` is true.
fn add_hole(place: &Place, user: u32, and_a_line: bool) -> PathBuf {
    let of_user = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.uid() == user);
    let trace = place.traces().into_iter().find(of_user).expect("a trace");
    let file = File::options().read(true).write(true).open(&trace).expect("the trace");
    let length = file.metadata().expect("its metadata").len();
    let end = 1 << 40;
    file.set_len(end).expect("a hole");
    if and_a_line {
        let mut lines = vec![0; usize::try_from(length).expect("a length")];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut lines, 0).expect("its lines");
        let last = lines.split_inclusive(|byte| *byte == b'\n').next_back().expect("a line");
        std::os::unix::fs::FileExt::write_all_at(&file, last, end).expect("a line");
    }
    trace
}

#[test]
fn a_sparse_file_takes_no_time() {
    let Some(mut place) = Place::new() else { return };
    for (owner, is_beside, and_a_line) in
        [(place.user(), true, false), (place.user(), false, true), (0, false, false), (0, false, true)]
    {
        for trace in place.traces() {
            fs::remove_file(trace).expect("a removal");
        }
        if is_beside {
            assert!(place.command(0, &["return"]).status().expect("the program runs").success());
        }
        assert!(place.command(owner, &["return"]).status().expect("the program runs").success());
        add_hole(&place, owner, and_a_line);
        for words in [&["check"][..], &["info"], &["-o", "-"], &["show"], &["stats"], &["clean"]] {
            let app = place.app();
            let words: Vec<&OsStr> = words.iter().map(OsStr::new).chain([app.as_os_str()]).collect();
            let (output, took) = place.tracemerge(&words);
            let said = text(&output.stderr);
            assert!(took < GENEROUS, "{words:?} took {took:?}: {said}");
            assert!(output.stdout.len() < 1 << 20, "{words:?} writes {} bytes", output.stdout.len());
            if is_beside || words[0] == "clean" {
                assert!(output.status.success(), "{words:?}: {said}");
            } else {
                assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
                assert!(
                    said.contains("bytes in holes (ranges that were never written)"),
                    "{words:?}: {said}"
                );
            }
        }
    }
}

#[test]
fn a_large_trace_of_another_user_is_read_in_little_memory() {
    let Some(mut place) = Place::new() else { return };
    let user = place.user();
    assert!(place.command(user, &["return"]).status().expect("the program runs").success());
    let trace = place.traces().remove(0);
    let bytes = fs::read(&trace).expect("the trace");
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let message = *lines.iter().find(|line| line.windows(3).any(|part| part == b" : ")).expect("a message");
    let (first, last) = lines.split_at(lines.len() - 1);
    let mut long = message.strip_suffix(b"\n").expect("a line").to_vec();
    long.extend_from_slice(&[b'x'; 900]);
    long.push(b'\n');
    let number = 200_000;
    let mut grown = first.concat();
    grown.extend(long.repeat(number));
    grown.extend_from_slice(last[0]);
    fs::write(&trace, &grown).expect("a larger trace");
    let app = place.app();
    // The file is larger than the command's limit of memory, which does not count mappings of files.
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -d 150000; exec "$0" tracemerge "$1" -o -"#]).arg(SCENARIO).arg(&app);
    command
        .env_remove("TRACER_RUNTIME_DIR")
        .env_remove("TRACER_DIR")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = command.output().expect("it runs");
    let merged = output.stdout.split(|byte| *byte == b'\n').filter(|line| line.len() > 900).count();
    assert_eq!(merged, number, "{}", text(&output.stderr));
}

#[test]
fn root_learns_where_the_files_of_another_user_are_that_it_cannot_see() {
    let Some(mut place) = Place::new() else { return };
    let user = place.user();
    let own = place.directory.path().join("own");
    fs::create_dir(&own).expect("a directory");
    std::os::unix::fs::chown(&own, Some(user), Some(user)).expect("a change of owner");
    // Only root can write beside the program.
    fs::set_permissions(place.directory.path(), Permissions::from_mode(0o755)).expect("a change of mode");
    let mut command = place.command(user, &["many", "1"]);
    assert!(command.env("TRACER_DIR", &own).status().expect("the program runs").success());
    // For a service with a mount namespace of its own, the directory has the same name, but is another one.
    for file in names(&own) {
        fs::remove_file(file).expect("a file is removed");
    }
    let (output, _) = place.check();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let sentence =
        format!("has put its trace files into '{}', but none of them can be read there", own.display());
    assert!(said.contains(&sentence), "{said}");
    // A list of another user decides nothing if there are traces.
    let mut command = place.command(0, &["many", "1"]);
    assert!(command.status().expect("the program runs").success());
    let (output, _) = place.check();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}
