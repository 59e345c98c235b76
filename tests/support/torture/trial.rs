//! One trial: runs the program, causes faults, kills the program and recovers its run as the plan says, in directories
//! of its own.
#![allow(unsafe_code, reason = "kills, a pipe that is polled, mounts of the trial's own")]

use super::counters::{BYTES, Counters, EXECUTED, PROCESSES};
use super::oracle::{Evidence, judge, made};
use super::plan::{After, Aside, ChildEnd, CopiedAt, Policy, ProgramEnd, Runtime, TrialPlan};
use crate::follows::interruptible;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The result of a trial.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The number of calls that had returned.
    pub records: u64,
    /// The number of processes that were killed, merges included.
    pub kills: u64,
    /// The mistakes that were found, in words.
    pub wrong: Vec<String>,
    /// The directory with all files of the trial, which is kept if there was a mistake.
    pub kept: Option<PathBuf>,
}

/// Returns the content that the traced program writes into file `n` of its own.
#[must_use]
pub fn own_content(n: usize) -> Vec<u8> {
    match n % 3 {
        0 => Vec::new(),
        1 => b"its own\n".to_vec(),
        _ => (0..64 * 1024u32).map(|i| (i % 251) as u8).collect(),
    }
}

/// A running trial.
struct Trial<'a> {
    program: &'a str,
    plan: &'a TrialPlan,
    base: TempDir,
    runtime: TempDir,
    counters: Counters,
    small_disk: bool,
    wrong: Vec<String>,
    kills: u64,
    ended_by_others: Vec<usize>,
    commands: u32,
}

/// The time after which a process is said to hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// Follows the plan, and judges the result. `program` is the traced program, which acts as the command, too.
/// `tamper` may change the files before they are judged.
///
/// # Panics
/// If the system refuses something that every trial needs.
pub fn run(program: &str, plan: &TrialPlan, tamper: &dyn Fn(&Path)) -> Outcome {
    let base = TempDir::with_prefix(format!("torture-{}-", plan.seed)).expect("a directory");
    for name in ["traces", "here", "own", "rings"] {
        std::fs::create_dir(base.path().join(name)).expect("a directory");
    }
    // The tracer refuses a directory that others can enter.
    let owner_only = std::fs::Permissions::from_mode(0o700);
    let place = match plan.runtime {
        Runtime::Memory if Path::new("/dev/shm").is_dir() => PathBuf::from("/dev/shm"),
        _ => base.path().join("rings"),
    };
    let runtime = tempfile::Builder::new().permissions(owner_only).tempdir_in(place).expect("a directory");
    let counted = base.path().join("counters");
    std::fs::write(&counted, vec![0; BYTES]).expect("a file of counters");
    let counters = Counters::map(&counted);
    let mut trial = Trial {
        program,
        plan,
        base,
        runtime,
        counters,
        small_disk: false,
        wrong: Vec::new(),
        kills: 0,
        ended_by_others: Vec::new(),
        commands: 0,
    };
    if let Some(kb) = plan.disk_kb {
        trial.small_disk = mount_small_disk(&trial.path("traces"), kb);
    }
    let evidence = trial.run_all();
    tamper(&trial.path("traces"));
    trial.wrong.extend(judge(plan, &evidence));
    trial.finish()
}

impl Trial<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    fn run_all(&mut self) -> Evidence {
        let mut first = self.traced("first");
        first.process_group(0).stdout(Stdio::piped());
        let start = Instant::now();
        let mut first = first.spawn().expect("the program starts");
        let (asides, follower, killed) = self.meanwhile(&mut first, start);
        self.wait_for_all(&mut first, start, killed);
        for (name, mut aside) in asides {
            self.expect_end(&name, &mut aside);
        }
        if let Some(mut follower) = follower {
            send(follower.id(), libc::SIGINT);
            self.expect_end("follow", &mut follower);
        }
        let mut copy = self.copy(CopiedAt::Death);
        for after in self.plan.after.clone() {
            self.after(after);
        }
        if self.small_disk {
            remount(&self.path("traces"), "size=512m");
            let _ = std::fs::remove_file(self.path("traces/filler"));
        }
        self.sweep();
        copy = copy.or_else(|| self.copy(CopiedAt::LastMerge));
        let merged = self.path("merged");
        let words = [OsStr::new("--all-runs"), OsStr::new("-o"), merged.as_os_str(), self.app().as_os_str()]
            .map(OsStr::to_os_string);
        let merge = self.command("merge", &words);
        let words = [OsStr::new("--all-runs"), self.app().as_os_str()].map(OsStr::to_os_string);
        let check = self.command("check", &[&["check".into()], &words[..]].concat());
        Evidence {
            directories: ["traces", "missing", "here"].map(|name| self.path(name)).to_vec(),
            runtime: self.runtime.path().to_path_buf(),
            own: self.path("own"),
            counters: self.counters,
            ended_by_others: self.ended_by_others.clone(),
            merge: (merge.code(), merged),
            check: check.code(),
            copy,
            followed: Some(self.path("followed")).filter(|path| path.exists()),
        }
    }

    /// Copies the longest trace file under the name of another thread's file, if the plan says so at this moment.
    /// Returns the path of the copy.
    fn copy(&self, at: CopiedAt) -> Option<PathBuf> {
        let is_trace = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("scenario.trace.") && !name.ends_with(".merge")
        };
        let length = |path: &PathBuf| path.metadata().map_or(0, |file| file.len());
        let directory = self.app().parent().filter(|_| self.plan.copied == Some(at))?.to_path_buf();
        let entries = std::fs::read_dir(&directory).ok()?.flatten().map(|entry| entry.path());
        let original = entries.filter(is_trace).max_by_key(length).filter(|path| length(path) > 0)?;
        let copy = directory.join("scenario.trace.99999999");
        // On a full disk, a partial copy is no file of the program's.
        let copied = std::fs::copy(&original, &copy);
        copied.inspect_err(|_| drop(std::fs::remove_file(&copy))).ok().map(|_| copy)
    }

    /// Removes the files of a killed merge that was about to replace an older output: the next merge to that place
    /// does so.
    fn sweep(&mut self) {
        let app = self.app();
        let left = std::fs::read_dir(app.parent().expect("a directory")).into_iter().flatten().flatten();
        let is_left = |name: OsString| name.as_encoded_bytes().starts_with(b".tracemerge-");
        if left.map(|entry| entry.file_name()).any(is_left) {
            self.command("merge to the same place", &[app.into_os_string()]);
        }
    }

    /// Returns the path that names the program on a command line: the place of its files.
    fn app(&self) -> PathBuf {
        let directory = match self.plan.directory_missing {
            false => "traces",
            true if self.path("missing").is_dir() => "missing",
            true => "here",
        };
        self.path(directory).join("scenario")
    }

    /// Returns the command of the traced program in this role.
    fn traced(&mut self, role: &str) -> Command {
        let plan = self.plan;
        let mut command = self.anything();
        command.arg("torture").arg(plan.seed.to_string()).arg(self.path("counters")).arg(role);
        command.env("TRACER_ENABLE", "1").env("TRACER_RING_SIZE", format!("{}K", plan.ring_kb));
        command.env(
            "TRACER_FULL",
            match plan.policy {
                Policy::Block => "block",
                Policy::Drop => "drop",
                Policy::Overwrite => "overwrite",
            },
        );
        command.env("TRACER_MAX_STALL", plan.max_stall.to_string());
        command.env("TRACER_FORMAT", if plan.raw { "raw" } else { "text" });
        command.env("TRACER_FLUSH_MS", plan.flush_ms.to_string());
        command.env("TRACER_CLOCK", if plan.fast { "fast" } else { "ordered" });
        if let Some(kb) = plan.max_kb {
            command.env("TRACER_MAX_BYTES", format!("{kb}K"));
        }
        if let Some(kb) = plan.total_kb {
            command.env("TRACER_MAX_TOTAL", format!("{kb}K"));
        }
        if self.small_disk {
            command.env("TORTURE_SMALL_DISK", "1");
        }
        command.env("TORTURE_OWN", self.path("own"));
        command
    }

    /// Returns the command of the program, which can act as `tracemerge` as well, in the trial's directories.
    fn anything(&mut self) -> Command {
        let mut command = Command::new(self.program);
        for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("TRACER_")) {
            command.env_remove(name);
        }
        let traces = self.path(if self.plan.directory_missing { "missing" } else { "traces" });
        command.env("TRACER_DIR", traces).env("TMPDIR", self.path("here"));
        match self.plan.runtime {
            Runtime::Unusable => command.env("TRACER_RUNTIME_DIR", "/proc/none"),
            _ => command.env("TRACER_RUNTIME_DIR", self.runtime.path()),
        };
        self.commands += 1;
        let said = |what: &str| {
            let path = self.path(&format!("said-{}-{what}", self.commands));
            Stdio::from(File::create(path).expect("a file"))
        };
        command.stdin(Stdio::null()).stdout(said("out")).stderr(said("err"));
        command.current_dir(self.path("here"));
        command
    }

    fn tracemerge(&mut self, words: &[OsString]) -> Command {
        let mut command = self.anything();
        command.arg("tracemerge").args(words);
        command
    }

    /// Runs the command to its end.
    fn command(&mut self, name: &str, words: &[OsString]) -> ExitStatus {
        let mut child = self.tracemerge(words).spawn().expect("the command starts");
        self.expect_end(name, &mut child)
    }

    /// Starts the commands and programs that run beside the program, until it ends; returns their processes, the
    /// follower, and whether the program was killed from outside.
    fn meanwhile(
        &mut self,
        first: &mut Child,
        start: Instant,
    ) -> (Vec<(String, Child)>, Option<Child>, bool) {
        enum Event {
            Begin(Aside),
            Kill(bool),
        }
        let mut events: Vec<(u64, Event)> =
            self.plan.beside.iter().map(|beside| (beside.after_us, Event::Begin(beside.what))).collect();
        match self.plan.end {
            ProgramEnd::Killed(after_us) => events.push((after_us, Event::Kill(false))),
            ProgramEnd::GroupKilled(after_us) => events.push((after_us, Event::Kill(true))),
            _ => {}
        }
        events.sort_by_key(|(after_us, _)| *after_us);
        let (mut asides, mut follower, mut killed) = (Vec::new(), None, false);
        for (number, (after_us, event)) in events.into_iter().enumerate() {
            std::thread::sleep(Duration::from_micros(after_us).saturating_sub(start.elapsed()));
            match event {
                Event::Begin(Aside::Follow) if follower.is_none() => {
                    let words = [OsStr::new("--follow"), self.app().as_os_str()].map(OsStr::to_os_string);
                    let shown = self.path("followed");
                    let out = Stdio::from(File::create(shown).expect("a file"));
                    let mut command = self.tracemerge(&words);
                    interruptible(&mut command);
                    follower = Some(command.stdout(out).spawn().expect("the command starts"));
                }
                Event::Begin(what) => {
                    asides.push((format!("{what:?} beside"), self.begin(what, first.id(), number)));
                }
                Event::Kill(group) => {
                    // The process is not reaped yet, so the number is still its own.
                    killed = true;
                    let pid = libc::pid_t::try_from(first.id()).expect("a process id");
                    // SAFETY: the call touches no memory.
                    unsafe { libc::kill(if group { -pid } else { pid }, libc::SIGKILL) };
                }
            }
        }
        (asides, follower, killed)
    }

    fn begin(&mut self, what: Aside, pid: u32, number: usize) -> Child {
        let app = self.app().into_os_string();
        let to = self.path(&format!("aside-{number}")).into_os_string();
        let mut command = match what {
            Aside::Program => self.traced("other"),
            Aside::Check => self.tracemerge(&["check".into(), "--all-runs".into(), app]),
            Aside::Snapshot => self.tracemerge(&["snapshot".into(), "-o".into(), to, pid.to_string().into()]),
            Aside::Merge | Aside::Follow => self.tracemerge(&["-o".into(), to, app]),
        };
        command.spawn().expect("it starts")
    }

    /// Waits until the program and all its descendants have ended.
    fn wait_for_all(&mut self, first: &mut Child, start: Instant, killed: bool) {
        let out = first.stdout.take().expect("a pipe");
        let mut hangs = false;
        loop {
            let mut poll = libc::pollfd { fd: out.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: the argument is plain memory.
            let ready = unsafe { libc::poll(&mut poll, 1, 100) };
            // No process writes to the pipe: it is ready at its end.
            if ready > 0 {
                break;
            }
            if start.elapsed() > Duration::from_secs(2) {
                self.counters.stop();
            }
            if start.elapsed() > PATIENCE {
                hangs = true;
                break;
            }
        }
        if hangs {
            self.wrong.push(format!("the program has not ended after {PATIENCE:?}"));
            let pids = (0..PROCESSES).map(|process| self.counters.process(process).pid());
            let pids: Vec<u64> = pids.filter(|pid| *pid > 0).collect();
            // Every process that still has the pipe is one of the program's.
            pids.into_iter().for_each(|pid| send(pid as u32, libc::SIGKILL));
        }
        let status = first.wait().expect("its end");
        self.wait_for_daemons();
        let by_signal = status.signal();
        self.kills += u64::from(by_signal == Some(libc::SIGKILL));
        for (index, child) in self.plan.children.iter().enumerate() {
            let process = self.counters.process(super::counters::CHILD + index);
            self.kills += u64::from(child.end == ChildEnd::Killed && process.pid() > 0);
        }
        if killed {
            let all = matches!(self.plan.end, ProgramEnd::GroupKilled(_));
            self.ended_by_others.extend(if all { 0..=EXECUTED } else { 0..=0 });
            self.ended_by_others.push(EXECUTED);
        }
        let expected = match (by_signal, self.plan.end) {
            (None, _) => status.code() == Some(0),
            (Some(libc::SIGKILL), _) => {
                hangs || killed || matches!(self.plan.end, ProgramEnd::KillsItself(..))
            }
            (Some(libc::SIGABRT), end) => matches!(end, ProgramEnd::Abort(..) | ProgramEnd::Exec(..)),
            _ => false,
        };
        if !expected {
            self.wrong.push(format!("the program ended with {status}"));
        }
    }

    /// Waits for daemons: the system closes a daemon's descriptors before it releases the daemon's memory, and with
    /// it the lock that shows that it lives.
    fn wait_for_daemons(&mut self) {
        let start = Instant::now();
        for process in 0..PROCESSES {
            let pid = self.counters.process(process).pid();
            // A daemon that was not reaped yet still has its first thread, as a zombie.
            let is_alive = || {
                let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
                let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                threads > 1 || (threads == 1 && !state.contains(") Z"))
            };
            while pid > 0 && is_alive() && start.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn after(&mut self, after: After) {
        let app = self.app().into_os_string();
        match after {
            After::KilledMerge(after_us) => {
                let mut merge = self.tracemerge(&[app]).spawn().expect("the command starts");
                std::thread::sleep(Duration::from_micros(after_us));
                send(merge.id(), libc::SIGKILL);
                let status = merge.wait().expect("its end");
                self.kills += u64::from(status.signal() == Some(libc::SIGKILL));
            }
            After::Race => {
                let merges: Vec<Child> = (0..3)
                    .map(|n| {
                        let to = self.path(&format!("race-{n}")).into_os_string();
                        let words = ["-o".into(), to, app.clone()];
                        self.tracemerge(&words).spawn().expect("the command starts")
                    })
                    .collect();
                for mut merge in merges {
                    self.expect_end("a merge of three", &mut merge);
                }
            }
            After::Program => {
                let mut again = self.traced("again").spawn().expect("the program starts");
                let status = self.expect_end("the program again", &mut again);
                if status.code() != Some(0) {
                    self.wrong.push(format!("the program again ended with {status}"));
                }
            }
        }
    }

    /// Waits for a process that must end by itself, with a status.
    fn expect_end(&mut self, name: &str, child: &mut Child) -> ExitStatus {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("its state") {
                break status;
            }
            if start.elapsed() > PATIENCE {
                self.wrong.push(format!("{name} has not ended after {PATIENCE:?}"));
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_micros(500));
        };
        // A follower may be interrupted before it has a handler.
        let interrupted = name == "follow" && status.signal() == Some(libc::SIGINT);
        if !matches!(status.code(), Some(0..=2)) && !interrupted {
            self.wrong.push(format!("{name} ended with {status}"));
        }
        status
    }

    /// Removes all files, or keeps them if something is wrong.
    fn finish(mut self) -> Outcome {
        for entry in std::fs::read_dir(self.base.path()).expect("it is there").filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("said-") && name.ends_with("-err") {
                let said = std::fs::read(entry.path()).unwrap_or_default();
                let said = String::from_utf8_lossy(&said);
                // No thread can be made while another one executes a program.
                let during_exec = matches!(self.plan.end, ProgramEnd::Exec(..));
                if said.contains("panicked") && !during_exec {
                    self.wrong.push(format!("{name}: {said}"));
                }
            }
        }
        let mut outcome = Outcome {
            records: made(self.counters),
            kills: self.kills,
            wrong: std::mem::take(&mut self.wrong),
            kept: None,
        };
        self.counters.unmap();
        if !outcome.wrong.is_empty() {
            let base = self.base.path();
            let _ = std::fs::write(base.join("plan"), format!("{:?}\n", self.plan));
            let _ = std::fs::write(base.join("wrong"), outcome.wrong.join("\n"));
            copy_all(self.runtime.path(), &base.join("rings/left"));
            if self.small_disk {
                copy_all(&base.join("traces"), &base.join("traces-of-the-small-disk"));
            }
        }
        if self.small_disk {
            unmount(&self.base.path().join("traces"));
        }
        if !outcome.wrong.is_empty() {
            outcome.kept = Some(self.base.keep());
        }
        outcome
    }
}

fn copy_all(from: &Path, to: &Path) {
    let _ = std::fs::create_dir_all(to);
    for entry in std::fs::read_dir(from).into_iter().flatten().filter_map(Result::ok) {
        if entry.path().is_dir() {
            copy_all(&entry.path(), &to.join(entry.file_name()));
        } else {
            let _ = std::fs::copy(entry.path(), to.join(entry.file_name()));
        }
    }
}

/// Sends a signal to a process of the trial.
fn send(pid: u32, signal: libc::c_int) {
    let pid = libc::pid_t::try_from(pid).expect("a process id");
    // SAFETY: the call touches no memory.
    unsafe { libc::kill(pid, signal) };
}

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no zero in it")
}

/// Gives the calling thread mounts of its own, with a small file system; processes that it starts have them, too.
/// Returns false if the system refuses that: the disk then keeps its size.
fn mount_small_disk(at: &Path, kb: u64) -> bool {
    // SAFETY: both calls concern this thread alone, which no longer shares its mounts or its directory afterwards;
    // the strings end in zero.
    let own = unsafe {
        libc::unshare(libc::CLONE_FS | libc::CLONE_NEWNS) == 0
            && libc::mount(
                std::ptr::null(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
    };
    own && mount(at, 0, &format!("size={kb}k"))
}

fn mount(at: &Path, flags: libc::c_ulong, options: &str) -> bool {
    let (at, options) = (c(at), CString::new(options).expect("no zero in it"));
    let tmpfs = c"tmpfs".as_ptr();
    // SAFETY: the strings end in zero.
    unsafe { libc::mount(tmpfs, at.as_ptr(), tmpfs, flags, options.as_ptr().cast()) == 0 }
}

fn remount(at: &Path, options: &str) {
    assert!(mount(at, libc::MS_REMOUNT, options), "{}", std::io::Error::last_os_error());
}

fn unmount(at: &Path) {
    let at = c(at);
    // SAFETY: the string ends in zero.
    unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
}
