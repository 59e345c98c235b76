//! A build whose hooks are dormant: the compiler leaves room for them, XRay's sleds, in each function.
//!
//! Stable compilers take a list of functions for that and no general order. So each crate is compiled twice: once to see
//! which functions there are, and then with the list of them.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use object::read::archive::ArchiveFile;
use object::{Object, ObjectSymbol, SymbolKind};

use crate::command::run::exit_code;

/// The section of a program that says where its sleds are.
pub const SECTION: &str = "xray_instr_map";

/// Returns the arguments that have the compiler leave sleds in the functions of a list.
pub fn arguments(list: &Path) -> [OsString; 2] {
    let mut file = OsString::from("-Cllvm-args=-forceattrs-csv-path=");
    file.push(list);
    // Without optimization the compiler does not look at the list by itself.
    ["-Cpasses=forceattrs".into(), file]
}

/// Returns a line of the list.
pub fn line(function: &str) -> String {
    format!("{function},function-instrument=xray-always\n")
}

/// Compiles twice: `compiler` makes the compiler's command, which gets `words` from Cargo and `more`. Returns the exit status.
pub fn compile(compiler: impl Fn() -> Command, words: &[OsString], more: &[OsString]) -> io::Result<u8> {
    // Nothing of the first time goes where Cargo looks, or other crates that are compiled meanwhile.
    let place = tempfile::tempdir()?;
    let output = compiler().args(elsewhere(words, place.path())).args(more).output()?;
    if !output.status.success() {
        io::stdout().write_all(&output.stdout)?;
        io::stderr().write_all(&output.stderr)?;
        return Ok(exit_code(output.status));
    }
    let mut functions = BTreeSet::new();
    for entry in fs::read_dir(place.path())? {
        add_functions(&fs::read(entry?.path())?, &mut functions);
    }
    let list = place.path().join("functions");
    fs::write(&list, functions.iter().map(|function| line(function)).collect::<String>())?;
    Ok(exit_code(compiler().args(words).args(more).args(arguments(&list)).status()?))
}

/// Returns the arguments with another directory for what is made.
fn elsewhere(words: &[OsString], place: &Path) -> Vec<OsString> {
    let mut words = words.to_vec();
    if let Some(at) = words.iter().position(|word| word == OsStr::new("--out-dir")) {
        if let Some(directory) = words.get_mut(at + 1) {
            *directory = place.into();
        }
    }
    words
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
