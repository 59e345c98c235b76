//! The installed library, programs that are compiled with it, and the contents of their traces.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use support::{Scenario, Traced};
use tempfile::TempDir;
use trace_format::function::{FunctionLine, FunctionPlace};
use trace_format::line::{Kind, Line};

/// The libraries with which programs are linked: the path of the installed file, and the name of the file that Cargo
/// has built.
const INSTALLED: [(&str, &str); 2] =
    [("lib/libtracer.so.0", "libtracer_capi.so"), ("lib/libtracer.a", "libtracer_capi.a")];

/// Returns the directory into which Cargo has built the library: that of this test.
fn libraries() -> PathBuf {
    std::env::current_exe().expect("a path").parent().expect("a directory").to_owned()
}

/// Returns a directory in which the library and the commands are as `make install` puts them. A test compares it with
/// `make_installed`: so only that test needs `make`.
pub fn installed() -> &'static Path {
    static PLACE: OnceLock<TempDir> = OnceLock::new();
    let place = PLACE.get_or_init(|| {
        let place = TempDir::new().expect("a directory");
        for directory in ["include", "lib", "bin"] {
            std::fs::create_dir(place.path().join(directory)).expect("a directory");
        }
        let copy = |from: &Path, to: &str| {
            std::fs::copy(from, place.path().join(to)).unwrap_or_else(|e| panic!("{}: {e}", from.display()));
        };
        for (to, built) in INSTALLED {
            copy(&libraries().join(built), to);
        }
        symlink("libtracer.so.0", place.path().join("lib/libtracer.so")).expect("a link");
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("include/tracer.h"), "include/tracer.h");
        let command = libraries().with_file_name("examples").join("tracemerge_of_tests");
        for name in ["bin/tracemerge", "bin/cargo-tracer"] {
            copy(&command, name);
        }
        place
    });
    place.path()
}

/// Installs the library by `make install`, as users do; the result must contain the files that [`installed`] has
/// made.
pub fn make_installed() -> TempDir {
    let place = TempDir::new().expect("a directory");
    let variable = |name: &str, value: &Path| format!("{name}={}", value.display());
    let mut make = Command::new("make");
    make.args(["--silent", "install", "-C", env!("CARGO_MANIFEST_DIR")]);
    make.arg(variable("PREFIX", place.path())).arg(variable("LIBRARIES", &libraries()));
    assert!(make.status().expect("make runs").success());
    for name in ["include/tracer.h", "lib/libtracer.so", "lib/libtracer.so.0", "lib/libtracer.a"] {
        let [one, other] =
            [place.path(), installed()].map(|place| std::fs::read(place.join(name)).expect(name));
        assert!(one == other, "{name} is another one");
    }
    place
}

/// Returns the installed command, for traces whose rings are in `runtime`.
pub fn tracemerge(runtime: &Path) -> Command {
    let mut command = Command::new(installed().join("bin/tracemerge"));
    command.env("TRACER_RUNTIME_DIR", runtime).env_remove("TRACER_ENABLE").env_remove("TRACER_DIR");
    command
}

/// A program that a test has compiled, in a directory of its own.
pub struct Program {
    directory: TempDir,
    /// The path of the program.
    pub path: PathBuf,
}

impl Program {
    /// Compiles `source`, from the folder of the test programs, with these options.
    pub fn compile(compiler: &str, source: &str, options: &[&str]) -> Program {
        let directory = TempDir::new().expect("a directory");
        let name = source.rsplit_once('.').expect("an extension").0;
        let path = directory.path().join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
        let mut command = Command::new(compiler);
        // A source that is both C and C++ is compiled according to the compiler's name.
        let language = if compiler.ends_with("++") { "c++" } else { "c" };
        command.args(["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-x", language]).arg(source);
        command.args(["-x", "none", "-o"]).arg(&path);
        command.arg("-I").arg(installed().join("include")).args(options).args(["-pthread", "-ldl", "-lm"]);
        let output = command.output().unwrap_or_else(|error| panic!("{compiler}: {error}"));
        assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
        Program { directory, path }
    }

    /// Compiles `source` with hooks in all functions, and links it with the shared library.
    pub fn linked(compiler: &str, source: &str) -> Program {
        let library = linking();
        Program::compile(compiler, source, &[&["-finstrument-functions"], &library[..]].concat())
    }

    /// Returns the path of another file in the program's directory.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the scenario of the program, with tracing switched on.
    pub fn scenario(&self, arguments: &[&str]) -> Scenario {
        Scenario::new(&self.path, arguments)
    }

    /// Runs the program, which must succeed, print nothing on stderr, and lose nothing.
    pub fn run(&self, arguments: &[&str]) -> Traced {
        let traced = self.scenario(arguments).run().succeeded();
        assert_eq!(traced.stderr(), "");
        traced.assert_whole();
        traced
    }

    /// Returns the path under which the program's traces are stored in a directory of traces.
    pub fn in_traces(&self, traced: &Traced) -> PathBuf {
        traced.directory.path().join(self.path.file_name().expect("a name"))
    }

    /// Returns the lines of the merged traces, with the names of functions. Nothing may be lost.
    pub fn merged(&self, traced: &Traced) -> Vec<String> {
        let (lines, said) = self.merge(traced);
        let is_usual = |line: &str| line.starts_with("tracemerge: recovered ");
        assert!(said.lines().all(is_usual), "{said}");
        lines
    }

    /// Returns the lines of the merged traces, with the names of functions. Some records may be lost.
    pub fn merged_with_losses(&self, traced: &Traced) -> Vec<String> {
        self.merge(traced).0
    }

    /// Returns the lines of the merged traces, with the names of functions, and the command's messages.
    fn merge(&self, traced: &Traced) -> (Vec<String>, String) {
        let merged = self.beside("merged");
        let mut command = tracemerge(traced.runtime.path());
        command.args(["--quiet", "--symbols", "-o"]).arg(&merged).arg(self.in_traces(traced));
        let output = command.output().expect("it runs");
        let said = String::from_utf8(output.stderr).expect("text");
        let text = std::fs::read_to_string(merged).unwrap_or_else(|error| panic!("{error}: {said}"));
        (text.lines().map(str::to_owned).collect(), said)
    }
}

/// Returns the options that link with the shared library.
pub fn linking() -> [&'static str; 4] {
    static OPTIONS: OnceLock<[String; 2]> = OnceLock::new();
    let [place, run] = OPTIONS.get_or_init(|| {
        let place = installed().join("lib").display().to_string();
        [format!("-L{place}"), format!("-Wl,-rpath,{place}")]
    });
    // Before the C library, which has hooks that do nothing.
    ["-Wl,--no-as-needed", place, run, "-ltracer"]
}

/// Returns the path of the shared library.
pub fn shared_library() -> PathBuf {
    installed().join("lib/libtracer.so.0")
}

/// The calls of functions in the lines of a merge.
#[derive(Debug, Default)]
pub struct Calls {
    /// The number of times that each function was entered, by its name.
    pub entered: BTreeMap<String, u64>,
    /// The number of times that a function was left that was not the one entered last.
    pub not_innermost: u64,
    /// The number of records by which the function that was entered last is left, while no function was open.
    pub of_nothing: u64,
    /// The names of the functions that were never left, by thread, the outermost first.
    pub open: BTreeMap<u64, Vec<String>>,
}

/// Reads the calls of functions in the lines of a merge, in the simplest way.
pub fn calls(lines: &[String]) -> Calls {
    let mut calls = Calls::default();
    for line in lines {
        let line = Line::parse(line.as_bytes()).expect("a line");
        let (Kind::Enter | Kind::Leave) = line.kind else { continue };
        let told = FunctionLine::parse(line.payload).expect("a function");
        let FunctionPlace::Address(_, named) = told.place else { continue };
        let name = String::from_utf8_lossy(named.function).into_owned();
        let name = name.split('(').next().unwrap_or_default().to_owned();
        let open = calls.open.entry(line.key.tid).or_default();
        if line.kind == Kind::Leave && line.payload == b"hook 0x0" {
            calls.of_nothing += u64::from(open.pop().is_none());
        } else if line.kind == Kind::Enter {
            *calls.entered.entry(name.clone()).or_default() += 1;
            open.push(name);
        } else {
            calls.not_innermost += u64::from(open.last() != Some(&name));
            let left = open.iter().rposition(|entered| *entered == name).unwrap_or(open.len());
            open.truncate(left);
        }
    }
    calls
}

/// Returns the counts of calls that a program has printed: lines `called NAME COUNT`, which are added up.
pub fn counted(printed: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in printed.lines().filter_map(|line| line.strip_prefix("called ")) {
        let (name, count) = line.split_once(' ').expect("a name and a count");
        *counts.entry(name.to_owned()).or_default() += count.parse::<u64>().expect("a number");
    }
    counts
}
