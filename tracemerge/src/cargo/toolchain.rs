//! The compiler at hand, and whether the code that it makes can be given hooks.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::cargo::{sleds, wrapper};
use object::Object;

use crate::os::environment::of_cargo;
use crate::ui::error::Error;
use crate::ui::messages::shown;

/// A compiler of Rust.
#[derive(Debug)]
pub struct Toolchain {
    /// What the compiler says of itself.
    version: String,
    /// The system for which it compiles where none is named.
    pub host: String,
}

impl Toolchain {
    /// Asks the compiler that Cargo would use.
    pub fn find() -> Result<Toolchain, Error> {
        let output = output_of(rustc().arg("-vV"))?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.ok_or_else(|| Error::plain("rustc -vV does not name its host"))?.to_owned();
        Ok(Toolchain { version, host })
    }

    /// Tries whether a program that is compiled with hooks calls them. The answer is kept in `place`.
    ///
    /// The flags are stable, but the names of passes that they carry are no promise: what a compiler does with them has to be
    /// tried.
    pub fn probe(&self, library: &Path, place: &Path) -> Result<(), Error> {
        let mut hasher = DefaultHasher::new();
        (&self.version, library, wrapper::HOOKS).hash(&mut hasher);
        let known = place.join(format!("probed-{:016x}", hasher.finish()));
        if known.exists() {
            return Ok(());
        }
        let compiler = self.version.lines().next().unwrap_or("rustc").to_owned();
        let refused = |why: String| {
            Error::plain(format!(
                "the code of {compiler} for {} cannot be given hooks: {why}. It was seen to work with Rust 1.70 and later on x86-64 and Linux with glibc. To trace chosen functions with any compiler there are tracer::scope() and #[tracer::traced]",
                self.host
            ))
        };
        let parent = |error| Error::io("create", place, error);
        fs::create_dir_all(place).map_err(parent)?;
        let directory = tempfile::tempdir_in(place).map_err(parent)?;
        let source = directory.path().join("probe.rs");
        fs::write(&source, PROBE).map_err(|error| Error::io("write", &source, error))?;
        let mut compile = rustc();
        compile.args(["--edition=2021", "-Copt-level=1"]).args(wrapper::HOOKS).args(wrapper::link(library));
        compile.arg(&source).arg("--out-dir").arg(directory.path());
        let output = output_of(&mut compile)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(refused(said.lines().find(|line| !line.is_empty()).unwrap_or("it ended").to_owned()));
        }
        let (program, traces) = (directory.path().join("probe"), directory.path().join("traces"));
        fs::create_dir(&traces).map_err(parent)?;
        let mut run = Command::new(&program);
        run.env("TRACER_ENABLE", "1").env("TRACER_DIR", &traces).env("TRACER_FORMAT", "text");
        let output = output_of(&mut run)?;
        let text = text_in(&traces).map_err(|error| Error::io("read", &traces, error))?;
        let (entered, left) = (text.matches(" > hook ").count(), text.matches(" < hook ").count());
        // `main`, and twice the function that panics.
        if !output.status.success() || entered < 3 || entered != left {
            return Err(refused(format!("a program entered {entered} functions and left {left}")));
        }
        fs::write(&known, &self.version).map_err(|error| Error::io("write", &known, error))
    }
}

impl Toolchain {
    /// Tries whether a program can be compiled with hooks that are dormant. The answer is kept in `place`.
    pub fn probe_sleds(&self, place: &Path) -> Result<(), Error> {
        let mut hasher = DefaultHasher::new();
        (&self.version, sleds::line("")).hash(&mut hasher);
        let known = place.join(format!("probed-sleds-{:016x}", hasher.finish()));
        if known.exists() {
            return Ok(());
        }
        let parent = |error| Error::io("create", place, error);
        fs::create_dir_all(place).map_err(parent)?;
        let directory = tempfile::tempdir().map_err(parent)?;
        let (source, list) = (directory.path().join("probe.rs"), directory.path().join("functions"));
        let write =
            |path: &Path, text: &str| fs::write(path, text).map_err(|error| Error::io("write", path, error));
        write(&source, PROBE_OF_SLEDS)?;
        write(&list, &sleds::line("probed"))?;
        let mut compile = rustc();
        compile.arg("--edition=2021").args(sleds::arguments(&list));
        compile.arg(&source).arg("--out-dir").arg(directory.path());
        let output = output_of(&mut compile)?;
        let program = directory.path().join("probe");
        let bytes = fs::read(program).unwrap_or_default();
        let has_sleds =
            object::File::parse(&*bytes).is_ok_and(|file| file.section_by_name(sleds::SECTION).is_some());
        if !output.status.success() || !has_sleds {
            let compiler = self.version.lines().next().unwrap_or("rustc");
            return Err(Error::plain(format!(
                "the code of {compiler} for {} cannot be given dormant hooks. It was seen to work with Rust 1.85 and later on x86-64 and Linux with glibc. Without --dormant there are hooks that are always called",
                self.host
            )));
        }
        write(&known, &self.version)
    }
}

/// A program whose function can be named in a list.
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

/// A program that says whether its functions have hooks, and whether those that a panic leaves have them.
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

/// Returns all that is in the files of a directory.
fn text_in(directory: &Path) -> io::Result<String> {
    let files: io::Result<Vec<PathBuf>> = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect();
    files?.iter().map(fs::read_to_string).collect()
}

/// Returns the compiler that Cargo uses.
fn rustc() -> Command {
    Command::new(of_cargo("RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// Runs a command to its end.
pub fn output_of(command: &mut Command) -> Result<Output, Error> {
    command.output().map_err(|error| {
        Error::plain(format!("cannot run {}: {error}", shown(Path::new(command.get_program()))))
    })
}
