//! Closures that run right after a function has returned.
//!
//! The code runs on any thread. The function's return address on the stack is replaced by the address of a trampoline
//! ([`trampoline`]), which calls this module. The position of the return address is never guessed: it comes from the
//! unwind tables.
//!
//! A function is awaited because a caller has requested that ([`on_return`], outside of signal handlers), or because
//! a compiler's hook has reported its entry and there is no hook for its end ([`find`]; also in signal handlers).
//!
//! Each thread has a list of its slots, one for each awaited function, the innermost function's first ([`list`]). A
//! function that was left by a panic or a `longjmp` does not return to its trampoline. When the thread uses the list
//! next, the position of the function's return address on the stack shows that its slot is left over.
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

/// A closure to be run after a function has returned.
pub(crate) type Call = Box<dyn FnOnce()>;

/// The reason why no closure will run at the return of a function. The closure was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnReturnError {
    /// The unwind tables do not give the place of the function's return address, or that place does not contain one:
    /// for example, the program was linked without tables, or glibc is older than 2.35.
    UnknownReturn,
    /// The function does not run on the thread's own stack, but on that of a coroutine or a signal handler.
    ForeignStack,
    /// All slots of the process, 4080 or more, are in use by functions that have not returned.
    TooMany,
    /// The thread is ending, and its thread-local variables were destroyed.
    ThreadEnds,
    /// The processor forbids changing a return address (a shadow stack is in use), or has registers that this library
    /// does not know.
    Processor,
}

impl fmt::Display for OnReturnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OnReturnError::UnknownReturn => "the unwind tables do not say where the function returns to",
            OnReturnError::ForeignStack => "the function does not run on its thread's own stack",
            OnReturnError::TooMany => "the returns of too many functions are awaited at the same time",
            OnReturnError::ThreadEnds => "the thread is ending",
            OnReturnError::Processor => "the processor protects return addresses (shadow stack), or has registers that this library does not know",
        })
    }
}

impl error::Error for OnReturnError {}

/// A callback for the end of a function whose entry a compiler's hook has reported. `address` is the address that the
/// hook has passed to [`await_function`].
pub(crate) type Left = fn(address: u64);

/// The callback ([`Left`]) for the ends of all functions that hooks have reported; null before the first report.
static LEFT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    /// Gives the thread's slots back when the thread ends.
    static THREAD_END_GUARD: ThreadEndGuard = const { ThreadEndGuard };
}

struct ThreadEndGuard;

impl Drop for ThreadEndGuard {
    fn drop(&mut self) {
        // Functions that are further out than this have returned, or never will.
        release_slots_below(sys::stack_pointer());
        list::change(list::Slots::return_spare_slots);
    }
}

/// Runs `call` after the function that `from` belongs to has returned.
#[cold]
#[inline(never)]
pub fn on_return(from: Registers, call: Call) -> Result<(), OnReturnError> {
    let (place, caller) = place_and_caller(from, Rule::at)?;
    if !is_possible() {
        return Err(OnReturnError::Processor);
    }
    THREAD_END_GUARD.try_with(|_| ()).map_err(|_| OnReturnError::ThreadEnds)?;
    release_slots_below(place);
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

/// The place and the target of the return of a function whose entry a hook has reported.
#[derive(Debug)]
pub(crate) struct Return {
    place: usize,
    caller: usize,
    /// The number of the slot to whose trampoline the function returns already, because an awaited function has ended
    /// with a jump to this function (a tail call); 0 if the function returns to its caller.
    slot: u32,
}

impl Return {
    /// Returns the address to which the function will return.
    pub(crate) fn call_site(&self) -> u64 {
        self.caller as u64
    }
}

/// Finds the return of a function whose entry a hook has reported, if that return can be awaited. Calls `left` for
/// functions that turn out to have been left before: by `longjmp`, by unwinding, or by a tail call of the reported
/// function.
#[inline(always)]
pub(crate) fn find(from: Registers, left: Left) -> Option<Return> {
    if LEFT.load(Ordering::Relaxed).is_null() {
        LEFT.store(left as *mut (), Ordering::Relaxed);
    }
    let (place, caller) = place_and_caller(from, Rule::at_for_hook).ok()?;
    release_slots_below(place);
    let Some(number) = trampoline::number_of(caller) else {
        let is_awaitable = is_possible() && Rule::at_for_hook(caller).is_some();
        return is_awaitable.then_some(Return { place, caller, slot: 0 });
    };
    follow(number, place)
}

/// Returns the return of a function that the awaited function of the slot `number` has called by a tail call, that is,
/// by a jump. Returns `None` if that return cannot be awaited.
#[cold]
#[inline(never)]
fn follow(number: u32, place: usize) -> Option<Return> {
    let slot = trampoline::slot(number);
    let awaited = list::change(|slots| {
        let is_same = slots.innermost() == number && slot.place.load(Ordering::Relaxed) == place;
        is_same.then(|| slot.take_awaited())
    })??;
    if let Awaited::Calls(_) = awaited {
        // The closures run when this function returns.
        list::change(|_| slot.set_awaited(awaited))?;
        return None;
    }
    handle_left_function(awaited);
    Some(Return { place, caller: slot.caller.load(Ordering::Relaxed), slot: number })
}

/// Awaits the end of a function whose entry at `address` a hook has reported. Returns false if that is impossible:
/// all slots are in use, the thread is ending, or this is a signal handler that has interrupted a change of the list.
#[inline(always)]
pub(crate) fn await_function(found: Return, address: u64) -> bool {
    let awaited = Awaited::Function(address);
    if found.slot == 0 {
        return divert(found.place, found.caller, awaited);
    }
    list::change(|_| trampoline::slot(found.slot).set_awaited(awaited)).is_some()
}

/// Gives the calling thread's slots back, at its end: functions that hooks report later are not awaited.
pub(crate) fn release() {
    list::release();
}

/// Replaces the return address at `place` on the stack, which is `caller`, by the address of a trampoline. Returns
/// whether that was possible.
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
        // SAFETY: the unwind tables say that the running function's return address is here, and it leads to code. The
        // compiler does not read it. `returned` restores the old value.
        unsafe {
            ptr::with_exposed_provenance_mut::<usize>(place).write_volatile(trampoline::address(number));
        }
        true
    });
    is_diverted == Some(true)
}

/// Adds a closure to run after the function of the slot `number`, whose return address is changed already.
fn add(number: u32, place: usize, call: Call) -> Result<(), OnReturnError> {
    let slot = trampoline::slot(number);
    let added = list::change(|slots| {
        if slots.innermost() != number || slot.place.load(Ordering::Relaxed) != place {
            // A return address that was copied from elsewhere.
            return false;
        }
        let calls = match slot.take_awaited() {
            Awaited::Calls(mut calls) => {
                calls.push(call);
                calls
            }
            Awaited::Function(address) => {
                Box::new(vec![Box::new(move || call_leave_callback(address)), call])
            }
            Awaited::Nothing => Box::new(vec![call]),
        };
        slot.set_awaited(Awaited::Calls(calls));
        true
    });
    added.filter(|added| *added).map(|_| ()).ok_or(OnReturnError::UnknownReturn)
}

/// Returns the address on the stack at which the function's return address is, and that return address. `rule_at`
/// returns the unwinding rule for an address in code.
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

/// Returns the address on the stack at which the function's return address is, if the rule of its unwind table gives
/// it.
fn place_of_return(from: Registers, rule: Rule) -> Option<usize> {
    match rule {
        Rule::FramePointer => from.fp.checked_add(8),
        Rule::StackPointer { size, .. } => from.sp.checked_add(size - 8),
        _ => None,
    }
}

/// Returns whether the processor lets a return address be changed, and all of its registers can be saved.
fn is_possible() -> bool {
    const UNKNOWN: u8 = 0;
    const YES: u8 = 1;
    const NO: u8 = 2;
    // Relaxed: each thread would get the same result.
    static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);
    if KNOWN.load(Ordering::Relaxed) == UNKNOWN {
        // The code of the trampolines must stay loaded while a function returns to it.
        sys::stay_loaded();
        let is_possible = trampoline::finds_slots() && saves_all_registers() && !has_shadow_stack();
        KNOWN.store(if is_possible { YES } else { NO }, Ordering::Relaxed);
    }
    KNOWN.load(Ordering::Relaxed) == YES
}

fn saves_all_registers() -> bool {
    if !is_x86_feature_detected!("xsave") {
        // Then there are only the registers of `fxsave`.
        return true;
    }
    let fits = |part: u32| {
        #[allow(unused_unsafe, reason = "a safe function since Rust 1.94")]
        // SAFETY: part of every x86-64 processor.
        let area = unsafe { __cpuid_count(0xd, part) };
        area.ebx as usize + area.eax as usize <= trampoline::STATE
    };
    // AVX, and the three parts of AVX-512; missing parts have the size 0.
    trampoline::HAS_XSAVE.store(1, Ordering::Relaxed);
    #[allow(unused_unsafe, reason = "a safe function since Rust 1.94")]
    // SAFETY: as above. Bit 2 shows whether `xgetbv` takes the argument 1.
    let has_xinuse = unsafe { __cpuid_count(0xd, 1) }.eax & 4 != 0;
    trampoline::HAS_XINUSE.store(u8::from(has_xinuse), Ordering::Relaxed);
    [2, 5, 6, 7].into_iter().all(fits)
}

fn has_shadow_stack() -> bool {
    let pointer: u64;
    // SAFETY: `rdsspq rax` does not change the register if there is no shadow stack.
    unsafe {
        asm!("xor eax, eax", ".byte 0xf3, 0x48, 0x0f, 0x1e, 0xc8", out("rax") pointer, options(nostack))
    };
    pointer != 0
}

/// Restores the original return address of a function that has just returned, and runs the function's closures. The
/// trampolines call this.
///
/// # Safety
/// The function of slot `number` has just returned, and `place` is where its return address was on the stack.
unsafe extern "C" fn returned(number: u32, place: *mut usize) {
    let _errno = sys::keep_errno();
    // Awaited functions that are further in were left by a jump.
    while let Some(awaited) = list::change(|slots| slots.pop_inside(number)).flatten() {
        handle_left_function(awaited);
    }
    let slot = trampoline::slot(number);
    // The list is changed together with the return address: a signal handler between would take the slot for one that
    // is left.
    let put_back = |slots: Option<&list::Slots>| {
        // SAFETY: the promise; the trampoline has reserved the word, and jumps to the address in it.
        unsafe { place.write_volatile(slot.caller.load(Ordering::Relaxed)) };
        slots.map_or(Awaited::Nothing, |slots| slots.take_returned(number))
    };
    match list::change(|slots| put_back(Some(slots))) {
        Some(awaited) => run(awaited),
        None => drop(put_back(None)),
    }
}

/// Runs the closures of the function of slot `number`, which is being unwound. The slot is needed until the unwinder
/// has gone on, and is given back later.
fn unwound(number: u32) {
    let _errno = sys::keep_errno();
    run(trampoline::slot(number).take_awaited());
}

/// Returns the original return address of a function that returns to this trampoline.
pub(super) fn real_return(trampoline: usize) -> Option<usize> {
    let caller = trampoline::slot(trampoline::number_of(trampoline)?).caller.load(Ordering::Relaxed);
    (caller != 0).then_some(caller)
}

/// Returns whether this is the address of a trampoline.
pub(super) fn is_trampoline(address: usize) -> bool {
    trampoline::number_of(address).is_some()
}

/// Gives up the awaited functions that were left without a return: their return address was stored below `place`, where
/// no running function has a frame, or it is overwritten.
#[inline(always)]
fn release_slots_below(place: usize) {
    while let Some(awaited) = list::change(|slots| slots.pop_left(place)).flatten() {
        handle_left_function(awaited);
    }
}

/// Acts on the end of a function that was left without a return: drops the closures that were to run after it, or
/// reports it as left if a hook has reported its entry.
#[cold]
#[inline(never)]
fn handle_left_function(awaited: Awaited) {
    match awaited {
        Awaited::Nothing => {}
        Awaited::Function(address) => call_leave_callback(address),
        Awaited::Calls(calls) => calls.into_iter().for_each(|call| run_catching_panics(|| drop(call))),
    }
}

/// Acts on the return of a function: runs the closures that were to run after it, or reports it as left if a hook has
/// reported its entry.
#[inline(always)]
fn run(awaited: Awaited) {
    match awaited {
        Awaited::Nothing => {}
        Awaited::Function(address) => call_leave_callback(address),
        Awaited::Calls(calls) => calls.into_iter().rev().for_each(run_catching_panics),
    }
}

#[inline(always)]
fn call_leave_callback(address: u64) {
    let left = LEFT.load(Ordering::Relaxed);
    if !left.is_null() {
        // SAFETY: `find` has stored a function of this type.
        unsafe { mem::transmute::<*mut (), Left>(left)(address) };
    }
}

/// Calls a closure of the user's; a panic ends here.
fn run_catching_panics(call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        // Dropping the panic's value may panic as well; then the value is leaked.
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            mem::forget(another);
        }
    }
}
