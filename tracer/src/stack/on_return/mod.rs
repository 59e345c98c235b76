//! What is to be run right after a function has returned.
//!
//! Runs on any thread, outside of signal handlers. The function's return on the stack is replaced by the
//! address of a trampoline ([`trampoline`]), which comes here. Where the return is, is never guessed: the
//! unwind tables say it.
//!
//! Each thread has a list of its slots, the innermost function's first. A function that was left by a panic
//! or a `longjmp` does not come here; its slot is found to be left over when the thread uses the list next,
//! by where it is on the stack.
#![allow(unsafe_code, reason = "changes a function's return; argued where it stands")]

#[cfg(test)]
mod tests;
pub(super) mod trampoline;

use std::arch::x86_64::__cpuid_count;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::{arch::asm, error, fmt, mem, ptr};

use super::Registers;
use super::bounds::Stack;
use super::rules::Rule;
use crate::sys;

/// What is to be run.
pub(crate) type Call = Box<dyn FnOnce()>;

/// Why nothing will be run at the return of a function. The closure was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnReturnError {
    /// The unwind tables do not say where the function's return is, or what is there is no return: the
    /// program was linked without tables, for instance, or glibc is older than 2.35.
    UnknownReturn,
    /// The function does not run on the thread's own stack, but on that of a coroutine or a signal handler.
    ForeignStack,
    /// All 4080 slots of the process are in use by functions that have not returned.
    TooMany,
    /// The thread is ending: its variables were destroyed.
    ThreadEnds,
    /// The processor forbids it (a shadow stack is in use), or has registers that nobody knew of.
    Processor,
}

impl fmt::Display for OnReturnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OnReturnError::UnknownReturn => "the unwind tables do not say where the function returns to",
            OnReturnError::ForeignStack => "the function does not run on its thread's own stack",
            OnReturnError::TooMany => "too many functions are waited for at the same time",
            OnReturnError::ThreadEnds => "the thread is ending",
            OnReturnError::Processor => "the processor does not let a return be changed",
        })
    }
}

impl error::Error for OnReturnError {}

thread_local! {
    /// The thread's innermost slot, or 0.
    static INNERMOST: Cell<u32> = const { Cell::new(0) };
    /// Gives the thread's slots back when the thread ends.
    static AT_END: AtEnd = const { AtEnd };
}

struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        // Functions that are further out than this have returned, or never will.
        leave_those_below(sys::stack_pointer());
    }
}

/// Has `call` run after the function that `from` belongs to has returned.
#[cold]
#[inline(never)]
pub fn on_return(from: Registers, call: Call) -> Result<(), OnReturnError> {
    let stack = Stack::around(from.sp).ok_or(OnReturnError::ForeignStack)?;
    let place = place_of_return(from).ok_or(OnReturnError::UnknownReturn)?;
    let caller = stack.word(from.sp, place).ok_or(OnReturnError::UnknownReturn)?;
    if !is_possible() {
        return Err(OnReturnError::Processor);
    }
    AT_END.try_with(|_| ()).map_err(|_| OnReturnError::ThreadEnds)?;
    leave_those_below(place);
    if let Some(number) = trampoline::number_of(caller) {
        return add(number, place, call);
    }
    Rule::at(caller).ok_or(OnReturnError::UnknownReturn)?;
    let number = trampoline::take().ok_or(OnReturnError::TooMany)?;
    let slot = trampoline::slot(number);
    slot.caller.store(caller, Ordering::Relaxed);
    slot.place.store(place, Ordering::Relaxed);
    slot.calls.store(Box::into_raw(Box::new(vec![call])), Ordering::Relaxed);
    slot.below.store(INNERMOST.get(), Ordering::Relaxed);
    INNERMOST.set(number);
    // SAFETY: the unwind tables say that the running function's return is here, and it leads to code. The
    // compiler does not read it. What stands there now comes back to `returned`.
    unsafe {
        ptr::with_exposed_provenance_mut::<usize>(place).write_volatile(trampoline::address(number));
    }
    Ok(())
}

/// Adds to what is run after a function whose return is changed already.
fn add(number: u32, place: usize, call: Call) -> Result<(), OnReturnError> {
    let slot = trampoline::slot(number);
    let is_same = INNERMOST.get() == number && slot.place.load(Ordering::Relaxed) == place;
    // SAFETY: the slot's own, made from a box; only this thread has it.
    let calls = unsafe { slot.calls.load(Ordering::Relaxed).as_mut() };
    match calls.filter(|_| is_same) {
        Some(calls) => {
            calls.push(call);
            Ok(())
        }
        // A return that was copied from elsewhere.
        None => Err(OnReturnError::UnknownReturn),
    }
}

/// Returns where on the stack the function's return is, if its unwind table says so.
fn place_of_return(from: Registers) -> Option<usize> {
    match Rule::at(from.pc)? {
        Rule::FramePointer => from.fp.checked_add(8),
        Rule::StackPointer { size, .. } => from.sp.checked_add(size - 8),
        _ => None,
    }
}

/// Returns whether the processor lets a return be changed, and all of its registers can be saved.
fn is_possible() -> bool {
    const UNKNOWN: u8 = 0;
    const YES: u8 = 1;
    const NO: u8 = 2;
    // Relaxed: each thread would find out the same.
    static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);
    if KNOWN.load(Ordering::Relaxed) == UNKNOWN {
        // The code of the trampolines must not go while a function returns to it.
        sys::stay_loaded();
        let is_possible = trampoline::finds_slots() && saves_all_registers() && !has_shadow_stack();
        KNOWN.store(if is_possible { YES } else { NO }, Ordering::Relaxed);
    }
    KNOWN.load(Ordering::Relaxed) == YES
}

fn saves_all_registers() -> bool {
    if !is_x86_feature_detected!("xsave") {
        // Then there are no registers but those of `fxsave`.
        return true;
    }
    let fits = |part: u32| {
        #[allow(unused_unsafe, reason = "a safe function since Rust 1.94")]
        // SAFETY: part of every x86-64 processor.
        let area = unsafe { __cpuid_count(0xd, part) };
        area.ebx as usize + area.eax as usize <= trampoline::STATE
    };
    // AVX, and the three parts of AVX-512; those that are missing have the size 0.
    trampoline::HAS_XSAVE.store(1, Ordering::Relaxed);
    [2, 5, 6, 7].into_iter().all(fits)
}

fn has_shadow_stack() -> bool {
    let pointer: u64;
    // SAFETY: `rdsspq rax` leaves the register as it is where there is no shadow stack.
    unsafe {
        asm!("xor eax, eax", ".byte 0xf3, 0x48, 0x0f, 0x1e, 0xc8", out("rax") pointer, options(nostack))
    };
    pointer != 0
}

/// Is called by the trampolines, after a function has returned: puts its return back, and runs what is to be
/// run.
///
/// # Safety
/// The function of slot `number` has just returned, and `place` is where its return was.
unsafe extern "C" fn returned(number: u32, place: *mut usize) {
    let _errno = sys::keep_errno();
    let slot = trampoline::slot(number);
    // SAFETY: the promise; the trampoline has reserved the word, and jumps to where it leads.
    unsafe { place.write_volatile(slot.caller.load(Ordering::Relaxed)) };
    // Those that are further in were left by a jump.
    while is_in_list(number) && INNERMOST.get() != number {
        leave_innermost();
    }
    let calls = take_calls(number);
    if INNERMOST.get() == number {
        leave_innermost();
    }
    run(calls);
}

/// Is called when a function is unwound: runs what is to be run. The slot is needed until the unwinder has
/// gone on, and is given back later.
fn unwound(number: u32) {
    let _errno = sys::keep_errno();
    run(take_calls(number));
}

/// Returns where a function was called that returns to this trampoline.
pub(super) fn real_return(trampoline: usize) -> Option<usize> {
    let caller = trampoline::slot(trampoline::number_of(trampoline)?).caller.load(Ordering::Relaxed);
    (caller != 0).then_some(caller)
}

/// Returns whether this is the address of a trampoline.
pub(super) fn is_trampoline(address: usize) -> bool {
    trampoline::number_of(address).is_some()
}

fn is_in_list(number: u32) -> bool {
    let mut at = INNERMOST.get();
    while at != 0 && at != number {
        at = trampoline::slot(at).below.load(Ordering::Relaxed);
    }
    at == number
}

/// Gives back the slots of functions that were left without a return: whose return was below `place`, where
/// no frame of a running function is, or is overwritten.
fn leave_those_below(place: usize) {
    while let number @ 1.. = INNERMOST.get() {
        let at = trampoline::slot(number).place.load(Ordering::Relaxed);
        // SAFETY: aligned, and on this thread's stack, above the stack pointer if it is not below `place`.
        let is_left = at < place
            || unsafe { ptr::with_exposed_provenance::<usize>(at).read_volatile() }
                != trampoline::address(number);
        if !is_left {
            return;
        }
        leave_innermost();
    }
}

/// Gives the thread's innermost slot back. What it was to run is dropped.
fn leave_innermost() {
    let number = INNERMOST.get();
    let calls = take_calls(number);
    INNERMOST.set(trampoline::slot(number).below.load(Ordering::Relaxed));
    trampoline::give_back(number);
    for call in calls {
        quietly(|| drop(call));
    }
}

fn take_calls(number: u32) -> Vec<Call> {
    let calls = trampoline::slot(number).calls.swap(ptr::null_mut(), Ordering::Relaxed);
    if calls.is_null() {
        return Vec::new();
    }
    // SAFETY: made from a box by `on_return`, and taken out of the slot once.
    *unsafe { Box::from_raw(calls) }
}

fn run(calls: Vec<Call>) {
    for call in calls.into_iter().rev() {
        quietly(call);
    }
}

/// Calls something of the user's; a panic ends here.
fn quietly(call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        // To drop it may panic as well; then it stays.
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            mem::forget(another);
        }
    }
}
