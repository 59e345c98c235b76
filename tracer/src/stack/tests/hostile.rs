//! Registers and stacks of any content are walked without a fault.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{mem, ptr, thread};

use super::super::{End, Registers, Walk, walk};
use super::{MANY, nested};

// A function that is never called, with a frame pointer according to its unwind table: walks begin in it.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.tracer_test_frame,\"ax\",@progbits",
    ".globl tracer_test_frame",
    ".hidden tracer_test_frame",
    "tracer_test_frame:",
    ".cfi_startproc",
    ".cfi_def_cfa rbp, 16",
    ".cfi_offset rbp, -16",
    ".fill 64, 1, 0xcc",
    ".cfi_endproc",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.tracer_test_frame,\"ax\",@progbits",
    ".globl tracer_test_frame",
    ".hidden tracer_test_frame",
    "tracer_test_frame:",
    ".cfi_startproc",
    ".cfi_def_cfa x29, 16",
    ".cfi_offset x30, -8",
    ".cfi_offset x29, -16",
    ".fill 64, 1, 0",
    ".cfi_endproc",
    ".popsection",
);

unsafe extern "C" {
    static tracer_test_frame: u8;
}

fn code() -> usize {
    (&raw const tracer_test_frame).addr() + 32
}

fn walk_from(pc: usize, sp: usize, fp: usize) -> (Walk, Vec<u64>) {
    let mut frames = vec![0; MANY];
    #[cfg(target_arch = "x86_64")]
    let from = Registers { pc, sp, fp };
    #[cfg(target_arch = "aarch64")]
    let from = Registers { pc, sp, fp, lr: 0 };
    let walk = walk(from, &mut frames, 0);
    frames.truncate(walk.len);
    (walk, frames)
}

/// Walks a chain of frames: the words of `stack`, which may point into it.
fn walk_chain(stack: &mut [usize], fp: usize) -> Walk {
    walk_from(code(), black_box(stack).as_mut_ptr().expose_provenance(), fp).0
}

#[test]
fn a_chain_of_frames_is_followed_while_it_goes_up() {
    let mut stack = [0usize; 64];
    let at = |stack: &[usize], word: usize| stack.as_ptr().addr() + word * 8;
    for word in [0, 10, 20, 30] {
        stack[word] = at(&stack, word + 10);
        stack[word + 1] = code();
    }
    stack[40] = 0;
    stack[41] = code();
    // The first, five returns, and the frame pointer 0.
    let fp = at(&stack, 0);
    assert_eq!(walk_chain(&mut stack, fp), Walk { len: 6, end: End::Stopped });
    // In a cycle, down, to itself, unaligned, not canonical: the walk ends there.
    for wrong in [at(&stack, 0), at(&stack, 29), at(&stack, 30), at(&stack, 40) + 4, usize::MAX, 1 << 47] {
        stack[30] = wrong;
        assert_eq!(walk_chain(&mut stack, fp).len, 5, "{wrong:x}");
    }
    stack[30] = at(&stack, 40);
    // Not code: the frame is not shown.
    for wrong in [0, 1, 4096, at(&stack, 0), usize::MAX, 1 << 47, (&raw const DATA).addr()] {
        stack[31] = wrong;
        assert_eq!(walk_chain(&mut stack, fp).len, 4, "{wrong:x}");
    }
}

// Not constant: linkers put constants among the code.
static DATA: AtomicUsize = AtomicUsize::new(7);

/// Returns the address at which the calling thread's stack ends: the highest one.
fn near_the_top() -> usize {
    // SAFETY: asks for the thread's own stack; the attributes are given back.
    unsafe {
        let mut attributes: libc::pthread_attr_t = mem::zeroed();
        assert_eq!(libc::pthread_getattr_np(libc::pthread_self(), &mut attributes), 0);
        let (mut low, mut size) = (ptr::null_mut(), 0);
        libc::pthread_attr_getstack(&attributes, &mut low, &mut size);
        libc::pthread_attr_destroy(&mut attributes);
        low.addr() + size
    }
}

#[test]
fn any_content_of_registers_and_stack_is_walked_without_a_fault() {
    let top = near_the_top();
    let heap = Box::new(7usize);
    let mut stack = [0usize; 256];
    let here = stack.as_ptr().addr();
    let mut random = 1u64;
    let mut next = move || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize
    };
    let mut value = move || match next() % 12 {
        0 => next(),
        1 => usize::MAX - next() % 64,
        2 => top - next() % 64,
        3 => top + next() % 8192,
        4 => here - next() % 8192,
        5 => ptr::from_ref(&*heap).addr(),
        6 => code() + next() % 64,
        7 => next() << 24,
        8 => next() % 4096,
        _ => (here + next() % 2048) & !7,
    };
    for _ in 0..200_000 {
        for _ in 0..16 {
            stack[value() % 256] = value();
        }
        black_box(&mut stack);
        let (pc, sp, fp) = (value(), value(), value());
        black_box(walk_from(pc, sp, fp));
        black_box(walk_from(code(), here, fp));
    }
}

/// The results of the code on another stack.
static FOREIGN: AtomicUsize = AtomicUsize::new(0);

#[inline(never)]
fn walk_here() -> Walk {
    let mut frames = [0; 64];
    walk(Registers::here(), &mut frames, 0)
}

#[test]
fn a_coroutines_stack_is_not_walked() {
    thread_local!(static CONTEXTS: Cell<[*mut libc::ucontext_t; 2]> = const { Cell::new([ptr::null_mut(); 2]) });
    extern "C" fn coroutine() {
        for _ in 0..3 {
            let Walk { len, end } = walk_here();
            FOREIGN.fetch_add(len * 100 + usize::from(end == End::Stopped), Ordering::Relaxed);
        }
        let [main, own] = CONTEXTS.get();
        // SAFETY: both are live.
        unsafe { libc::swapcontext(own, main) };
    }
    for walked_before in [true, false] {
        thread::spawn(move || {
            if walked_before {
                assert!(nested(3, &mut walk_here).len > 0);
            }
            FOREIGN.store(0, Ordering::Relaxed);
            let mut stack = vec![0u8; 256 << 10];
            // SAFETY: the contexts and the stack live until the coroutine has come back.
            unsafe {
                let mut contexts: [libc::ucontext_t; 2] = mem::zeroed();
                let [main, own] = &mut contexts;
                libc::getcontext(own);
                own.uc_stack.ss_sp = stack.as_mut_ptr().cast();
                own.uc_stack.ss_size = stack.len();
                CONTEXTS.set([&raw mut *main, &raw mut *own]);
                libc::makecontext(own, coroutine, 0);
                libc::swapcontext(main, own);
            }
            assert_eq!(FOREIGN.load(Ordering::Relaxed), 303, "the caller alone, each time");
            assert!(nested(3, &mut walk_here).len > 0);
        })
        .join()
        .unwrap();
    }
}

thread_local!(static HANDLED: Cell<(usize, bool)> = const { Cell::new((0, false)) });

extern "C" fn handler(_: libc::c_int) {
    let Walk { len, end } = walk_here();
    HANDLED.set((len, end == End::Complete));
}

/// Walks in a signal handler, on the thread's stack or on one of its own.
fn signal(flags: libc::c_int, signal: libc::c_int) -> (usize, bool) {
    // SAFETY: the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = flags;
        libc::sigaction(signal, &action, ptr::null_mut());
        libc::raise(signal);
    }
    HANDLED.get()
}

#[test]
fn a_signal_handlers_own_stack_is_not_walked() {
    // Threads of Rust have a stack for handlers.
    thread::spawn(|| assert_eq!(signal(libc::SA_ONSTACK, libc::SIGUSR1), (1, false))).join().unwrap();
}

#[test]
fn a_threads_first_walk_may_be_in_a_signal_handler() {
    thread::spawn(|| {
        let (len, is_complete) = nested(20, &mut || signal(0, libc::SIGUSR2));
        assert!(len >= 1);
        // Through the frame that the kernel has made.
        #[cfg(all(feature = "unwind", target_arch = "x86_64"))]
        assert!(len > 20 && is_complete);
        #[cfg(not(all(feature = "unwind", target_arch = "x86_64")))]
        assert!(!is_complete);
    })
    .join()
    .unwrap();
}

#[test]
fn a_thread_with_a_small_stack_is_walked_and_errno_is_kept() {
    let walked = thread::Builder::new().stack_size(16 << 10).spawn(|| {
        // SAFETY: the thread's own.
        unsafe { *libc::__errno_location() = 4711 };
        let walk = walk_here();
        // SAFETY: as above.
        assert_eq!(unsafe { *libc::__errno_location() }, 4711);
        walk
    });
    let walk = walked.unwrap().join().unwrap();
    assert!(walk.len > 0);
    assert_eq!(walk.end == End::Complete, cfg!(feature = "unwind"));
}

#[test]
fn a_forked_child_walks_its_stack() {
    let before = nested(5, &mut walk_here);
    // SAFETY: the child only walks, and ends without running anything else.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(i32::from(nested(5, &mut walk_here).end != before.end));
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        status
    };
    assert_eq!(status, 0);
}
