//! Catches, on Windows on x86-64, the exceptions that the program does not handle and that end the process. For each of
//! them, this module calls functions of the tracer with the name of the signal that corresponds to the exception on
//! other systems, and then lets the process end as it would have ended without the tracer.
//!
//! The system calls one function for such exceptions, on the thread's own stack, unless there is a debugger. The
//! filter that was set before is called after the record, and decides the further course of the process. An end of
//! the process at once (`abort`, a failed check of the stack) does not reach this function.
#![allow(unsafe_code, reason = "reads what the system says of an exception; each argued where it stands")]

use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use windows_sys::Win32::Foundation::{
    EXCEPTION_ACCESS_VIOLATION, EXCEPTION_BREAKPOINT, EXCEPTION_DATATYPE_MISALIGNMENT,
    EXCEPTION_FLT_DENORMAL_OPERAND, EXCEPTION_ILLEGAL_INSTRUCTION, EXCEPTION_IN_PAGE_ERROR,
    EXCEPTION_INT_OVERFLOW, EXCEPTION_PRIV_INSTRUCTION, EXCEPTION_SINGLE_STEP, EXCEPTION_STACK_OVERFLOW,
};
use windows_sys::Win32::System::Diagnostics::Debug::{
    CONTEXT, EXCEPTION_CONTINUE_EXECUTION, EXCEPTION_CONTINUE_SEARCH, EXCEPTION_POINTERS, EXCEPTION_RECORD,
    LPTOP_LEVEL_EXCEPTION_FILTER, SetUnhandledExceptionFilter,
};

/// An exception that was caught.
#[derive(Debug)]
pub(crate) struct FatalSignal {
    /// The name of the signal that corresponds to the exception on other systems, such as `SIGSEGV`.
    pub name: &'static str,
    /// The program counter, the stack pointer and the frame pointer of the interrupted function, and 0.
    pub registers: [usize; 4],
    /// The address of the memory that could not be accessed or, for exceptions of other kinds, of the instruction.
    address: usize,
}

impl fmt::Display for FatalSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:#x}", self.name, self.address)
    }
}

/// The functions that are called for exceptions.
#[derive(Debug)]
pub(crate) struct SignalCallbacks {
    /// The function that is called for each exception that was not handled.
    pub caught: fn(&FatalSignal),
    /// The function that is called after `caught`, if the exception ends the process.
    pub ends: fn(&FatalSignal),
}

/// The functions that are called for exceptions: null ──Release──► the functions, for ever.
static SIGNAL_CALLBACKS: AtomicPtr<SignalCallbacks> = AtomicPtr::new(ptr::null_mut());
/// The filter that was set before this library's: null ──Release──► the filter, for ever, if there was one.
static PREVIOUS_FILTER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Calls the functions of `signal_callbacks` for each unhandled exception of this process, from now on. A second call
/// does nothing.
pub(crate) fn catch_fatal_signals(signal_callbacks: &'static SignalCallbacks) {
    let signal_callbacks = ptr::from_ref(signal_callbacks).cast_mut();
    if SIGNAL_CALLBACKS
        .compare_exchange(ptr::null_mut(), signal_callbacks, Ordering::Release, Ordering::Relaxed)
        .is_err()
    {
        return;
    }
    // SAFETY: the filter is a plain function, in code that stays loaded in a process that traces.
    let before = unsafe { SetUnhandledExceptionFilter(Some(on_exception)) };
    PREVIOUS_FILTER.store(before.map_or(ptr::null_mut(), |before| before as *mut c_void), Ordering::Release);
}

unsafe extern "system" fn on_exception(pointers: *const EXCEPTION_POINTERS) -> i32 {
    // SAFETY: stored by `catch_fatal_signals` before this could be called.
    let signal_callbacks = unsafe { SIGNAL_CALLBACKS.load(Ordering::Acquire).as_ref() };
    // SAFETY: the system gives both parts to a filter.
    let (record, context) = unsafe { (&*(*pointers).ExceptionRecord, &*(*pointers).ContextRecord) };
    let signal = describe(record, context);
    // If the stack is used up there is no room for a record.
    if let (Some(signal_callbacks), Some(signal), true) =
        (signal_callbacks, &signal, record.ExceptionCode != EXCEPTION_STACK_OVERFLOW)
    {
        (signal_callbacks.caught)(signal);
    }
    let before = PREVIOUS_FILTER.load(Ordering::Acquire);
    // SAFETY: null, which is `None` of the `Option`, or the system's value; the filter gets the system's argument.
    let answer = unsafe {
        std::mem::transmute::<*mut c_void, LPTOP_LEVEL_EXCEPTION_FILTER>(before)
            .map_or(EXCEPTION_CONTINUE_SEARCH, |before| before(pointers))
    };
    if let (Some(signal_callbacks), Some(signal), true) =
        (signal_callbacks, &signal, answer != EXCEPTION_CONTINUE_EXECUTION)
    {
        (signal_callbacks.ends)(signal);
    }
    answer
}

/// Describes an exception; returns `None` if it is not a fault of the code, but, for example, an exception that a
/// language throws.
fn describe(record: &EXCEPTION_RECORD, context: &CONTEXT) -> Option<FatalSignal> {
    let name = match record.ExceptionCode {
        EXCEPTION_ACCESS_VIOLATION | EXCEPTION_STACK_OVERFLOW => "SIGSEGV",
        EXCEPTION_DATATYPE_MISALIGNMENT | EXCEPTION_IN_PAGE_ERROR => "SIGBUS",
        EXCEPTION_ILLEGAL_INSTRUCTION | EXCEPTION_PRIV_INSTRUCTION => "SIGILL",
        // All of the floating point unit, and those of integers, have numbers in this range.
        EXCEPTION_FLT_DENORMAL_OPERAND..=EXCEPTION_INT_OVERFLOW => "SIGFPE",
        EXCEPTION_BREAKPOINT | EXCEPTION_SINGLE_STEP => "SIGTRAP",
        _ => return None,
    };
    let is_access = matches!(record.ExceptionCode, EXCEPTION_ACCESS_VIOLATION | EXCEPTION_IN_PAGE_ERROR)
        && record.NumberParameters >= 2;
    let address = if is_access { record.ExceptionInformation[1] } else { record.ExceptionAddress.addr() };
    let [pc, sp, fp] = [context.Rip, context.Rsp, context.Rbp].map(|register| register as usize);
    Some(FatalSignal { name, registers: [pc, sp, fp, 0], address })
}

/// Returns false: there is no spare stack.
pub(crate) fn is_on_spare_stack(_: usize) -> bool {
    false
}
