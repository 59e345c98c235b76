//! The limits of the calling thread's stack, and reads between them.
//!
//! A walk reads only memory that is known to be the thread's own stack: from a function's stack pointer up to the
//! top, which never moves. That memory stays mapped as long as the thread runs. The known part of the stack grows
//! downwards with the thread's walks: each page between the stack pointer and the known part is tried once. If a page
//! between them cannot be read, the stack pointer is on another stack (a coroutine's, a signal handler's), because
//! stacks end in guard pages.
//!
//! `pthread_getattr_np` would give the limits, too, but it allocates, and opens a file on the main thread: a signal
//! handler, in which a thread's first walk may be, must not call it. A page is tried by a system call that reads its
//! argument and then refuses it. If a stack without a guard page lies directly below the thread's own, the call
//! succeeds for its pages, too; a walk may then take that stack for the thread's.
//!
//! Windows reports both ends of the mapped part of the stack at any time.
#![allow(unsafe_code, reason = "reads the thread's stack; each argued where it stands")]

use std::ptr;

use crate::sys;

/// The calling thread's stack, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack {
    top: usize,
}

impl Stack {
    /// Returns the calling thread's stack if `sp` points into it.
    #[inline(always)]
    pub(super) fn around(sp: usize) -> Option<Stack> {
        imp::around(sp)
    }

    /// Returns whether a walk that has come to the return address `pc` and the stack pointer `sp` has unwound the
    /// outermost frame of the stack. This is known only on systems that mark the end of the stack by the return address
    /// 0.
    #[inline(always)]
    pub(super) fn is_outermost_frame(&self, pc: usize, sp: usize) -> bool {
        imp::MARKS_OUTERMOST_FRAME && pc == 0 && self.top.wrapping_sub(sp) < imp::PAGE
    }

    /// Returns the calling thread's stack if `sp` points into it, or a little below it, as does the stack pointer of a
    /// function that has run out of stack. Also returns the lowest address, from `sp` on, at which the stack can be
    /// read.
    pub(super) fn near(sp: usize) -> Option<(Stack, usize)> {
        /// The maximum number of pages by which a function's stack pointer may lie below the stack. Most compilers, but
        /// not all, make a function touch each page of its frame in turn.
        const PAGES: usize = 16;
        let above = (1..=PAGES).map(|pages| (sp & !(imp::PAGE - 1)).saturating_add(pages * imp::PAGE));
        std::iter::once(sp).chain(above).find_map(|at| Some((Stack::around(at)?, at)))
    }

    /// Reads the word at `address` and the next word, if both lie between `sp` and the stack's upper end.
    #[inline(always)]
    pub(super) fn pair(&self, sp: usize, address: usize) -> Option<[usize; 2]> {
        let is_inside = sp <= address && address <= self.top - 16 && address % 8 == 0;
        // SAFETY: aligned, and between a stack pointer that is in the stack and the stack's end: mapped while the
        // thread runs. Functions that run now may use the words, so each read is volatile.
        is_inside.then(|| unsafe { [read(address), read(address + 8)] })
    }

    /// Reads the word at `address`, if the word lies between `sp` and the stack's upper end.
    #[inline(always)]
    pub(super) fn word(&self, sp: usize, address: usize) -> Option<usize> {
        let is_inside = sp <= address && address <= self.top - 8 && address % 8 == 0;
        // SAFETY: as in `pair`.
        is_inside.then(|| unsafe { read(address) })
    }
}

/// Returns whether the calling thread's stack has room for `bytes` more bytes. Allocates nothing, but makes a system
/// call for each page, so it should be called only for actions that are done once.
///
/// The size of a stack for signal handlers is known. On any other stack the pages below the stack pointer are tried:
/// stacks end in a guard page, and the system adds pages to the stack of a process's first thread when they are used.
/// If pages cannot be tried, returns true.
#[cold]
pub(crate) fn has_room(bytes: usize) -> bool {
    let here = sys::stack_pointer();
    match sys::alternate_stack() {
        Some(low) => here.saturating_sub(low) >= bytes,
        None => imp::is_readable_down_to(here.saturating_sub(bytes), here),
    }
}

/// Reads a word of memory that other code may use.
///
/// # Safety
/// The word is aligned and mapped.
#[inline(always)]
unsafe fn read(address: usize) -> usize {
    // SAFETY: the caller's promise. Volatile, because the compiler does not know who wrote it.
    unsafe { ptr::read_volatile(ptr::with_exposed_provenance(address)) }
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod imp {
    use std::arch::asm;
    use std::cell::Cell;
    use std::sync::atomic::{Ordering, compiler_fence};

    use super::Stack;
    use crate::sys;

    /// The size of the pages that are tried; a system's pages may be larger.
    pub(super) const PAGE: usize = 4096;
    pub(super) const MARKS_OUTERMOST_FRAME: bool = false;
    /// The maximum number of bytes by which a stack may have grown since the thread's last walk. A stack that has grown
    /// by more is not recognized, because a system call for each page would take too long.
    const MAX_GROWTH: usize = 64 << 20;

    thread_local! {
        /// The lowest address known to belong to this thread's stack.
        static LOW: Cell<usize> = const { Cell::new(0) };
        /// The upper end of the stack, or 0 before the thread's first walk. Set after [`LOW`].
        static TOP: Cell<usize> = const { Cell::new(0) };
        /// The range of addresses that was last found to belong to another stack.
        static FOREIGN: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    }

    #[inline(always)]
    pub(super) fn around(sp: usize) -> Option<Stack> {
        let top = TOP.get();
        if LOW.get() <= sp && sp < top { Some(Stack { top }) } else { learn(sp) }
    }

    /// Finds out whether `sp` is in the thread's stack, below the known part.
    #[cold]
    #[inline(never)]
    fn learn(sp: usize) -> Option<Stack> {
        let (from, to) = FOREIGN.get();
        if from <= sp && sp < to {
            return None;
        }
        let known = TOP.get();
        let top = if known == 0 { top()? } else { known };
        // The known part, which is readable, begins here.
        let upper = if known == 0 { top } else { LOW.get() };
        if sp >= upper || upper - sp > MAX_GROWTH || !rejects_unmapped_addresses() {
            return None;
        }
        let first = sp & !(PAGE - 1);
        if let Some(guard) = (first..upper).step_by(PAGE).find(|page| !is_readable(*page)) {
            FOREIGN.set((first, guard));
            return None;
        }
        LOW.set(first);
        // A signal handler that runs between the two stores sees no top, and finds out both values itself.
        compiler_fence(Ordering::SeqCst);
        TOP.set(top);
        Some(Stack { top })
    }

    /// Returns the upper end of the thread's stack. The C library's descriptor of a thread lies there, and the thread
    /// pointer points to it. The descriptor of the main thread lies elsewhere, but the loader knows where that thread's
    /// stack was when the program began.
    fn top() -> Option<usize> {
        let is_main = sys::thread_id() == u64::from(sys::process_id());
        let top = if is_main { initial_stack() } else { thread_pointer() };
        // Aligned, and large enough to subtract from.
        (top > PAGE).then_some(top & !15)
    }

    fn thread_pointer() -> usize {
        let pointer: usize;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the first word that this register points to is its own address, by the processor's ABI.
        unsafe {
            asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: copies a register. The C library's descriptor of the thread is below, and the stack below that.
        unsafe {
            asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags));
        }
        pointer
    }

    /// Returns the loader's `__libc_stack_end`, or 0 if there is no such variable.
    fn initial_stack() -> usize {
        let variable: *const usize;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the address of a variable that may be missing, and is null then.
        unsafe {
            asm!(".weak __libc_stack_end", "mov {}, qword ptr [rip + __libc_stack_end@GOTPCREL]",
                out(reg) variable, options(nostack, preserves_flags, pure, readonly));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            asm!(".weak __libc_stack_end", "adrp {0}, :got:__libc_stack_end",
                "ldr {0}, [{0}, :got_lo12:__libc_stack_end]",
                out(reg) variable, options(nostack, preserves_flags, pure, readonly));
        }
        // SAFETY: the loader's variable, which is written before the program begins.
        if variable.is_null() { 0 } else { unsafe { variable.read() } }
    }

    /// Returns whether all pages from `low` up to the page of `sp` can be read. Also returns true if pages cannot be
    /// tried.
    pub(super) fn is_readable_down_to(low: usize, sp: usize) -> bool {
        !rejects_unmapped_addresses() || ((low & !(PAGE - 1))..sp).step_by(PAGE).all(is_readable)
    }

    /// Returns whether a page can be read: the kernel reads a set of signals there, and then refuses the operation.
    fn is_readable(page: usize) -> bool {
        answer(page) == -i64::from(libc::EINVAL)
    }

    /// Returns whether the system call reads its argument at all: an emulation of the kernel may not do that, and then
    /// does not show which pages can be read.
    fn rejects_unmapped_addresses() -> bool {
        answer(8) == -i64::from(libc::EFAULT)
    }

    fn answer(address: usize) -> i64 {
        let answer: i64;
        // SAFETY: `rt_sigprocmask` with an operation that does not exist changes nothing. Called without the C
        // library, so `errno` does not change.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            asm!("syscall", inlateout("rax") libc::SYS_rt_sigprocmask => answer, in("rdi") -1i64,
                in("rsi") address, in("rdx") 0, in("r10") 8, lateout("rcx") _, lateout("r11") _,
                options(nostack, readonly));
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            asm!("svc 0", in("x8") libc::SYS_rt_sigprocmask, inlateout("x0") -1i64 => answer, in("x1") address,
                in("x2") 0, in("x3") 8, options(nostack, readonly));
        }
        answer
    }
}

#[cfg(all(windows, target_arch = "x86_64"))]
mod imp {
    use std::arch::asm;

    use super::Stack;

    pub(super) const PAGE: usize = 4096;
    pub(super) const MARKS_OUTERMOST_FRAME: bool = true;

    /// Returns the stack if `sp` is in it. The system keeps both ends of the readable part of the stack that the thread
    /// runs on, even if that is the stack of a fiber.
    #[inline(always)]
    pub(super) fn around(sp: usize) -> Option<Stack> {
        let (top, low): (usize, usize);
        // SAFETY: both words are in the thread's description, which this register points to.
        unsafe {
            asm!("mov {}, gs:[8]", "mov {}, gs:[16]", out(reg) top, out(reg) low,
                options(nostack, preserves_flags, readonly));
        }
        // Aligned, and large enough to subtract from.
        (low <= sp && sp < top && top > PAGE).then_some(Stack { top: top & !15 })
    }

    /// Returns true: stacks have the room that their makers have requested, and there are no signal handlers.
    pub(super) fn is_readable_down_to(_: usize, _: usize) -> bool {
        true
    }
}

#[cfg(not(any(
    all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")),
    all(windows, target_arch = "x86_64")
)))]
mod imp {
    use super::Stack;

    pub(super) const PAGE: usize = 4096;
    pub(super) const MARKS_OUTERMOST_FRAME: bool = false;

    pub(super) fn around(_: usize) -> Option<Stack> {
        None
    }

    pub(super) fn is_readable_down_to(_: usize, _: usize) -> bool {
        true
    }
}
