//! Running commands: a directory and an environment for them, a command with its input, and its output.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::failure::{Named, Result, check, fail};

/// The variables, or with `_` at the end their first parts, that `cargo run` sets for this program only: a build of
/// another program must not see them.
const OF_CARGO_RUN: [&str; 4] = ["LD_LIBRARY_PATH", "CARGO", "CARGO_PKG_", "CARGO_MANIFEST_"];

/// A directory in which commands run, and their environment.
#[derive(Clone)]
pub struct Shell {
    /// The root of this repository.
    pub root: PathBuf,
    pub directory: PathBuf,
    environment: BTreeMap<OsString, OsString>,
}

impl Shell {
    /// Makes a shell in the root of the repository, with the environment of this process.
    pub fn new() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().named("the repository's root")?.to_owned();
        let of_cargo_run = |name: &str| {
            OF_CARGO_RUN.iter().any(|other| name == *other || other.ends_with('_') && name.starts_with(other))
        };
        let all = std::env::vars_os();
        let environment = all.filter(|(name, _)| !name.to_str().is_some_and(of_cargo_run)).collect();
        let mut shell = Self { directory: root.clone(), root, environment };
        for (name, value) in
            [("CARGO_TERM_COLOR", "never"), ("CARGO_INCREMENTAL", "0"), ("LC_ALL", "C.UTF-8")]
        {
            shell.set(name, value);
        }
        Ok(shell)
    }

    /// Returns a shell with the same environment in another directory, whose path may be relative to this shell's
    /// directory.
    pub fn at(&self, directory: impl AsRef<Path>) -> Self {
        Self { directory: self.path(directory), ..self.clone() }
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.join(name)
    }

    pub fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.environment.insert(name.into(), value.as_ref().to_owned());
    }

    pub fn unset(&mut self, name: &str) {
        self.environment.remove(OsStr::new(name));
    }

    pub fn variable(&self, name: &str) -> Option<&OsString> {
        self.environment.get(OsStr::new(name))
    }

    /// Puts a directory before all others in which programs are found.
    pub fn find_first_in(&mut self, directory: &Path) {
        let before = self.variable("PATH").cloned().unwrap_or_default();
        let mut value = directory.as_os_str().to_owned();
        value.push(":");
        value.push(before);
        self.set("PATH", value);
    }

    /// Returns whether a program of this name is found.
    pub fn finds(&self, program: &str) -> bool {
        let directories = self.variable("PATH").cloned().unwrap_or_default();
        std::env::split_paths(&directories).any(|directory| directory.join(program).is_file())
    }

    /// Returns a command made of words without spaces, to which other arguments can be added. If the first word is a
    /// path, it is relative to this shell's directory.
    pub fn command(&self, words: &str) -> Run {
        let mut words = words.split_whitespace();
        let program = words.next().unwrap_or_default();
        self.program(if program.contains('/') { self.path(program).into() } else { program.into() })
            .args(words)
    }

    /// Returns a command that runs `program`.
    pub fn program(&self, program: OsString) -> Run {
        let mut command = Command::new(program);
        command.current_dir(&self.directory).env_clear().envs(&self.environment);
        Run { command, input: Input::Nothing }
    }

    pub fn read(&self, name: impl AsRef<Path>) -> Result<Vec<u8>> {
        let path = self.path(name);
        fs::read(&path).named(format_args!("cannot read {}", path.display()))
    }

    pub fn read_text(&self, name: impl AsRef<Path>) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.read(name)?).into_owned())
    }

    /// Writes a file. Makes the directories on its path that do not exist.
    pub fn write(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<()> {
        let path = self.path(name);
        let made = fs::create_dir_all(path.parent().unwrap_or(&path));
        made.and_then(|()| fs::write(&path, bytes)).named(format_args!("cannot write {}", path.display()))
    }

    pub fn copy(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        self.command("cp -r").arg(self.path(from)).arg(self.path(to)).done().map(drop)
    }

    pub fn remove(&self, directory: impl AsRef<Path>) -> Result<()> {
        self.command("rm -rf").arg(self.path(directory)).done().map(drop)
    }

    /// Returns the files below a directory, in order.
    pub fn files(&self, directory: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
        let directory = self.path(directory);
        let mut found = Vec::new();
        for entry in fs::read_dir(&directory).named(format_args!("cannot read {}", directory.display()))? {
            let path = entry.named(format_args!("cannot read {}", directory.display()))?.path();
            if path.is_symlink() || !path.is_dir() {
                found.push(path)
            } else {
                found.extend(self.files(path)?)
            }
        }
        found.sort();
        Ok(found)
    }

    /// Returns the first file below a directory whose path ends in `end`.
    pub fn file_below(&self, directory: &str, end: &str) -> Result<PathBuf> {
        let found = self.files(directory)?.into_iter().find(|path| path.ends_with(end));
        found.named(format_args!("there is no {end} in {}", self.path(directory).display()))
    }
}

/// The standard input of a command.
enum Input {
    Nothing,
    File(PathBuf),
    Bytes(Vec<u8>),
}

/// A command that can be run.
pub struct Run {
    command: Command,
    input: Input,
}

impl Run {
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(arguments);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn input_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.input = Input::File(path.into());
        self
    }

    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Input::Bytes(bytes.into());
        self
    }

    /// Runs the command to its end, whatever its status is.
    pub fn output(mut self) -> Result<Output> {
        let shown = self.shown();
        let mut bytes = Vec::new();
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(match self.input {
            Input::Nothing => Stdio::null(),
            Input::File(path) => {
                File::open(&path).named(format_args!("cannot read {}", path.display()))?.into()
            }
            Input::Bytes(given) => {
                bytes = given;
                Stdio::piped()
            }
        });
        let mut child = self.command.spawn().named(format_args!("cannot start {shown}"))?;
        let input = child.stdin.take();
        let output = std::thread::scope(|scope| {
            // A program that does not read all of its input ends the pipe.
            scope.spawn(|| input.map(|mut input| input.write_all(&bytes)));
            child.wait_with_output()
        });
        let output = output.named(format_args!("cannot wait for {shown}"))?;
        Ok(Output { status: output.status, stdout: output.stdout, stderr: output.stderr, shown })
    }

    /// Runs the command to its end. Fails with the last lines of its output unless it succeeds.
    pub fn done(self) -> Result<Output> {
        let output = self.output()?;
        check(output.succeeded(), || output.failure())?;
        Ok(output)
    }

    /// Starts the command as a server, which writes its output into the file `log`.
    pub fn start(mut self, log: PathBuf) -> Result<Server> {
        let shown = self.shown();
        let named = || format!("cannot write {}", log.display());
        let file = File::create(&log).named(named())?;
        self.command.stdin(Stdio::null()).stderr(file.try_clone().named(named())?).stdout(file);
        let child = self.command.spawn().named(format_args!("cannot start {shown}"))?;
        Ok(Server { child, log, shown })
    }

    fn shown(&self) -> String {
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args());
        words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
    }
}

/// The output of a command that has ended.
pub struct Output {
    status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    shown: String,
}

impl Output {
    pub fn succeeded(&self) -> bool {
        self.status.success()
    }

    /// Returns the status of the program, if it has ended by itself.
    pub fn status(&self) -> Option<i32> {
        self.status.code()
    }

    /// Returns the words of the command, for a message.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }

    pub fn said(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stderr)
    }

    pub fn first_line(&self) -> String {
        self.text().lines().next().unwrap_or_default().to_owned()
    }

    /// Describes the command, its status and the last lines of its output.
    pub fn failure(&self) -> String {
        let said = if self.stderr.is_empty() { self.text() } else { self.said() };
        format!("{}: {}\n{}", self.shown, self.status, last_lines(&said))
    }
}

/// Returns the last lines of a text, for a message.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// A server that runs until it is interrupted. If it is dropped, it is killed.
pub struct Server {
    child: Child,
    log: PathBuf,
    shown: String,
}

impl Server {
    /// Waits until the server accepts connections at this port. Fails after a minute.
    pub fn accepts(&self, port: u16) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            check(Instant::now() < deadline, || {
                format!("{} does not start: {}", self.shown, self.printed())
            })?;
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Returns the last lines of the server's output so far.
    pub fn printed(&self) -> String {
        last_lines(&String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Interrupts the process `id`, which is the server or a program that it has started. The server must then end with
    /// success.
    pub fn interrupt(mut self, shell: &Shell, id: u32) -> Result<()> {
        shell.command("sh -c").arg(format!("kill -INT {id}")).done()?;
        let status = self.child.wait().named(format_args!("cannot wait for {}", self.shown))?;
        if status.success() {
            Ok(())
        } else {
            fail(format!("{} ends with {status}: {}", self.shown, self.printed()))
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if it has ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Finds a port on which no server listens.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).named("cannot find a free port")?;
    Ok(listener.local_addr().named("cannot find a free port")?.port())
}

/// A new directory for temporary files, which is deleted with them when this is dropped.
pub struct Place(pub PathBuf);

impl Place {
    pub fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("tracer-xtask.{}", std::process::id()));
        fs::create_dir(&path).named(format_args!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Files that remain harm nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}
