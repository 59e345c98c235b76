//! Windows: frames of every kind that a table can record are unwound as the system itself unwinds them, and frames of
//! any content are harmless.

use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;

use super::super::{End, Registers, Walk, walk};
use super::MANY;

// Functions that call the one whose address they are given, in frames as compilers make them: with a frame pointer in
// the middle of the frame and a variable amount of room; with the frame pointer saved in the room that the caller has
// left, above the return address; and large, with the frame pointer saved by a step that needs a long offset.
std::arch::global_asm!(
    ".globl tracer_test_in_the_middle",
    ".def tracer_test_in_the_middle; .scl 2; .type 32; .endef",
    ".seh_proc tracer_test_in_the_middle",
    "tracer_test_in_the_middle:",
    "push rbp",
    ".seh_pushreg rbp",
    "push rbx",
    ".seh_pushreg rbx",
    "sub rsp, 0x68",
    ".seh_stackalloc 0x68",
    "lea rbp, [rsp + 0x40]",
    ".seh_setframe rbp, 0x40",
    ".seh_endprologue",
    "sub rsp, rdx",
    "call rcx",
    "nop",
    "lea rsp, [rbp + 0x28]",
    "pop rbx",
    "pop rbp",
    "ret",
    ".seh_endproc",
    ".globl tracer_test_above_the_return",
    ".def tracer_test_above_the_return; .scl 2; .type 32; .endef",
    ".seh_proc tracer_test_above_the_return",
    "tracer_test_above_the_return:",
    "mov [rsp + 0x10], rbp",
    "sub rsp, 0x28",
    ".seh_stackalloc 0x28",
    ".seh_savereg rbp, 0x38",
    ".seh_endprologue",
    "mov ebp, 7",
    "call rcx",
    "nop",
    "mov rbp, [rsp + 0x38]",
    "add rsp, 0x28",
    "ret",
    ".seh_endproc",
    ".globl tracer_test_large",
    ".def tracer_test_large; .scl 2; .type 32; .endef",
    ".seh_proc tracer_test_large",
    "tracer_test_large:",
    "push rdi",
    ".seh_pushreg rdi",
    "sub rsp, 0x900",
    ".seh_stackalloc 0x900",
    "mov [rsp + 0x880], rbp",
    ".seh_savereg rbp, 0x880",
    ".seh_endprologue",
    "xor ebp, ebp",
    "call rcx",
    "nop",
    "mov rbp, [rsp + 0x880]",
    "add rsp, 0x900",
    "pop rdi",
    "ret",
    ".seh_endproc",
);

unsafe extern "C" {
    fn tracer_test_in_the_middle(call: extern "C" fn(), more: usize);
    fn tracer_test_above_the_return(call: extern "C" fn(), unused: usize);
    fn tracer_test_large(call: extern "C" fn(), unused: usize);
}

#[link(name = "ntdll", kind = "raw-dylib")]
unsafe extern "system" {
    fn RtlCaptureStackBackTrace(skip: u32, most: u32, frames: *mut *mut c_void, hash: *mut u32) -> u16;
}

thread_local! {
    static SEEN: std::cell::RefCell<Vec<(Vec<u64>, End, Vec<u64>)>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Walks, and has the system walk. Leaves out the innermost frame.
extern "C" fn look() {
    let mut frames = vec![0; MANY];
    let Walk { len, end } = walk(Registers::here(), &mut frames, 1);
    frames.truncate(len);
    let mut all = [ptr::null_mut(); 62];
    // SAFETY: that many addresses may be written.
    let count = unsafe { RtlCaptureStackBackTrace(0, 62, all.as_mut_ptr(), ptr::null_mut()) };
    // Wine goes on after the outermost frame's return address, which is 0.
    let all = all[..usize::from(count)].iter().take_while(|frame| !frame.is_null());
    let all: Vec<u64> = all.map(|frame| frame.addr() as u64).collect();
    let own = all.iter().position(|frame| frames.first() == Some(frame)).unwrap_or(0);
    SEEN.with_borrow_mut(|seen| seen.push((frames, end, all[own..].to_vec())));
}

#[test]
fn frames_of_each_kind_are_unwound_as_by_the_system() {
    for function in [tracer_test_in_the_middle, tracer_test_above_the_return, tracer_test_large] {
        // SAFETY: they call the function that they get, and keep to the calling convention.
        unsafe { black_box(function)(look, 0x230) };
    }
    let seen = SEEN.take();
    assert_eq!(seen.len(), 3);
    for (frames, end, expected) in seen {
        assert_eq!(frames, expected);
        assert_eq!(end, End::Complete);
        assert!(frames.len() > 5, "{frames:x?}");
    }
}

#[test]
fn registers_of_any_content_are_walked_without_a_fault() {
    let mut here = [0usize; 64];
    let code = look as *const () as usize + 8;
    let places =
        [code, code + 40, tracer_test_in_the_middle as *const () as usize + 24, 0, 8, usize::MAX, 1 << 47];
    let at = here.as_ptr().expose_provenance();
    let words = [0, 8, at, at + 8, at + 511, at - 64, usize::MAX, usize::MAX - 7, 1 << 47, code];
    let mut walks = 0;
    for (number, content) in words.into_iter().enumerate() {
        black_box(&mut here).fill(content);
        here[number] = at + 8 * number;
        for pc in places {
            for sp in words {
                for fp in words {
                    let mut frames = [0; 70];
                    let walked = walk(Registers { pc, sp, fp }, &mut frames, 0);
                    assert!(walked.len >= 1 && frames[0] == pc as u64);
                    walks += 1;
                }
            }
        }
    }
    assert_eq!(walks, 7000);
}
