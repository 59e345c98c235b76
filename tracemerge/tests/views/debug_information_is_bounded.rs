//! A file of some megabytes whose debug information would take gigabytes costs a bounded amount of memory, and its
//! functions have the names of its symbol table.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;
use std::process::Stdio;

use crate::support::{Place, header, run};

/// The number of bytes of memory that a command may take.
const MOST: u64 = 300 << 20;
const CODE: u64 = 0x1000;
const CODE_LENGTH: u64 = 0x1000_0000;

/// A section: its name, type, flags, address and bytes.
type Section = (&'static str, u32, u64, u64, Vec<u8>);

const PROGBITS: u32 = 1;
const COMPRESSED: u64 = 0x800;

/// Returns an ELF file with a function `known` that covers all of its code, and these sections.
fn elf(more: Vec<Section>) -> Vec<u8> {
    let mut symbol = vec![0; 24];
    symbol.extend(1u32.to_le_bytes());
    // This is a global function of the first section.
    symbol.extend([0x12, 0, 1, 0]);
    symbol.extend([CODE, CODE_LENGTH].map(u64::to_le_bytes).concat());
    let mut sections: Vec<Section> = vec![
        (".text", 8, 6, CODE, Vec::new()),
        (".symtab", 2, 0, 0, symbol),
        (".strtab", 3, 0, 0, b"\0known\0".to_vec()),
    ];
    sections.extend(more);
    let mut names = b"\0".to_vec();
    let starts: Vec<u32> = sections
        .iter()
        .map(|section| {
            let start = u32::try_from(names.len()).unwrap();
            names.extend(section.0.bytes().chain([0]));
            start
        })
        .collect();
    let own = u32::try_from(names.len()).unwrap();
    names.extend(b".shstrtab\0");
    sections.push((".shstrtab", 3, 0, 0, names));
    let mut file = vec![0; 64];
    let mut table = vec![0; 64];
    for (number, (name, of, flags, address, bytes)) in sections.iter().enumerate() {
        file.resize(file.len().next_multiple_of(8), 0);
        table.extend(starts.get(number).unwrap_or(&own).to_le_bytes());
        table.extend(of.to_le_bytes());
        let size = if *name == ".text" { CODE_LENGTH } else { bytes.len() as u64 };
        table.extend([*flags, *address, file.len() as u64, size].map(u64::to_le_bytes).concat());
        let (link, info, entry) = if *of == 2 { (3u32, 1u32, 24u64) } else { (0, 0, 0) };
        table.extend([link, info].map(u32::to_le_bytes).concat());
        table.extend([1, entry].map(u64::to_le_bytes).concat());
        file.extend(bytes);
    }
    file.resize(file.len().next_multiple_of(8), 0);
    let at = file.len() as u64;
    file.extend(table);
    let mut head = b"\x7fELF\x02\x01\x01".to_vec();
    head.resize(16, 0);
    head.extend([3u16, 62].map(u16::to_le_bytes).concat());
    head.extend(1u32.to_le_bytes());
    head.extend([CODE, 0, at].map(u64::to_le_bytes).concat());
    head.extend(0u32.to_le_bytes());
    let count = u16::try_from(sections.len() + 1).unwrap();
    head.extend([64u16, 56, 0, 64, count, count - 1].map(u16::to_le_bytes).concat());
    file[..64].copy_from_slice(&head);
    file
}

/// Returns a section that states `said` bytes; decompressed by Zstandard, it has `real` zeros.
fn packed(said: u64, real: u64) -> Vec<u8> {
    let mut bytes = [2u32, 0].map(u32::to_le_bytes).concat();
    bytes.extend([said, 1].map(u64::to_le_bytes).concat());
    // The magic number, a frame with a window of 128 KiB, and blocks of 4 KiB of one byte each.
    bytes.extend([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38]);
    let blocks = real >> 12;
    for number in 0..blocks {
        let head = u32::from(number + 1 == blocks) | 1 << 1 | 4096 << 3;
        bytes.extend(&head.to_le_bytes()[..3]);
        bytes.push(0);
    }
    bytes
}

/// Returns a unit of version 4 with these entries, and a table of abbreviations.
fn unit(entries: &[u8]) -> Vec<u8> {
    let mut unit = u32::try_from(entries.len() + 7).unwrap().to_le_bytes().to_vec();
    unit.extend([4, 0, 0, 0, 0, 0, 8]);
    unit.extend(entries);
    unit
}

/// The abbreviations of a unit with code and a line table, and of functions with ranges.
const ABBREVIATIONS: &[u8] =
    &[1, 0x11, 1, 0x10, 0x17, 0x11, 0x01, 0x12, 0x07, 0, 0, 2, 0x2e, 0, 0x55, 0x17, 0, 0, 0];

fn entry_of_unit() -> Vec<u8> {
    let mut entry = vec![1, 0, 0, 0, 0];
    entry.extend([CODE, CODE_LENGTH].map(u64::to_le_bytes).concat());
    entry
}

fn debug(info: Vec<u8>, more: Vec<Section>) -> Vec<Section> {
    let abbreviations = (".debug_abbrev", PROGBITS, 0, 0, ABBREVIATIONS.to_vec());
    [vec![(".debug_info", PROGBITS, 0, 0, info), abbreviations], more].concat()
}

/// Returns a line table with `rows` rows, each of one byte.
fn lines(rows: usize) -> Vec<u8> {
    let head =
        [&[1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0][..], b"a.c\0\0\0\0\0"].concat();
    let mut rest = u32::try_from(head.len()).unwrap().to_le_bytes().to_vec();
    rest.extend(head);
    rest.extend([0, 9, 2]);
    rest.extend(CODE.to_le_bytes());
    // Each byte moves to the next address, in the same line.
    rest.resize(rest.len() + rows, 32);
    rest.extend([2, 1, 0, 1, 1]);
    let mut table = u32::try_from(rest.len() + 2).unwrap().to_le_bytes().to_vec();
    table.extend([4, 0]);
    table.extend(rest);
    table
}

/// Returns the output and the messages of `tree` for a call in a module that has these sections.
fn tree(sections: Vec<Section>) -> (String, String) {
    let place = Place::new();
    place.write("lib.so", elf(sections));
    let record = |ticks: u64, kind: char, text: &str| format!("{ticks:016x}-{:08} {kind} {text}\n", 9);
    let module = format!(
        "module start={CODE:016x} end={:016x} bias=0000000000000000 build_id= path=\"{}\" after=0 seen=1000",
        CODE + CODE_LENGTH,
        place.path("lib.so").display()
    );
    let lines =
        [record(1000, '#', &module), record(1010, '>', "0x1010"), record(1020, '<', "0x1010")].concat();
    place.write("app.trace.9", [header(&run(5, 1), 9), lines.into_bytes()].concat());
    let (out, err) = (place.path("tmp/out"), place.path("tmp/err"));
    let mut command = place.command();
    command.args(["tree", "app"]).stdin(Stdio::null());
    command.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
    let (status, peak) = crate::support::peak::waited(&mut command.spawn().unwrap());
    let (out, err) = (fs::read_to_string(out).unwrap(), fs::read_to_string(err).unwrap());
    assert!(status.code().is_some_and(|status| status <= 1), "{status}: {err}");
    assert!(peak <= MOST, "{} MiB; {err}", peak >> 20);
    (out, err)
}

/// Checks that a bomb is reported once, and that the name is that of the symbol table.
fn is_refused(sections: Vec<Section>) {
    let (out, err) = tree(sections);
    assert!(out.contains("known (symbol)"), "{out}{err}");
    assert_eq!(err.matches("debug information beyond 128 MiB of memory is not read").count(), 1, "{err}");
}

#[test]
fn debug_information_within_the_limit_is_read() {
    let few =
        debug(unit(&[entry_of_unit(), vec![0]].concat()), vec![(".debug_line", PROGBITS, 0, 0, lines(100))]);
    let (out, err) = tree(few);
    assert!(out.contains("known  (a.c:1)") && !err.contains("memory"), "{out}{err}");
}

#[test]
fn a_section_compressed_a_thousandfold_is_not_unpacked() {
    is_refused(vec![(".debug_info", PROGBITS, COMPRESSED, 0, packed(1 << 30, 1 << 30))]);
}

#[test]
fn a_section_is_not_unpacked_beyond_its_declared_size() {
    let lies = vec![(".debug_info", PROGBITS, COMPRESSED, 0, packed(1 << 20, 4 << 30))];
    let (out, err) = tree(lies);
    assert!(out.contains("known (symbol)"), "{out}{err}");
}

#[test]
fn a_line_table_of_many_rows_is_not_read() {
    let info = unit(&[entry_of_unit(), vec![0]].concat());
    is_refused(debug(info, vec![(".debug_line", PROGBITS, 0, 0, lines(12 << 20))]));
}

#[test]
fn many_units_are_not_opened() {
    is_refused(debug(unit(&[0]).repeat(400_000), Vec::new()));
}

#[test]
fn ranges_shared_by_many_functions_are_not_read_for_each() {
    let functions = [2, 0, 0, 0, 0].repeat(20_000);
    let info = unit(&[entry_of_unit(), functions, vec![0]].concat());
    let pairs = (0..4096u64).flat_map(|at| [CODE + at * 16, CODE + at * 16 + 8].map(u64::to_le_bytes));
    let ranges = [pairs.flatten().collect(), vec![0; 16]].concat();
    let few = vec![(".debug_line", PROGBITS, 0, 0, lines(100)), (".debug_ranges", PROGBITS, 0, 0, ranges)];
    is_refused(debug(info, few));
}
