//! Programs that are compiled for a test, and the names that the GNU binutils find for their addresses.
#![allow(dead_code, clippy::unwrap_used, reason = "a failure in a test fails it; not all tests use all")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use object::{Object, ObjectSymbol, SymbolKind};
use trace_format::meta::{AddressRange, Between, Module};
use tracemerge::symbols::{Answer, Frame, Lookup, Source, Symbols};

/// The greatest number of checked addresses in functions that are not the program's own.
const FOREIGN: u64 = 1500;

/// A compiled program, in a directory of its own that is removed with it.
pub struct Binary {
    pub path: PathBuf,
    pub directory: tempfile::TempDir,
}

/// Runs a tool; returns its output.
pub fn tool<I: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = I>) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

impl Binary {
    fn compile(compiler: &str, flags: &[&str], output: &str, from: &str) -> Binary {
        let directory = tempfile::tempdir().unwrap();
        // The compiler writes its working directory into the debug information.
        let path = directory.path().canonicalize().unwrap().join(output);
        let status = Command::new(compiler)
            .args(flags)
            .arg(source(from))
            .arg("-o")
            .arg(&path)
            .current_dir(directory.path())
            .output()
            .unwrap_or_else(|error| panic!("{compiler}: {error}"));
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
        Binary { path, directory }
    }

    /// Compiles a program that a test changes: it has debug information, and two languages in one file.
    pub fn small() -> Binary {
        cpp(&["-g", "-O2"])
    }

    /// Makes a copy in the same directory with `objcopy`.
    pub fn objcopy(&self, arguments: &[&str], name: &str) -> PathBuf {
        let copy = self.directory.path().canonicalize().unwrap().join(name);
        let paths = [self.path.as_os_str(), copy.as_os_str()];
        tool("objcopy", arguments.iter().map(OsStr::new).chain(paths));
        copy
    }

    /// Returns the module that a traced process would record for the program, at another address than in the file.
    pub fn module(&self) -> Arc<Module> {
        module(&self.path, &build_id(&self.path))
    }

    /// Compares all addresses of the program's own functions, and some of other functions, with the answers of
    /// `addr2line` for `debug`; returns the differences.
    pub fn differences(&self, symbols: &mut Symbols<'_>, debug: &Path) -> Vec<String> {
        differences(&self.module(), symbols, debug)
    }
}

pub fn differences(module: &Arc<Module>, symbols: &mut Symbols<'_>, debug: &Path) -> Vec<String> {
    let addresses = addresses(debug);
    let expected = addr2line(debug, &addresses);
    assert_eq!(expected.len(), addresses.len());
    let mut differences = Vec::new();
    for (address, expected) in expected {
        let answer = symbols.name(Ok(module), address.wrapping_add(module.bias), Lookup::Code);
        if !is_same(&answer, &expected) {
            differences.push(format!("{address:#x}:\n  {:?}\n  {expected:?}", told(&answer)));
        }
    }
    differences
}

pub const BIAS: u64 = 0x7f00_1234_5000;

pub fn module(path: &Path, build_id: &[u8]) -> Arc<Module> {
    let path = path.as_os_str().as_encoded_bytes().to_vec();
    let range = AddressRange { start: BIAS, end: u64::MAX };
    Arc::new(Module { range, bias: BIAS, build_id: build_id.to_vec(), path, loaded: Between::default() })
}

pub fn rust(name: &str, flags: &[&str]) -> Binary {
    let all = [&["--edition", "2024", "-Clink-arg=-Wl,--build-id"], flags].concat();
    Binary::compile("rustc", &all, name, "names.rs")
}

pub fn cpp(flags: &[&str]) -> Binary {
    Binary::compile("g++", &[&["-Wl,--build-id"], flags].concat(), "names", "names.cpp")
}

pub fn library(flags: &[&str]) -> Binary {
    Binary::compile(
        "cc",
        &[&["-shared", "-fPIC", "-Wl,--build-id"], flags].concat(),
        "libnames.so",
        "names.c",
    )
}

/// Returns the build-id of a file; empty if it has none.
pub fn build_id(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    object::File::parse(&*bytes).unwrap().build_id().unwrap().unwrap_or_default().to_vec()
}

/// Returns the functions that a file defines, from its symbols: first address, length, name.
pub fn functions(path: &Path) -> Vec<(u64, u64, String)> {
    let bytes = fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let defined = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
    defined.map(|symbol| (symbol.address(), symbol.size(), symbol.name().unwrap().to_owned())).collect()
}

/// Returns addresses in functions: all of the program's own functions, and some of the others.
pub fn addresses(path: &Path) -> Vec<u64> {
    let functions = functions(path).into_iter().filter(|(_, size, _)| *size > 0);
    let functions: Vec<_> = functions.map(|(start, size, name)| (start, size, is_own(&name))).collect();
    assert!(!functions.is_empty(), "{}", path.display());
    let foreign: u64 = functions.iter().filter(|(.., own)| !own).map(|(_, size, _)| size).sum();
    let mut addresses = std::collections::BTreeSet::new();
    for (start, size, own) in functions {
        let step = if own { 1 } else { (foreign / FOREIGN).max(1) | 1 };
        // Within one instruction all addresses have the same answer; a step of one checks each.
        addresses.extend((start..start + size).step_by(usize::try_from(step).unwrap()));
    }
    addresses.into_iter().collect()
}

fn is_own(name: &str) -> bool {
    [
        "Account",
        "first_of_two",
        "second_of_two",
        "sorted",
        "inner",
        "shapes",
        "refuse",
        "plain",
        "shown",
        "hidden",
    ]
    .iter()
    .any(|own| name.contains(own))
}

/// Returns the answer of `addr2line` for each address: function, and file with line, the innermost first.
pub fn addr2line(path: &Path, addresses: &[u64]) -> BTreeMap<u64, Vec<(String, String)>> {
    let mut command = Command::new("addr2line");
    command.args(["-C", "-f", "-i", "-a", "-e"]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let asked: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(asked.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut told = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let address = u64::from_str_radix(line.strip_prefix("0x").unwrap(), 16).unwrap();
        let mut frames = Vec::new();
        while let Some(function) = lines.next_if(|line| !line.starts_with("0x")) {
            let place = lines.next().unwrap();
            // The mark is for blocks of one line, which compilers count for profiles.
            let place = place.split(" (discriminator").next().unwrap();
            let place = place.strip_suffix(":0").map_or(place.to_owned(), |file| format!("{file}:?"));
            frames.push((function.to_owned(), place));
        }
        told.insert(address, frames);
    }
    told
}

/// Returns an answer in the form that `addr2line` writes.
pub fn told(answer: &Answer) -> Vec<(String, String)> {
    answer.frames.iter().map(|frame| (frame.to_string(), place(frame))).collect()
}

fn place(frame: &Frame) -> String {
    let file = frame.file.as_deref().unwrap_or("??");
    format!("{file}:{}", frame.line.map_or("?".to_owned(), |line| line.to_string()))
}

fn is_same(answer: &Answer, expected: &[(String, String)]) -> bool {
    let is_same = |(frame, (name, at)): (&Frame, &(String, String))| {
        // Of the names that share an address, `addr2line` prints one. If the debug information has only the last part
        // of the name of an inlined function, `addr2line` prints the symbol around it instead.
        let around =
            answer.outermost().filter(|_| frame.is_inlined && frame.names.iter().all(|own| !has_path(own)));
        let mut names = frame.names.iter().chain(around.map(|outer| &outer.names).into_iter().flatten());
        let has_name = names.any(|own| is_same_name(own, name));
        // Without debug information, it prints the compiler's unit, whose name the linker has recorded, in place of
        // the file.
        let has_no_place = answer.source == Source::SymbolTable && at.ends_with(":?");
        has_name && (has_no_place || place(frame) == *at || is_no_place(at))
    };
    answer.frames.len() == expected.len() && answer.frames.iter().zip(expected).all(is_same)
}

/// Returns whether a place is behind the end of its file: `addr2line` mistakes some files for others (binutils 2.40).
fn is_no_place(place: &str) -> bool {
    let (file, line) = place.rsplit_once(':').unwrap();
    let length = |text: String| text.lines().count();
    file.contains("/tests/programs/")
        && line
            .parse()
            .is_ok_and(|line: usize| fs::read_to_string(file).is_ok_and(|text| length(text) < line))
}

fn is_same_name(own: &str, expected: &str) -> bool {
    let name = without_mark(expected);
    // If debug information has only the last part of a name, each of the two may or may not take the whole one from
    // the symbol table.
    let is_short = !has_path(own) || !has_path(name);
    // `cpp_demangle` writes a return type for constructors in templates, which have none, mistakes the first
    // parameter of constructors that are templates for a return type, and puts spaces in other places.
    let is_of_template = name.contains('<') && (name.ends_with(')') || name.ends_with(") const"));
    own == expected || own == name || ((is_short || is_of_template) && bare(own) == bare(name)) || {
        // It does not know some names of templates at all: then the symbol is printed unchanged.
        own.starts_with("_Z") && without_mark(tool("c++filt", [own]).trim()) == name
    }
}

fn has_path(name: &str) -> bool {
    let name = name.replace("operator()", "operator");
    name.starts_with('<') || name.split(['<', '(']).next().unwrap().contains("::") || name.contains(">::")
}

/// Returns the last part of a name, without parameters.
fn bare(name: &str) -> String {
    let mut depth = 0;
    let mut flat = String::new();
    for letter in name.replace("->", "").chars() {
        depth += i32::from(matches!(letter, '<' | '('));
        if depth == 0 {
            flat.push(letter);
        }
        depth -= i32::from(matches!(letter, '>' | ')'));
    }
    let is_name = |part: &&str| !part.is_empty() && *part != "const";
    let last = flat.rsplit([':', ' ']).find(is_name).unwrap_or_default();
    let name = last.split('{').next().unwrap();
    if last.contains("{closure") { "{closure}".to_owned() } else { name.to_owned() }
}

/// Returns the name without the mark of a part of a function, which names in the debug information do not have.
fn without_mark(name: &str) -> &str {
    let name = name.split(" [clone ").next().unwrap();
    [".cold", ".part.", ".constprop.", ".isra."]
        .iter()
        .fold(name, |name, mark| name.split(mark).next().unwrap())
}
