//! The start of the library if it is run as a program: it prints a message, and ends.
//!
//! No library is loaded or relocated then, not even the C library, so this makes the system calls itself.

use std::arch::global_asm;

/// The message that is written to stderr.
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
    // With the line feed at the end.
    length = const text!().len() + 1,
);
