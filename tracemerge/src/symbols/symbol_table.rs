//! The functions of a file's symbol table, by address.

use std::collections::HashMap;

use object::{
    Object, ObjectSection, ObjectSymbol, SectionFlags, SymbolFlags, SymbolIterator, SymbolKind, elf,
};

use crate::symbols::demangle::demangled;
use crate::symbols::files::Files;
use crate::symbols::indirect_functions::{Jump, jumps};
use crate::symbols::mini_debug;

/// The number of symbols before an address among which the function that contains the address is searched: the nearest
/// symbols may be labels inside of that function.
const NESTING: usize = 64;

/// The greatest number of symbols that are read from one table: more than the largest programs have, and too few to
/// fill the memory.
const MAX_SYMBOLS: usize = 1 << 20;

/// The functions of a file, from its symbol table.
#[derive(Debug, Default)]
pub(super) struct SymbolTable<'f> {
    /// The functions in the order of their first addresses.
    functions: Vec<Function<'f>>,
    /// The base address that is added to relative addresses, because the addresses of a Windows program contain it; 0
    /// on other systems.
    base: u64,
}

#[derive(Debug)]
struct Function<'f> {
    start: u64,
    end: u64,
    /// Whether the symbol states that it is a function and how long the function is. Other symbols are labels: a label
    /// extends up to the next symbol. A function that contains an address takes precedence over a label.
    is_sized: bool,
    /// The rank of the name: of several names for the same address, the best one has the lowest rank.
    rank: u8,
    /// Whether the code is a resolver, which chooses the implementation of the function that has this name.
    is_chooser: bool,
    name: &'f [u8],
}

impl<'f> SymbolTable<'f> {
    /// Reads the symbol table of a file or, if the file has none, its table for the dynamic linker and the compressed
    /// table of the other functions.
    pub(super) fn of(object: &object::File<'f>, files: &'f Files) -> SymbolTable<'f> {
        let mut functions = functions_of(object.symbols(), object);
        if functions.is_empty() {
            functions = functions_of(object.dynamic_symbols(), object);
            if let Some(mini) = mini_debug::unpacked(object, files) {
                functions.extend(functions_of(mini.symbols(), &mini));
            }
        }
        functions.sort_unstable_by_key(|function| {
            (function.start, function.is_sized, function.rank, function.name)
        });
        let mut next = u64::MAX;
        for at in (0..functions.len()).rev() {
            let (start, following) = (functions[at].start, functions.get(at + 1).map(|other| other.start));
            next = following.filter(|other| *other > start).unwrap_or(next);
            if !functions[at].is_sized {
                functions[at].end = functions[at].end.min(next);
            }
        }
        SymbolTable { functions, base: object.relative_address_base() }
    }

    /// Adds the jumps to functions whose implementation is chosen while the program is loaded. `object` must be the
    /// file that was loaded: a separate debug file has no code, and thus no jumps.
    pub(super) fn add_jumps(&mut self, object: &object::File<'f>) {
        let choosers = self.functions.iter().filter(|function| function.is_chooser);
        let choosers: HashMap<u64, &'f [u8]> =
            choosers.map(|function| (function.start, function.name)).collect();
        if choosers.is_empty() {
            return;
        }
        let of_jump = |Jump { start, end, chooser }| {
            let name = *choosers.get(&chooser)?;
            Some(Function { start, end, is_sized: true, rank: 0, is_chooser: false, name })
        };
        let added: Vec<Function<'f>> = jumps(object).into_iter().filter_map(of_jump).collect();
        self.functions.extend(added);
        self.functions.sort_by_key(|function| function.start);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Returns the beginning of the function that contains `address`; `None` if no function contains it. Both addresses
    /// are relative to the file's own base.
    pub(super) fn start(&self, address: u64) -> Option<u64> {
        self.find(address).map(|function| function.start.wrapping_sub(self.base))
    }

    fn find(&self, address: u64) -> Option<&Function<'f>> {
        let address = address.wrapping_add(self.base);
        let before = self.functions.partition_point(|function| function.start <= address);
        let near = &self.functions[before.saturating_sub(NESTING)..before];
        let around = |is_sized| move |f: &&Function<'_>| f.is_sized == is_sized && address < f.end;
        near.iter().rev().find(around(true)).or_else(|| near.iter().rev().find(around(false)))
    }

    /// Returns the demangled names of the function that contains `address`, which is relative to the file's own base:
    /// each name once, the best name first. Returns none if no function contains the address.
    pub(super) fn names(&self, address: u64) -> Vec<String> {
        let Some(found) = self.find(address) else { return Vec::new() };
        let first = self.functions.partition_point(|function| function.start < found.start);
        let same = self.functions[first..].iter().take_while(|other| other.start == found.start);
        let mut names: Vec<String> = Vec::new();
        for other in same.filter(|other| other.is_sized == found.is_sized) {
            let name = demangled(without_version(other.name));
            if !names.contains(&name) {
                names.push(name);
            }
            // No user reads so many names, and each new one is compared with all.
            if names.len() == 256 {
                break;
            }
        }
        names
    }
}

/// Returns the functions among the `symbols` of the file `of`.
fn functions_of<'f>(symbols: SymbolIterator<'f, '_>, of: &object::File<'f>) -> Vec<Function<'f>> {
    let code = code_sections(of);
    symbols.take(MAX_SYMBOLS).filter_map(|symbol| function(&symbol, &code)).collect()
}

/// Returns the index and the end of each section that has code.
fn code_sections(object: &object::File<'_>) -> Vec<(usize, u64)> {
    let has_code = |flags| match flags {
        SectionFlags::Elf { sh_flags } => sh_flags & u64::from(object::elf::SHF_EXECINSTR) != 0,
        SectionFlags::Coff { characteristics } => characteristics & object::pe::IMAGE_SCN_MEM_EXECUTE != 0,
        _ => false,
    };
    let sections = object.sections().filter(|section| has_code(section.flags()));
    let end = |section: &object::Section<'_, '_>| section.address().saturating_add(section.size());
    sections.map(|section| (section.index().0, end(&section))).collect()
}

fn function<'f>(symbol: &object::Symbol<'f, '_>, code: &[(usize, u64)]) -> Option<Function<'f>> {
    let section = symbol.section_index()?.0;
    let name = symbol.name_bytes().ok().filter(|name| !name.is_empty())?;
    let is_function = symbol.kind() == SymbolKind::Text;
    if !is_function && symbol.kind() != SymbolKind::Unknown {
        return None;
    }
    let at = code.binary_search_by_key(&section, |(number, _)| *number).ok()?;
    // The compiler makes such marks between code and data, on ARM and others.
    if name.first() == Some(&b'$') && !is_function {
        return None;
    }
    let (start, size) = (symbol.address(), symbol.size());
    let is_sized = is_function && size > 0;
    let end = if is_sized { start.saturating_add(size) } else { code[at].1 };
    let binding = if symbol.is_local() { 2 } else { u8::from(symbol.is_weak()) };
    let underscores = name.iter().take_while(|byte| **byte == b'_').count().min(9);
    #[expect(clippy::cast_possible_truncation, reason = "at most nine")]
    let rank = binding * 10 + underscores as u8;
    let is_chooser =
        matches!(symbol.flags(), SymbolFlags::Elf { st_info, .. } if st_info & 0xf == elf::STT_GNU_IFUNC);
    Some(Function { start, end, is_sized, rank, is_chooser, name })
}

/// Returns a symbol's name without the version of the library that defines it: `write` for `write@@GLIBC_2.2.5`.
fn without_version(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|byte| *byte == b'@').filter(|at| *at > 0);
    &name[..end.unwrap_or(name.len())]
}
