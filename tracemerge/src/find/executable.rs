//! The properties of a program's file that decide whether and how the library can trace the program.

use std::path::Path;

use object::elf::{DT_NEEDED, DT_SONAME};
use object::read::elf::{Dyn, ElfFile, FileHeader, ProgramHeader};
use object::{Architecture, Endianness, File, Object, ObjectSymbol};

use crate::file::map::Map;
use crate::find::library::{HOOK_OF_C, HOOK_OF_RUST, INSTALLED_NAME};
use crate::os::rights::changes_rights;

/// The hooks that the functions of a program call if gcc or clang has compiled them with `-finstrument-functions`, with
/// `-pg`, and with `-pg -mfentry`, in this order.
const HOOKS: [&[u8]; 3] = [HOOK_OF_C, b"mcount", b"__fentry__"];
/// The section in which a program with dormant hooks (of XRay) lists the places in its functions at which hooks can be
/// switched on.
const SLEDS: &str = "xray_instr_map";
/// The section by which a program that contains the library is recognized: no other program has it.
const NOTE_OF_LIBRARY: &str = ".note.tracer";
/// The prefix of the names by which programs ask for the library as a shared library.
const SHARED_LIBRARY: &str = "libtracer.so";
/// The prefixes of the names of sanitizers' shared libraries, of gcc and of clang.
const RUNTIMES: [&str; 6] =
    ["libasan.so", "libhwasan.so", "liblsan.so", "libtsan.so", "libubsan.so", "libclang_rt."];
/// The function that a program with MemorySanitizer calls first.
const INIT_OF_MEMORY_SANITIZER: &[u8] = b"__msan_init";
/// The prefix of the names of functions that a program with ThreadSanitizer calls when it reads memory.
const CHECK_OF_THREAD_SANITIZER: &[u8] = b"__tsan_read";

/// The properties of a program's file that decide whether and how it can be traced.
#[derive(Debug, Default)]
pub(crate) struct Executable {
    /// The processor for which the executable was compiled, if this program was compiled for another one.
    pub other_processor: Option<&'static str>,
    /// The dynamic linker; `None` if the program is linked statically.
    pub linker: Option<String>,
    /// The names of the libraries that the executable is linked with, in their order.
    pub needed: Vec<String>,
    /// Whether a C compiler has inserted hooks into the executable's functions; dormant hooks count, too.
    pub has_hooks: bool,
    /// Whether the executable contains the tracer's library or is linked with it.
    pub has_library: bool,
    /// Whether the executable was compiled with MemorySanitizer, which requires that all code of a process is compiled
    /// with it.
    pub has_memory_sanitizer: bool,
    /// Whether the executable was compiled with ThreadSanitizer.
    pub has_thread_sanitizer: bool,
    /// Whether the executable contains the hook functions of ThreadSanitizer, or other functions with the same names.
    pub has_own_thread_hooks: bool,
    /// Whether the system gives a process of the executable more rights than its caller has.
    pub changes_rights: bool,
}

impl Executable {
    /// Reads the file; `None` if it is not a program, or cannot be read.
    #[must_use]
    pub(crate) fn read(path: &Path) -> Option<Executable> {
        let bytes = Map::open(path).ok()?;
        let file = File::parse(&*bytes).ok()?;
        let mut read = Executable {
            other_processor: other_processor(&file),
            changes_rights: changes_rights(path),
            ..Executable::default()
        };
        (read.linker, read.needed) = match &file {
            File::Elf64(elf) => (linker(elf), names(elf, DT_NEEDED)),
            File::Elf32(elf) => (linker(elf), names(elf, DT_NEEDED)),
            _ => return Some(read),
        };
        // A program that is linked statically has no dynamic symbols. In its own, a hook is that of the C library.
        let is_static = read.linker.is_none();
        for symbol in file.dynamic_symbols().chain(file.symbols().filter(|_| is_static)) {
            let Ok(name) = symbol.name_bytes() else { continue };
            let is_defined = symbol.is_definition();
            read.has_hooks |= HOOKS.contains(&name) && is_defined == is_static;
            read.has_library |= name == b"tracer_is_enabled";
            read.has_memory_sanitizer |= name == INIT_OF_MEMORY_SANITIZER;
            read.has_thread_sanitizer |= name.starts_with(CHECK_OF_THREAD_SANITIZER);
            read.has_own_thread_hooks |= name == HOOK_OF_RUST && is_defined;
        }
        read.has_hooks |= file.section_by_name(SLEDS).is_some();
        read.has_library |= file.section_by_name(NOTE_OF_LIBRARY).is_some()
            || read.needed.iter().any(|name| name.starts_with(SHARED_LIBRARY) || name == INSTALLED_NAME);
        Some(read)
    }

    /// Returns the names of the sanitizers' runtimes that the executable is linked with.
    pub(crate) fn runtimes(&self) -> impl Iterator<Item = &str> {
        let is_runtime = |name: &&str| RUNTIMES.iter().any(|runtime| name.starts_with(runtime));
        self.needed.iter().map(String::as_str).filter(is_runtime)
    }
}

fn other_processor(file: &File<'_>) -> Option<&'static str> {
    let own = if cfg!(target_arch = "x86_64") { Architecture::X86_64 } else { Architecture::Aarch64 };
    match file.architecture() {
        same if same == own => None,
        Architecture::I386 => Some("32-bit x86"),
        Architecture::X86_64_X32 => Some("x32"),
        Architecture::X86_64 => Some("x86-64"),
        Architecture::Aarch64 => Some("aarch64"),
        Architecture::Arm => Some("32-bit Arm"),
        Architecture::Riscv64 => Some("riscv64"),
        _ => Some("another processor"),
    }
}

fn linker<E: FileHeader<Endian = Endianness>>(elf: &ElfFile<'_, E>) -> Option<String> {
    let endian = elf.endian();
    let path = |header: &E::ProgramHeader| header.interpreter(endian, elf.data()).ok()?;
    let path = elf.elf_program_headers().iter().find_map(path)?;
    Some(String::from_utf8_lossy(path).into_owned())
}

/// Returns the soname of the library at `path`: the name by which programs ask for the library if they are linked with
/// it. Returns `None` if the library has no soname, so that programs ask for the path, or if the file cannot be read as
/// a library.
#[must_use]
pub(crate) fn asked_name(path: &Path) -> Option<String> {
    let bytes = Map::open(path).ok()?;
    let names = match File::parse(&*bytes).ok()? {
        File::Elf64(elf) => names(&elf, DT_SONAME),
        File::Elf32(elf) => names(&elf, DT_SONAME),
        _ => return None,
    };
    names.into_iter().next()
}

/// Returns the texts of the entries with the tag `tag` in a file's dynamic section.
fn names<E: FileHeader<Endian = Endianness>>(elf: &ElfFile<'_, E>, tag: u32) -> Vec<String> {
    let (endian, data, sections) = (elf.endian(), elf.data(), elf.elf_section_table());
    let Ok(Some((dynamic, strings))) = sections.dynamic(endian, data) else { return Vec::new() };
    let Ok(strings) = sections.strings(endian, data, strings) else { return Vec::new() };
    let tagged = dynamic.iter().filter(|entry| entry.tag32(endian) == Some(tag));
    let names = tagged.filter_map(|entry| entry.string(endian, strings).ok());
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}
