//! Functions that get an attribute by a list: some have no hooks, or all have room for hooks, XRay's *sleds*.
//!
//! It is the one way in which stable compilers treat single functions in another way. A list has symbols, and which ones a crate
//! has is known when it is compiled. So it is compiled twice: once to see which functions there are, and then with the list.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use object::read::archive::ArchiveFile;
use object::{Object, ObjectSymbol, SymbolKind};
use trace_format::patterns::{Patterns, spellings, without_suffix};

use crate::command::run::exit_code;

/// The section of a program that says where its sleds are.
pub const SECTION_OF_SLEDS: &str = "xray_instr_map";

/// What a list does to the functions that are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// They have room for hooks.
    Sleds,
    /// They get no hooks.
    NoHooks,
}

impl Attribute {
    /// Returns the line of a list for a function.
    pub fn line(self, function: &str) -> String {
        let attribute = match self {
            Attribute::Sleds => "function-instrument=xray-always",
            Attribute::NoHooks => "disable_sanitizer_instrumentation",
        };
        format!("{function},{attribute}\n")
    }

    /// Returns whether a function is in the list where those are wanted that `wanted` means.
    fn is_of(self, function: &str, wanted: &Patterns) -> bool {
        let path = format!("{:#}", rustc_demangle::demangle(function));
        wanted.mean(&spellings(without_suffix(&path))) == (self == Attribute::Sleds)
    }
}

/// Returns the arguments that have the compiler read a list. They stand before those for hooks: passes run in this order.
pub fn arguments(list: &Path) -> [OsString; 2] {
    let mut file = OsString::from("-Cllvm-args=-forceattrs-csv-path=");
    file.push(list);
    // Without optimization the compiler does not look at the list by itself.
    ["-Cpasses=forceattrs".into(), file]
}

/// A crate that is compiled with a list.
#[derive(Debug)]
pub struct Listed<'a> {
    /// What the compiler gets from Cargo.
    pub words: &'a [OsString],
    /// What it gets besides, behind the list.
    pub more: &'a [OsString],
    /// What the list does.
    pub attribute: Attribute,
    /// The functions that have hooks or room for them.
    pub wanted: &'a Patterns,
}

impl Listed<'_> {
    /// Compiles twice with what `compiler` makes, the compiler's command. Returns the exit status.
    pub fn compile(&self, compiler: impl Fn() -> Command) -> io::Result<u8> {
        // Nothing of the first time goes where Cargo looks, or other crates that are compiled meanwhile.
        let place = tempfile::tempdir()?;
        let output = compiler().args(elsewhere(self.words, place.path())).args(self.more).output()?;
        if !output.status.success() {
            io::stdout().write_all(&output.stdout)?;
            io::stderr().write_all(&output.stderr)?;
            return Ok(exit_code(output.status));
        }
        let mut functions = BTreeSet::new();
        for entry in fs::read_dir(place.path())? {
            add_functions(&fs::read(entry?.path())?, &mut functions);
        }
        let listed = functions.iter().filter(|function| self.attribute.is_of(function, self.wanted));
        let list = place.path().join("functions");
        fs::write(&list, listed.map(|function| self.attribute.line(function)).collect::<String>())?;
        let mut command = compiler();
        command.args(self.words).args(arguments(&list)).args(self.more);
        Ok(exit_code(without_remarks(&mut command)?))
    }
}

/// Returns the arguments with another directory for what is made, which is code that is neither optimized nor linked: it has
/// all functions that there are before any is inlined, or merged with another one of the same code. With its attribute, that
/// may become impossible, and a function be there in the end that would not be otherwise.
fn elsewhere(words: &[OsString], place: &Path) -> Vec<OsString> {
    let mut words = words.to_vec();
    for at in 0..words.len() {
        let is_kind = words[at].as_encoded_bytes().starts_with(b"--emit=");
        if is_kind {
            words[at] = "--emit=obj".into();
        } else if words[at] == "--out-dir" && at + 1 < words.len() {
            words[at + 1] = place.into();
        }
    }
    words.push("-Cno-prepopulate-passes".into());
    words
}

/// Runs the compiler and passes on what it says, but for its remark on each function that is in the list and in another unit of
/// code.
fn without_remarks(command: &mut Command) -> io::Result<ExitStatus> {
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    if let Some(said) = child.stderr.take() {
        for line in BufReader::new(said).split(b'\n') {
            if let Some(mut line) = without_remark(&line?) {
                line.push('\n');
                io::stderr().write_all(line.as_bytes())?;
            }
        }
    }
    child.wait()
}

/// The parts of a remark on a function of the list, between which its line's number stands.
const REMARK: [&str; 2] = ["Function in CSV file at line ", " does not exist."];

/// Returns a line of what the compiler says without remarks; `None` where it had nothing else. Several threads remark at the same
/// time, so the parts of remarks may stand in any order, and before what the compiler itself says, which is an object of JSON.
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

/// Adds the functions that a file defines, if it is one of code or an archive of such files.
fn add_functions(bytes: &[u8], functions: &mut BTreeSet<String>) {
    if let Ok(archive) = ArchiveFile::parse(bytes) {
        for member in archive.members().flatten() {
            if let Ok(bytes) = member.data(bytes) {
                // They stand at any offset, and are read only at an address that is a multiple of 8, as allocations have it.
                let aligned = bytes.to_vec();
                add_functions(&aligned, functions);
            }
        }
    } else if let Ok(file) = object::File::parse(bytes) {
        let defined =
            file.symbols().filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text);
        functions.extend(defined.filter_map(|symbol| symbol.name().ok().map(str::to_owned)));
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_left_out_however_threads_have_mixed_them() {
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
    fn functions_are_found_at_each_offset_of_an_archive() {
        let program = fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut expected = BTreeSet::new();
        add_functions(&program, &mut expected);
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
            add_functions(&archive, &mut found);
            assert!(found == expected, "{before}: {} of {}", found.len(), expected.len());
        }
    }
}
