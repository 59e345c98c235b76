//! The functions that called the current one: a walk of the calling thread's stack.
//!
//! A walk may run on any thread, even in a signal handler: it takes no lock, allocates nothing, keeps `errno`, and
//! makes system calls only if the thread's stack has grown since its last walk.
//!
//! No content of a register or of the stack can make a walk fault. It reads only between the stack pointer and the
//! top of the thread's own stack ([`bounds`]), it goes only upwards, and it looks up each return address among the
//! loaded modules before it uses it ([`rules`]).
//!
//! A frame is unwound by the rule for the address in its function's code. With the feature `unwind` that rule comes
//! from the unwind tables of the module (`tables`), and the walk is exact with and without frame pointers. Without the
//! feature the rule is always that of a frame pointer: a function that was compiled without a frame pointer is left
//! out, and so is its caller, or several callers. The walk ends if the frame pointer does not point to a frame of this
//! stack.
//!
//! On Windows the tables are in memory in every program, and a walk does not need the feature (`pdata`). A walk
//! cannot unwind a frame if its table finds it by another register than `rbp`.
//!
//! Works on Linux on x86-64 and aarch64, and on Windows on x86-64. On other systems a walk finds nothing. On aarch64
//! it does not unwind the frame of a signal handler, which has no unwind table there.

mod bounds;
#[cfg(feature = "unwind")]
pub(crate) mod functions;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod module;
#[cfg(all(feature = "unwind", target_os = "linux", target_arch = "x86_64"))]
pub(crate) mod on_return;
#[cfg(all(windows, target_arch = "x86_64"))]
mod pdata;
mod rules;
#[cfg(all(
    feature = "unwind",
    any(
        all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")),
        all(windows, target_arch = "x86_64")
    )
))]
mod symbols;
#[cfg(all(feature = "unwind", target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tables;
#[cfg(all(
    test,
    any(
        all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")),
        all(windows, target_arch = "x86_64")
    )
))]
mod tests;

use std::ops::ControlFlow;

use bounds::Stack;
pub(crate) use bounds::has_room;
#[cfg(target_arch = "aarch64")]
use rules::FrameEnd;
use rules::Rule;

/// Returns whether `sp` points into the calling thread's own stack, the one that the system made. Returns false if
/// that cannot be found out.
#[inline(always)]
pub(crate) fn is_own(sp: usize) -> bool {
    Stack::around(sp).is_some()
}

/// Calls `on_function` with the symbol and the range of code of each function of the process that is in a symbol table;
/// never without the feature `unwind`.
#[cfg(feature = "unwind")]
pub(crate) fn each_function(on_function: impl FnMut(&[u8], std::ops::Range<usize>)) {
    functions::each(on_function);
}

/// Does nothing: without the feature `unwind`, symbol tables are not read.
#[cfg(not(feature = "unwind"))]
pub(crate) fn each_function(_: impl FnMut(&[u8], std::ops::Range<usize>)) {}

/// Returns the names by which a function with this symbol may be called: paths, without the compiler's additions; none
/// without the feature `unwind`.
pub(crate) fn names_of(symbol: &[u8]) -> Vec<String> {
    #[cfg(feature = "unwind")]
    return functions::names(symbol);
    #[cfg(not(feature = "unwind"))]
    {
        let _ = symbol;
        Vec::new()
    }
}

/// Returns a number that changes when a module is loaded or unloaded.
#[cfg(feature = "unwind")]
pub(crate) fn modules_generation() -> u64 {
    functions::generation()
}

/// Returns a constant: without the feature `unwind` functions have no names that depend on the modules.
#[cfg(not(feature = "unwind"))]
pub(crate) fn modules_generation() -> u64 {
    0
}

/// The registers of a function from which a walk begins.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    /// An address inside or right after the instruction that the function executes: a return address, or one more than
    /// the address of the instruction.
    pub(crate) pc: usize,
    /// The stack pointer: the lowest address of the function's frame.
    pub(crate) sp: usize,
    /// The content of the frame pointer's register, which may be anything.
    pub(crate) fp: usize,
    /// The link register, which has the return address of a function that has not put it on the stack; 0 for a
    /// function that was found on the stack.
    #[cfg(target_arch = "aarch64")]
    pub(crate) lr: usize,
}

impl Registers {
    /// Returns the registers of a function that a signal has interrupted at the instruction `pc`. `_lr` is the link
    /// register, if there is one.
    #[must_use]
    pub(crate) fn interrupted([pc, sp, fp, _lr]: [usize; 4]) -> Registers {
        Registers {
            pc: pc.wrapping_add(1),
            sp,
            fp,
            #[cfg(target_arch = "aarch64")]
            lr: _lr,
        }
    }

    /// Returns the registers of a function that was found on the stack, with the return address `pc`.
    #[inline(always)]
    fn found(pc: usize, sp: usize, fp: usize) -> Registers {
        #[cfg(not(target_arch = "aarch64"))]
        {
            Registers { pc, sp, fp }
        }
        #[cfg(target_arch = "aarch64")]
        {
            Registers { pc: without_signature(pc), sp, fp, lr: 0 }
        }
    }

    /// Returns the registers of the function into which this call is inlined.
    #[allow(unsafe_code, reason = "reads registers")]
    #[inline(always)]
    #[must_use]
    pub fn here() -> Registers {
        #[cfg(target_arch = "x86_64")]
        {
            let (pc, sp, fp): (usize, usize, usize);
            // SAFETY: copies registers. All three are read at one place, so that they belong together.
            unsafe {
                std::arch::asm!("lea {}, [rip + 1]", "mov {}, rsp", "mov {}, rbp",
                    out(reg) pc, out(reg) sp, out(reg) fp, options(nomem, nostack, preserves_flags));
            }
            Registers { pc, sp, fp }
        }
        #[cfg(target_arch = "aarch64")]
        {
            let (pc, sp, fp, lr): (usize, usize, usize, usize);
            // SAFETY: as above. The link register comes first, because a result may be put there.
            unsafe {
                std::arch::asm!("mov {3}, x30", "adr {0}, . + 1", "mov {1}, sp", "mov {2}, x29",
                    out(reg) pc, out(reg) sp, out(reg) fp, out(reg) lr, options(nomem, nostack, preserves_flags));
            }
            Registers { pc, sp, fp, lr }
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        Registers { pc: 0, sp: 0, fp: 0 }
    }
}

/// Returns a return address without the signature that functions may put into its upper bits
/// (`-mbranch-protection=pac-ret`).
#[allow(unsafe_code, reason = "an instruction that the compiler does not know")]
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn without_signature(mut pc: usize) -> usize {
    // SAFETY: `xpaclri`, which changes that register only, and does nothing on processors without signatures.
    unsafe { std::arch::asm!("hint 7", inout("x30") pc, options(pure, nomem, nostack, preserves_flags)) };
    pc
}

/// The way in which a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The walk has reached the thread's outermost frame: no frame is missing. On Linux that is known with the feature
    /// `unwind` only.
    Complete,
    /// The caller of the walk wanted no more frames.
    Cut,
    /// The walk has reached a frame that cannot be unwound, or that is not on the thread's own stack: the frame's
    /// caller is unknown.
    Stopped,
}

/// The result of a walk of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The number of frames that were written.
    pub len: usize,
    /// The way in which the walk ended.
    pub end: End,
}

/// Writes an address in the code of each calling function into `frames`, the innermost first, without the first `skip`.
///
/// The first frame is that of the function that `from` belongs to. Each address is a return address, so the call lies
/// before it; for a function that a signal has interrupted, it is one more than the address of the interruption.
pub fn walk(from: Registers, frames: &mut [u64], skip: usize) -> Walk {
    let (mut len, mut skipped) = (0, 0);
    let end = visit(from, |pc| {
        if skipped < skip {
            skipped += 1;
            return ControlFlow::Continue(());
        }
        put(frames, &mut len, pc)
    });
    Walk { len, end }
}

/// Does what [`walk`] does for a thread that a signal has interrupted: writes an address in the code of each function
/// on the thread's stack into `frames`.
pub(crate) fn walk_interrupted(from: Registers, frames: &mut [u64]) -> Walk {
    let mut len = 0;
    let end = visit_interrupted(from, |pc| put(frames, &mut len, pc));
    Walk { len, end }
}

#[inline(always)]
fn put(frames: &mut [u64], len: &mut usize, pc: usize) -> ControlFlow<()> {
    let Some(frame) = frames.get_mut(*len) else { return ControlFlow::Break(()) };
    *frame = pc as u64;
    *len += 1;
    ControlFlow::Continue(())
}

/// Calls `on_frame` with each frame of the thread's stack, as [`walk`] writes them, until `on_frame` breaks off.
#[inline(always)]
pub(crate) fn visit(from: Registers, mut on_frame: impl FnMut(usize) -> ControlFlow<()>) -> End {
    if on_frame(from.pc).is_break() {
        return End::Cut;
    }
    let Some(stack) = Stack::around(from.sp) else { return End::Stopped };
    let Some(rule) = Rule::at(from.pc) else { return End::Stopped };
    visit_outwards(stack, from.sp, (from, rule), on_frame)
}

/// Calls `on_frame` with each frame of the thread's stack, from a function that a signal has interrupted. The cause of
/// the signal may be that the stack has no room for the function's frame, or that the function's address is not code.
#[cold]
fn visit_interrupted(from: Registers, mut on_frame: impl FnMut(usize) -> ControlFlow<()>) -> End {
    /// The rule for a frame whose address is not code. Mostly the program has called that address, and a call puts the
    /// return address at the stack pointer.
    #[cfg(not(target_arch = "aarch64"))]
    const CALLED: Rule = Rule::StackPointer { size: 8, saved: 0 };
    /// The rule for a frame whose address is not code. Mostly the program has called that address, and a call on this
    /// processor puts the return address into the link register.
    #[cfg(target_arch = "aarch64")]
    const CALLED: Rule = Rule::Ends(FrameEnd { by_frame_pointer: false, distance: 0, ret: 0, fp: 0 });
    if on_frame(from.pc).is_break() {
        return End::Cut;
    }
    let Some((stack, readable)) = Stack::near(from.sp) else { return End::Stopped };
    visit_outwards(stack, readable, (from, Rule::at(from.pc).unwrap_or(CALLED)), on_frame)
}

/// Calls `on_frame` with each frame further out than `frame`, until `on_frame` breaks off. The stack can be read from
/// the address `readable` on.
#[inline(always)]
fn visit_outwards(
    stack: Stack,
    mut readable: usize,
    (mut frame, mut rule): (Registers, Rule),
    mut on_frame: impl FnMut(usize) -> ControlFlow<()>,
) -> End {
    loop {
        let caller = match rule {
            #[cfg(not(target_arch = "aarch64"))]
            Rule::FramePointer => leave_by_frame_pointer(&stack, readable, frame),
            Rule::Presumed => leave_by_frame_pointer(&stack, readable, frame),
            #[cfg(not(target_arch = "aarch64"))]
            Rule::StackPointer { size, saved } => leave_by_size(&stack, readable, frame, (size, saved)),
            #[cfg(not(target_arch = "aarch64"))]
            Rule::Recorded { below, size, saved } => {
                leave_recorded(&stack, readable, frame, (below, size, saved))
            }
            #[cfg(not(target_arch = "aarch64"))]
            Rule::Signal => leave_signal(&stack, readable, frame),
            #[cfg(not(target_arch = "aarch64"))]
            Rule::Outermost => return End::Complete,
            #[cfg(target_arch = "aarch64")]
            Rule::Ends(FrameEnd { ret: 0, .. }) if frame.lr == 0 => return End::Complete,
            #[cfg(target_arch = "aarch64")]
            Rule::Ends(end) => leave_at_end(&stack, readable, frame, end),
        };
        if caller.is_some_and(|caller| stack.is_outermost_frame(caller.pc, caller.sp)) {
            return End::Complete;
        }
        // The rule is looked up before the frame is shown: an address that is not code is not a frame.
        let Some((caller, found)) = caller.and_then(rules::check_frame) else { return End::Stopped };
        // The frame pointer may point to any place in its frame, so the stack pointer is not known.
        #[cfg(target_arch = "aarch64")]
        if rule == Rule::Presumed && matches!(found, Rule::Ends(end) if !end.by_frame_pointer && end.ret > 0)
        {
            return End::Stopped;
        }
        (frame, rule) = (caller, found);
        readable = frame.sp;
        if on_frame(frame.pc).is_break() {
            return End::Cut;
        }
    }
}

/// Unwinds a frame whose function has a frame pointer. The frame pointer points to the saved frame pointer of the
/// caller, and the return address lies above the latter.
#[inline(always)]
fn leave_by_frame_pointer(stack: &Stack, readable: usize, frame: Registers) -> Option<Registers> {
    let [fp, pc] = stack.pair(readable, frame.fp)?;
    Some(Registers::found(pc, frame.fp + 16, fp))
}

/// Unwinds a frame whose end is known, and returns the registers of the caller.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn leave_at_end(stack: &Stack, readable: usize, frame: Registers, end: FrameEnd) -> Option<Registers> {
    let base = if end.by_frame_pointer { frame.fp } else { frame.sp };
    let sp = base.checked_add(end.distance)?;
    let word = |below: usize| stack.word(readable, sp.checked_sub(below)?);
    let pc = if end.ret == 0 { frame.lr } else { word(end.ret)? };
    let fp = if end.fp == 0 { frame.fp } else { word(end.fp)? };
    // A function that keeps its return address in a register may have no frame.
    (sp >= readable).then(|| Registers::found(pc, sp, fp))
}

/// Unwinds a frame of `size` bytes, the return address included. The caller's frame pointer lies `saved` bytes below
/// the frame's end, or is still in its register if `saved` is 0.
#[cfg(not(target_arch = "aarch64"))]
#[inline(always)]
fn leave_by_size(
    stack: &Stack,
    readable: usize,
    frame: Registers,
    (size, saved): (usize, usize),
) -> Option<Registers> {
    let sp = frame.sp.checked_add(size)?;
    let pc = stack.word(readable, sp.checked_sub(8)?)?;
    let fp = if saved == 0 { frame.fp } else { stack.word(readable, sp.checked_sub(saved)?)? };
    Some(Registers::found(pc, sp, fp))
}

/// Unwinds a frame that a table of Windows describes; see [`Rule::Recorded`].
#[cfg(not(target_arch = "aarch64"))]
#[cold]
fn leave_recorded(
    stack: &Stack,
    readable: usize,
    frame: Registers,
    (below, size, saved): (Option<usize>, usize, Option<usize>),
) -> Option<Registers> {
    let start = below.map_or(Some(frame.sp), |below| frame.fp.checked_sub(below))?;
    let sp = start.checked_add(size)?;
    let pc = stack.word(readable, sp.checked_sub(8)?)?;
    let fp = saved.map_or(Some(frame.fp), |saved| stack.word(readable, start.checked_add(saved)?))?;
    Some(Registers::found(pc, sp, fp))
}

/// Unwinds the frame that the kernel has made for a signal handler: it contains the registers of the interrupted
/// function, in a `ucontext_t`.
#[cfg(not(target_arch = "aarch64"))]
#[cold]
fn leave_signal(stack: &Stack, readable: usize, frame: Registers) -> Option<Registers> {
    let saved = |offset: usize| stack.word(readable, frame.sp.checked_add(offset)?);
    let (fp, sp, pc) = (saved(120)?, saved(160)?, saved(168)?);
    (sp > frame.sp).then(|| Registers::interrupted([pc, sp, fp, 0]))
}
