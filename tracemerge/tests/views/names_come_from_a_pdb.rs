//! A Windows program whose debug information is in a PDB: its functions, files and lines are those of its source,
//! which is in this file, at the addresses in its table of exports. Reading them needs nothing of Windows.
//!
//! clang and lld make the program.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a failure in a test fails it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::support::programs;
use object::{Object, ObjectSection};
use tempfile::TempDir;
use trace_format::meta::{AddressRange, Between, Module};
use tracemerge::symbols::{Answer, Files, Lookup, Settings, Source, Symbols, Unnamed};

/// The address at which the program is mapped.
const BIAS: u64 = 0x7ff6_0000_0000;

/// The source of the program. Each line that the tests look up has a mark.
const SOURCE: &str = "\
static volatile int sink;
static inline __attribute__((always_inline)) void inlined(int n) {
    sink = n * 3; // MULTIPLIES
}
__declspec(dllexport) __attribute__((noinline)) int first(int n) {
    sink = 1; // FIRST
    inlined(n); // CALLS
    return sink + 1;
}
__declspec(dllexport) int start(void) { // START
    return first(sink) + 1;
}
";

struct Program {
    directory: TempDir,
    path: PathBuf,
    module: Arc<Module>,
}

/// Returns the number of the line of the source that has this mark.
fn line_of(mark: &str) -> u32 {
    let at = SOURCE.lines().position(|line| line.ends_with(&format!("// {mark}")));
    u32::try_from(at.unwrap() + 1).unwrap()
}

impl Program {
    /// Compiles the program, with its PDB beside it.
    fn compiled() -> Program {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("program.exe");
        compile(directory.path());
        let bytes = fs::read(&path).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        let wanted = object.pdb_info().unwrap().unwrap();
        // A process records the build-id of its modules in this form.
        let build_id = [&wanted.guid()[..], &wanted.age().to_le_bytes()].concat();
        let module = Module {
            range: AddressRange { start: BIAS, end: BIAS + 0x10_0000 },
            bias: BIAS,
            build_id,
            loaded: Between::default(),
            path: path.as_os_str().as_encoded_bytes().to_vec(),
        };
        Program { directory, path, module: Arc::new(module) }
    }

    fn pdb(&self) -> PathBuf {
        self.path.with_extension("pdb")
    }

    /// Returns the addresses of the exported function, relative to the file, up to its return.
    fn code_of(&self, name: &str) -> std::ops::Range<u64> {
        let bytes = fs::read(&self.path).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        let exports = object.exports().unwrap();
        let start = exports.iter().find(|export| export.name() == name.as_bytes()).unwrap().address();
        let text = object.section_by_name(".text").unwrap();
        let code = &text.data().unwrap()[usize::try_from(start - text.address()).unwrap()..];
        let length = code.iter().position(|byte| *byte == 0xc3).unwrap() as u64;
        let start = start - object.relative_address_base();
        start..start + length + 1
    }

    fn answers(
        &self,
        settings: Settings,
        addresses: std::ops::Range<u64>,
    ) -> (Vec<Arc<Answer>>, Vec<String>) {
        let files = Files::default();
        let mut symbols = Symbols::new(&files, settings);
        let answers =
            addresses.map(|address| symbols.name(Ok(&self.module), BIAS + address, Lookup::Code)).collect();
        (answers, symbols.take_warnings())
    }
}

fn compile(directory: &Path) {
    let source = directory.join("program.c");
    fs::write(&source, SOURCE).unwrap();
    let mut clang = Command::new("clang");
    clang.args(["--target=x86_64-w64-mingw32", "-O1", "-g", "-gcodeview", "-ffreestanding", "-nostdlib"]);
    clang.args(["-fuse-ld=lld", "-Wl,--entry=start", "-Wl,--pdb=program.pdb", "-o", "program.exe"]);
    clang.arg("program.c").current_dir(directory);
    let output = clang.output().expect("clang runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the names and lines of an answer's frames.
fn told(answer: &Answer) -> Vec<(String, u32)> {
    answer.frames.iter().map(|frame| (frame.to_string(), frame.line.unwrap_or(0))).collect()
}

fn named(name: &str, mark: &str) -> (String, u32) {
    (name.to_owned(), line_of(mark))
}

/// Checks the answers for the functions of the program against its source.
fn agrees(program: &Program, settings: &Settings) {
    for (name, mark) in [("first", "FIRST"), ("start", "START")] {
        let (answers, warnings) = program.answers(settings.clone(), program.code_of(name));
        assert_eq!(warnings, [""; 0]);
        let begins = &answers[0];
        assert_eq!(told(begins), [named(name, mark)]);
        assert_eq!((begins.source, begins.is_verified), (Source::DebugInfo, true));
        let file = begins.frames[0].file.as_deref().unwrap();
        assert!(file.ends_with("program.c"), "{file}");
        assert!(answers.iter().all(|answer| answer.outermost().unwrap().to_string() == name), "{answers:?}");
    }
    // Some code of `first` belongs to the inlined function, which has no code of its own.
    let (answers, _) = program.answers(settings.clone(), program.code_of("first"));
    let inlined = answers.iter().find(|answer| answer.frames.len() == 2).expect("an inlined function");
    assert_eq!(told(inlined), [named("inlined", "MULTIPLIES"), named("first", "CALLS")]);
    assert!(inlined.frames[0].is_inlined && !inlined.frames[1].is_inlined);
}

#[test]
fn names_come_only_from_the_pdb_of_the_program() {
    if programs::lacks(&["clang", "ld.lld"]) {
        return;
    }
    a_pdb_next_to_the_program_or_in_a_given_place_is_read();
    a_pdb_of_another_build_is_not_used();
    a_damaged_pdb_costs_only_names();
}

fn a_pdb_next_to_the_program_or_in_a_given_place_is_read() {
    let program = Program::compiled();
    agrees(&program, &Settings::default());
    let elsewhere = TempDir::new().unwrap();
    fs::rename(program.pdb(), elsewhere.path().join("program.pdb")).unwrap();
    let (answers, _) = program.answers(Settings::default(), program.code_of("first"));
    assert!(matches!(answers[0].source, Source::Nothing(Unnamed::NoSymbols)), "{answers:?}");
    let debug_dirs = vec![elsewhere.path().to_owned()];
    agrees(&program, &Settings { debug_dirs, ..Settings::default() });
}

fn a_pdb_of_another_build_is_not_used() {
    let program = Program::compiled();
    let mut bytes = fs::read(program.pdb()).unwrap();
    let (mut changed, guid) = (0, program.module.build_id[..16].to_vec());
    for at in 0..bytes.len() - guid.len() {
        if bytes[at..].starts_with(&guid) {
            bytes[at] ^= 1;
            changed += 1;
        }
    }
    assert!(changed > 0, "the file says of which build it is");
    fs::write(program.pdb(), bytes).unwrap();
    let (answers, warnings) = program.answers(Settings::default(), program.code_of("first"));
    assert!(answers.iter().all(|answer| answer.frames.is_empty()), "{answers:?}");
    let [warning] = &warnings[..] else { panic!("one warning: {warnings:?}") };
    assert!(warning.contains("program.pdb' is of another build"), "{warning}");
}

fn a_damaged_pdb_costs_only_names() {
    let program = Program::compiled();
    let whole = fs::read(program.pdb()).unwrap();
    let code = program.code_of("first");
    for step in 0..400_usize {
        let mut bytes = whole.clone();
        let at = step * 7919 % bytes.len();
        if step % 4 == 0 {
            bytes.truncate(at);
        } else {
            let end = bytes.len().min(at + 1 + step % 64);
            bytes[at..end].fill(if step % 2 == 0 { 0xff } else { 0 });
        }
        fs::write(program.pdb(), bytes).unwrap();
        let (answers, _) = program.answers(Settings::default(), code.clone());
        assert_eq!(answers.len() as u64, code.end - code.start);
    }
    drop(program.directory);
}
