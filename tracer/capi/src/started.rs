//! Where the library begins if somebody starts it as a program: it says what it is, and ends.
//!
//! Nothing is loaded or relocated there, not even the C library, so these are the system calls themselves.

use std::arch::global_asm;

/// What is written to stderr.
macro_rules! text {
    () => {
        "libtracer is a library, which tracemerge run and cargo tracer load into programs"
    };
}

global_asm!(
    ".pushsection .text.tracer_started_as_program,\"ax\",@progbits",
    ".globl tracer_started_as_program",
    ".hidden tracer_started_as_program",
    ".type tracer_started_as_program, @function",
    "tracer_started_as_program:",
    "mov eax, {write}",
    "mov edi, 2",
    "lea rsi, [rip + 2f]",
    "mov edx, {length}",
    "syscall",
    "mov eax, {exit}",
    "mov edi, 2",
    "syscall",
    concat!("2: .ascii \"", text!(), "\\n\""),
    ".size tracer_started_as_program, . - tracer_started_as_program",
    ".popsection",
    write = const libc::SYS_write,
    exit = const libc::SYS_exit_group,
    // With the end of the line.
    length = const text!().len() + 1,
);
