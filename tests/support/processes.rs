//! Processes with which a test communicates, and which it stops and kills; and merges that run in a process of their
//! own.
#![allow(unsafe_code, reason = "signals, and waiting for what std does not wait for")]

use crate::Scenario;
#[cfg(unix)]
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
#[cfg(unix)]
use std::path::Path;
#[cfg(unix)]
use std::process::Command;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// A running program, which is killed when this is dropped.
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    /// Starts the program with pipes to talk through.
    pub fn start(scenario: &mut Scenario) -> Running {
        let command = scenario.command().stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Running { child, stdin, stdout }
    }

    /// Returns the process's id.
    #[cfg(unix)]
    pub fn pid(&self) -> libc::pid_t {
        libc::pid_t::try_from(self.child.id()).expect("a process id")
    }

    /// Returns the next line of the program; panics if the program ends before.
    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a pipe");
        line.strip_suffix('\n').unwrap_or_else(|| panic!("it has ended: {:?}", self.child.try_wait())).into()
    }

    /// Writes a line to the program.
    pub fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().expect("a pipe"), "{line}").expect("it listens");
    }

    /// Sends the program a signal.
    #[cfg(unix)]
    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: the call touches no memory; the process is not reaped yet, so the number is still its own.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }

    /// Waits until the program has stopped or ended, as `what` selects, and does not reap it.
    #[cfg(unix)]
    pub fn wait_without_reaping(&self, what: libc::c_int) {
        // SAFETY: the process is our own child; the result is plain memory.
        let result = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, self.child.id(), &mut info, what | libc::WNOWAIT)
        };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }

    /// Waits for the program's end; returns its status and its last output.
    pub fn wait(mut self) -> (std::process::ExitStatus, String) {
        drop(self.stdin.take());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("a pipe");
        (self.child.wait().expect("its end"), rest)
    }

    /// Kills the program and waits for its end.
    pub fn kill(mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("its end");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The result of a merge.
#[cfg(unix)]
#[derive(Debug)]
pub struct Merged {
    /// The exit status of the command.
    pub status: Option<i32>,
    /// The text that the command wrote to stderr.
    pub stderr: String,
    /// The number of times that the command gave up the processor to wait for something: a merge that waits for a
    /// lock tries a hundred times a second.
    pub waits: i64,
}

/// The least number of waits of a merge that has waited for a lock in vain, which takes ten seconds. Under an
/// emulator, some hundred waits are the emulator's own.
#[cfg(unix)]
pub const MIN_WAITS_OF_TIMEOUT: i64 = 500;

/// Merges the trace of `scenario` as the command does. `command` is the traced program, which can act as the
/// command, or a program that runs it.
#[cfg(unix)]
pub fn merge(scenario: &Scenario, command: &[&OsStr]) -> Merged {
    let (program, args) = command.split_first().expect("a program");
    let mut merge = Command::new(program);
    merge.args(args).arg("merge").arg(scenario.directory.path().join("scenario"));
    merge_with(merge, scenario.runtime.path())
}

#[cfg(unix)]
#[allow(clippy::zombie_processes, reason = "waited for by `wait4`")]
fn merge_with(mut merge: Command, runtime: &Path) -> Merged {
    merge.env("TRACER_RUNTIME_DIR", runtime).stderr(Stdio::piped()).stdin(Stdio::null());
    let mut child = merge.spawn().expect("the merge starts");
    let mut stderr = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("what it said");
    let pid = libc::pid_t::try_from(child.id()).expect("a process id");
    let mut status = 0;
    // SAFETY: the process is our own child; both results are plain memory.
    let waits = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::wait4(pid, &mut status, 0, &mut usage), pid);
        usage.ru_nvcsw
    };
    Merged { status: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)), stderr, waits }
}

#[cfg(unix)]
impl Merged {
    /// Panics with the command's messages unless it wrote a complete trace.
    pub fn succeeded(self) -> Merged {
        assert_eq!(self.status, Some(0), "{}", self.stderr);
        self
    }
}
