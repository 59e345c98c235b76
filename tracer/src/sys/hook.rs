//! A variable for a function that callbacks of the operating system call. Higher modules store their functions in such
//! variables, so that the modules in `sys` do not depend on higher modules.
#![allow(unsafe_code, reason = "a function pointer in an atomic; argued where it is called")]

use std::sync::atomic::{AtomicPtr, Ordering};

/// A variable for a function pointer. It is neither a lock nor a `Once`, because a forked child may find a lock or a
/// `Once` that stays taken for ever.
#[derive(Debug)]
pub(super) struct Hook(AtomicPtr<()>);

impl Hook {
    /// Makes a variable that has no function yet.
    pub(super) const fn new() -> Hook {
        Hook(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Stores the function. Relaxed: the pointer leads to code, which was always there.
    pub(super) fn set(&self, function: fn()) {
        self.0.store(function as *mut (), Ordering::Relaxed);
    }

    /// Calls the function, if there is one.
    pub(super) fn call(&self) {
        let function = self.0.load(Ordering::Relaxed);
        if !function.is_null() {
            // SAFETY: stored by `set`, from a function pointer of this type.
            let function = unsafe { std::mem::transmute::<*mut (), fn()>(function) };
            function();
        }
    }
}
