//! `is_called_from`: whether the current function was called from a given function.
//!
//! The code runs on any thread. The first call that asks for a function searches for the function in the loaded modules
//! (the executable and libraries). Each call then walks the stack and compares the return addresses with the function's
//! code. The functions found are kept for the life of the process, so that threads can use them without a lock.

use std::cell::Cell;
use std::fmt;
use std::ops::ControlFlow;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::stack::functions::{Functions, generation};
use crate::stack::{self, End, Registers};
use crate::user::relay;
use crate::words::exclusion::Excluded;

/// The answer of [`is_called_from`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalledFrom {
    /// The function has called the current function, directly or not.
    Yes,
    /// The function has not called the current function: the stack was walked to the thread's beginning, and the
    /// function was not found. An inlined caller has no frame, so this may be wrong if the function was inlined into
    /// another one, or ended with a tail call.
    No,
    /// The stack could not be walked to the thread's beginning, or the function in question was not found.
    Unknown,
}

/// Returns whether the current function was called, directly or not, from a function with this name.
///
/// A name is a path as the compiler writes it, with or without its hash, or the last segments of that path:
/// `parse::value` means `my_crate::parse::value`, and every other function whose path ends in these segments. C
/// functions have their plain names. All instances of a generic function share one name, and all count; a closure is
/// a function of its own, `parse::value::{{closure}}`. The macro [`is_called_from!`](crate::is_called_from!) takes a
/// path that the compiler checks.
///
/// ```no_run
/// # fn invalidate() {
/// // The cache may be cleared by its owner only.
/// if tracer::is_called_from("Cache::clear") == tracer::CalledFrom::No {
///     tracer::trace!("the cache is invalidated by somebody else");
/// }
/// # }
/// ```
///
/// # Limits
/// A function that the compiler has inlined has no frame: its caller is found in its place, and the answer may be
/// [`No`](CalledFrom::No) although the source says otherwise. Mark the function in question as `#[inline(never)]`.
/// "The current function", too, is the function into which the code that asks was inlined. If a function ends with a
/// call of another one, the compiler may have reused its frame. Functions with equal code may have been merged, and
/// then count as one function.
///
/// # Costs
/// The first question about a name reads the symbol tables of the executable and of all loaded libraries: a
/// millisecond or more. This allocates and opens files. A further question checks whether libraries were loaded
/// meanwhile (if so, the tables are read again) and takes one to a few nanoseconds for each frame; see
/// `docs/performance.md`. The functions found are kept for the life of the process, once for each name.
///
/// # Safety of the process
/// Nothing on the stack can make this function fault, and it does not panic. Do not call it in signal handlers: the
/// first question allocates and locks. The answer is [`Unknown`](CalledFrom::Unknown) on stacks that are not the
/// thread's own (coroutines), if the executable has no unwind tables, on systems other than Linux on x86-64 and aarch64
/// and Windows on x86-64, before glibc 2.35, and for a name that is in no symbol table (the program is stripped or made
/// with the linker of MSVC, or the name is misspelt). If the name is in no symbol table, a warning goes to stderr, once
/// for each name. On Windows the answer is also `Unknown` for functions that call no other function.
#[inline(always)]
#[must_use]
pub fn is_called_from(name: &str) -> CalledFrom {
    by_name(name, Registers::here())
}

/// Returns whether the current function was called, directly or not, from the function at this path:
/// `is_called_from!(parse::value)`.
///
/// Everything said at [`is_called_from()`] applies here, too, except for the name: the compiler knows the function,
/// so it is found in a stripped program as well. For a generic function the path has to name the instance
/// (`sum::<u64>`). Copies of the function that the compiler has made for other compilation units count if the symbol
/// table has them.
///
/// ```
/// use tracer::CalledFrom;
///
/// #[inline(never)]
/// fn outer() -> CalledFrom {
///     std::hint::black_box(inner())
/// }
///
/// #[inline(never)]
/// fn inner() -> CalledFrom {
///     tracer::is_called_from!(outer)
/// }
///
/// # #[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
/// # {
/// assert_eq!(outer(), CalledFrom::Yes);
/// assert_eq!(inner(), CalledFrom::No);
/// # }
/// ```
#[macro_export]
macro_rules! is_called_from {
    ($function:path) => {{
        static QUESTION: $crate::__macro_support::Question = $crate::__macro_support::Question::new();
        QUESTION.ask($function as *const (), $crate::__macro_support::Registers::here())
    }};
}

/// The function that a call of [`is_called_from`] asks for, by its name or by its address.
#[derive(Debug, PartialEq, Eq)]
enum WantedFunction {
    Name(String),
    Address(usize),
}

/// An answer: the function that was asked for, and the functions that were found for it in the loaded modules. The
/// latter are valid until a module (the executable or a library) is loaded or unloaded.
#[derive(Debug)]
struct Answered {
    wanted: WantedFunction,
    /// The number that [`generation`] returned before the last search for `functions`. That number changes when a
    /// module is loaded or unloaded.
    generation: AtomicU64,
    functions: Functions,
}

impl Answered {
    fn is_of(&self, generation: u64) -> bool {
        // Relaxed: the other fields never change, and a reader that misses a new generation only searches again.
        self.generation.load(Ordering::Relaxed) == generation
    }

    #[inline(always)]
    fn answer(&self, from: Registers) -> CalledFrom {
        if self.functions.is_empty() {
            return CalledFrom::Unknown;
        }
        let (mut is_own, mut is_found) = (true, false);
        let end = stack::visit(from, |frame| {
            is_found = !is_own && self.functions.have(frame);
            is_own = false;
            if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match end {
            _ if is_found => CalledFrom::Yes,
            End::Complete => CalledFrom::No,
            _ => CalledFrom::Unknown,
        }
    }
}

/// All answers so far. An answer is never removed, even if a newer one replaces it, because other threads may be
/// reading it. If a later search finds the same functions, the old answer is used again: so a plugin that is loaded and
/// unloaded repeatedly does not fill memory.
static ANSWERED: Mutex<Vec<&'static Answered>> = Mutex::new(Vec::new());

thread_local! {
    /// The answer that this thread has got last for a function's name; `None` before the first answer.
    static LAST: Cell<Option<&'static Answered>> = const { Cell::new(None) };
}

fn by_name(name: &str, from: Registers) -> CalledFrom {
    let generation = generation();
    let last = LAST.get().filter(|last| {
        last.is_of(generation) && matches!(&last.wanted, WantedFunction::Name(last) if last == name)
    });
    match last.or_else(|| find(WantedFunction::Name(name.to_owned()), generation)) {
        Some(answered) => {
            LAST.set(Some(answered));
            answered.answer(from)
        }
        None => CalledFrom::Unknown,
    }
}

/// The state of one call of `is_called_from!` in the source, a static: the call's last answer.
pub struct Question {
    /// The answer that this call has used last, which is never freed; null before the first answer. The pointer is
    /// stored with Release and loaded with Acquire.
    last: AtomicPtr<Answered>,
}

impl Question {
    /// Makes the state of a call of `is_called_from!` that has not run yet.
    #[must_use]
    pub const fn new() -> Question {
        Question { last: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns whether the function that `from` belongs to was called from the function at the address `function`.
    #[must_use]
    pub fn ask(&'static self, function: *const (), from: Registers) -> CalledFrom {
        let generation = generation();
        let wanted = WantedFunction::Address(function.expose_provenance());
        #[allow(unsafe_code, reason = "reads what was found last")]
        // SAFETY: null, or an answer from `find`, which stays for the life of the process.
        let last = unsafe { self.last.load(Ordering::Acquire).as_ref() };
        // In a generic function, one call of the macro may ask for a different function in each instance.
        let last = last.filter(|last| last.is_of(generation) && last.wanted == wanted);
        let Some(answered) = last.or_else(|| find(wanted, generation)) else { return CalledFrom::Unknown };
        self.last.store(ptr::from_ref(answered).cast_mut(), Ordering::Release);
        answered.answer(from)
    }
}

impl Default for Question {
    fn default() -> Question {
        Question::new()
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Question")
    }
}

/// Returns the answer for the wanted function: an earlier answer that is still valid, or the result of a search in the
/// loaded modules.
/// Returns `None` if the thread is inside the tracer's own code, such as this function.
#[cold]
#[inline(never)]
fn find(wanted: WantedFunction, generation: u64) -> Option<&'static Answered> {
    let _excluded = Excluded::enter()?;
    let mut all = ANSWERED.lock();
    if let Some(known) = all.iter().find(|known| known.wanted == wanted && known.is_of(generation)) {
        return Some(known);
    }
    let functions = match &wanted {
        WantedFunction::Name(name) => Functions::named(name),
        WantedFunction::Address(address) => Functions::at(*address),
    };
    let is_first = !all.iter().any(|known| known.wanted == wanted);
    if let (WantedFunction::Name(name), true, true) = (&wanted, functions.is_empty(), is_first) {
        relay::say(format_args!(
            "is_called_from: no function {name:?} is in the symbol tables of this process, so the answer is \
             `Unknown`; look for the name in the output of `nm -C`, and check that the program is not stripped"
        ));
    }
    if let Some(known) = all.iter().find(|known| known.wanted == wanted && known.functions == functions) {
        known.generation.store(generation, Ordering::Relaxed);
        return Some(known);
    }
    let answered: &'static Answered =
        Box::leak(Box::new(Answered { wanted, generation: AtomicU64::new(generation), functions }));
    all.push(answered);
    Some(answered)
}
