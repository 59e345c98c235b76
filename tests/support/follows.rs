//! `tracemerge --follow` as a process, and its expected output.

use crate::merges::tracemerge;
use crate::{APP, Scenario};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use trace_format::line::{Kind, Line};

/// A running `tracemerge --follow`.
pub struct Follower {
    child: Child,
    /// The directory of the files to which its output and messages go.
    directory: tempfile::TempDir,
}

/// Returns the arguments that name the programs of `scenarios` on a command line.
fn apps(scenarios: &[&Scenario]) -> Vec<String> {
    let app = |scenario: &&Scenario| scenario.directory.path().join(APP);
    scenarios.iter().map(app).map(|path| path.to_str().expect("a path in UTF-8").to_owned()).collect()
}

impl Follower {
    /// Follows the programs of `scenarios`, whose rings are all in the directory of the first one. `program` is the
    /// traced program, which can act as the command, too.
    pub fn start(program: &str, scenarios: &[&Scenario], options: &[&str]) -> Follower {
        let apps = apps(scenarios);
        let apps: Vec<&str> = apps.iter().map(String::as_str).collect();
        Follower::start_with(program, scenarios[0].runtime.path(), &[options, &apps].concat())
    }

    /// Follows the programs as `tracemerge show` does, otherwise as [`Follower::start`].
    pub fn start_showing(program: &str, scenarios: &[&Scenario], options: &[&str]) -> Follower {
        Follower::start_command(program, "show", scenarios, options)
    }

    /// Follows the programs by this subcommand, otherwise as [`Follower::start`].
    pub fn start_command(
        program: &str,
        subcommand: &str,
        scenarios: &[&Scenario],
        options: &[&str],
    ) -> Follower {
        let apps = apps(scenarios);
        let apps: Vec<&str> = apps.iter().map(String::as_str).collect();
        let words = [&[subcommand, "--follow"], options, &apps].concat();
        Follower::start_words(program, scenarios[0].runtime.path(), &words)
    }

    /// Follows the programs as `tracemerge stats` does, and returns when it has found them.
    pub fn start_counting(program: &str, scenarios: &[&Scenario], options: &[&str]) -> Follower {
        let apps = apps(scenarios);
        let apps: Vec<&str> = apps.iter().map(String::as_str).collect();
        let words = [&["stats", "--follow"], options, &apps].concat();
        let follower = Follower::start_words(program, scenarios[0].runtime.path(), &words);
        crate::wait_until(60, "it begins", || follower.said().contains("counted by their text"));
        follower
    }

    /// Starts the command with these words after `--follow`; rings are in `runtime`.
    pub fn start_with(program: &str, runtime: &Path, words: &[&str]) -> Follower {
        Follower::start_words(program, runtime, &[&["--follow"], words].concat())
    }

    fn start_words(program: &str, runtime: &Path, words: &[&str]) -> Follower {
        let directory = tempfile::tempdir().expect("a directory");
        let file = |name: &str| Stdio::from(File::create(directory.path().join(name)).expect("a file"));
        let mut command = tracemerge(program, runtime, words);
        command.env("TZ", "UTC").stdout(file("shown")).stderr(file("said"));
        interruptible(&mut command);
        let child = command.spawn().expect("the command can be run");
        Follower { child, directory }
    }

    fn read(&self, name: &str) -> String {
        let path: PathBuf = self.directory.path().join(name);
        std::fs::read_to_string(path).expect("UTF-8")
    }

    /// Returns the text that the command has shown.
    pub fn shown(&self) -> String {
        self.read("shown")
    }

    /// Returns the text that the command has written to stderr.
    pub fn said(&self) -> String {
        self.read("said")
    }

    /// Returns whether the command has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_some()
    }

    /// Waits for the command's end; returns its status, its output and its messages.
    pub fn ended(mut self) -> (ExitStatus, String, String) {
        let mut status = None;
        crate::wait_until(60, "it ends by itself", || {
            status = self.child.try_wait().expect("its state");
            status.is_some()
        });
        (status.expect("a status"), self.shown(), self.said())
    }

    /// Interrupts the command as Ctrl-C does.
    #[cfg(unix)]
    pub fn interrupt(&self) {
        let pid = libc::pid_t::try_from(self.child.id()).expect("a pid");
        // SAFETY: the call touches no memory.
        #[allow(unsafe_code, reason = "a signal")]
        unsafe {
            libc::kill(pid, libc::SIGINT)
        };
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Merges the traces of these programs up to now with `options`, and returns the result.
pub fn view(program: &str, scenarios: &[&Scenario], options: &[&str]) -> String {
    let apps = apps(scenarios);
    let apps: Vec<&str> = apps.iter().map(String::as_str).collect();
    let args = [&["--all-runs", "-q", "-o", "-"], options, &apps].concat();
    let mut command = tracemerge(program, scenarios[0].runtime.path(), args);
    let output = command.env("TZ", "UTC").output().expect("the merge can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{options:?}: {said}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns the text without the numbers that are unknown before a file exists or before its run has ended: the number of a
/// file, how many files there are, and when the process was seen last.
pub fn without_numbers(text: &str) -> String {
    let is_known = |word: &&str| {
        let number = ["file=", "files=", "seen="].iter().find_map(|key| word.strip_prefix(key));
        !number.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let line = |line: &str| {
        let is_meta = line.contains(" # thread ") || line.contains(" # end ");
        let words = line.split(' ').filter(|word| !is_meta || is_known(word));
        words.collect::<Vec<_>>().join(" ") + "\n"
    };
    text.lines().map(line).collect()
}

/// Panics unless `shown` has the lines of `merged`, and goes back only after a `# late` line. Returns the number of
/// late lines.
pub fn assert_same(shown: &str, merged: &str) -> usize {
    let (shown, merged) = (&without_numbers(shown), &without_numbers(merged));
    let (mut lines, mut last, mut excused, mut late) = (Vec::new(), 0, 0, 0);
    for text in shown.lines() {
        let line = Line::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
        let word = std::str::from_utf8(line.payload).expect("UTF-8");
        if line.kind == Kind::Meta && word.starts_with("late ") {
            let count = word.split(['=', ' ']).nth(2).expect("a count");
            excused = count.parse().expect("a number");
            late += excused;
            continue;
        }
        if excused > 0 {
            excused -= 1;
        } else {
            assert!(line.key.ticks.0 >= last, "ticks go back, unmarked, at {text}");
            last = line.key.ticks.0;
        }
        lines.push(text);
    }
    let mut expected: Vec<&str> = merged.lines().collect();
    lines.sort_unstable();
    expected.sort_unstable();
    let twice: Vec<&[&str]> = lines.windows(2).filter(|two| two[0] == two[1]).take(5).collect();
    let missing: Vec<&&str> =
        expected.iter().filter(|line| lines.binary_search(line).is_err()).take(5).collect();
    let foreign: Vec<&&str> =
        lines.iter().filter(|line| expected.binary_search(line).is_err()).take(5).collect();
    assert!(lines == expected, "twice {twice:#?}, missing {missing:#?}, foreign {foreign:#?}");
    late
}

/// Makes the command end when it is interrupted, even if these tests run in the background: a shell may then ignore
/// the signal, and the command would inherit that.
#[cfg(unix)]
pub fn interruptible(command: &mut Command) {
    let usual = || {
        // SAFETY: the call sets the default action; no memory is touched.
        #[allow(unsafe_code, reason = "a signal")]
        unsafe {
            libc::signal(libc::SIGINT, libc::SIG_DFL)
        };
        Ok(())
    };
    // SAFETY: `signal` is async-signal-safe, and nothing else is called.
    #[allow(unsafe_code, reason = "between fork and exec")]
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(command, usual)
    };
}

/// Does nothing: on this system, the command takes interrupts.
#[cfg(not(unix))]
pub fn interruptible(_: &mut Command) {}
