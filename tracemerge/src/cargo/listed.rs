//! Lists of functions for the compiler. A list gives each function in it an attribute, by which the compiler makes no
//! hooks in the function, or makes room for hooks in it (XRay's *sleds*).
//!
//! With a stable compiler, only a list can treat single functions differently. A list contains the functions' symbols,
//! which are known only after the crate is compiled. So the crate is compiled twice: first to list its functions, and
//! then with the list. Between these two, it is compiled once more, as in the final build, if leaves are to be found:
//! functions that have no hook because they call nothing.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use object::read::archive::ArchiveFile;
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use trace_format::patterns::{Patterns, spellings, without_suffix};

use crate::command::run::exit_code;
use crate::ui::console::Stream;

/// The section of a program that states where its sleds are, the room for hooks in its functions.
pub(super) const SECTION_OF_SLEDS: &str = "xray_instr_map";

/// The attribute that a list gives to the functions in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    /// The functions get room for hooks.
    Sleds,
    /// The functions get no hooks.
    NoHooks,
}

impl Attribute {
    /// Returns the line of a list that gives this attribute to a function.
    pub(super) fn line(self, function: &str) -> String {
        let attribute = match self {
            Attribute::Sleds => "function-instrument=xray-always",
            Attribute::NoHooks => "disable_sanitizer_instrumentation",
        };
        format!("{function},{attribute}\n")
    }
}

/// A directory with a path that can be written in every option of the compiler: LLVM splits its options at spaces, and
/// `rustc` accepts only UTF-8. On Unix, this path names the open directory through `/proc`.
#[derive(Debug)]
pub(super) struct PlainPath {
    path: PathBuf,
    /// The directory, which is kept open because `path` is valid only while the directory is open.
    _directory: Option<File>,
}

impl PlainPath {
    /// Opens the directory at `path`.
    #[cfg(unix)]
    pub(super) fn open(path: &Path) -> io::Result<PlainPath> {
        use std::os::fd::AsRawFd;
        let directory = File::open(path)?;
        // The compiler may be a child of another process, but this one waits for it.
        let path = format!("/proc/{}/fd/{}", std::process::id(), directory.as_raw_fd());
        Ok(PlainPath { path: path.into(), _directory: Some(directory) })
    }

    /// Opens the directory at `path`.
    #[cfg(not(unix))]
    pub(super) fn open(path: &Path) -> io::Result<PlainPath> {
        Ok(PlainPath { path: path.to_owned(), _directory: None })
    }

    /// Returns the path of a file in the directory.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// Returns the arguments that make the compiler read the list of functions in the file `list`, whose path has to be of
/// a [`PlainPath`]. These arguments go before the arguments for hooks, because the compiler's passes run in the order
/// of its arguments.
pub(super) fn arguments(list: &Path) -> [OsString; 2] {
    let mut file = OsString::from("-Cllvm-args=-forceattrs-csv-path=");
    file.push(list);
    // Without optimization the compiler ignores the list unless this pass is named.
    ["-Cpasses=forceattrs".into(), file]
}

/// The choice of functions that get hooks, and of functions that get only room for hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hooks {
    /// All requested functions get room for hooks.
    Dormant,
    /// The requested functions that call something get hooks; the hooks are always called.
    Called,
    /// The requested functions that call something get hooks, as with `Called`; the other requested functions get room
    /// for hooks.
    WithLeaves,
}

/// A crate that is compiled with a list.
#[derive(Debug)]
pub(super) struct ListedCrate<'a> {
    /// The arguments that Cargo gives to the compiler.
    pub words: &'a [OsString],
    /// Further arguments of the compiler, which follow `words` and the arguments for the list.
    pub more: &'a [OsString],
    /// The hooks that the functions get.
    pub hooks: Hooks,
    /// The patterns of the functions that get hooks or room for hooks; `None` if all functions get them.
    pub wanted: Option<&'a Patterns>,
}

impl ListedCrate<'_> {
    /// Compiles the crate with the command that `compiler` returns: first, if necessary, to list its functions, and
    /// finally with the list. Returns the exit status.
    pub(super) fn compile(&self, compiler: impl Fn() -> Command) -> io::Result<u8> {
        // The files of the first compilations stay out of the directories that Cargo and concurrent compilations of
        // other crates read.
        let directory = tempfile::tempdir()?;
        let place = PlainPath::open(directory.path())?;
        let list = place.join("functions");
        let mut lines = String::new();
        if self.hooks == Hooks::Dormant || self.wanted.is_some() {
            // Code that is neither optimized nor linked has all functions, before the compiler inlines any or merges
            // those of equal code. The attribute may prevent both, so that a function is in the program that would
            // not be there otherwise.
            let mut command = compiler();
            command.args(self.elsewhere(&place)).arg("-Cno-prepopulate-passes").args(self.more);
            let functions = match found(&mut command, directory.path(), add_functions)? {
                Ok(functions) => functions,
                Err(status) => return Ok(status),
            };
            let (attribute, is_listed) = match self.hooks {
                Hooks::Dormant => (Attribute::Sleds, true),
                Hooks::Called | Hooks::WithLeaves => (Attribute::NoHooks, false),
            };
            let listed = functions.iter().filter(|function| self.is_wanted(function) == is_listed);
            lines.extend(listed.map(|function| attribute.line(function)));
        }
        fs::write(&list, &lines)?;
        if self.hooks == Hooks::WithLeaves {
            let mut command = compiler();
            command.args(self.elsewhere(&place)).args(arguments(&list)).args(self.more);
            let leaves = match found(&mut command, directory.path(), add_leaves)? {
                Ok(leaves) => leaves,
                Err(status) => return Ok(status),
            };
            let listed = leaves.iter().filter(|function| self.is_wanted(function));
            lines.extend(listed.map(|function| Attribute::Sleds.line(function)));
            fs::write(&list, &lines)?;
        }
        let mut command = compiler();
        command.args(self.words).args(arguments(&list)).args(self.more);
        Ok(exit_code(run_without_remarks(&mut command)?))
    }

    /// Returns whether a function is to have hooks or room for them.
    fn is_wanted(&self, function: &str) -> bool {
        let Some(wanted) = self.wanted else { return true };
        let path = format!("{:#}", rustc_demangle::demangle(function));
        wanted.matches_function(&spellings(without_suffix(&path)))
    }

    /// Returns Cargo's arguments for the compiler with two changes: the compiler writes only object files, and writes
    /// them into the directory `made` in `place`.
    fn elsewhere(&self, place: &PlainPath) -> Vec<OsString> {
        let mut words = self.words.to_vec();
        for at in 0..words.len() {
            let is_kind = words[at].as_encoded_bytes().starts_with(b"--emit=");
            if is_kind {
                words[at] = "--emit=obj".into();
            } else if words[at] == "--out-dir" && at + 1 < words.len() {
                words[at + 1] = place.join("made").into();
            }
        }
        words
    }
}

/// Empties the directory `made` in `place`, runs a compiler that writes its files there, and returns the functions that
/// `add` finds in the files. If the compiler fails, passes its output on and returns its exit status.
fn found(
    compiler: &mut Command,
    place: &Path,
    add: fn(&object::File<'_>, &mut BTreeSet<String>),
) -> io::Result<Result<BTreeSet<String>, u8>> {
    let place = place.join("made");
    match fs::remove_dir_all(&place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir(&place)?,
    }
    let output = compiler.output()?;
    if !output.status.success() {
        Stream::Output.pass_on(&output.stdout)?;
        Stream::Error.pass_on(&output.stderr)?;
        return Ok(Err(exit_code(output.status)));
    }
    let mut functions = BTreeSet::new();
    for entry in fs::read_dir(&place)? {
        for_each_object(&fs::read(entry?.path())?, &mut |file| add(file, &mut functions));
    }
    Ok(Ok(functions))
}

/// Runs the compiler and passes on its messages, except its remarks: the messages that a function of the list is not in
/// the code unit that is compiled.
fn run_without_remarks(command: &mut Command) -> io::Result<ExitStatus> {
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    if let Some(said) = child.stderr.take() {
        for line in BufReader::new(said).split(b'\n') {
            if let Some(mut line) = without_remark(&line?) {
                line.push('\n');
                Stream::Error.pass_on(line.as_bytes())?;
            }
        }
    }
    child.wait()
}

/// The two parts of a remark, the compiler's message that a function of the list does not exist; the number of the
/// function's line in the list is between the parts.
const REMARK: [&str; 2] = ["Function in CSV file at line ", " does not exist."];

/// Returns a line of the compiler's output without its remarks on functions of the list; `None` if the line contains
/// nothing else. Several threads of the compiler write remarks at the same time, so the parts of remarks may be in any
/// order, and before another message of the compiler, which is a JSON object.
fn without_remark(line: &[u8]) -> Option<String> {
    let line = String::from_utf8_lossy(line).into_owned();
    let mut rest = &line[..];
    loop {
        let behind = REMARK.iter().find_map(|part| rest.strip_prefix(part)).unwrap_or(rest);
        let behind = behind.trim_start_matches(|digit: char| digit.is_ascii_digit());
        if behind.len() == rest.len() {
            break;
        }
        rest = behind;
    }
    match rest {
        "" if !line.is_empty() => None,
        said if said.starts_with('{') => Some(said.to_owned()),
        _ => Some(line),
    }
}

/// Calls `take` with each object file in `bytes`, which are an archive of several files or one file.
fn for_each_object(bytes: &[u8], take: &mut dyn FnMut(&object::File<'_>)) {
    if let Ok(archive) = ArchiveFile::parse(bytes) {
        for member in archive.members().flatten() {
            if let Ok(bytes) = member.data(bytes) {
                // A member starts at any offset, but is readable only at an address that is a multiple of 8, as
                // allocations are.
                let aligned = bytes.to_vec();
                for_each_object(&aligned, take);
            }
        }
    } else if let Ok(file) = object::File::parse(bytes) {
        take(&file);
    }
}

/// Returns the symbols of the functions that a file defines.
fn functions_of<'d, 'f>(file: &'f object::File<'d>) -> impl Iterator<Item = object::Symbol<'d, 'f>> {
    file.symbols().filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text)
}

/// Adds to `functions` the symbols of the functions that a file defines.
fn add_functions(file: &object::File<'_>, functions: &mut BTreeSet<String>) {
    functions.extend(functions_of(file).filter_map(|symbol| symbol.name().ok().map(str::to_owned)));
}

/// Adds to `leaves` the symbols of the functions that have no hook. `file` is an object file that is not linked yet.
fn add_leaves(file: &object::File<'_>, leaves: &mut BTreeSet<String>) {
    let is_hook = |relocation: &object::Relocation| {
        let object::RelocationTarget::Symbol(index) = relocation.target() else { return false };
        file.symbol_by_index(index).is_ok_and(|symbol| symbol.name_bytes() == Ok(b"__tsan_func_entry"))
    };
    let hooks: BTreeSet<_> = file
        .sections()
        .flat_map(|section| {
            let places = section.relocations().filter(|(_, relocation)| is_hook(relocation));
            places.map(|(at, _)| (section.index().0, at)).collect::<Vec<_>>()
        })
        .collect();
    let is_leaf = |symbol: &object::Symbol<'_, '_>| {
        let Some(object::SectionIndex(section)) = symbol.section_index() else { return false };
        let (start, end) = (symbol.address(), symbol.address() + symbol.size());
        symbol.size() > 0 && hooks.range((section, start)..(section, end)).next().is_none()
    };
    leaves.extend(
        functions_of(file).filter(is_leaf).filter_map(|symbol| symbol.name().ok().map(str::to_owned)),
    );
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn compiler_remarks_are_removed_even_if_threads_interleave_them() {
        let nothing = [
            "Function in CSV file at line 12 does not exist.",
            "1Function in CSV file at line  does not exist.",
            "5 does not exist.",
            " does not exist.",
            "17",
        ];
        for line in nothing {
            assert_eq!(without_remark(line.as_bytes()), None, "{line}");
        }
        for (line, left) in [
            ("", ""),
            ("warning: 5 does not exist", "warning: 5 does not exist"),
            ("5 | let x = 1;", "5 | let x = 1;"),
            ("Function in CSV file at line 7{\"message\":\"\"}", "{\"message\":\"\"}"),
            ("4{\"message\":\"it does not exist.\"}", "{\"message\":\"it does not exist.\"}"),
        ] {
            assert_eq!(without_remark(line.as_bytes()).as_deref(), Some(left), "{line}");
        }
    }

    #[test]
    fn functions_are_found_at_any_offset_in_an_archive() {
        let program = fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut expected = BTreeSet::new();
        for_each_object(&program, &mut |file| add_functions(file, &mut expected));
        assert!(expected.len() > 1000, "{}", expected.len());
        let header = |name: &str, size: usize| {
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 100_644).into_bytes()
        };
        for before in [0, 2, 4, 6] {
            let mut archive = b"!<arch>\n".to_vec();
            archive.extend(header("first/", before));
            archive.extend(vec![b' '; before]);
            archive.extend(header("second/", program.len()));
            archive.extend(&program);
            let mut found = BTreeSet::new();
            for_each_object(&archive, &mut |file| add_functions(file, &mut found));
            assert!(found == expected, "{before}: {} of {}", found.len(), expected.len());
        }
    }
}
