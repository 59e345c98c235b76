//! The one pointer of each thread that is read in two instructions, in a shared library too.
//!
//! In a shared library, a read of one of Rust's thread-locals is a call of the dynamic linker, which takes as long as
//! the rest of a record that a hook makes. Stable Rust has no faster kind of thread-local, so this pointer is defined
//! and read by assembly.
#![allow(
    unsafe_code,
    reason = "reads and writes memory of the thread by assembly; each argued where it stands"
)]

use std::arch::{asm, global_asm};
use std::marker::PhantomData;

/// Returns a line of assembly as a text: `$before`, the name of the variable, and `$after`.
macro_rules! near_pointer {
    ($before:literal, $after:literal) => {
        concat!($before, "tracer.", env!("CARGO_PKG_VERSION"), ".near_pointer", $after)
    };
}

// The variable is defined as the compiler defines a thread-local that is zero at first. It is hidden: code in other
// compilation units uses the variable, but other objects must not, because each copy of the library has its own.
global_asm!(
    ".pushsection .tbss.tracer_near_pointer, \"awT\", @nobits",
    ".balign 8",
    near_pointer!(".globl ", ""),
    near_pointer!(".hidden ", ""),
    near_pointer!(".type ", ", @object"),
    near_pointer!(".size ", ", 8"),
    near_pointer!("", ": .zero 8"),
    ".popsection",
);

/// The access to one pointer of each thread, null at first, which can be read and set as long as the thread runs. All
/// values of this type access the same pointer, so there must be only one value.
#[derive(Debug)]
pub(crate) struct NearPointer<T>(PhantomData<fn(*const T)>);

impl<T> NearPointer<T> {
    /// Makes the access to the pointer.
    ///
    /// # Safety
    /// There is no other value of this type in the library, for any `T`.
    pub(crate) const unsafe fn new() -> NearPointer<T> {
        NearPointer(PhantomData)
    }

    /// Returns the calling thread's pointer.
    #[inline(always)]
    pub(crate) fn get(&self) -> *const T {
        let pointer;
        // SAFETY: the first instruction loads the distance of the variable from the thread's own block, which the
        // dynamic linker has put there; the second one reads the variable.
        unsafe {
            asm!(
                near_pointer!("mov {pointer}, qword ptr [rip + ", "@GOTTPOFF]"),
                "mov {pointer}, qword ptr fs:[{pointer}]",
                pointer = out(reg) pointer,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        pointer
    }

    /// Sets the calling thread's pointer.
    #[inline(always)]
    pub(crate) fn set(&self, pointer: *const T) {
        // SAFETY: as in `get`; only this type uses the variable, and no other thread does.
        unsafe {
            asm!(
                near_pointer!("mov {distance}, qword ptr [rip + ", "@GOTTPOFF]"),
                "mov qword ptr fs:[{distance}], {pointer}",
                distance = out(reg) _,
                pointer = in(reg) pointer,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Sets the calling thread's pointer, and returns the former pointer.
    pub(crate) fn replace(&self, pointer: *const T) -> *const T {
        let had = self.get();
        self.set(pointer);
        had
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn each_thread_has_its_own_pointer() {
        // SAFETY: the threads that use it trace nothing, so the other value is not used on them.
        let pointer: NearPointer<u8> = unsafe { NearPointer::new() };
        let round = |number: usize| {
            assert!(pointer.get().is_null(), "in a new thread, or emptied");
            pointer.set(ptr::without_provenance(number));
            std::thread::yield_now();
            assert_eq!(pointer.get().addr(), number);
            assert_eq!(pointer.replace(ptr::null()).addr(), number);
        };
        std::thread::scope(|scope| {
            for number in 1..9 {
                scope.spawn(move || (0..1000).for_each(|turn| round(number + 8 * turn)));
            }
        });
    }
}
