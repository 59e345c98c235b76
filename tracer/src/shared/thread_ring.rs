//! A ring with its state in this process: its memory, its producer, and whether its thread and the flusher still use
//! it.
//!
//! The flusher makes a ring and lends it to one thread at a time. The last user of the ring, its thread or the flusher,
//! frees the ring.
#![allow(unsafe_code, reason = "rings are lent by raw pointer; pages are wiped by fork; each argued")]

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use trace_format::line::Ticks;
use trace_format::meta::{EndReason, RingPlace};
use trace_format::ring::{Geometry, Header, State};
use trace_store::memory::Memory;

use super::thread_name::ThreadName;
use crate::ring::{ALL_RESERVED, Link, Producer, has_enough_room};
use crate::sys;
use crate::user::config::FullPolicy;
use crate::words::detachment::Detachment;
use crate::words::wake::Wake;

/// The properties that a run's rings have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The run's id.
    pub run: u32,
    /// The word that wakes the run's flusher.
    pub wake: &'static Wake,
    /// The policy for a full ring.
    pub policy: FullPolicy,
    /// The longest time that a thread waits for room.
    pub max_stall: Duration,
}

/// A ring and its state in this process. It is lent to one thread at a time.
#[derive(Debug)]
pub(crate) struct ThreadRing {
    pub memory: Memory,
    pub link: Link,
    /// The number in the ring file's name.
    pub index: u32,
    pub place: RingPlace,
    /// The reason why the ring is private (not in a file that outlives the process); empty if it is shared.
    pub why: String,
    /// The producer, in a page of its own that a fork wipes.
    producer: *const Producer,
    /// Whether the ring's thread was ended by the process's exit, not before.
    ended_by_exit: AtomicBool,
    /// The word that says whether the thread and the flusher still use the ring.
    pub detachment: Detachment,
}

// SAFETY: the producer's cells are used by the thread that has the ring; the flusher uses its atomics only, or all of
// it while no thread has the ring. Everything else is Sync.
unsafe impl Sync for ThreadRing {}
// SAFETY: as above.
unsafe impl Send for ThreadRing {}

impl ThreadRing {
    /// Makes a ring in `memory`, whose data is reserved below the position `reserved`. Only [`ThreadRing::free`] frees
    /// the ring.
    pub(crate) fn leak(
        terms: Terms,
        memory: Memory,
        reserved: u64,
        index: u32,
        place: RingPlace,
        why: String,
    ) -> io::Result<&'static ThreadRing> {
        let page = sys::page_wiped_on_fork().cast::<Producer>();
        const { assert!(size_of::<Producer>() <= 4096 && align_of::<Producer>() <= 4096) };
        if page.is_null() {
            return Err(io::Error::other("the system has no memory that is wiped on fork"));
        }
        let Terms { run, wake, policy, max_stall } = terms;
        memory.header().identity.set(&memory.geometry(), run, index, policy == FullPolicy::Overwrite);
        let link = Link {
            closed: AtomicBool::new(false),
            reserved: AtomicU64::new(reserved),
            failing: AtomicBool::new(false),
            wake,
            room: Wake::default(),
            policy,
            max_stall,
        };
        let ring = ThreadRing {
            memory,
            link,
            index,
            place,
            why,
            producer: page,
            ended_by_exit: AtomicBool::new(false),
            detachment: Detachment::new(),
        };
        let ring: &'static ThreadRing = Box::leak(Box::new(ring));
        let (memory, link) = (&ring.memory, ptr::from_ref(&ring.link));
        // SAFETY: the page is fresh, large enough and not shared; memory and link live as long as the ring.
        unsafe { page.write(Producer::bound_to(memory, link)) };
        Ok(ring)
    }

    pub(crate) fn header(&self) -> &Header {
        self.memory.header()
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    pub(crate) fn producer(&self) -> *const Producer {
        self.producer
    }

    /// Wakes the ring's thread if it waits for room and there is plenty of room. Only the flusher calls it, after it
    /// has freed room.
    pub(crate) fn wake_if_room(&self) {
        let header = self.header();
        let (head, consumed) = (header.main.head(), header.consumed.main.load(Ordering::Relaxed));
        if has_enough_room(head.saturating_sub(consumed), self.geometry().capacity) {
            self.link.room.wake();
        }
    }

    /// Stores that the ring's memory is reserved below the position `end`. If all of the memory is reserved and the
    /// ring's thread waits for memory, wakes the thread: one long wait is cheaper than many short ones, which take the
    /// processor away from the flusher. Only the flusher calls it.
    pub(crate) fn reserved_to(&self, end: u64) {
        self.link.reserved.store(end, Ordering::Release);
        if end == ALL_RESERVED {
            self.link.room.wake();
        }
    }

    /// Returns whether the ring was closed: no thread may take it any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.link.closed.load(Ordering::Relaxed)
    }

    /// Returns whether the ring's thread is outside of any record and holds back no calls. Only the flusher calls this.
    pub(crate) fn is_idle(&self) -> bool {
        // SAFETY: the page is mapped as long as the ring; `is_idle` loads an atomic.
        unsafe { &*self.producer }.is_idle()
    }

    /// Binds the ring to the calling thread, which has claimed it.
    ///
    /// `lost` is the number of the thread's earlier records that found no ring; the thread's file reports them.
    pub(crate) fn lend(&self, tid: u64, name: &ThreadName, since: Ticks, lost: u64) {
        // SAFETY: claimed, and not yet known to its thread's records.
        unsafe { (*self.producer).renew() };
        self.header().main.lost_full.store(lost, Ordering::Relaxed);
        self.header().open_calls.clear();
        let tenancy = &self.header().tenancy;
        self.ended_by_exit.store(false, Ordering::Relaxed);
        tenancy.tid.store(tid, Ordering::Relaxed);
        self.header().set_thread_name(name.system, name.longer());
        tenancy.since.store(since.0, Ordering::Relaxed);
        tenancy
            .generation
            .store(tenancy.generation.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        tenancy.state.store(State::Owned as u32, Ordering::Release);
    }

    /// Stores the present name of the calling thread, which has the ring, in the ring's header.
    pub(crate) fn note_name(&self, name: [u8; 16]) {
        let header = self.header();
        if header.tenancy.name() != name.split(|byte| *byte == 0).next().unwrap_or_default() {
            header.set_thread_name(name, None);
        }
    }

    /// Stores the present name of the ring's thread in the ring's header, if the thread lives and the system has its
    /// name. Only the flusher calls it.
    pub(crate) fn read_name(&self) {
        let tenancy = &self.header().tenancy;
        // Acquire, before the id is loaded: the id is that of the thread whose state this is.
        if tenancy.state() == Ok(State::Owned) {
            if let Some(name) = sys::thread_name_of(tenancy.tid.load(Ordering::Relaxed)) {
                self.note_name(name);
            }
        }
    }

    /// Ends the calling thread's use of the ring.
    ///
    /// # Safety
    /// The calling thread has the ring and does not use it afterwards.
    pub(crate) unsafe fn give_back(ring: *const ThreadRing, reason: EndReason) {
        // SAFETY: not freed while a thread has it, and the caller has it.
        let this = unsafe { &*ring };
        this.ended_by_exit.store(reason == EndReason::Exit, Ordering::Relaxed);
        // Release: the flusher that sees it ended sees its last record.
        this.header().tenancy.state.store(State::Ended as u32, Ordering::Release);
        if this.detachment.detach_thread() {
            // SAFETY: neither the flusher nor, by the caller's promise, this thread uses it any more.
            unsafe { ThreadRing::free(ring) };
        }
    }

    /// Returns the reason for which the ring's thread has ended. The result is valid only if the ring's header
    /// (`tenancy`) shows that the thread has ended.
    pub(crate) fn end_reason(&self) -> EndReason {
        if self.ended_by_exit.load(Ordering::Relaxed) { EndReason::Exit } else { EndReason::Thread }
    }

    /// Closes the ring for its thread, which notices at its next record and takes another one. Only the flusher calls
    /// it.
    pub(crate) fn close(&self) {
        self.link.closed.store(true, Ordering::Release);
        // See [`Producer::was_closed`] for the other half of this handshake.
        std::sync::atomic::fence(Ordering::SeqCst);
        // SAFETY: the page is mapped as long as the ring; `revoke` stores an atomic.
        unsafe { &*self.producer }.revoke();
    }

    /// Ends the flusher's use of a closed ring that a thread may still have. Frees the ring if no thread has it.
    ///
    /// # Safety
    /// The flusher does not use the ring afterwards, and no other thread can take the ring.
    pub(crate) unsafe fn abandon(ring: *const ThreadRing) {
        // SAFETY: not freed before both have parted from it.
        let this = unsafe { &*ring };
        if this.detachment.detach_flusher() {
            // SAFETY: neither its thread nor, by the caller's promise, the flusher uses it any more.
            unsafe { ThreadRing::free(ring) };
        }
    }

    /// Frees the ring: its memory and its producer.
    ///
    /// # Safety
    /// The ring was made by [`ThreadRing::leak`], and no thread uses it any more.
    pub(crate) unsafe fn free(ring: *const ThreadRing) {
        // SAFETY: leaked from a box; unused by the caller's promise.
        let ring = unsafe { Box::from_raw(ring.cast_mut()) };
        // SAFETY: as above; a `Producer` has nothing to drop.
        unsafe { sys::release_page(ring.producer.cast_mut().cast()) };
    }
}
