//! The hooks of programs that are compiled for `gprof` (`-pg`): they report that a function is entered, but not that
//! it is left.
//!
//! | compiler | options | hook | the point of its call |
//! |---|---|---|---|
//! | gcc, clang | `-pg` | `mcount` | after the function has made its frame |
//! | gcc, clang | `-pg -mfentry` | `__fentry__` | before anything else |
//!
//! Compilers expect that these hooks change no register, not even those that a function normally may change, because
//! the arguments of the calling function are in them. The hooks find the function's return address by the function's
//! unwind table, and replace it, as `tracer::on_return!` does, so that the end of the function is recorded, too.
//!
//! Linked with `-pg`, a program also starts and ends `gprof`'s own profile. Here the functions for both do nothing:
//! A program that is linked with `-pg` also starts and ends the profile of `gprof` itself. This library has functions
//! for both that do nothing, so the program writes no `gmon.out`.

use std::arch::naked_asm;
use std::arch::x86_64::__cpuid_count;
use std::sync::atomic::{AtomicU8, Ordering};

use tracer::__foreign as foreign;

use crate::hooks::{is_loaded, names_of};

/// Which vector registers the hooks save, as bits:
/// - [`XSAVE`]: all that the processor has; without this bit, only those of SSE.
/// - [`HAS_XINUSE`]: only those of SSE, despite the first bit, if the processor reports that the others are not in use.
static SAVES: AtomicU8 = AtomicU8::new(0);

const XSAVE: u8 = 1;
const HAS_XINUSE: u8 = 2;

/// The maximum size of the saved state of the vector registers, in bytes: 576 for the header and the registers of SSE,
/// and the rest for AVX and the three parts of AVX-512.
const STATE: u32 = 2752;

/// The function that the dynamic linker calls when it has loaded this library, before the program's own constructors.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;

extern "C" fn on_load() {
    if !is_x86_feature_detected!("xsave") {
        return;
    }
    #[allow(unused_unsafe, reason = "a safe function since Rust 1.94")]
    // SAFETY: part of every x86-64 processor.
    let leaf = |part: u32| unsafe { __cpuid_count(0xd, part) };
    // A state that is larger than the known one is not saved.
    let fits = |part: u32| leaf(part).ebx + leaf(part).eax <= STATE;
    if [2, 5, 6, 7].into_iter().all(fits) {
        let has_xinuse = leaf(1).eax & 4 != 0;
        // Relaxed: no other thread runs yet.
        SAVES.store(if has_xinuse { XSAVE | HAS_XINUSE } else { XSAVE }, Ordering::Relaxed);
    }
}

/// Makes the code of a hook: it calls [`enter`] with the return address of the hook's call, and with the stack pointer
/// and the frame pointer of the function that has called the hook. The hook changes no register.
macro_rules! hook {
    () => {
        naked_asm!(
            ".cfi_startproc",
            "push rbp",
            ".cfi_def_cfa_offset 16",
            ".cfi_offset rbp, -16",
            "mov rbp, rsp",
            ".cfi_def_cfa_register rbp",
            "push rax",
            "push rcx",
            "push rdx",
            "push rsi",
            "push rdi",
            "push r8",
            "push r9",
            "push r10",
            "push r11",
            // The check whether tracing is off uses no vector register.
            "and rsp, -16",
            "call {is_off}",
            "test al, al",
            "jnz 5f",
            "test byte ptr [rip + {saves}], {has_xinuse}",
            "jz 2f",
            "mov ecx, 1",
            "xgetbv",
            // The upper halves of AVX's registers, and the upper parts of AVX-512's registers that can be arguments.
            "test eax, 0x44",
            "jnz 2f",
            "sub rsp, 128",
            "and rsp, -16",
            "movaps [rsp], xmm0",
            "movaps [rsp + 16], xmm1",
            "movaps [rsp + 32], xmm2",
            "movaps [rsp + 48], xmm3",
            "movaps [rsp + 64], xmm4",
            "movaps [rsp + 80], xmm5",
            "movaps [rsp + 96], xmm6",
            "movaps [rsp + 112], xmm7",
            "mov rdi, [rbp + 8]",
            "lea rsi, [rbp + 16]",
            "mov rdx, [rbp]",
            "call {enter}",
            "movaps xmm0, [rsp]",
            "movaps xmm1, [rsp + 16]",
            "movaps xmm2, [rsp + 32]",
            "movaps xmm3, [rsp + 48]",
            "movaps xmm4, [rsp + 64]",
            "movaps xmm5, [rsp + 80]",
            "movaps xmm6, [rsp + 96]",
            "movaps xmm7, [rsp + 112]",
            "jmp 5f",
            "2:",
            "sub rsp, {state}",
            "and rsp, -64",
            "test byte ptr [rip + {saves}], {xsave}",
            "jz 3f",
            // The header; `xsave` writes only a part of it.
            "xor eax, eax",
            "mov [rsp + 512], rax",
            "mov [rsp + 520], rax",
            "mov [rsp + 528], rax",
            "mov [rsp + 536], rax",
            "mov [rsp + 544], rax",
            "mov [rsp + 552], rax",
            "mov [rsp + 560], rax",
            "mov [rsp + 568], rax",
            "mov eax, 0xe6",
            "xor edx, edx",
            "xsave64 [rsp]",
            "mov rdi, [rbp + 8]",
            "lea rsi, [rbp + 16]",
            "mov rdx, [rbp]",
            "call {enter}",
            "mov eax, 0xe6",
            "xor edx, edx",
            "xrstor64 [rsp]",
            "jmp 5f",
            "3:",
            "fxsave64 [rsp]",
            "mov rdi, [rbp + 8]",
            "lea rsi, [rbp + 16]",
            "mov rdx, [rbp]",
            "call {enter}",
            "fxrstor64 [rsp]",
            "5:",
            "lea rsp, [rbp - 72]",
            "pop r11",
            "pop r10",
            "pop r9",
            "pop r8",
            "pop rdi",
            "pop rsi",
            "pop rdx",
            "pop rcx",
            "pop rax",
            "pop rbp",
            ".cfi_def_cfa rsp, 8",
            ".cfi_restore rbp",
            "ret",
            ".cfi_endproc",
            saves = sym SAVES,
            has_xinuse = const HAS_XINUSE,
            xsave = const XSAVE,
            state = const STATE,
            is_off = sym is_off,
            enter = sym enter,
        )
    };
}

/// Records that the calling function is entered, and, when it returns, that it is left.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn mcount() {
    hook!()
}

/// Records that the calling function is entered, and, when it returns, that it is left.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn __fentry__() {
    hook!()
}

/// Does nothing: a program that is linked with `-pg` calls it at its start, to start `gprof`'s sampling.
#[unsafe(no_mangle)]
pub extern "C" fn __monstartup(_low: usize, _high: usize) {}

/// Does nothing: a program that is linked with `-pg` calls it at its end, to write `gprof`'s profile.
#[unsafe(no_mangle)]
pub extern "C" fn _mcleanup() {}

/// Returns whether tracing is off, or cannot begin yet. This costs two loads and comparisons.
extern "C" fn is_off() -> bool {
    !is_loaded() || foreign::is_off()
}

/// Records that a function is entered. `pc` is the return address of the hook's call, which lies in the function; `sp`
/// and `fp` are the function's stack pointer and frame pointer there.
extern "C" fn enter(pc: usize, sp: usize, fp: usize) {
    foreign::enter_until_return([pc, sp, fp], names_of, left);
}

/// Records that a function is left. `address` is the address that the record of its entry has.
fn left(address: u64) {
    foreign::leave_compiled(address, address, names_of);
}
