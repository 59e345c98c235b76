//! The trampolines to which awaited functions return: code for each slot, and the slots.
//!
//! A function whose return is awaited has the address of a trampoline in place of its return address. The trampoline
//! leads to [`super::returned`], which runs the closures, and then to the original return address.
//!
//! ```text
//!   page of code, 4 KiB                          slots of the page, 32 bytes each
//!   ┌───────────────────────────────┐           ┌──────────────────────────────────┐
//!   │ distance to the page's slots ─┼─────────► │ (not used)                       │
//!   │ 1: mov r11d, 1;  jmp common   │           │ 1: the original return address   │
//!   │ 2: mov r11d, 2;  jmp common   │           │ 2: …                             │
//! ```
//!
//! So code that finds the address of a trampoline on the stack can compute the original return address. The
//! trampolines' entry in the unwind tables does that, and therefore panics, backtraces and debuggers go through them.
//! In that entry the frame of a trampoline ends 8 bytes above the frame of the function that returns to it: unwinders
//! distinguish frames by their ends, and would take the caller for the trampoline if both frames had the same end. No
//! other frame ends there, since ends are aligned to 16 bytes. The end is not 8 bytes below instead, because debuggers
//! stop if frames do not go up. The personality routine of the entry runs the closures in a panic.
#![allow(unsafe_code, reason = "code that the compiler does not write; each argued where it stands")]

use std::arch::{asm, global_asm};
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::Call;
use crate::stack::module::Module;

/// The number of pages of trampolines. Each has [`IN_PAGE`] slots, of which the first is not used.
const PAGES: usize = if cfg!(feature = "hooks") { 64 } else { 16 };
const IN_PAGE: usize = 256;
const PAGE: usize = 4096;

/// The maximum size, in bytes, of the state of the vector registers.
pub(super) const STATE: usize = 2752;

/// 1 if the processor can save the vector registers with `xsave`; 0 if it has only the registers that `fxsave` saves.
pub(super) static HAS_XSAVE: AtomicU8 = AtomicU8::new(0);

/// 1 if `xgetbv` takes the argument 1, with which it reports the parts of the vector registers that are in use;
/// otherwise 0.
pub(super) static HAS_XINUSE: AtomicU8 = AtomicU8::new(0);

global_asm!(
    ".pushsection .text.tracer_on_return,\"ax\",@progbits",
    ".balign 4096",
    // The name is that of this copy of the library: the compiler's for `returned`, with its hash, and a suffix. Only
    // `start` uses it; that may be in another compilation unit, so it cannot be local.
    ".globl {returned}.trampolines",
    ".hidden {returned}.trampolines",
    // So that the static library can be linked into a shared object, whose other symbols may belong to another
    // object.
    ".hidden {slots}",
    ".hidden {has_xsave}",
    ".hidden {has_xinuse}",
    ".type {returned}.trampolines, @function",
    "{returned}.trampolines:",
    ".cfi_startproc simple",
    ".cfi_personality 0x1b, {personality}",
    // The frame ends at rsp + 8; rsp itself stays.
    ".cfi_escape 0x0f, 2, 0x77, 0x08",
    ".cfi_escape 0x16, 7, 2, 0x77, 0x00",
    // The return is at page + *(u32 *)page + (rip & 0xff0) * 2, with page = rip & -4096: `PLACE_OF_RETURN`.
    ".cfi_escape 0x10, 0x10, 19, 0x80,0x00, 0x0b,0x00,0xf0, 0x1a, 0x12, 0x94,0x04, 0x22, \
     0x80,0x00, 0x0a,0xf0,0x0f, 0x1a, 0x31, 0x24, 0x22",
    ".set tracer_on_return_page, 0",
    ".rept {pages}",
    ".long {slots} + tracer_on_return_page * 8192 - .",
    ".balign 16, 0xcc",
    ".set tracer_on_return_slot, 1",
    ".rept 255",
    // mov r11d, slot; jmp common
    ".byte 0x41, 0xbb",
    ".long tracer_on_return_page * 256 + tracer_on_return_slot",
    ".byte 0xe9",
    ".long 7f - . - 4",
    ".balign 16, 0xcc",
    ".set tracer_on_return_slot, tracer_on_return_slot + 1",
    ".endr",
    ".set tracer_on_return_page, tracer_on_return_page + 1",
    ".endr",
    ".cfi_endproc",
    ".size {returned}.trampolines, . - {returned}.trampolines",
    // The target of all trampolines. The return address was right below the stack pointer.
    "7:",
    ".cfi_startproc",
    ".cfi_def_cfa rsp, 0",
    "lea rsp, [rsp - 8]",
    ".cfi_def_cfa rsp, 8",
    "push rbp",
    ".cfi_def_cfa rsp, 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa rbp, 16",
    // All registers that a function may change, because it may return a value in each.
    "push rax",
    "push rdx",
    "push rcx",
    "push rsi",
    "push rdi",
    "push r8",
    "push r9",
    "push r10",
    // Functions that a hook has entered return far more often than others, and after them only the tracer's own code
    // runs, which uses no register of x87. So if the wide parts of the vector registers (AVX, AVX-512) are not in
    // use, all results of such a function are in the registers above, in xmm0 and in xmm1.
    "mov eax, r11d",
    "shl rax, 5",
    "lea rcx, [rip + {slots}]",
    "test byte ptr [rcx + rax + {awaited}], {function}",
    "jz 6f",
    "cmp byte ptr [rip + {has_xinuse}], 0",
    "je 6f",
    "mov ecx, 1",
    "xgetbv",
    "test eax, 0x44",
    "jnz 6f",
    "sub rsp, 32",
    "and rsp, -16",
    "movaps [rsp], xmm0",
    "movaps [rsp + 16], xmm1",
    "mov edi, r11d",
    "lea rsi, [rbp + 8]",
    "call {returned}",
    "movaps xmm0, [rsp]",
    "movaps xmm1, [rsp + 16]",
    "jmp 5f",
    "6:",
    "sub rsp, {state}",
    "and rsp, -64",
    "cmp byte ptr [rip + {has_xsave}], 0",
    "je 2f",
    "xor eax, eax",
    "mov qword ptr [rsp + 512], rax",
    "mov qword ptr [rsp + 520], rax",
    "mov qword ptr [rsp + 528], rax",
    "mov qword ptr [rsp + 536], rax",
    "mov qword ptr [rsp + 544], rax",
    "mov qword ptr [rsp + 552], rax",
    "mov qword ptr [rsp + 560], rax",
    "mov qword ptr [rsp + 568], rax",
    // The x87, SSE, AVX and AVX-512 registers.
    "mov eax, 0xe7",
    "xor edx, edx",
    "xsave64 [rsp]",
    "jmp 3f",
    "2:",
    "fxsave64 [rsp]",
    "3:",
    // The x87 registers of the function may be in use; other functions do not expect that.
    "fninit",
    "mov edi, r11d",
    "lea rsi, [rbp + 8]",
    "call {returned}",
    "cmp byte ptr [rip + {has_xsave}], 0",
    "je 4f",
    "mov eax, 0xe7",
    "xor edx, edx",
    "xrstor64 [rsp]",
    "jmp 5f",
    "4:",
    "fxrstor64 [rsp]",
    "5:",
    "lea rsp, [rbp - 64]",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rcx",
    "pop rdx",
    "pop rax",
    "pop rbp",
    ".cfi_def_cfa rsp, 8",
    ".cfi_restore rbp",
    // A jump, because the processor's own stack of return addresses has already popped the function's.
    "pop r11",
    ".cfi_def_cfa rsp, 0",
    "jmp r11",
    ".cfi_endproc",
    ".popsection",
    personality = sym personality,
    returned = sym super::returned,
    slots = sym SLOTS,
    has_xsave = sym HAS_XSAVE,
    has_xinuse = sym HAS_XINUSE,
    awaited = const offset_of!(Slot, awaited),
    function = const FUNCTION,
    pages = const PAGES,
    state = const STATE,
);

unsafe extern "C" {
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// The data about a function whose return is awaited. Only the thread that has taken a slot uses it, so its fields need
/// no ordering; free slots are handed over by [`FREE`].
#[repr(C)]
pub(super) struct Slot {
    /// The original return address of the function, which the address of the trampoline has replaced. Unwinders read it
    /// here.
    pub(super) caller: AtomicUsize,
    /// The address on the stack at which the function's return address is.
    pub(super) place: AtomicUsize,
    /// The action at the end ([`Awaited`]): a pointer to the closures to be run, the last one first; or twice the
    /// address of a function that a hook has entered, plus [`FUNCTION`]; null if there is no action, or it was done.
    awaited: AtomicPtr<Vec<Call>>,
    /// The number of the next slot on the list that this slot is on; if this slot is free, the number of the next free
    /// slot. 0 if there is no next slot.
    pub(super) below: AtomicU32,
}

const _: () = assert!(size_of::<Slot>() * IN_PAGE == 8192);

/// The bit of [`Slot::awaited`] that distinguishes the address of a function from a pointer to closures.
const FUNCTION: usize = 1;

/// The action of the tracer when a function is left.
pub(super) enum Awaited {
    /// No action is due, or it was done before.
    Nothing,
    /// Closures to be run, the last one first.
    #[allow(clippy::box_collection, reason = "a slot has room for one word")]
    Calls(Box<Vec<Call>>),
    /// The function with this address, which a hook has entered, is to be reported as left.
    Function(u64),
}

impl Slot {
    /// Removes and returns the action at the end of the function.
    pub(super) fn take_awaited(&self) -> Awaited {
        let awaited = self.awaited.swap(ptr::null_mut(), Ordering::Relaxed);
        if awaited.is_null() {
            Awaited::Nothing
        } else if awaited.addr() & FUNCTION != 0 {
            Awaited::Function(awaited.addr() as u64 >> 1)
        } else {
            // SAFETY: a pointer without the bit was made from a box by `set_awaited`, and is taken out once.
            Awaited::Calls(unsafe { Box::from_raw(awaited) })
        }
    }

    /// Sets the action at the end of the function. The slot must have none.
    pub(super) fn set_awaited(&self, awaited: Awaited) {
        let word = match awaited {
            Awaited::Nothing => ptr::null_mut(),
            Awaited::Calls(calls) => Box::into_raw(calls),
            Awaited::Function(address) => ptr::without_provenance_mut((address as usize) << 1 | FUNCTION),
        };
        self.awaited.store(word, Ordering::Relaxed);
    }
}

static SLOTS: [Slot; PAGES * IN_PAGE] = [const {
    Slot {
        caller: AtomicUsize::new(0),
        place: AtomicUsize::new(0),
        awaited: AtomicPtr::new(ptr::null_mut()),
        below: AtomicU32::new(0),
    }
}; PAGES * IN_PAGE];

/// The list of free slots: the lower half is the number of the list's first slot, the upper half is the count of the
/// list's changes so far. Because of the count, a list that was changed is never taken for an unchanged one, even if it
/// has the same first slot again. Acquire and Release: a slot is handed over together with its fields.
static FREE: AtomicU64 = AtomicU64::new(0);
/// The number of the first slot that was never taken.
static FIRST_UNUSED: AtomicU32 = AtomicU32::new(1);

/// The DWARF expression, in the unwind tables' entry for the trampolines, that computes the address at which the
/// original return address is kept.
pub(in crate::stack) const PLACE_OF_RETURN: &[u8] = &[
    0x80, 0x00, 0x0b, 0x00, 0xf0, 0x1a, 0x12, 0x94, 0x04, 0x22, 0x80, 0x00, 0x0a, 0xf0, 0x0f, 0x1a, 0x31,
    0x24, 0x22,
];

/// Evaluates [`PLACE_OF_RETURN`] for the trampoline at `pc` in `module`, and returns the return address that is kept at
/// the resulting address. Returns `None` if that address is not in the module's memory, or if no function is awaited
/// there.
pub(in crate::stack) fn stored_return_address(module: &Module, pc: usize) -> Option<usize> {
    let page = pc & !(PAGE - 1);
    let distance = u32::from_ne_bytes(*module.bytes_from(page)?.first_chunk()?);
    let place = page.wrapping_add(distance as usize).wrapping_add((pc & 0xff0) * 2);
    let segment = module.segment_of(place, libc::PF_R)?;
    let is_word = place % 8 == 0 && segment.end - place >= 8;
    // SAFETY: aligned, and in memory of the module that can be read.
    let caller = is_word.then(|| unsafe { ptr::with_exposed_provenance::<usize>(place).read_volatile() })?;
    (caller != 0).then_some(caller)
}

/// Returns the slot with this number.
pub(super) fn slot(number: u32) -> &'static Slot {
    &SLOTS[number as usize % SLOTS.len()]
}

/// Takes a free slot of the process and returns its number. Returns `None` if all slots are in use.
pub(super) fn take() -> Option<u32> {
    let mut free = FREE.load(Ordering::Acquire);
    while free as u32 != 0 {
        let below = slot(free as u32).below.load(Ordering::Relaxed);
        let rest = next_change(free) | u64::from(below);
        match FREE.compare_exchange_weak(free, rest, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => return Some(free as u32),
            Err(now) => free = now,
        }
    }
    let next = |fresh: u32| {
        let is_left = (fresh as usize) < SLOTS.len();
        // The first slot of each page is not used.
        is_left.then(|| fresh + if (fresh as usize + 1) % IN_PAGE == 0 { 2 } else { 1 })
    };
    FIRST_UNUSED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
}

/// Makes a slot free. Must be called after the last frame that refers to the slot has ended.
pub(super) fn give_back(number: u32) {
    let mut free = FREE.load(Ordering::Relaxed);
    loop {
        slot(number).below.store(free as u32, Ordering::Relaxed);
        let with = next_change(free) | u64::from(number);
        match FREE.compare_exchange_weak(free, with, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => free = now,
        }
    }
}

fn next_change(free: u64) -> u64 {
    ((free >> 32) + 1) << 32
}

/// Returns the address at which the trampolines begin.
fn start() -> usize {
    let start: usize;
    // SAFETY: the address of a label of this module.
    unsafe {
        asm!("lea {}, [rip + {returned}.trampolines]", out(reg) start, returned = sym super::returned,
            options(nomem, nostack, preserves_flags, pure));
    }
    start
}

/// Returns the address of a slot's trampoline.
pub(super) fn address(number: u32) -> usize {
    start() + number as usize * 16
}

/// Returns the number of the slot whose trampoline has this address, if there is one.
pub(super) fn number_of(address: usize) -> Option<u32> {
    let offset = address.wrapping_sub(start());
    let is_one = offset < PAGES * PAGE && offset % 16 == 0 && offset % PAGE != 0;
    is_one.then_some((offset / 16) as u32)
}

/// Returns whether unwinders find the slots of trampolines: they do if the linker has put the slots after the code.
pub(super) fn finds_slots() -> bool {
    // SAFETY: the page's first four bytes, as written above.
    let distance = unsafe { ptr::with_exposed_provenance::<u32>(start()).read() };
    start() + distance as usize == SLOTS.as_ptr().addr()
}

/// The personality routine of the trampolines: reports to unwinders that there is nothing to catch, and runs the
/// closures of a function when the function is unwound.
unsafe extern "C" fn personality(
    _version: c_int,
    actions: c_int,
    _class: u64,
    _exception: *mut c_void,
    context: *mut c_void,
) -> c_int {
    const CLEANUP: c_int = 2;
    const CONTINUE: c_int = 8;
    if actions & CLEANUP != 0 {
        // SAFETY: the context of the unwinder that has called this.
        let place = unsafe { _Unwind_GetIP(context) };
        if let Some(number) = number_of(place) {
            super::unwound(number);
        }
    }
    CONTINUE
}
