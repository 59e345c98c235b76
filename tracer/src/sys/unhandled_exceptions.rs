//! Windows on x86-64: exceptions that nobody handles and that end the process, by the names of the signals that they are
//! elsewhere: who is told of one, and how the process ends then.
//!
//! The system calls one function for such exceptions, on the thread's own stack, unless there is a debugger. What was set
//! before is called behind the record, and decides what becomes of the process. What ends the process at once (`abort`,
//! a failed check of the stack) does not come by here.
#![allow(unsafe_code, reason = "reads what the system says of an exception; each argued where it stands")]

use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// An exception that was caught.
#[derive(Debug)]
pub(crate) struct FatalSignal {
    /// The name of the signal that this is on other systems, `SIGSEGV`.
    pub name: &'static str,
    /// The program counter, the stack pointer and the frame pointer of what was interrupted.
    pub registers: [usize; 4],
    /// The address that it has to do with.
    address: usize,
}

impl fmt::Display for FatalSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:#x}", self.name, self.address)
    }
}

/// The functions that are told of exceptions.
#[derive(Debug)]
pub(crate) struct Told {
    /// Is told of each exception that nobody has handled.
    pub caught: fn(&FatalSignal),
    /// Is told of it behind that, if it ends the process.
    pub ends: fn(&FatalSignal),
}

type Filter = unsafe extern "system" fn(*const Pointers) -> i32;

#[link(name = "kernel32", kind = "raw-dylib")]
unsafe extern "system" {
    fn SetUnhandledExceptionFilter(filter: Option<Filter>) -> Option<Filter>;
}

/// The system's `EXCEPTION_POINTERS`.
#[repr(C)]
struct Pointers {
    record: *const ExceptionRecord,
    /// The registers: a structure of which three words are read.
    context: *const u8,
}

/// The beginning of the system's `EXCEPTION_RECORD`.
#[repr(C)]
struct ExceptionRecord {
    code: u32,
    flags: u32,
    further: *const ExceptionRecord,
    instruction: usize,
    parameters: u32,
    /// Of a wrong access: whether it was a read, and the address.
    information: [usize; 2],
}

/// Who is told: null ──Release──► for ever.
static TOLD: AtomicPtr<Told> = AtomicPtr::new(ptr::null_mut());
/// The filter that was set before: null ──Release──► for ever, if there was one.
static BEFORE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Has `told` told of each exception of this process that nobody handles, from now on; once.
pub(crate) fn catch_fatal_signals(told: &'static Told) {
    let told = ptr::from_ref(told).cast_mut();
    if TOLD.compare_exchange(ptr::null_mut(), told, Ordering::Release, Ordering::Relaxed).is_err() {
        return;
    }
    // SAFETY: the filter is a plain function, of code that stays loaded where the process traces.
    let before = unsafe { SetUnhandledExceptionFilter(Some(on_exception)) };
    BEFORE.store(before.map_or(ptr::null_mut(), |before| before as *mut c_void), Ordering::Release);
}

unsafe extern "system" fn on_exception(pointers: *const Pointers) -> i32 {
    const GO_ON_SEARCHING: i32 = 0;
    const GO_ON_RUNNING: i32 = -1;
    const STACK_OVERFLOW: u32 = 0xc000_00fd;
    // SAFETY: stored by `catch_fatal_signals` before this could be called.
    let told = unsafe { TOLD.load(Ordering::Acquire).as_ref() };
    // SAFETY: the system gives both parts to a filter.
    let (record, context) = unsafe { (&*(*pointers).record, (*pointers).context) };
    let signal = describe(record, context);
    // Where the stack is used up there is no room for a record.
    if let (Some(told), Some(signal), true) = (told, &signal, record.code != STACK_OVERFLOW) {
        (told.caught)(signal);
    }
    let before = BEFORE.load(Ordering::Acquire);
    // SAFETY: null, which `Option` has for `None`, or what the system has given; it gets what the system has given.
    let answer = unsafe {
        std::mem::transmute::<*mut c_void, Option<Filter>>(before)
            .map_or(GO_ON_SEARCHING, |before| before(pointers))
    };
    if let (Some(told), Some(signal), true) = (told, &signal, answer != GO_ON_RUNNING) {
        (told.ends)(signal);
    }
    answer
}

/// Describes an exception; `None` for one that is no fault of the code, as those that languages throw.
fn describe(record: &ExceptionRecord, context: *const u8) -> Option<FatalSignal> {
    let name = match record.code {
        // A wrong access, and a used up stack.
        0xc000_0005 | 0xc000_00fd => "SIGSEGV",
        // Data that is not aligned, and a page that cannot be read from its file.
        0x8000_0002 | 0xc000_0006 => "SIGBUS",
        0xc000_001d | 0xc000_0096 => "SIGILL",
        // The floating point unit's, and integers'.
        0xc000_008d..=0xc000_0095 => "SIGFPE",
        0x8000_0003 | 0x8000_0004 => "SIGTRAP",
        _ => return None,
    };
    let is_access = matches!(record.code, 0xc000_0005 | 0xc000_0006) && record.parameters >= 2;
    let address = if is_access { record.information[1] } else { record.instruction };
    // Where the system's structure has `Rip`, `Rsp` and `Rbp`.
    let [pc, sp, fp] = [0xf8, 0x98, 0xa0].map(|offset| {
        // SAFETY: the structure of this processor is longer, and aligned.
        unsafe { *context.add(offset).cast::<usize>() }
    });
    Some(FatalSignal { name, registers: [pc, sp, fp, 0], address })
}

/// Returns false: there is no spare stack.
pub(crate) fn is_on_spare_stack(_: usize) -> bool {
    false
}
