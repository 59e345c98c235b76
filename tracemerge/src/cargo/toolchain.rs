//! The installed compiler, and whether it can add hooks to the code that it makes.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use object::Object;

use crate::cargo::configuration::Configuration;
use crate::cargo::listed::{self, Attribute, PlainPath};
use crate::cargo::wrapper;
use crate::os::environment::value_of;
use crate::ui::error::Error;
use crate::ui::messages::shown;

/// An installed Rust compiler.
#[derive(Debug)]
pub(super) struct Toolchain {
    /// The compiler's description of its version.
    version: String,
    /// The target triple for which the compiler builds by default.
    pub host: String,
    /// The path or the name of the compiler's program.
    rustc: OsString,
    /// The linker that the user has configured, if any.
    linker: Option<OsString>,
}

impl Toolchain {
    /// Returns the compiler that Cargo would use, and asks it for its version and its target.
    pub(super) fn find(configuration: &Configuration) -> Result<Toolchain, Error> {
        let rustc = configuration.tool("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = output_of(Command::new(&rustc).arg("-vV"))?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let missing =
            "cannot find the target for which the compiler builds: rustc -vV printed no line 'host: '";
        let host = host.ok_or_else(|| Error::plain(missing))?.to_owned();
        let linker = configuration.command(&["target", &host, "linker"], false);
        let linker = linker.and_then(|words| words.into_iter().next());
        Ok(Toolchain { version, host, rustc, linker })
    }

    /// Returns a command that compiles a program of the edition 2021.
    fn compile(&self) -> Command {
        let mut command = Command::new(&self.rustc);
        command.arg("--edition=2021");
        if let Some(linker) = &self.linker {
            let mut argument = OsString::from("-Clinker=");
            argument.push(linker);
            command.arg(argument);
        }
        command
    }

    /// Tests whether hooks are called in a program that the compiler has compiled with hooks. A success is stored in
    /// `place`, and the test is not repeated.
    ///
    /// The compiler's flags for hooks are stable, but the names of the passes in them are not, so only a test shows
    /// what they do in a given compiler.
    pub(super) fn probe(&self, library: &Path, place: &Path) -> Result<(), Error> {
        self.once(place, ("hooks", library, wrapper::HOOKS), |directory| {
            let trial_build = self.trial_build(PROBE, &[], library, directory)?;
            // `main`, and twice the function that panics.
            let why = trial_build.and_then(|called| called.is_at_least(3));
            Ok(why.err().map(|why| {
                format!("hooks: {why}. They are known to work with Rust 1.70 and later on x86-64 and Linux with glibc. To trace chosen functions with any compiler, use tracer::scope() and #[tracer::traced]")
            }))
        })
    }

    /// Tests whether the compiler makes no hooks in a function if a list of functions says so. A success is stored in
    /// `place`, and the test is not repeated.
    pub(super) fn probe_choice(&self, library: &Path, place: &Path) -> Result<(), Error> {
        let line = Attribute::NoHooks.line("left_out");
        self.once(place, ("choice", library, wrapper::HOOKS, &line), |directory| {
            let plain = PlainPath::open(directory).map_err(|error| Error::io("open", directory, error))?;
            let list = plain.join("functions");
            fs::write(&list, &line).map_err(|error| Error::io("write", &list, error))?;
            let trial_build = self.trial_build(PROBE_OF_CHOICE, &listed::arguments(&list), library, directory)?;
            let why = trial_build.and_then(|called| match called.is_at_least(3) {
                Ok(()) if called.entered >= LEFT_OUT => Err("a function that should have no hook has one".to_owned()),
                other => other,
            });
            Ok(why.err().map(|why| {
                format!("hooks in some functions only: {why}. They are known to work with Rust 1.85 and later on x86-64 and Linux with glibc. Without --include and --exclude all functions have hooks, and TRACER_FUNCTIONS chooses the calls that are recorded")
            }))
        })
    }

    /// Returns the compiler's own flag for room for hooks in every function; `None` if the compiler has no such flag.
    /// In both cases, the answer is stored in `place`.
    pub(super) fn flag_of_sleds(&self, place: &Path) -> Option<&'static str> {
        // With this variable, a stable compiler takes flags that are not stable.
        let is_unstable = value_of("RUSTC_BOOTSTRAP");
        let known = self.answer_of(place, ("sleds of the compiler", FLAGS_OF_SLEDS, &is_unstable));
        if let Ok(answer) = fs::read_to_string(&known) {
            return FLAGS_OF_SLEDS.into_iter().find(|flag| *flag == answer);
        }
        let directory = probe_directory(place).ok()?;
        let mut found = None;
        for flag in FLAGS_OF_SLEDS {
            if self.makes_sleds(directory.path(), &[flag.into()]).ok()? {
                found = Some(flag);
                break;
            }
        }
        // If it cannot be kept, it is found again.
        let _ = fs::write(&known, found.unwrap_or_default());
        found
    }

    /// Tests whether the compiler can leave room for hooks in a function if the function is in a list. A success is
    /// stored in `place`, and the test is not repeated.
    pub(super) fn probe_sleds(&self, place: &Path) -> Result<(), Error> {
        let line = Attribute::Sleds.line("probed");
        self.once(place, ("sleds", &line), |directory| {
            let plain = PlainPath::open(directory).map_err(|error| Error::io("open", directory, error))?;
            let list = plain.join("functions");
            fs::write(&list, &line).map_err(|error| Error::io("write", &list, error))?;
            Ok((!self.makes_sleds(directory, &listed::arguments(&list))?).then(|| {
                "dormant hooks. They are known to work with Rust 1.85 and later on x86-64 and Linux with glibc. Without --dormant, functions that call others get hooks that are always called".to_owned()
            }))
        })
    }

    /// Returns whether a program that is compiled with `arguments` has room for hooks.
    fn makes_sleds(&self, directory: &Path, arguments: &[OsString]) -> Result<bool, Error> {
        let output = self.compiled(PROBE_OF_SLEDS, arguments, directory)?;
        let bytes = fs::read(directory.join("probe")).unwrap_or_default();
        let has_sleds = object::File::parse(&*bytes)
            .is_ok_and(|file| file.section_by_name(listed::SECTION_OF_SLEDS).is_some());
        Ok(output.status.success() && has_sleds)
    }

    /// Compiles the source `text` into the program `probe` in `directory`.
    fn compiled(&self, text: &str, arguments: &[OsString], directory: &Path) -> Result<Output, Error> {
        let source = directory.join("probe.rs");
        fs::write(&source, text).map_err(|error| Error::io("write", &source, error))?;
        output_of(self.compile().args(arguments).arg(&source).arg("--out-dir").arg(directory))
    }

    /// Describes the hooks that the compiler can make: a line for each kind of hooks, with the compiler's flags for
    /// them. Tests all of these hooks in `place`.
    pub(super) fn describe(&self, library: &Path, place: &Path) -> Result<String, Error> {
        let compiler = self.version.lines().next().unwrap_or("rustc");
        let mut text = format!("{compiler} for {}\n", self.host);
        let mut add = |what: &str, flags: &str, probed: Result<(), Error>| {
            text.push_str(&match probed {
                Ok(()) => format!("{what:<22}{flags}\n"),
                Err(error) => format!("{what:<22}not possible: {error}\n"),
            });
        };
        let (hooks, lists) = (wrapper::HOOKS.join(" "), "-Cpasses=forceattrs");
        add("always", &hooks, self.probe(library, place));
        add("--include, --exclude", &format!("{lists} {hooks}"), self.probe_choice(library, place));
        let of_lists = self.probe_sleds(place);
        match self.flag_of_sleds(place) {
            Some(flag) => add("--dormant", &format!("{flag} (the compiler's own)"), Ok(())),
            None => add("--dormant", lists, self.probe_sleds(place)),
        }
        add("--leaf", &format!("{lists} {hooks}"), of_lists);
        let accepts = |text: &str, argument: &str| -> Result<bool, Error> {
            let arguments = ["--crate-type=lib", "--emit=metadata", argument].map(OsString::from);
            Ok(self.compiled(text, &arguments, place)?.status.success())
        };
        for flag in FLAGS_OF_MCOUNT {
            if accepts("", flag)? {
                let why = format!("{flag} (tracemerge run traces programs that are built with it)");
                add("not used", &why, Ok(()));
                break;
            }
        }
        if accepts("#![feature(instrument_fn)]", "-Adead-code")? {
            add("not used", "#[instrument_fn] (it would have to be in the source)", Ok(()));
        }
        Ok(text)
    }

    /// Compiles the source `text` with hooks, and runs the program. The compiler gets the arguments `first` before
    /// those for hooks. Returns how many entries and exits of functions the hooks have recorded; or the reason, if the
    /// program could not be compiled or has failed.
    fn trial_build(
        &self,
        text: &str,
        first: &[OsString],
        library: &Path,
        directory: &Path,
    ) -> Result<Result<HookCounts, String>, Error> {
        let hooks = wrapper::HOOKS.map(OsString::from);
        let arguments = [&["-Copt-level=1".into()], first, &hooks, &wrapper::link(library)].concat();
        let output = self.compiled(text, &arguments, directory)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let first = said.lines().find(|line| !line.is_empty());
            return Ok(Err(first.unwrap_or("the compiler failed without a message").to_owned()));
        }
        let (program, traces) = (directory.join("probe"), directory.join("traces"));
        fs::create_dir(&traces).map_err(|error| Error::io("create", &traces, error))?;
        let mut run = Command::new(&program);
        run.env("TRACER_ENABLE", "1").env("TRACER_DIR", &traces).env("TRACER_FORMAT", "text");
        let output = output_of(&mut run)?;
        if output.status.code() == Some(NOT_LOADED) {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Error::plain(format!("a test program with hooks cannot be loaded: {}", said.trim())));
        }
        if !output.status.success() {
            return Ok(Err(format!("the test program ended with {}", output.status)));
        }
        let text = read_all_files(&traces).map_err(|error| Error::io("read", &traces, error))?;
        Ok(Ok(HookCounts {
            entered: text.matches(" > hook ").count(),
            left: text.matches(" < hook ").count(),
        }))
    }

    /// Runs `probe` in a temporary directory. `probe` returns a description of the hooks that the compiler cannot make,
    /// or `None` if it can make them. A success is stored in `place`, so that the same compiler is not tested again for
    /// the same `what`, the subject of the test.
    fn once(
        &self,
        place: &Path,
        what: impl Hash,
        probe: impl FnOnce(&Path) -> Result<Option<String>, Error>,
    ) -> Result<(), Error> {
        let known = self.answer_of(place, what);
        if known.exists() {
            return Ok(());
        }
        let directory = probe_directory(place)?;
        if let Some(refused) = probe(directory.path())? {
            let compiler = self.version.lines().next().unwrap_or("rustc");
            let host = &self.host;
            return Err(Error::plain(format!(
                "{compiler} for {host} cannot compile programs with {refused}"
            )));
        }
        fs::write(&known, &self.version).map_err(|error| Error::io("write", &known, error))
    }

    /// Returns the path of the file in `place` that stores the answer of this compiler to the question `what`.
    fn answer_of(&self, place: &Path, what: impl Hash) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        (&self.version, what).hash(&mut hasher);
        place.join(format!("probed-{:016x}", hasher.finish()))
    }
}

/// Makes a temporary directory in `place` for a probe.
fn probe_directory(place: &Path) -> Result<tempfile::TempDir, Error> {
    fs::create_dir_all(place)
        .and_then(|()| tempfile::tempdir_in(place))
        .map_err(|error| Error::io("create", place, error))
}

/// The flags that make a compiler leave room for hooks, the stable flag first.
const FLAGS_OF_SLEDS: [&str; 2] = ["-Cinstrument-xray=always", "-Zinstrument-xray=always"];
/// The flags that make a compiler insert calls of the hook of `gprof`, the stable flag first.
const FLAGS_OF_MCOUNT: [&str; 2] = ["-Cinstrument-mcount", "-Zinstrument-mcount"];

/// The counts of entries and exits of functions that a program's hooks have recorded.
#[derive(Clone, Copy, Debug)]
struct HookCounts {
    entered: usize,
    left: usize,
}

impl HookCounts {
    /// Checks that at least `least` functions were entered and that every function that was entered was left. The error
    /// states both counts.
    fn is_at_least(self, least: usize) -> Result<(), String> {
        let HookCounts { entered, left } = self;
        if entered < least || entered != left {
            return Err(format!("the hooks of a test program recorded {entered} calls and {left} returns"));
        }
        Ok(())
    }
}

/// A test program with a function, `probed`, that a list of functions can name.
const PROBE_OF_SLEDS: &str = "\
#[no_mangle]
#[inline(never)]
pub extern \"C\" fn probed() {
    println!();
}
fn main() {
    probed();
}
";

/// A test program that shows whether its functions have hooks, and whether a panic that leaves functions calls their
/// exit hooks.
const PROBE: &str = "\
fn main() {
    std::panic::set_hook(Box::new(|_| ()));
    let caught = std::panic::catch_unwind(|| deeper(1));
    if caught.is_ok() { std::process::exit(1) }
}
#[inline(never)]
fn deeper(left: u32) -> u32 {
    if left == 0 { panic!() }
    deeper(std::hint::black_box(left) - 1) + 1
}
";

/// The exit status of a program that could not start because the dynamic linker could not load its libraries.
const NOT_LOADED: i32 = 127;

/// The number of calls that [`PROBE_OF_CHOICE`] makes to the function that must not have hooks.
const LEFT_OUT: usize = 1000;

/// A test program with one function that has hooks, and another one, named in a list, that must not have any.
const PROBE_OF_CHOICE: &str = "\
use std::hint::black_box;
fn main() {
    chosen(2);
    left_out(1000);
}
#[no_mangle]
#[inline(never)]
pub extern \"C\" fn chosen(left: u32) -> u32 {
    if left == 0 { 0 } else { black_box(chosen as extern \"C\" fn(u32) -> u32)(left - 1) + 1 }
}
#[no_mangle]
#[inline(never)]
pub extern \"C\" fn left_out(left: u32) -> u32 {
    if left == 0 { 0 } else { black_box(left_out as extern \"C\" fn(u32) -> u32)(left - 1) + 1 }
}
";

/// Returns the contents of all files of a directory.
fn read_all_files(directory: &Path) -> io::Result<String> {
    let files: io::Result<Vec<PathBuf>> = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect();
    files?.iter().map(fs::read_to_string).collect()
}

/// Runs a command to its end, and returns its output.
pub(super) fn output_of(command: &mut Command) -> Result<Output, Error> {
    command.output().map_err(|error| {
        Error::plain(format!("cannot run {}: {error}", shown(Path::new(command.get_program()))))
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_test_program_that_cannot_be_loaded_shows_the_words_of_the_dynamic_linker() {
        let place = tempfile::tempdir().expect("a directory");
        // A compiler whose programs cannot be loaded.
        let rustc = place.path().join("rustc");
        let script = "#!/bin/sh\nfor directory; do :; done\ncat > \"$directory/probe\" <<'END'\n#!/bin/sh\n\
                      echo 'probe: libx.so: cannot open' >&2; exit 127\nEND\nchmod +x \"$directory/probe\"\n";
        let text = place.path().join("text");
        fs::write(&text, script).expect("it can be written");
        fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).expect("it is a program");
        // A copy that another process makes: a file that this process writes may be open in a process that another test
        // has just started, and no program then.
        assert!(
            Command::new("cp").args(["-p".as_ref(), &*text, &*rustc]).status().expect("it runs").success()
        );
        let (version, host) = ("rustc 1.99.0\n".to_owned(), "this machine".to_owned());
        let toolchain = Toolchain { version, host, rustc: rustc.into(), linker: None };
        let refused = toolchain.probe(Path::new("libx.so"), place.path()).expect_err("it cannot be loaded");
        assert_eq!(
            refused.to_string(),
            "a test program with hooks cannot be loaded: probe: libx.so: cannot open"
        );
    }
}
