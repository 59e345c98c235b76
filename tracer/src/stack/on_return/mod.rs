//! What is to be run right after a function has returned.
//!
//! Runs on any thread. The function's return on the stack is replaced by the address of a trampoline
//! ([`trampoline`]), which comes here. Where the return is, is never guessed: the unwind tables say it.
//!
//! A function is awaited because somebody has asked for that ([`on_return`], outside of signal handlers), or because a hook
//! of a compiler has told that it is entered, and there is none for its end ([`find`]; also in signal handlers).
//!
//! Each thread has a list of its slots, the innermost function's first ([`list`]). A function that was left by a panic
//! or a `longjmp` does not come here; its slot is found to be left over when the thread uses the list next,
//! by where it is on the stack.
#![allow(unsafe_code, reason = "changes a function's return; argued where it stands")]

mod list;
#[cfg(test)]
mod tests;
pub(super) mod trampoline;

use std::arch::x86_64::__cpuid_count;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use std::{arch::asm, error, fmt, mem, ptr};

use super::Registers;
use super::bounds::Stack;
use super::rules::Rule;
use crate::sys;
use trampoline::Awaited;

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
    /// All slots of the process, 4080 or more, are in use by functions that have not returned.
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

/// What is told that a function is left which a hook has entered, by the address that was given then.
pub(crate) type Left = fn(address: u64);

/// What is told of all these: null before the first of them.
static LEFT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    /// Gives the thread's slots back when the thread ends.
    static AT_END: AtEnd = const { AtEnd };
}

struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        // Functions that are further out than this have returned, or never will.
        leave_those_below(sys::stack_pointer());
        list::change(list::Slots::give_spare_back);
    }
}

/// Has `call` run after the function that `from` belongs to has returned.
#[cold]
#[inline(never)]
pub fn on_return(from: Registers, call: Call) -> Result<(), OnReturnError> {
    let (place, caller) = place_and_caller(from, Rule::at)?;
    if !is_possible() {
        return Err(OnReturnError::Processor);
    }
    AT_END.try_with(|_| ()).map_err(|_| OnReturnError::ThreadEnds)?;
    leave_those_below(place);
    if let Some(number) = trampoline::number_of(caller) {
        return add(number, place, call);
    }
    Rule::at(caller).ok_or(OnReturnError::UnknownReturn)?;
    if divert(place, caller, Awaited::Calls(Box::new(vec![call]))) {
        Ok(())
    } else {
        Err(OnReturnError::TooMany)
    }
}

/// The return of a function that a hook has told of.
#[derive(Debug)]
pub(crate) struct Return {
    place: usize,
    caller: usize,
    /// The slot that leads there already, because the function was jumped to by one that is awaited; or 0.
    slot: u32,
}

impl Return {
    /// Returns the address to which the function will return.
    pub(crate) fn call_site(&self) -> u64 {
        self.caller as u64
    }
}

/// Finds the return of a function that a hook has told of, where it can be awaited. `left` is told of functions that are found
/// to be left before: by a jump, or by unwinding, or as the last thing that they did was to jump to this one.
#[inline(always)]
pub(crate) fn find(from: Registers, left: Left) -> Option<Return> {
    if LEFT.load(Ordering::Relaxed).is_null() {
        LEFT.store(left as *mut (), Ordering::Relaxed);
    }
    let (place, caller) = place_and_caller(from, Rule::at_for_hook).ok()?;
    leave_those_below(place);
    let Some(number) = trampoline::number_of(caller) else {
        let is_awaitable = is_possible() && Rule::at_for_hook(caller).is_some();
        return is_awaitable.then_some(Return { place, caller, slot: 0 });
    };
    follow(number, place)
}

/// Gives the return of a function that an awaited one, of the slot `number`, has jumped to as the last thing that it did.
#[cold]
#[inline(never)]
fn follow(number: u32, place: usize) -> Option<Return> {
    let slot = trampoline::slot(number);
    let awaited = list::change(|slots| {
        let is_same = slots.innermost() == number && slot.place.load(Ordering::Relaxed) == place;
        is_same.then(|| slot.take_awaited())
    })??;
    if let Awaited::Calls(_) = awaited {
        // What is to be run is run when this function returns.
        list::change(|_| slot.set_awaited(awaited))?;
        return None;
    }
    tell(awaited);
    Some(Return { place, caller: slot.caller.load(Ordering::Relaxed), slot: number })
}

/// Has the end of a function told of which a hook has said that it is entered, by `address`. Returns false where that cannot
/// be: all slots are in use, the thread is ending, or this is a signal handler that has interrupted a change of the list.
#[inline(always)]
pub(crate) fn await_function(found: Return, address: u64) -> bool {
    let awaited = Awaited::Function(address);
    if found.slot == 0 {
        return divert(found.place, found.caller, awaited);
    }
    list::change(|_| trampoline::slot(found.slot).set_awaited(awaited)).is_some()
}

/// Gives the calling thread's slots back, at its end: what hooks tell of later is not awaited.
pub(crate) fn release() {
    list::release();
}

/// Has the return at `place`, which leads to `caller`, lead to a trampoline.
#[inline(always)]
fn divert(place: usize, caller: usize, awaited: Awaited) -> bool {
    let is_function = matches!(awaited, Awaited::Function(_));
    let is_diverted = list::change(|slots| {
        if is_function && slots.is_over() {
            return false;
        }
        let Some(number) = slots.take() else { return false };
        let slot = trampoline::slot(number);
        slot.caller.store(caller, Ordering::Relaxed);
        slot.place.store(place, Ordering::Relaxed);
        slot.set_awaited(awaited);
        slots.push(number);
        // SAFETY: the unwind tables say that the running function's return is here, and it leads to code. The
        // compiler does not read it. What stands there now comes back to `returned`.
        unsafe {
            ptr::with_exposed_provenance_mut::<usize>(place).write_volatile(trampoline::address(number));
        }
        true
    });
    is_diverted == Some(true)
}

/// Adds to what is run after a function whose return is changed already.
fn add(number: u32, place: usize, call: Call) -> Result<(), OnReturnError> {
    let slot = trampoline::slot(number);
    let added = list::change(|slots| {
        if slots.innermost() != number || slot.place.load(Ordering::Relaxed) != place {
            // A return that was copied from elsewhere.
            return false;
        }
        let calls = match slot.take_awaited() {
            Awaited::Calls(mut calls) => {
                calls.push(call);
                calls
            }
            Awaited::Function(address) => Box::new(vec![Box::new(move || tell_left(address)), call]),
            Awaited::Nothing => Box::new(vec![call]),
        };
        slot.set_awaited(Awaited::Calls(calls));
        true
    });
    added.filter(|added| *added).map(|_| ()).ok_or(OnReturnError::UnknownReturn)
}

/// Returns where on the stack the function's return is, and what stands there. `rule_at` gives the rule of a place in code.
#[inline(always)]
fn place_and_caller(
    from: Registers,
    rule_at: impl FnOnce(usize) -> Option<Rule>,
) -> Result<(usize, usize), OnReturnError> {
    let stack = Stack::around(from.sp).ok_or(OnReturnError::ForeignStack)?;
    let rule = rule_at(from.pc).ok_or(OnReturnError::UnknownReturn)?;
    let place = place_of_return(from, rule).ok_or(OnReturnError::UnknownReturn)?;
    let caller = stack.word(from.sp, place).ok_or(OnReturnError::UnknownReturn)?;
    Ok((place, caller))
}

/// Returns where on the stack the function's return is, if the rule of its unwind table says so.
fn place_of_return(from: Registers, rule: Rule) -> Option<usize> {
    match rule {
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
    #[allow(unused_unsafe, reason = "a safe function since Rust 1.94")]
    // SAFETY: as above. Bit 2 tells of `xgetbv` with the argument 1.
    let tells_use = unsafe { __cpuid_count(0xd, 1) }.eax & 4 != 0;
    trampoline::TELLS_USE.store(u8::from(tells_use), Ordering::Relaxed);
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
    // Those that are further in were left by a jump.
    while let Some(awaited) = list::change(|slots| slots.pop_inside(number)).flatten() {
        tell(awaited);
    }
    let slot = trampoline::slot(number);
    // The list is changed together with the return: a signal handler between would take the slot for one that is left.
    let put_back = |slots: Option<&list::Slots>| {
        // SAFETY: the promise; the trampoline has reserved the word, and jumps to where it leads.
        unsafe { place.write_volatile(slot.caller.load(Ordering::Relaxed)) };
        slots.map_or(Awaited::Nothing, |slots| slots.take_returned(number))
    };
    match list::change(|slots| put_back(Some(slots))) {
        Some(awaited) => run(awaited),
        None => drop(put_back(None)),
    }
}

/// Is called when a function is unwound: runs what is to be run. The slot is needed until the unwinder has
/// gone on, and is given back later.
fn unwound(number: u32) {
    let _errno = sys::keep_errno();
    run(trampoline::slot(number).take_awaited());
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

/// Gives up the functions that were left without a return: whose return was below `place`, where no frame of a running
/// function is, or is overwritten.
#[inline(always)]
fn leave_those_below(place: usize) {
    while let Some(awaited) = list::change(|slots| slots.pop_left(place)).flatten() {
        tell(awaited);
    }
}

/// Does what is to be done of a function that was left without a return. What was to be run after that is dropped.
#[cold]
#[inline(never)]
fn tell(awaited: Awaited) {
    match awaited {
        Awaited::Nothing => {}
        Awaited::Function(address) => tell_left(address),
        Awaited::Calls(calls) => calls.into_iter().for_each(|call| quietly(|| drop(call))),
    }
}

/// Does what is to be done when a function has returned.
#[inline(always)]
fn run(awaited: Awaited) {
    match awaited {
        Awaited::Nothing => {}
        Awaited::Function(address) => tell_left(address),
        Awaited::Calls(calls) => calls.into_iter().rev().for_each(quietly),
    }
}

#[inline(always)]
fn tell_left(address: u64) {
    let left = LEFT.load(Ordering::Relaxed);
    if !left.is_null() {
        // SAFETY: `find` has stored a function of this type.
        unsafe { mem::transmute::<*mut (), Left>(left)(address) };
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
