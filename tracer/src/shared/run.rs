//! A run: what traced threads and their flusher share.
//!
//! Threads take rings from here, wake the flusher and send it requests; they never touch its files.
#![allow(unsafe_code, reason = "rings are lent by raw pointer; pages are wiped by fork; each argued")]

use super::thread_ring::{Terms, ThreadRing};
use super::unplaced::{self, Unplaced};
use crate::sync::pool::ReadyPool;
use crate::sync::wake::Wake;
use crate::sys;
use crate::user::config::Config;
use crate::user::teller::Teller;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use parking_lot::Mutex;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use trace_format::meta::LossReason;
use trace_format::ring::Header;
use trace_store::counter;

/// How many rings can lie ready. Not how many threads can trace.
const READY: usize = 64;
/// How many rings the flusher keeps ready.
pub(crate) const SPARE: usize = 4;
/// How long a thread's first record waits without any ring being handed out, and how long nobody waits after
/// that, in nanoseconds. To make one takes about a millisecond.
const CLAIM_PATIENCE: u64 = 1_000_000_000;

/// One process's life with tracing on. Leaked when made: threads may hold on to it for ever.
#[derive(Debug)]
pub(crate) struct Run {
    pub config: Config,
    /// The run's random id.
    pub id: u32,
    /// The id of the run at the root of its tree of forks.
    pub root: u32,
    /// The executable and the current directory as they were at the start.
    pub exe: PathBuf,
    pub here: Option<PathBuf>,
    /// Wakes the flusher.
    pub wake: Wake,
    /// Says what the flusher has to say.
    pub teller: Teller,
    pub exit: Exit,
    pub snapshot: Snapshot,
    /// Sites wait for a number.
    pub sites_queued: AtomicBool,
    /// Rings for threads to take.
    pub ready: ReadyPool<ThreadRing, READY>,
    /// Threads that wait for a ring.
    pub waiting: AtomicU32,
    /// Grows with each ring that is put ready; who waits for one sleeps on it.
    supplied: AtomicU32,
    /// Until then nobody waits for a ring, in nanoseconds of the monotonic clock.
    starved_until: AtomicU64,
    /// No ring can be made: do not wait for one.
    pub barren: AtomicBool,
    /// All rings that may have a thread or records; cold.
    pub rings: Mutex<Vec<&'static ThreadRing>>,
    /// What finished threads had counted.
    pub finished: Mutex<CounterSums>,
    /// Bytes written to files.
    pub bytes: AtomicU64,
    /// Records that found no ring, of which no file tells: here, and in a page that outlives the process.
    unplaced: Unplaced,
    /// Of the records that found no ring, those of the process that this one was forked from.
    inherited: u64,
    /// 1 in this process, 0 in a forked child; in a page that a fork wipes.
    alive: *const AtomicU32,
    closed: AtomicBool,
    requests: Sender<Request>,
}

// SAFETY: `alive` points to an atomic in a page that is never unmapped; everything else is Sync by itself.
unsafe impl Sync for Run {}
// SAFETY: as above.
unsafe impl Send for Run {}

/// The exit handler's conversation with the flusher.
#[derive(Debug, Default)]
pub(crate) struct Exit {
    /// 1: the process exits, drain everything.
    pub requested: AtomicU32,
    /// 1: that is done.
    pub finished: AtomicU32,
    /// Grows while the flusher gets on.
    pub progress: AtomicU64,
}

/// What a panic asks of a flight recorder's flusher: no channel, for it may be inside of a record.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// Grows with each request.
    pub wanted: AtomicU32,
    /// The last request that was carried out.
    pub done: AtomicU32,
}

/// What the flusher is asked to do; the answer is sent when it is done.
#[derive(Debug)]
pub(crate) enum Request {
    Flush(Sender<io::Result<()>>),
    ShutDown(Sender<io::Result<()>>),
}

/// Counters of threads, added up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CounterSums {
    pub records: u64,
    pub lost: u64,
    pub stalls: u64,
    pub stall_ns: u64,
}

impl CounterSums {
    /// What the thread that has the ring has counted.
    pub(crate) fn of(header: &Header) -> CounterSums {
        let (main, nested, losses) = (header.main.counts(), header.nested.counts(), header.losses());
        let torn = header.published().render.lost[LossReason::Torn as usize];
        CounterSums {
            records: main.committed + nested.committed,
            lost: losses.full + losses.panic + losses.nested + torn,
            stalls: main.stalls,
            stall_ns: main.stall_ns,
        }
    }

    pub(crate) fn add(&mut self, more: CounterSums) {
        self.records += more.records;
        self.lost += more.lost;
        self.stalls += more.stalls;
        self.stall_ns += more.stall_ns;
    }
}

impl Run {
    /// A run without a flusher.
    pub(crate) fn prepare(
        mut config: Config,
        root: Option<u32>,
    ) -> io::Result<(&'static Run, Receiver<Request>)> {
        let alive = sys::page_wiped_on_fork().cast::<AtomicU32>();
        if alive.is_null() {
            return Err(io::Error::other("the system has no memory that is wiped on fork"));
        }
        // SAFETY: a fresh zeroed page, larger than the atomic and aligned.
        unsafe { &*alive }.store(1, Ordering::Release);
        config.clock = counter::available(config.clock);
        let (requests, receiver) = unbounded();
        let id = random_id();
        let run: &'static Run = Box::leak(Box::new(Run {
            config,
            id,
            root: root.unwrap_or(id),
            exe: sys::executable(),
            here: std::env::current_dir().ok(),
            wake: Wake::default(),
            teller: Teller::default(),
            exit: Exit::default(),
            snapshot: Snapshot::default(),
            // In a forked child some may wait that its parent's flusher did not come to.
            sites_queued: AtomicBool::new(true),
            ready: ReadyPool::new(),
            waiting: AtomicU32::new(0),
            supplied: AtomicU32::new(0),
            starved_until: AtomicU64::new(0),
            barren: AtomicBool::new(false),
            rings: Mutex::default(),
            finished: Mutex::default(),
            bytes: AtomicU64::new(0),
            unplaced: Unplaced::default(),
            inherited: if root.is_some() { unplaced::untold() } else { 0 },
            alive,
            closed: AtomicBool::new(false),
            requests,
        }));
        Ok((run, receiver))
    }

    /// What the run's rings have in common.
    pub(crate) fn terms(&'static self) -> Terms {
        let Config { full_policy: policy, max_stall, .. } = self.config;
        Terms { run: self.id, wake: &self.wake, policy, max_stall }
    }

    /// False in a child that was forked from the process whose run this is.
    pub(crate) fn is_of_this_process(&self) -> bool {
        // SAFETY: the page is never unmapped.
        unsafe { &*self.alive }.load(Ordering::Relaxed) == 1
    }

    /// Whether it was shut down.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Counts records that found no ring, or no file. Not in a forked child.
    pub(crate) fn count_unplaced(&self, records: u64) {
        if self.is_of_this_process() {
            self.unplaced.add(records);
        }
    }

    /// So many records that found no ring are told in the file of a thread.
    pub(crate) fn placed(&self, records: u64) {
        self.unplaced.subtract(records);
    }

    /// Records that found no ring, of which no file tells; also those that were made before there was a run.
    pub(crate) fn unplaced(&self) -> u64 {
        self.unplaced.count().max(unplaced::untold().saturating_sub(self.inherited))
    }

    /// The run's own file tells them now.
    pub(crate) fn unplaced_are_told(&self, records: u64) {
        self.placed(self.unplaced.count());
        unplaced::tell(records);
    }

    /// From here on they are counted where they outlive the process. For the flusher.
    pub(crate) fn keep_unplaced_in(&self, place: &'static AtomicU64) {
        self.unplaced.go_to(place);
    }

    /// Takes a ring for the calling thread; waits a bounded time where none is ready.
    pub(crate) fn claim(&'static self) -> Option<&'static ThreadRing> {
        if let Some((ring, left)) = self.ready.take() {
            if left < SPARE / 2 {
                self.wake.wake();
            }
            return Some(ring);
        }
        if sys::monotonic_ns() < self.starved_until.load(Ordering::Relaxed) {
            return None;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let ring = self.wait_for_ring();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        ring
    }

    /// Waits as long as rings are handed out at all. After a wait in vain nobody waits for a while.
    fn wait_for_ring(&'static self) -> Option<&'static ThreadRing> {
        let mut since = sys::monotonic_ns();
        let mut seen = self.supplied.load(Ordering::Acquire);
        loop {
            if let Some((ring, _)) = self.ready.take() {
                return Some(ring);
            }
            if self.barren.load(Ordering::Relaxed) || self.is_closed() {
                return None;
            }
            self.wake.wake();
            sys::wait_word(&self.supplied, seen, Duration::from_millis(20));
            let (now, supplied) = (sys::monotonic_ns(), self.supplied.load(Ordering::Acquire));
            if supplied != seen {
                (since, seen) = (now, supplied);
            } else if now.saturating_sub(since) > CLAIM_PATIENCE {
                self.starved_until.store(now + CLAIM_PATIENCE, Ordering::Relaxed);
                return None;
            }
        }
    }

    /// Puts a ring where threads take it from; false where all places are full. For the flusher.
    pub(crate) fn put_ready(&self, ring: &'static ThreadRing) -> bool {
        let put = self.ready.put(ring);
        if put {
            self.supplied.fetch_add(1, Ordering::Release);
            if self.waiting.load(Ordering::Relaxed) > 0 {
                sys::wake_word(&self.supplied, 1);
            }
        }
        put
    }

    /// Counts bytes that were written to files. For the flusher.
    pub(crate) fn count_written(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.exit.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns when all that was traced before is in the files.
    pub(crate) fn flush(&self) -> io::Result<()> {
        self.ask(Request::Flush, || {})
    }

    /// Drains, ends the files and the flusher.
    pub(crate) fn shut_down(&self) -> io::Result<()> {
        self.shut_down_while(|| {})
    }

    /// The same; `meanwhile` is called several times a second as long as it takes.
    pub(crate) fn shut_down_while(&self, meanwhile: impl FnMut()) -> io::Result<()> {
        let result = self.ask(Request::ShutDown, meanwhile);
        self.close();
        result
    }

    /// Says that it has no flusher, or never had one.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    fn ask(
        &self,
        request: fn(Sender<io::Result<()>>) -> Request,
        mut meanwhile: impl FnMut(),
    ) -> io::Result<()> {
        let gone = || io::Error::other("the flusher thread has ended");
        let (answer, result) = bounded(1);
        self.requests.send(request(answer)).map_err(|_| gone())?;
        self.wake.wake();
        loop {
            match result.recv_timeout(Duration::from_millis(200)) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => meanwhile(),
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
    }
}

/// Random enough to tell runs apart: the seed of std's hash maps comes from the system.
fn random_id() -> u32 {
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u32(sys::process_id());
    hasher.write_u64(sys::monotonic_ns());
    let hash = hasher.finish();
    (hash ^ (hash >> 32)) as u32
}
