//! The run of one command on one input, with limits: 2 GiB of addresses, ten seconds of processor time, and a limited
//! number of bytes of output.

use super::bases::{self, File};
use super::command_line::{follows, placed};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::follows::interruptible;

/// The address space that a command may have, in KiB.
const ADDRESSES_KB: u64 = 2 << 20;
/// The processor time that a command may take, in seconds.
const SECONDS: u64 = 10;
/// The time that a command may take, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time after which a command that follows is interrupted.
const FOLLOWED: Duration = Duration::from_millis(700);
/// The greatest number of bytes of stdout that are kept.
const MAX_KEPT: u64 = 64 << 20;

/// The result of a command.
#[derive(Debug)]
pub struct Ran {
    /// The exit status; `None` if a signal ended the command.
    pub status: Option<i32>,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// Whether the command had to be killed because it did not end.
    pub hung: bool,
    /// The text on stdout.
    pub out: Vec<u8>,
    /// The text on stderr.
    pub err: Vec<u8>,
    /// The files that are new or have become longer, with their growth in bytes.
    pub written: BTreeMap<PathBuf, u64>,
}

impl Ran {
    /// Returns the number of bytes that were written in all.
    pub fn bytes(&self) -> u64 {
        self.out.len() as u64 + self.written.values().sum::<u64>()
    }
}

/// A place where inputs are made and commands are run, one after the other.
pub struct Place {
    directory: tempfile::TempDir,
    /// A process that commands are pointed at, and must not harm.
    bystander: Child,
}

/// The content of the file that lies beside the input.
const BESIDE: &[u8] = b"somebody's own\n";

impl Place {
    pub fn new() -> Place {
        let owner_only = fs::Permissions::from_mode(0o700);
        let directory = tempfile::Builder::new()
            .prefix("fuzz-")
            .permissions(owner_only)
            .tempdir_in(support::memory())
            .expect("a directory");
        let bystander = Command::new("sleep").arg("100000").spawn().expect("a process");
        Place { directory, bystander }
    }

    /// Returns the directory in which the input is.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("input")
    }

    fn beside(&self) -> PathBuf {
        self.directory.path().join("scenario.trace.1")
    }

    /// Makes the input anew and runs `line` on it. The first words of the command are `program`.
    pub fn run(&self, program: &[&str], files: &[File], line: &[String]) -> Ran {
        let root = self.root();
        let _ = fs::remove_dir_all(&root);
        for name in ["home", "tmp", "here"] {
            fs::create_dir_all(root.join(name)).expect("a directory");
        }
        bases::write(files, &root).expect("the input can be written");
        fs::write(self.beside(), BESIDE).expect("a file");
        if line.first().is_some_and(|word| word == "run") {
            let app = bases::app(&root);
            fs::write(&app, "#!/bin/sh\nexit 0\n").expect("a program");
            fs::set_permissions(&app, PermissionsExt::from_mode(0o700)).expect("a change of mode");
        }
        let before = sizes(&root);
        let mut child = self.command(program, &root, line).spawn().expect("the command starts");
        let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
        let hung = !ends(&mut child, follows(line));
        let status = child.wait().expect("its end");
        let (out, err) = (out.join().expect("no panic"), err.join().expect("no panic"));
        let written = sizes(&root).into_iter().filter_map(|(path, size)| {
            let grown = size.saturating_sub(before.get(&path).copied().unwrap_or(0));
            (grown > 0 || !before.contains_key(&path)).then_some((path, grown))
        });
        Ran { status: status.code(), signal: status.signal(), hung, out, err, written: written.collect() }
    }

    fn command(&self, program: &[&str], root: &Path, line: &[String]) -> Command {
        let mut command = Command::new("sh");
        let limits = format!("ulimit -v {ADDRESSES_KB} && ulimit -t {SECONDS} && exec \"$@\"");
        command.args(["-c", &limits, "sh"]).args(program);
        command.args(placed(line, root, self.bystander.id()));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TRACE")) {
            command.env_remove(name);
        }
        command.env("TRACER_RUNTIME_DIR", root.join(bases::RUNS)).env("HOME", root.join("home"));
        command
            .env("TMPDIR", root.join("tmp"))
            .env("TRACEMERGE_OPEN", "text:true")
            .env("RUST_BACKTRACE", "1");
        command.env_remove("TZ").env_remove("PAGER").current_dir(root.join("here"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // If the tests run in the background of a shell, a command that follows would otherwise ignore the
        // interruption.
        interruptible(&mut command);
        command
    }

    /// Returns a description of harm outside of the input; `None` if there is none.
    pub fn describe_outside_harm(&mut self) -> Option<String> {
        let content = fs::read(self.beside()).unwrap_or_default();
        if content != BESIDE {
            return Some(format!(
                "a file beside the input was changed: {:?}",
                String::from_utf8_lossy(&content)
            ));
        }
        let entries = support::names(self.directory.path()).len();
        if entries != 2 {
            return Some(format!("{entries} files are beside the input"));
        }
        let ended = self.bystander.try_wait().expect("a child of this process");
        ended.map(|status| format!("the bystander has ended: {status}"))
    }

    /// Copies the input, as it is before a command, to a directory, with a script that runs the command there.
    pub fn keep(&self, files: &[File], line: &[String], program: &[&str], kept: &Path) {
        let _ = fs::remove_dir_all(kept);
        fs::create_dir_all(kept).expect("a directory");
        bases::write(files, kept).expect("the input can be written");
        let line = placed(line, kept, 1);
        let words = program.iter().copied().chain(line.iter().map(String::as_str));
        let quoted: Vec<String> = words.map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
        let runs = kept.join(bases::RUNS);
        let script = format!(
            "#!/bin/sh\n# It changes the input: copy it first.\nTRACER_RUNTIME_DIR='{}' exec {}\n",
            runs.display(),
            quoted.join(" ")
        );
        fs::write(kept.join("run.sh"), script).expect("a file");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.bystander.kill();
        let _ = self.bystander.wait();
    }
}

/// Reads a stream to its end in a thread, and keeps its first bytes.
fn reader(stream: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    let mut stream = stream.expect("a pipe");
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let _ = stream.by_ref().take(MAX_KEPT).read_to_end(&mut kept);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
        kept
    })
}

/// Waits for the end of a command, and interrupts it if it follows. Returns whether it has ended by itself.
fn ends(child: &mut Child, follows: bool) -> bool {
    let start = Instant::now();
    let mut is_interrupted = !follows;
    loop {
        if child.try_wait().expect("a child of this process").is_some() {
            return true;
        }
        if !is_interrupted && start.elapsed() > FOLLOWED {
            is_interrupted = true;
            let kill = Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status();
            assert!(kill.is_ok());
        }
        if start.elapsed() > PATIENCE {
            child.kill().expect("it lives");
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the length of each file below a directory, holes included.
fn sizes(directory: &Path) -> BTreeMap<PathBuf, u64> {
    let mut sizes = BTreeMap::new();
    let mut directories = vec![directory.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            if found.is_dir() {
                directories.push(path);
            } else {
                sizes.insert(path, found.size());
            }
        }
    }
    sizes
}
