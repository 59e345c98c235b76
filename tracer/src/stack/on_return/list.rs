//! The calling thread's slots, each for one awaited function: a list of the functions that still run, the innermost
//! first, and a list of those that the thread has given up.
//!
//! Everything here belongs to the thread, except the free slots of the process, from which the thread takes slots and
//! to which it gives them back.
//!
//! ```text
//!          take                    its function returns
//!   free ────────► on the list ──────────────────────────────────────────────► free
//!                      │ found to be left: by a jump or by unwinding             ▲
//!                      ├── its return address is overwritten ────────────────────┤
//!                      └── not yet ──► doubtful ── overwritten, or returned ─────┘
//! ```
//!
//! A slot is free again only when no frame can return to its trampoline any more. A function seems to be left if a
//! function further out uses the list. But it may still return to its trampoline: it may be on a stack that lies inside
//! of the thread's own stack, and go on later. So its slot waits until the trampoline's address on the stack is
//! overwritten.
//!
//! A signal handler may interrupt a change of the lists. The returns of functions that it calls are then not awaited.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{Ordering, compiler_fence};

use super::trampoline::{self, Awaited};
use crate::sys;

/// The greatest number of free slots that a thread keeps for itself: taking one of them touches no word that other
/// threads write.
const MAX_CACHED_SLOTS: u32 = 64;

/// The calling thread's lists of slots. They have no destructor, so they can be used as long as the thread runs.
pub(super) struct Slots {
    /// The number of the innermost awaited function's slot; 0 if no function is awaited. In this list and in the other
    /// lists, each slot contains the number of the next slot.
    innermost: Cell<u32>,
    /// The number of the first slot whose function was left, and whose return address is not overwritten yet; or 0.
    doubtful: Cell<u32>,
    /// The number of the first slot that is free for this thread; or 0.
    free: Cell<u32>,
    /// The count of slots that are free for this thread.
    len_free: Cell<u32>,
    /// The stack pointer of the function that is changing the lists; 0 if there is none.
    changing: Cell<usize>,
    /// Whether the thread's end has come: hooks await no function any more.
    is_over: Cell<bool>,
}

thread_local! {
    static SLOTS: Slots = const {
        Slots {
            innermost: Cell::new(0),
            doubtful: Cell::new(0),
            free: Cell::new(0),
            len_free: Cell::new(0),
            changing: Cell::new(0),
            is_over: Cell::new(false),
        }
    };
}

/// Calls `change` with the calling thread's lists. Returns `None` without calling `change` if the caller is in a signal
/// handler that has interrupted another change.
#[inline(always)]
pub(super) fn change<R>(change: impl FnOnce(&Slots) -> R) -> Option<R> {
    let here = sys::stack_pointer();
    SLOTS.with(|slots| {
        let frame = slots.changing.get();
        if frame != 0 && !sys::is_deeper(frame, here) {
            return None;
        }
        slots.changing.set(here);
        compiler_fence(Ordering::SeqCst);
        let result = change(slots);
        compiler_fence(Ordering::SeqCst);
        slots.changing.set(0);
        Some(result)
    })
}

/// Gives all of the calling thread's slots back to the process, at the thread's end.
pub(super) fn release() {
    change(|slots| {
        slots.is_over.set(true);
        while let Some(number) = pop(&slots.innermost) {
            trampoline::give_back(number);
        }
        slots.return_spare_slots();
    });
}

impl Slots {
    /// Returns whether the thread is ending.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Returns the number of the slot of the innermost awaited function, or 0.
    pub(super) fn innermost(&self) -> u32 {
        self.innermost.get()
    }

    /// Returns whether the slot `number` is on the list of running functions, so that the return of its function is
    /// awaited.
    pub(super) fn has(&self, number: u32) -> bool {
        let mut at = self.innermost.get();
        while at != 0 && at != number {
            at = trampoline::slot(at).below.load(Ordering::Relaxed);
        }
        at == number
    }

    /// Takes a free slot, of the thread or of the process, and returns its number. Returns `None` if all slots are in
    /// use.
    pub(super) fn take(&self) -> Option<u32> {
        if self.free.get() == 0 {
            self.free_overwritten_slots();
        }
        match pop(&self.free) {
            Some(number) => {
                self.len_free.set(self.len_free.get() - 1);
                Some(number)
            }
            None => trampoline::take(),
        }
    }

    /// Puts a function's slot at the front of the list, before the slots of its callers.
    pub(super) fn push(&self, number: u32) {
        push(&self.innermost, number);
    }

    /// Takes the innermost slot off the list if its function was left without a return. That is so if the position of
    /// the function's return address on the stack is below `place`, where no running function has a frame, or if the
    /// return address is overwritten. Returns the action that is due because the function was left; `None` if the slot
    /// stays on the list.
    pub(super) fn pop_left(&self, place: usize) -> Option<Awaited> {
        let number = self.innermost.get();
        if number == 0 {
            return None;
        }
        let is_left = trampoline::slot(number).place.load(Ordering::Relaxed) < place || !is_in_place(number);
        is_left.then(|| self.pop_innermost())
    }

    /// Takes the innermost slot off the list if the slot `number` is further out on the list: then the function of the
    /// innermost slot was called, directly or not, by the function of the slot `number`. Returns the action that is due
    /// because the innermost function was left; `None` if the list stays as it was.
    pub(super) fn pop_inside(&self, number: u32) -> Option<Awaited> {
        (self.innermost.get() != number && self.has(number)).then(|| self.pop_innermost())
    }

    fn pop_innermost(&self) -> Awaited {
        let Some(number) = pop(&self.innermost) else { return Awaited::Nothing };
        let awaited = trampoline::slot(number).take_awaited();
        if is_in_place(number) {
            push(&self.doubtful, number);
        } else {
            self.give_back(number);
        }
        awaited
    }

    /// Removes a slot from its list, because the slot's function has returned. Returns the action that is due when the
    /// function is left.
    pub(super) fn take_returned(&self, number: u32) -> Awaited {
        let awaited = trampoline::slot(number).take_awaited();
        if remove(&self.innermost, number) || remove(&self.doubtful, number) {
            self.give_back(number);
        }
        awaited
    }

    fn give_back(&self, number: u32) {
        if self.len_free.get() == MAX_CACHED_SLOTS {
            return trampoline::give_back(number);
        }
        push(&self.free, number);
        self.len_free.set(self.len_free.get() + 1);
    }

    /// Frees the doubtful slots whose return address is overwritten by now.
    #[cold]
    fn free_overwritten_slots(&self) {
        let mut left = self.doubtful.take();
        while left != 0 {
            let number = left;
            left = trampoline::slot(number).below.load(Ordering::Relaxed);
            if is_in_place(number) {
                push(&self.doubtful, number);
            } else {
                self.give_back(number);
            }
        }
    }

    /// Gives the thread's doubtful and free slots back to the process.
    pub(super) fn return_spare_slots(&self) {
        for list in [&self.doubtful, &self.free] {
            while let Some(number) = pop(list) {
                trampoline::give_back(number);
            }
        }
        self.len_free.set(0);
    }
}

/// Returns whether the return address of a slot's function is still replaced by the address of the slot's trampoline.
/// The slot `number` is one of the calling thread's.
fn is_in_place(number: u32) -> bool {
    let at = trampoline::slot(number).place.load(Ordering::Relaxed);
    // SAFETY: aligned, and on this thread's stack, which was used down to there and stays mapped.
    unsafe { ptr::with_exposed_provenance::<usize>(at).read_volatile() == trampoline::address(number) }
}

fn push(list: &Cell<u32>, number: u32) {
    trampoline::slot(number).below.store(list.get(), Ordering::Relaxed);
    list.set(number);
}

fn pop(list: &Cell<u32>) -> Option<u32> {
    let number = list.get();
    (number != 0).then(|| {
        list.set(trampoline::slot(number).below.load(Ordering::Relaxed));
        number
    })
}

/// Removes a slot from a list; returns whether it was there.
fn remove(list: &Cell<u32>, number: u32) -> bool {
    let mut at = list.get();
    if at == number {
        return pop(list).is_some();
    }
    while at != 0 {
        let below = &trampoline::slot(at).below;
        let next = below.load(Ordering::Relaxed);
        if next == number && number != 0 {
            below.store(trampoline::slot(number).below.load(Ordering::Relaxed), Ordering::Relaxed);
            return true;
        }
        at = next;
    }
    false
}
