//! Dormant hooks: clang and rustc can leave room for hooks at the entry and at the exits of each function (the *sleds*
//! of XRay). Until a sled is patched, it is jumped over, or is a plain return. This module patches the sleds at the
//! program's start, if the program is to trace; otherwise a call costs the same as without hooks.
//!
//! A sled has eleven bytes at an even address. The section `xray_instr_map` of a module gives their addresses:
//!
//! | kind | as compiled | patched |
//! |---|---|---|
//! | entry | a jump over the rest | `mov r10d, function`, `call` of the entry's handler |
//! | exit | `ret` | `mov r10d, function`, `jmp` to the exit's handler, which returns |
//! | tail exit, before a jump to another function | a jump over the rest | `mov r10d, function`, `call` of the tail's handler |
//!
//! The handlers are reached through an *island*, a page within two gigabytes of the module, because the patched
//! instructions have no room for a larger distance. Patching is safe while other threads run, because the first two
//! bytes of a sled, which until then lead past its other bytes, are written last and at once. (The layout, and that
//! order, are those of LLVM's own runtime library.)
//!
//! Modules that are loaded later are not patched.

use std::arch::naked_asm;
use std::ffi::{CStr, OsStr, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicU16, Ordering};

use memmap2::Mmap;
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};
use tracer::__foreign as foreign;

use crate::hooks::names_of;

/// A pointer to the function that the dynamic linker calls when it has loaded this library. The number in the section's
/// name makes this call come before the program's own constructors in a static executable, too.
#[used]
#[unsafe(link_section = ".init_array.00001")]
static ON_LOAD: extern "C" fn() = on_load;

extern "C" fn on_load() {
    if foreign::is_tracing_requested() {
        wake();
    }
}

/// Patches the sleds of all loaded modules, once. Reports modules that cannot be patched to the user.
pub fn wake() {
    static WOKEN: Once = Once::new();
    WOKEN.call_once(|| {
        for module in modules() {
            match module.sleds() {
                Ok(sleds) if sleds.is_empty() => {}
                Ok(sleds) => {
                    if let Err(error) = patch(&sleds) {
                        foreign::say(format_args!(
                            "cannot wake the dormant hooks of {:?}: {error}; its functions are not traced",
                            module.path
                        ));
                    }
                }
                // A module without a file, such as the kernel's own, has no sleds.
                Err(_) => {}
            }
        }
    });
}

/// A file that is mapped as code.
struct Module {
    /// The number that is added to an address in the file to get the address in memory.
    bias: usize,
    path: PathBuf,
}

fn modules() -> Vec<Module> {
    unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, modules: *mut c_void) -> c_int {
        // SAFETY: the dynamic linker passes its description of a module, and `modules` is the vector that is given
        // below.
        let (info, modules) = unsafe { (&*info, &mut *modules.cast::<Vec<Module>>()) };
        let name = if info.dlpi_name.is_null() {
            &[][..]
        } else {
            // SAFETY: a string of the dynamic linker.
            unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes()
        };
        // The first one is the executable, which has no name here.
        let is_executable = name.is_empty() && modules.is_empty();
        let path = if is_executable { foreign::executable_file() } else { OsStr::from_bytes(name).into() };
        modules.push(Module { bias: info.dlpi_addr as usize, path });
        0
    }
    let mut modules: Vec<Module> = Vec::new();
    // SAFETY: `add` takes a vector of modules.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut modules).cast()) };
    modules
}

/// A sled of a function: the room for a hook at the function's entry or at one of its exits.
#[derive(Clone, Copy, Debug)]
struct Sled {
    address: usize,
    function: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Entry,
    Exit,
    Tail,
}

/// The number of bytes of a sled.
const SLED: usize = 11;
/// The number of bytes of an entry of `xray_instr_map`: two distances or addresses, the kind, a flag, the version,
/// padding.
const ENTRY: usize = 32;

impl Module {
    /// Reads the module's sleds: none if it has no section `xray_instr_map`.
    fn sleds(&self) -> Result<Vec<Sled>, Box<dyn std::error::Error>> {
        // SAFETY: the file is mapped as code already; a process that truncates it ends this one in any case.
        let file = unsafe { Mmap::map(&File::open(&self.path)?) }?;
        let file = &*file;
        let header = FileHeader64::<Endianness>::parse(file)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, file)?;
        let Some((_, section)) = sections.section_by_name(endian, b"xray_instr_map") else {
            return Ok(Vec::new());
        };
        let at = self.bias + section.sh_addr(endian) as usize;
        let sleds =
            section.data(endian, file)?.chunks_exact(ENTRY).enumerate().filter_map(|(number, entry)| {
                let word = |from: usize| Some(usize::from_le_bytes(*entry.get(from..)?.first_chunk()?));
                let (kind, version) = (entry[16], entry[18]);
                let kind = match kind {
                    0 => Kind::Entry,
                    1 => Kind::Exit,
                    2 => Kind::Tail,
                    // Sleds that log arguments or events are not used here.
                    _ => return None,
                };
                // Up to version 1 the fields are addresses, which the file may leave to the linker; clang has written
                // distances since version 11.
                let field = at + number * ENTRY;
                let [address, function] = [(word(0)?, field), (word(8)?, field + 8)].map(|(word, field)| {
                    if version >= 2 { field.wrapping_add(word) } else { self.bias + word }
                });
                (address % 2 == 0).then_some(Sled { address, function, kind })
            });
        Ok(sleds.collect())
    }
}

/// Patches the sleds of a module, so that they call the hooks.
fn patch(sleds: &[Sled]) -> io::Result<()> {
    let (first, last) = sleds.iter().fold((usize::MAX, 0), |(first, last), sled| {
        (first.min(sled.address).min(sled.function), last.max(sled.address + SLED))
    });
    let base = first & !(PAGE - 1);
    if last - base > u32::MAX as usize {
        return Err(io::Error::other("it has more than four gigabytes of code"));
    }
    let island = Island::near(base..last, base)?;
    let end = last.next_multiple_of(PAGE);
    protect(base, end, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC)?;
    for sled in sleds {
        let target = island.handler_of(sled.kind).wrapping_sub(sled.address + SLED) as u32;
        let instruction = if sled.kind == Kind::Exit { JMP } else { CALL };
        let id = (sled.function - base) as u32;
        let rest = [&id.to_le_bytes()[..], &[instruction], &target.to_le_bytes()].concat();
        // SAFETY: the eleven bytes are a sled by the module's own table, in pages that are writable now. No thread
        // executes these nine: the first two bytes lead past them.
        unsafe {
            ptr::copy_nonoverlapping(rest.as_ptr(), ptr::with_exposed_provenance_mut(sled.address + 2), 9)
        };
        // SAFETY: as above; the address is even. Release: a thread that executes these two finds the others.
        let start = unsafe { AtomicU16::from_ptr(ptr::with_exposed_provenance_mut(sled.address)) };
        start.store(MOV_R10D, Ordering::Release);
    }
    protect(base, end, libc::PROT_READ | libc::PROT_EXEC)
}

/// The first two bytes of `mov r10d, imm32`.
const MOV_R10D: u16 = 0xba41;
const CALL: u8 = 0xe8;
const JMP: u8 = 0xe9;
const PAGE: usize = 4096;

fn protect(start: usize, end: usize, access: c_int) -> io::Result<()> {
    // SAFETY: the pages are the module's code, which stays readable and executable.
    let done = unsafe { libc::mprotect(ptr::with_exposed_provenance_mut(start), end - start, access) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// An island: a page near a module, with instructions that jump to the handlers.
struct Island(usize);

impl Island {
    /// The number of bytes of the instructions that jump to one handler.
    const JUMP_BYTES: usize = 32;
    /// The distance in bytes between the addresses that are tried one after another for the page.
    const STEP: usize = 1 << 20;
    /// The maximum distance in bytes of the page from any of the module's code. Distances in instructions have 32 bits
    /// with a sign; this is a little less than they can express.
    const MAX_DISTANCE: usize = (2 << 30) - (1 << 24);

    /// Maps an island near `code`, and fills it with jumps to the handlers. A sled passes the distance of its function
    /// from `base` in `r10d`; the island adds `base` to it.
    fn near(code: std::ops::Range<usize>, base: usize) -> io::Result<Island> {
        let lowest =
            code.end.saturating_sub(Island::MAX_DISTANCE).next_multiple_of(Island::STEP).max(Island::STEP);
        let highest = code.start + Island::MAX_DISTANCE;
        let below = (1..).map(|step| (code.start & !(PAGE - 1)).wrapping_sub(step * Island::STEP));
        let above = (1..).map(|step| code.end.next_multiple_of(PAGE) + step * Island::STEP);
        let below = below.take_while(|at| (lowest..code.start).contains(at));
        let above = above.take_while(|at| (code.end..highest).contains(at));
        let no_room = || io::Error::other("there is no free memory within two gigabytes of its code");
        let page = below.chain(above).find_map(map_at).ok_or_else(no_room)?;
        let handlers = handlers();
        let bytes: Vec<u8> = handlers.iter().flat_map(|handler| jump_code(base, *handler)).collect();
        // SAFETY: the page is fresh and writable, and longer than the instructions for three handlers.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), ptr::with_exposed_provenance_mut(page), bytes.len());
        }
        protect(page, page + PAGE, libc::PROT_READ | libc::PROT_EXEC)?;
        Ok(Island(page))
    }

    fn handler_of(&self, kind: Kind) -> usize {
        self.0 + kind as usize * Island::JUMP_BYTES
    }
}

/// Returns the instructions that add `base` to `r10` and jump to a handler. They use `r11`, which is free at a
/// function's beginning and end.
fn jump_code(base: usize, handler: usize) -> [u8; Island::JUMP_BYTES] {
    let mut jump_code = [0xcc; Island::JUMP_BYTES];
    // mov r11, base; add r10, r11; mov r11, handler; jmp r11.
    jump_code[..2].copy_from_slice(&[0x49, 0xbb]);
    jump_code[2..10].copy_from_slice(&base.to_le_bytes());
    jump_code[10..15].copy_from_slice(&[0x4d, 0x01, 0xda, 0x49, 0xbb]);
    jump_code[15..23].copy_from_slice(&handler.to_le_bytes());
    jump_code[23..26].copy_from_slice(&[0x41, 0xff, 0xe3]);
    jump_code
}

/// Maps a page at the address `at`, if no other mapping is there.
fn map_at(at: usize) -> Option<usize> {
    // SAFETY: no existing mapping is replaced.
    let page = unsafe {
        libc::mmap(
            ptr::without_provenance_mut(at),
            PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return None;
    }
    if page.addr() != at {
        // Kernels before 4.17 take the address as a hint.
        // SAFETY: mapped just now.
        unsafe { libc::munmap(page, PAGE) };
        return None;
    }
    Some(page.expose_provenance())
}

/// Returns the addresses of the handlers of entries, exits and tail exits. The handlers preserve all registers that may
/// hold values, in the width that vector registers have on this processor.
fn handlers() -> [usize; 3] {
    let handlers: [extern "C" fn(); 3] = if std::arch::is_x86_feature_detected!("avx512f") {
        [enter_512, leave_512, leave_by_jump_512]
    } else if std::arch::is_x86_feature_detected!("avx") {
        [enter_256, leave_256, leave_by_jump_256]
    } else {
        [enter_128, leave_128, leave_by_jump_128]
    };
    handlers.map(|handler| (handler as *const ()).expose_provenance())
}

/// Defines the handlers for one width of vector registers. The parameters are the move instruction, the prefix of the
/// registers' names, and the number of bytes of a register.
///
/// The handlers of entries and tail exits preserve the registers of arguments (`rax` has the number of vector
/// registers). The handlers of exits preserve the registers of results: with LLVM, up to three integers and four
/// vectors. Results in the registers of the x87 are safe as long as no code here computes with them. `r10` has the
/// function. If a handler was called, its stack is aligned; if it was jumped to, the stack is eight bytes off its
/// alignment.
macro_rules! handlers {
    ($enter:ident $leave:ident $leave_by_jump:ident $mov:literal $register:literal $bytes:literal) => {
        #[unsafe(naked)]
        extern "C" fn $enter() {
            handlers!(@call $mov $register $bytes,
                "mov rsi, qword ptr [rsp + 8 * {bytes} + 72]", enter_sled)
        }

        #[unsafe(naked)]
        extern "C" fn $leave_by_jump() {
            handlers!(@call $mov $register $bytes, "", leave_sled)
        }

        #[unsafe(naked)]
        extern "C" fn $leave() {
            naked_asm!(
                "push rax", "push rdx", "push rcx",
                "sub rsp, 4 * {bytes}",
                concat!($mov, " [rsp + 0 * {bytes}], ", $register, "0"),
                concat!($mov, " [rsp + 1 * {bytes}], ", $register, "1"),
                concat!($mov, " [rsp + 2 * {bytes}], ", $register, "2"),
                concat!($mov, " [rsp + 3 * {bytes}], ", $register, "3"),
                "mov rdi, r10",
                "call {hook}",
                concat!($mov, " ", $register, "0, [rsp + 0 * {bytes}]"),
                concat!($mov, " ", $register, "1, [rsp + 1 * {bytes}]"),
                concat!($mov, " ", $register, "2, [rsp + 2 * {bytes}]"),
                concat!($mov, " ", $register, "3, [rsp + 3 * {bytes}]"),
                "add rsp, 4 * {bytes}",
                "pop rcx", "pop rdx", "pop rax",
                "ret",
                bytes = const $bytes,
                hook = sym leave_sled,
            )
        }
    };
    (@call $mov:literal $register:literal $bytes:literal, $call_site:literal, $hook:ident) => {
        naked_asm!(
            "push rax", "push rcx", "push rdx", "push rsi", "push rdi", "push r8", "push r9",
            "sub rsp, 8 * {bytes} + 8",
            concat!($mov, " [rsp + 0 * {bytes}], ", $register, "0"),
            concat!($mov, " [rsp + 1 * {bytes}], ", $register, "1"),
            concat!($mov, " [rsp + 2 * {bytes}], ", $register, "2"),
            concat!($mov, " [rsp + 3 * {bytes}], ", $register, "3"),
            concat!($mov, " [rsp + 4 * {bytes}], ", $register, "4"),
            concat!($mov, " [rsp + 5 * {bytes}], ", $register, "5"),
            concat!($mov, " [rsp + 6 * {bytes}], ", $register, "6"),
            concat!($mov, " [rsp + 7 * {bytes}], ", $register, "7"),
            "mov rdi, r10",
            // Above eight vectors, eight bytes, seven registers and the return address into the sled.
            $call_site,
            "call {hook}",
            concat!($mov, " ", $register, "0, [rsp + 0 * {bytes}]"),
            concat!($mov, " ", $register, "1, [rsp + 1 * {bytes}]"),
            concat!($mov, " ", $register, "2, [rsp + 2 * {bytes}]"),
            concat!($mov, " ", $register, "3, [rsp + 3 * {bytes}]"),
            concat!($mov, " ", $register, "4, [rsp + 4 * {bytes}]"),
            concat!($mov, " ", $register, "5, [rsp + 5 * {bytes}]"),
            concat!($mov, " ", $register, "6, [rsp + 6 * {bytes}]"),
            concat!($mov, " ", $register, "7, [rsp + 7 * {bytes}]"),
            "add rsp, 8 * {bytes} + 8",
            "pop r9", "pop r8", "pop rdi", "pop rsi", "pop rdx", "pop rcx", "pop rax",
            "ret",
            bytes = const $bytes,
            hook = sym $hook,
        )
    };
}

handlers!(enter_128 leave_128 leave_by_jump_128 "movups" "xmm" 16);
handlers!(enter_256 leave_256 leave_by_jump_256 "vmovups" "ymm" 32);
handlers!(enter_512 leave_512 leave_by_jump_512 "vmovups" "zmm" 64);

extern "C" fn enter_sled(function: u64, call_site: u64) {
    foreign::enter_compiled(function, call_site, names_of);
}

extern "C" fn leave_sled(function: u64) {
    foreign::leave_compiled(function, function, names_of);
}
