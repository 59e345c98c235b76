//! A pointer for each thread, kept in a slot of the system's thread-local storage. The system does not clear the
//! pointer when the thread ends, and one instruction reads it.
//!
//! With the linker of mingw, this replaces Rust's thread-locals, for two reasons: with mingw each read of a
//! thread-local calls a function of mingw's library and a function of the system, and the thread-locals are destroyed
//! before the thread ends. See `lasting_thread_local!`.
#![allow(unsafe_code, reason = "calls of the system, and a register; each argued where it stands")]

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(target_arch = "x86_64")]
use windows_sys::Win32::System::SystemServices::TLS_MINIMUM_AVAILABLE;
#[cfg(not(target_arch = "x86_64"))]
use windows_sys::Win32::System::Threading::TlsGetValue;
use windows_sys::Win32::System::Threading::{TLS_OUT_OF_INDEXES, TlsAlloc, TlsFree, TlsSetValue};

/// A pointer for each thread, null at first.
///
/// The atomic integer is the index of the slot in the system's thread-local storage: [`TLS_OUT_OF_INDEXES`] until a
/// thread first sets a pointer, and then an index that is never given back. Relaxed is enough, because each thread
/// reads only the pointer that it has set itself.
///
/// ```text
/// TLS_OUT_OF_INDEXES ──make (compare and exchange)──> index
/// ```
#[derive(Debug)]
pub(crate) struct Slot<T>(AtomicU32, PhantomData<Box<T>>);

// SAFETY: each thread has a pointer of its own, which no other thread reads.
unsafe impl<T> Sync for Slot<T> {}

impl<T> Slot<T> {
    /// Makes a slot that has no index yet.
    pub(crate) const fn new() -> Slot<T> {
        Slot(AtomicU32::new(TLS_OUT_OF_INDEXES), PhantomData)
    }

    /// Returns the calling thread's pointer.
    #[inline(always)]
    pub(crate) fn get(&self) -> *const T {
        value_at(self.0.load(Ordering::Relaxed)).cast()
    }

    /// Sets the calling thread's pointer. If the system has no index left, or no memory, the pointer stays null.
    pub(crate) fn set(&self, pointer: *const T) {
        let index = match self.0.load(Ordering::Relaxed) {
            TLS_OUT_OF_INDEXES => self.make(),
            index => index,
        };
        if index != TLS_OUT_OF_INDEXES {
            // SAFETY: the index was allocated by `make` and is never freed.
            unsafe { TlsSetValue(index, pointer.cast()) };
        }
    }

    /// Sets the calling thread's pointer, and returns the pointer that it replaces.
    pub(crate) fn replace(&self, pointer: *const T) -> *const T {
        let had = self.get();
        self.set(pointer);
        had
    }

    #[cold]
    fn make(&self) -> u32 {
        // SAFETY: makes a new index, at which all threads have null.
        let made = unsafe { TlsAlloc() };
        match self.0.compare_exchange(TLS_OUT_OF_INDEXES, made, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => made,
            Err(others) => {
                // SAFETY: no other code knows this index. The system refuses the index of none.
                unsafe { TlsFree(made) };
                others
            }
        }
    }
}

/// Returns the calling thread's value in the slot with this index: null if the index is [`TLS_OUT_OF_INDEXES`], or no
/// value was set.
///
/// The offsets are those of the members `TlsSlots` and `TlsExpansionSlots` of the structure `TEB` of winternl.h. The
/// system's function `TlsGetValue` would read the same value, but it costs a call and clears the thread's last error.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn value_at(index: u32) -> *mut c_void {
    if index >= TLS_MINIMUM_AVAILABLE {
        return expansion_value_at(index);
    }
    let value;
    // SAFETY: `gs` leads to the thread's own description, which has that many slots at this place.
    unsafe {
        std::arch::asm!("mov {value}, gs:[{index} * 8 + 0x1480]", index = in(reg) u64::from(index), value = out(reg) value,
            options(pure, readonly, nostack, preserves_flags));
    }
    value
}

#[cfg(target_arch = "x86_64")]
#[cold]
fn expansion_value_at(index: u32) -> *mut c_void {
    let far: *const *mut c_void;
    if index == TLS_OUT_OF_INDEXES {
        return ptr::null_mut();
    }
    // SAFETY: as above; the pointer to the other slots is there, and null until the thread sets one of them.
    unsafe {
        std::arch::asm!("mov {far}, gs:[0x1780]", far = out(reg) far, options(pure, readonly, nostack, preserves_flags));
    }
    // SAFETY: the table has a place for each index that the system hands out.
    if far.is_null() {
        ptr::null_mut()
    } else {
        unsafe { *far.add((index - TLS_MINIMUM_AVAILABLE) as usize) }
    }
}

/// Returns the calling thread's value in the slot with this index: null if the index is [`TLS_OUT_OF_INDEXES`], or no
/// value was set.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn value_at(index: u32) -> *mut c_void {
    // SAFETY: the index was allocated by `make` and is never freed.
    if index == TLS_OUT_OF_INDEXES { ptr::null_mut() } else { unsafe { TlsGetValue(index) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses more slots than lie in a thread's description, so that both places are read.
    #[test]
    fn each_thread_has_its_own_pointer_in_each_slot() {
        static SLOTS: [Slot<u8>; 128] = [const { Slot::new() }; 128];
        let round = |thread: usize| {
            for (number, slot) in SLOTS.iter().enumerate() {
                assert!(slot.get().is_null(), "slot {number} of a new thread");
                slot.set(ptr::without_provenance(1000 * thread + number));
            }
            for (number, slot) in SLOTS.iter().enumerate() {
                let had = slot.replace(ptr::null());
                assert_eq!(had.addr(), 1000 * thread + number, "slot {number}");
                assert!(slot.get().is_null(), "slot {number}, emptied");
            }
        };
        std::thread::scope(|scope| {
            for thread in 1..4 {
                scope.spawn(move || round(thread));
            }
        });
        let indices: Vec<u32> = SLOTS.iter().map(|slot| slot.0.load(Ordering::Relaxed)).collect();
        assert!(
            indices.iter().any(|index| *index < 64) && indices.iter().any(|index| *index >= 64),
            "{indices:?}"
        );
        assert!(indices.iter().all(|index| *index != TLS_OUT_OF_INDEXES), "{indices:?}");
    }
}
