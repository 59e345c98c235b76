//! Files that are truncated while they are mapped. The system reports this by a signal, SIGBUS, to the thread that
//! reads bytes that no longer exist; without this module the signal would end the command.
//!
//! Mappings are [`Watched`]. The handler checks whether the address is in one of them, records the new end of its
//! file, maps zeros over the rest and lets the thread continue; the merge reads the recorded ends. Any other SIGBUS
//! has its default effect. Only the command itself sets the handler, by [`watch`].
//!
//! The handler may run at any instruction, so it takes no lock and allocates no memory: it walks through blocks of
//! entries that are never freed, and calls `mmap`.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(unix)]
pub(crate) use unix::watch;

/// The number of truncations that were noticed in this process.
static TRUNCATIONS: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of truncations noticed up to now. If the number is the same before and after a read, all bytes
/// that were read existed.
#[must_use]
pub(crate) fn count() -> usize {
    TRUNCATIONS.load(Ordering::SeqCst)
}

/// Does nothing: systems other than Unix do not let a mapped file be truncated, or report the truncation in another
/// way.
#[cfg(not(unix))]
pub(crate) fn watch() {}

/// A mapping for which the handler of SIGBUS is responsible, as long as this value lives.
#[derive(Debug)]
pub(crate) struct Watched {
    #[cfg(unix)]
    place: &'static unix::MappingEntry,
}

impl Watched {
    /// Registers the mapping of `length` bytes at `start` with the handler.
    #[must_use]
    pub(crate) fn new(start: *const u8, length: usize) -> Watched {
        #[cfg(unix)]
        return Watched { place: unix::take(start as usize, length) };
        #[cfg(not(unix))]
        {
            let _ = (start, length);
            Watched {}
        }
    }

    /// Returns the offset from which on the mapping has zeros because the file was truncated; `None` if it was not.
    #[must_use]
    pub(crate) fn truncated_at(&self) -> Option<usize> {
        #[cfg(unix)]
        return self.place.truncated_at();
        #[cfg(not(unix))]
        None
    }
}

#[cfg(unix)]
impl Drop for Watched {
    fn drop(&mut self) {
        unix::give_back(self.place);
    }
}

#[cfg(unix)]
mod unix {
    use super::{Ordering, TRUNCATIONS};
    use std::mem::MaybeUninit;
    use std::ptr::{from_ref, null_mut};
    use std::sync::atomic::{AtomicPtr, AtomicUsize};

    use parking_lot::Mutex;

    /// The number of entries in a block.
    const BLOCK: usize = 256;

    /// The data of one mapping for the handler of SIGBUS.
    #[derive(Debug)]
    pub(super) struct MappingEntry {
        /// The address of the mapping; 0 if the entry is free. It is written last when a mapping is added, and first
        /// when it is removed.
        start: AtomicUsize,
        length: AtomicUsize,
        /// The first offset in the mapping that the truncated file no longer has; `usize::MAX` if the file was not
        /// truncated.
        end: AtomicUsize,
    }

    struct Block {
        places: [MappingEntry; BLOCK],
        /// The block that was added before this one.
        next: *const Block,
    }

    /// The newest block. Blocks are added, but never changed or freed.
    static NEWEST: AtomicPtr<Block> = AtomicPtr::new(null_mut());
    /// The free entries. The handler does not touch this list.
    static FREE: Mutex<Vec<&'static MappingEntry>> = Mutex::new(Vec::new());
    /// The number of bytes of a page, for the handler.
    static PAGE: AtomicUsize = AtomicUsize::new(0);

    impl MappingEntry {
        const fn new() -> MappingEntry {
            MappingEntry {
                start: AtomicUsize::new(0),
                length: AtomicUsize::new(0),
                end: AtomicUsize::new(usize::MAX),
            }
        }

        pub(super) fn truncated_at(&self) -> Option<usize> {
            Some(self.end.load(Ordering::SeqCst)).filter(|&end| end != usize::MAX)
        }

        /// Returns the address and the length of the mapping if it contains `address`.
        fn holds(&self, address: usize) -> Option<(usize, usize)> {
            let start = self.start.load(Ordering::SeqCst);
            let length = self.length.load(Ordering::SeqCst);
            // Both values belong to the same mapping only if that still exists. The mapping that has faulted does,
            // because it is in use.
            let is_same = self.start.load(Ordering::SeqCst) == start;
            let holds = is_same && start != 0 && address.checked_sub(start).is_some_and(|at| at < length);
            holds.then_some((start, length))
        }
    }

    pub(super) fn take(start: usize, length: usize) -> &'static MappingEntry {
        let mut free = FREE.lock();
        let place = free.pop().unwrap_or_else(|| add_block(&mut free));
        place.end.store(usize::MAX, Ordering::SeqCst);
        place.length.store(length, Ordering::SeqCst);
        place.start.store(start, Ordering::SeqCst);
        place
    }

    pub(super) fn give_back(place: &'static MappingEntry) {
        place.start.store(0, Ordering::SeqCst);
        FREE.lock().push(place);
    }

    /// Adds a block of free entries; returns one of them and puts the others into `free`. The caller has locked `free`,
    /// so only one thread adds a block at a time.
    fn add_block(free: &mut Vec<&'static MappingEntry>) -> &'static MappingEntry {
        let next = NEWEST.load(Ordering::SeqCst).cast_const();
        let block: &'static Block =
            Box::leak(Box::new(Block { places: [const { MappingEntry::new() }; BLOCK], next }));
        NEWEST.store(from_ref(block).cast_mut(), Ordering::SeqCst);
        let [first, others @ ..] = &block.places;
        free.extend(others);
        first
    }

    /// Sets the handler of SIGBUS for the rest of this process's life.
    pub(crate) fn watch() {
        // SAFETY: `sysconf` touches no memory of this process.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        PAGE.store(usize::try_from(page).unwrap_or(4096), Ordering::SeqCst);
        // SAFETY: `sigaction` is plain data, valid when all zero.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_bus_error;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler has the signature that SA_SIGINFO requires, is async-signal-safe (see the module's
        // text), and the action is whole. If it cannot be set, a truncated file ends the command as it would without
        // the handler.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) };
    }

    extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
        // SAFETY: with SA_SIGINFO the system passes a whole `siginfo_t`; that of a SIGBUS has an address, which is
        // only compared.
        let address = unsafe { (*info).si_addr() } as usize;
        if !put_zeros(address) {
            // The thread executes the instruction again, and then the signal ends the process.
            // SAFETY: sets the default action; no memory is touched.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }

    /// Replaces the end of a watched mapping by zeros, from the page of `address` on, because its file was truncated.
    /// Returns whether this was done; it is not if no watched mapping contains the address.
    fn put_zeros(address: usize) -> bool {
        let mut block = NEWEST.load(Ordering::SeqCst).cast_const();
        // SAFETY: blocks are leaked, and stored only when they are whole; their `next` is a block, too, or null.
        while let Some(found) = unsafe { block.as_ref() } {
            for place in &found.places {
                let Some((start, length)) = place.holds(address) else { continue };
                let page = address & !(PAGE.load(Ordering::SeqCst) - 1);
                place.end.fetch_min(page - start, Ordering::SeqCst);
                // The truncation is counted before other threads can see zeros.
                TRUNCATIONS.fetch_add(1, Ordering::SeqCst);
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
                // SAFETY: the range is a part of a mapping that is alive, since the faulting thread reads it, and
                // that is known to be of a file and read-only: code that reads it accepts any bytes, see
                // `crate::file::map`. No write to it can be lost. Its owner unmaps the whole range whatever is mapped
                // there.
                let zeros = unsafe {
                    libc::mmap(
                        page as *mut libc::c_void,
                        start + length - page,
                        libc::PROT_READ,
                        flags,
                        -1,
                        0,
                    )
                };
                return zeros != libc::MAP_FAILED;
            }
            block = found.next;
        }
        false
    }
}
