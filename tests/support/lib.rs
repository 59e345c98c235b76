//! Common parts of the system tests: running a traced program in a directory of its own, and reading its
//! files.

pub mod alone;
pub mod equation;
pub mod follows;
pub mod kills;
pub mod merges;
#[cfg(target_os = "linux")]
pub mod mounts;
pub mod processes;
pub mod programs;
pub mod quiet;
pub mod scenarios;
pub mod site_records;
pub mod stdout;
#[cfg(target_os = "linux")]
pub mod terminal;
#[cfg(unix)]
pub mod torture;
pub mod words;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;
use trace_format::escape::unescape;
use trace_format::line::{Key, Kind, Line};
use trace_format::manifest::{self, UNFINISHED_SUFFIX};
use trace_format::meta::{End, Meta};
use trace_format::places;
use trace_format::raw::{Decoder, Raw};

/// The name of the traced program's file, with which the names of its trace files begin.
pub const APP: &str = if cfg!(windows) { "scenario.exe" } else { "scenario" };

/// The name of the traced program's main thread: Unix names it after the program, Rust's standard library elsewhere.
pub const MAIN: &str = if cfg!(windows) { "main" } else { "scenario" };

/// The name of a thread that was given none: on Unix, it inherits the program's.
pub const UNNAMED: &str = if cfg!(windows) { "" } else { "scenario" };

/// Returns a directory that cannot be made, because a file is in its way.
pub fn refused() -> String {
    // On systems with drives, a path without a drive is on the current drive.
    let path = std::path::absolute(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml/traces"));
    path.expect("a path").into_os_string().into_string().expect("UTF-8")
}

/// Returns the value of `LD_PRELOAD` that loads the slow file system into a program of the tests. The loader
/// replaces `$ORIGIN` by the program's directory; it would divide a full path at its spaces.
///
/// # Panics
/// If the library is not built.
#[cfg(target_os = "linux")]
pub fn slow_files() -> &'static str {
    let test = std::env::current_exe().expect("the path of the test");
    let profile = test.parent().and_then(Path::parent).expect("the directory of the profile");
    let library = profile.join("examples/libslow_files.so");
    assert!(library.is_file(), "{} is missing: cargo build --examples", library.display());
    "$ORIGIN/examples/libslow_files.so"
}

/// A program that is to be traced, with directories of its own for files and rings.
pub struct Scenario {
    /// The directory of its trace files.
    pub directory: TempDir,
    /// The directory of its rings; in memory, as in real use.
    pub runtime: TempDir,
    command: Command,
}

/// The result of a run of a traced program.
pub struct Traced {
    /// The status, stdout and stderr of the program.
    pub output: Output,
    /// The files of all threads, by name.
    pub files: BTreeMap<String, ThreadTrace>,
    /// The directory of the trace files.
    pub directory: TempDir,
    /// The directory of the rings.
    pub runtime: TempDir,
}

/// A trace file, read and checked: every line parses, ticks do not go back.
#[derive(Debug)]
pub struct ThreadTrace {
    /// The thread's name in the `# thread` line.
    pub name: String,
    /// The whole messages with their keys, in order.
    pub messages: Vec<(Key, String)>,
    /// The functions that were entered and left, in order: the mark, and the content of the line.
    pub calls: Vec<(Key, Kind, String)>,
    /// The call stacks, in order.
    pub stacks: Vec<(Key, String)>,
    /// The content of all `#` lines.
    pub metas: Vec<Meta>,
}

impl Scenario {
    /// Returns a scenario for the program `program` with `args`, with tracing switched on.
    pub fn new(program: impl AsRef<OsStr>, args: &[&str]) -> Scenario {
        let directory = TempDir::new().expect("a directory for trace files");
        let runtime = private_directory().expect("a directory for rings");
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null());
        for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("TRACER_")) {
            command.env_remove(name);
        }
        command.env("TRACER_ENABLE", "1").env("TRACER_DIR", directory.path());
        command.env("TRACER_RUNTIME_DIR", runtime.path());
        Scenario { directory, runtime, command }
    }

    /// Sets a variable for the program; an empty name is ignored.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Scenario {
        if !name.is_empty() {
            self.command.env(name, value);
        }
        self
    }

    /// Takes a variable from the program.
    #[must_use]
    pub fn without(mut self, name: &str) -> Scenario {
        self.command.env_remove(name);
        self
    }

    /// Returns the command itself, for needs that this type does not cover.
    pub fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Runs the program to its end and reads its files.
    pub fn run(mut self) -> Traced {
        let output = self.command.output().expect("the program can be run");
        let files = read_directory(self.directory.path());
        Traced { output, files, directory: self.directory, runtime: self.runtime }
    }

    /// Runs the program to its end, recovers the rest with the command, and then reads the files.
    ///
    /// If threads trace while the program ends, the end may cut them off in the middle of a write, as a kill does.
    pub fn run_and_recover(mut self) -> Traced {
        let output = self.command.output().expect("the program can be run");
        let program = self.command.get_program();
        let app = self.directory.path().join(Path::new(program).file_name().expect("a program's name"));
        let mut merge = Command::new(program);
        merge.arg("merge").arg(app).env("TRACER_RUNTIME_DIR", self.runtime.path());
        let merged = merge.output().expect("the merge can be run");
        assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
        let files = read_directory(self.directory.path());
        Traced { output, files, directory: self.directory, runtime: self.runtime }
    }
}

impl Traced {
    /// Panics with the program's messages unless it succeeded.
    #[must_use]
    pub fn succeeded(self) -> Traced {
        assert!(self.output.status.success(), "{}", self.said());
        self
    }

    /// Returns the status or signal, and stderr, for messages.
    pub fn said(&self) -> String {
        format!("{}: {}", self.output.status, self.stderr())
    }

    /// Returns the text that the program printed on stdout.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// Returns the text that the program and the tracer wrote to stderr.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// Returns all messages of all threads, sorted by ticks.
    pub fn messages(&self) -> Vec<String> {
        let mut all: Vec<&(Key, String)> = self.files.values().flat_map(|f| &f.messages).collect();
        all.sort_by_key(|(key, _)| key.ticks);
        all.into_iter().map(|(_, text)| text.clone()).collect()
    }

    /// Returns the file whose thread has this name; panics if there is none.
    pub fn thread(&self, name: &str) -> &ThreadTrace {
        self.files.values().find(|f| f.name == name).unwrap_or_else(|| panic!("no thread named {name}"))
    }

    /// Returns the file of the main thread; panics if there is none.
    pub fn main_thread(&self) -> &ThreadTrace {
        self.thread(MAIN)
    }

    /// Panics unless every file has an end and none reports a loss.
    pub fn assert_whole(&self) {
        for (name, file) in &self.files {
            let end = file.end();
            assert_eq!((end.records, end.lost), (file.records(), 0), "{name}: {end:?}");
        }
    }

    /// Returns the runs that are left in the directory of rings.
    pub fn left_in_runtime(&self) -> Vec<PathBuf> {
        runs(self.runtime.path())
    }
}

impl ThreadTrace {
    /// Returns the last `# end` line; panics if there is none.
    pub fn end(&self) -> &End {
        let ends = self.metas.iter().rev();
        ends.into_iter()
            .find_map(|m| if let Meta::End(end) = m { Some(end) } else { None })
            .expect("an `# end` line")
    }

    /// Returns the number of records: messages, functions entered and left, and call stacks.
    pub fn records(&self) -> u64 {
        (self.messages.len() + self.calls.len() + self.stacks.len()) as u64
    }

    /// Returns the texts of the messages.
    pub fn texts(&self) -> Vec<&str> {
        self.messages.iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// Makes a directory in memory for this user only: the tracer refuses one that others can enter.
fn private_directory() -> std::io::Result<TempDir> {
    #[cfg(unix)]
    return tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .tempdir_in(memory());
    #[cfg(not(unix))]
    return TempDir::new_in(memory());
}

/// Returns a directory for files that several processes map. It is in memory, if the system has such a directory.
pub fn memory() -> PathBuf {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { shm.to_path_buf() } else { std::env::temp_dir() }
}

/// Returns the entries of a directory, sorted.
pub fn names(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a directory that can be read");
    let mut names: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    names.sort();
    names
}

/// Returns the runs that are left in a directory of rings, sorted. If the system does not let a process remove a
/// file that it has mapped, this leaves out runs that only remain to be removed: their name says so, or they have
/// no manifest.
pub fn runs(runtime: &Path) -> Vec<PathBuf> {
    let is_left = |run: &PathBuf| {
        let name = run.to_string_lossy();
        // A list of places is here if it cannot be beside the executable.
        let is_run = !name.ends_with(places::SUFFIX);
        is_run && (cfg!(unix) || !name.ends_with(UNFINISHED_SUFFIX) && run.join(manifest::FILE_NAME).exists())
    };
    names(runtime).into_iter().filter(is_left).collect()
}

/// Reads every trace file of a directory.
pub fn read_directory(directory: &Path) -> BTreeMap<String, ThreadTrace> {
    let read = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let bytes = std::fs::read(path).expect("a file that can be read");
        (name.contains(".trace.") && !name.ends_with(".merge")).then(|| (name.clone(), parse(&name, &bytes)))
    };
    names(directory).iter().filter_map(read).collect()
}

/// Returns the text of a trace file, which may be a raw one.
pub fn text_of<'a>(name: &str, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    let Some(raw) = Raw::parse(bytes) else { return Cow::Borrowed(bytes) };
    let mut text = Vec::new();
    let found = Decoder::new(raw.tid()).decode(raw, 0..bytes.len(), name.as_bytes(), &mut text);
    assert!(found.damaged.is_empty(), "{name}: {:?}", found.damaged);
    Cow::Owned(text)
}

/// Reads a whole trace file.
pub fn parse(name: &str, bytes: &[u8]) -> ThreadTrace {
    let bytes = &*text_of(name, bytes);
    let text = bytes.strip_suffix(b"\n").unwrap_or_else(|| panic!("{name} does not end in a line feed"));
    let mut trace = ThreadTrace {
        name: String::new(),
        messages: Vec::new(),
        calls: Vec::new(),
        stacks: Vec::new(),
        metas: Vec::new(),
    };
    let mut last = Key::default();
    for line in text.split(|&b| b == b'\n') {
        let line =
            Line::parse(line).unwrap_or_else(|e| panic!("{name}: {e}: {}", String::from_utf8_lossy(line)));
        assert!(line.key.ticks >= last.ticks, "{name}: ticks go back");
        last = line.key;
        let text = || String::from_utf8_lossy(&unescape(line.payload)).into_owned();
        match line.kind {
            Kind::Message | Kind::Lock => trace.messages.push((line.key, text())),
            Kind::Continuation => {
                let (key, message) = trace.messages.last_mut().expect("a message before its next line");
                assert_eq!(*key, line.key, "{name}: all lines of a message have one key");
                message.push('\n');
                message.push_str(&text());
            }
            Kind::Meta => {
                let meta = Meta::parse(line.payload)
                    .unwrap_or_else(|| panic!("{name}: {}", String::from_utf8_lossy(line.payload)));
                if let Meta::Thread(thread) = &meta {
                    trace.name = String::from_utf8_lossy(&thread.name).into_owned();
                }
                trace.metas.push(meta);
            }
            Kind::Stack => trace.stacks.push((line.key, text())),
            Kind::Enter | Kind::Leave => trace.calls.push((line.key, line.kind, text())),
            Kind::State => panic!("{name}: a state of a thread"),
            Kind::Other(kind) => panic!("{name}: a line of kind {kind:?}"),
        }
    }
    assert!(
        matches!(trace.metas[..], [Meta::Run(_), Meta::Thread(_), ..]),
        "{name} begins with its two lines"
    );
    trace
}

/// Runs a program that this process has just written, and tries again as long as it is busy: another thread may
/// have forked while the program was written, and that child has it open for writing until it executes its own
/// program.
///
/// # Panics
/// If the program cannot be run for another reason.
pub fn output_of_copy(command: &mut Command) -> Output {
    loop {
        match command.output() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            output => return output.expect("it can be run"),
        }
    }
}

/// Calls `tracemerge` as a library, as its `main` does; returns its exit status. Tests take turns, because the
/// process shares the state of locks of runs and of unfinished outputs.
pub fn tracemerge(args: &[&OsStr]) -> u8 {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let args = [OsStr::new("tracemerge")].into_iter().chain(args.iter().copied());
    tracemerge::main(args.map(OsStr::to_os_string))
}

/// Polls until `condition` holds; panics after `seconds`, or four times as many on Windows: Wine serves all
/// programs by one process, which is slow on a busy machine.
pub fn wait_until(seconds: u64, what: &str, mut condition: impl FnMut() -> bool) {
    let seconds = if cfg!(windows) { 4 * seconds } else { seconds };
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed().as_secs() < seconds, "{what}: not within {seconds} s");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
