//! The symbol tables of the executable and of the loaded shared libraries: names of functions.
//!
//! The files are read anew for each query, which takes a few milliseconds for a large program, and nothing is kept.

#![allow(unsafe_code, reason = "reads the beginning of functions; each argued where it stands")]

use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use std::ptr;

use object::ReadCache;
#[cfg(target_os = "linux")]
use object::{
    Endianness,
    elf::{FileHeader64, SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC},
    read::elf::{FileHeader, SectionHeader, Sym},
};
use trace_format::patterns::{spellings, without_suffix};

#[cfg(target_os = "linux")]
use super::module;
#[cfg(windows)]
use super::pdata as module;

/// Calls `on_function` with the symbol and the range of code of each function of the process that is in a symbol table.
pub(super) fn for_each(mut on_function: impl FnMut(&[u8], Range<usize>)) {
    for (bias, path) in module::loaded() {
        // A module that has no file (the kernel's own module) or a damaged one has no names.
        let _ = read(bias, path, &mut on_function);
    }
}

#[cfg(target_os = "linux")]
fn read(bias: usize, path: PathBuf, on_function: &mut impl FnMut(&[u8], Range<usize>)) -> Option<()> {
    let file = ReadCache::new(File::open(path).ok()?);
    let header = FileHeader64::<Endianness>::parse(&file).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, &file).ok()?;
    let all = sections.symbols(endian, &file, SHT_SYMTAB).ok().filter(|table| !table.is_empty());
    // A stripped file has only the symbols that other files link with.
    let symbols = all.or_else(|| sections.symbols(endian, &file, SHT_DYNSYM).ok())?;
    // This reads all names at once: otherwise each name would be read from the file.
    let names = sections.section(symbols.string_section()).ok()?.data(endian, &file).ok()?;
    for symbol in symbols.symbols() {
        let is_code = [STT_FUNC, STT_GNU_IFUNC].contains(&symbol.st_type());
        if is_code && symbol.st_shndx(endian) != SHN_UNDEF {
            let name = names.get(symbol.st_name(endian) as usize..).unwrap_or_default();
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            let start = bias.wrapping_add(symbol.st_value(endian) as usize);
            on_function(name, start..start.saturating_add(symbol.st_size(endian) as usize));
        }
    }
    Some(())
}

/// Calls `on_function` with the symbol of each function in the symbol table of the file `path`, and with an empty range
/// of code at the function's address, because these symbols have no sizes.
#[cfg(windows)]
fn read(base: usize, path: PathBuf, on_function: &mut impl FnMut(&[u8], Range<usize>)) -> Option<()> {
    use object::read::coff::CoffHeader;
    use object::read::pe::ImageNtHeaders;
    let file = ReadCache::new(File::open(path).ok()?);
    let mut at = object::pe::ImageDosHeader::parse(&file).ok()?.nt_headers_offset().into();
    let (headers, _) = object::pe::ImageNtHeaders64::parse(&file, &mut at).ok()?;
    let sections = headers.sections(&file, at).ok()?;
    let symbols = headers.file_header().symbols(&file).ok()?;
    let names = symbols.strings();
    for (_, symbol) in symbols.iter() {
        use object::read::coff::ImageSymbol;
        let is_code = symbol.derived_type() == object::pe::IMAGE_SYM_DTYPE_FUNCTION;
        let Some(section) = symbol.section().filter(|_| is_code) else { continue };
        let (Ok(name), Ok(section)) = (symbol.name(names), sections.section(section)) else { continue };
        let offset = section.virtual_address.get(object::LittleEndian).wrapping_add(symbol.value());
        let start = base.wrapping_add(offset as usize);
        on_function(name, start..start);
    }
    Some(())
}

/// Returns the names by which a function with this symbol may be called: its path without the compiler's additions, and
/// other spellings of that path.
pub(super) fn names(symbol: &[u8]) -> Vec<String> {
    let Ok(symbol) = std::str::from_utf8(symbol) else { return Vec::new() };
    spellings(without_suffix(&format!("{:#}", rustc_demangle::demangle(symbol))))
}

/// Returns whether a symbol belongs to a function with this name. The name may be the function's path, with or without
/// the compiler's hash, or the last segments of the path.
pub(super) fn has_name(symbol: &[u8], name: &str) -> bool {
    let Ok(symbol) = std::str::from_utf8(symbol) else { return false };
    // Quick: most symbols do not have the last segment's letters.
    let last = name.rsplit("::").next().unwrap_or(name);
    if last.chars().all(char::is_alphanumeric) && !symbol.contains(last) {
        return false;
    }
    let demangled = rustc_demangle::demangle(symbol);
    let path = format!("{demangled:#}");
    spellings(without_suffix(&path)).iter().any(|path| ends_with(path, name))
        || ends_with(&demangled.to_string(), name)
}

/// Returns whether a path is `name`, or ends with the segments of `name`.
fn ends_with(path: &str, name: &str) -> bool {
    path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with("::"))
}

/// Returns `address` unchanged: this library does not know the linker's stubs on aarch64. There, the address of a
/// function leads to a stub only in executables at fixed addresses.
#[cfg(target_arch = "aarch64")]
pub(super) fn resolve_stub(address: usize) -> usize {
    address
}

/// Returns whether a function is nothing but a jump to another one.
#[cfg(target_arch = "aarch64")]
pub(super) fn is_a_jump(function: &Range<usize>) -> bool {
    let instruction =
        bytes(function.start, 4).and_then(|bytes| Some(u32::from_le_bytes(*bytes.first_chunk()?)));
    function.len() <= 4 && instruction.is_some_and(|instruction| instruction >> 26 == 0b00_0101)
}

/// Returns the address of the function to which a linker's stub at `address` jumps; `address` itself if there is no
/// stub.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) fn resolve_stub(address: usize) -> usize {
    let endbr = |at: usize| bytes(at, 4) == Some(b"\xf3\x0f\x1e\xfa");
    let jump = if endbr(address) { address + 4 } else { address };
    let jump = if bytes(jump, 1) == Some(b"\xf2") { jump + 1 } else { jump };
    let Some([0xff, 0x25, offset @ ..]) = bytes(jump, 6) else { return address };
    let offset = offset.try_into().map_or(0, i32::from_le_bytes);
    let slot = (jump + 6).wrapping_add_signed(offset as isize);
    // SAFETY: the instruction is in code whose address is in use as a function's, and it reads this word whenever it
    // is called.
    unsafe { ptr::read_unaligned(ptr::with_exposed_provenance::<usize>(slot)) }
}

/// Returns whether a function is nothing but a jump to another one.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) fn is_a_jump(function: &Range<usize>) -> bool {
    let size = match bytes(function.start, 1) {
        Some(b"\xe9") => 5,
        Some(b"\xeb") => 2,
        _ => return false,
    };
    function.len() <= size
}

/// Returns the `len` bytes of code at `address`; `None` if this is not code of a loaded module.
#[cfg(target_os = "linux")]
fn bytes(address: usize, len: usize) -> Option<&'static [u8]> {
    let module = module::Module::with_code(address)?;
    module.bytes_from(address)?.get(..len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_path_or_its_last_segments() {
        let legacy = b"_ZN8my_crate5parse5value17h0123456789abcdefE";
        for name in
            ["my_crate::parse::value", "parse::value", "value", "my_crate::parse::value::h0123456789abcdef"]
        {
            assert!(has_name(legacy, name), "{name}");
        }
        for name in ["arse::value", "parse", "alue", "other::parse::value", "parse::value::x", ""] {
            assert!(!has_name(legacy, name), "{name}");
        }
    }

    #[test]
    fn names_of_generic_functions_methods_and_parts_are_found() {
        assert!(has_name(b"_RINvNtCs1234_7mycrate3foo3barmE", "foo::bar"));
        // <my_crate::Type as my_crate::Trait>::method, and an inherent method.
        let method = b"_ZN50_$LT$my_crate..Type$u20$as$u20$my_crate..Trait$GT$6method17h0123456789abcdefE";
        for name in ["Type::method", "Trait::method", "method", "<my_crate::Type as my_crate::Trait>::method"]
        {
            assert!(has_name(method, name), "{name}");
        }
        assert!(
            has_name(b"qsort_r", "qsort_r") && has_name(b"sum.part.0", "sum") && has_name(b"sum.cold", "sum")
        );
        assert!(!has_name(b"summary", "sum"));
    }
}
