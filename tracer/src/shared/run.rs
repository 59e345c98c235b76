//! A run: the state that traced threads and their flusher share.
//!
//! Threads take rings from here, wake the flusher and send it requests; they never touch the flusher's files.
#![allow(unsafe_code, reason = "rings are lent by raw pointer; pages are wiped by fork; each argued")]

use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use trace_format::life::{Looks, Panics, Start, TracedCounters};
use trace_format::line::Ticks;
use trace_format::meta::{Cause, EndReason, Ended, LossReason, RingPlace};
use trace_format::ring::Header;
use trace_format::wall::Wall;
use trace_store::counter;

use super::requests::{RequestKind, Requests};
use super::ringless_records::{self, RinglessCounter};
use super::thread_ring::{Terms, ThreadRing};
use crate::ring::clock;
use crate::sys;
use crate::user::config::Config;
use crate::user::relay::Relay;
use crate::words::pool::ReadyPool;
use crate::words::wake::Wake;

/// The maximum number of rings that are ready at a time. It does not limit the number of threads that trace.
const READY: usize = 64;
/// The number of rings that the flusher keeps ready.
pub(crate) const SPARE: usize = 4;
/// The longest time, in nanoseconds, that a thread's first record waits while no ring is handed out to any thread.
/// After such a wait in vain, no thread waits for a ring for as long again. Making a ring takes about a millisecond.
const MAX_CLAIM_WAIT: u64 = 1_000_000_000;
/// The longest time, in nanoseconds, that a thread waits for a ring while the flusher makes no progress. Under Wine all
/// system calls of the flusher wait for one process, which may take longer than a second on a busy machine.
const MAX_IDLE_CLAIM_WAIT: u64 = if cfg!(windows) { 3 * MAX_CLAIM_WAIT } else { MAX_CLAIM_WAIT };
/// The longest time, in nanoseconds, that a thread waits while the flusher makes progress, but hands out no ring to any
/// thread: Windows takes long to make a file. If this time were longer, a flusher that can make no ring would hold up
/// every thread.
const MAX_TOTAL_CLAIM_WAIT: u64 = if cfg!(windows) { 10 * MAX_CLAIM_WAIT } else { MAX_CLAIM_WAIT };
/// The time after which a thread that waits for a ring looks again without having been woken. Windows keeps the
/// threads that wait for one word in one list; a thousand threads that enter and leave the list keep the flusher from
/// its work.
const RECHECK_INTERVAL: Duration = Duration::from_millis(if cfg!(windows) { 250 } else { 20 });
/// The minimum number of times that a thread looks for a ring before it gives up. On a machine that is too busy for the
/// flusher, these looks take longer, too.
const MAX_RECHECKS: u64 = MAX_CLAIM_WAIT / RECHECK_INTERVAL.as_nanos() as u64;

/// The life of one process with tracing on. A run is leaked when it is made: threads may hold on to it for
/// ever.
#[derive(Debug)]
pub(crate) struct Run {
    pub config: Config,
    /// The run's random id.
    pub id: u32,
    /// The ticks of the run's `# run` line, and the wall clock at the same moment. Both were read when the decision to
    /// trace was made, so no record of the run has smaller ticks.
    pub began: (Ticks, Wall),
    /// The id of the run at the root of the tree of forked processes that this run belongs to.
    pub root: u32,
    /// The path of the executable. The next field, `here`, is the current directory at the time when the run was made.
    pub exe: PathBuf,
    pub here: Option<PathBuf>,
    /// The word that wakes the flusher.
    pub wake: Wake,
    /// The relay, which prints the flusher's messages.
    pub relay: Relay,
    pub exit: Exit,
    pub panic_request: CountedRequest,
    pub look_request: CountedRequest,
    /// Whether sites wait for the flusher to write their table entries.
    pub sites_queued: AtomicBool,
    /// The rings that threads may take.
    pub ready: ReadyPool<ThreadRing, READY>,
    /// The number of threads that wait for a ring.
    pub waiting: AtomicU32,
    /// A count that grows with each ring that is put ready; threads that wait for a ring sleep on this word.
    supplied: AtomicU32,
    /// The time, in nanoseconds of the monotonic clock, until which no thread waits for a ring: an earlier wait was in
    /// vain.
    starved_until: AtomicU64,
    /// Whether no ring can be made, so that no thread waits for one.
    pub no_ring_possible: AtomicBool,
    /// The rings that may have a thread or records. The hot path does not use the list.
    pub rings: Mutex<Vec<&'static ThreadRing>>,
    /// The sums of the counters of the threads that have ended.
    pub finished: Mutex<CounterSums>,
    /// The number of bytes written to files.
    pub bytes: AtomicU64,
    /// The count of records that found no ring and that no file reports: in this process's memory, and in a page that
    /// outlives the process.
    ringless_records: RinglessCounter,
    /// The cost of the run's start (see [`Run::note_start`]), in this process's memory, for the flusher.
    pub start: Start,
    /// The flusher's clock readings, in this process's own memory; only the flusher uses them.
    pub looks: Looks,
    /// The counts of the program's panics, used if no page outlives the process.
    panics: Panics,
    /// The page that outlives the process: it has the cost of the run's start, the program's panics and the signal that
    /// ends the process. Null if there is no such page.
    page: AtomicPtr<TracedCounters>,
    /// Whether a thread has stored the cost of the start, or is about to.
    start_noted: AtomicBool,
    /// The time, in nanoseconds, that the decision to trace took the thread that made it.
    decision_ns: AtomicU64,
    /// The number of records without a ring that this process has inherited: they were made in the process from which
    /// it was forked.
    inherited: u64,
    /// A word that is 1 in this process and 0 in a forked child, in a page that a fork wipes.
    alive: *const AtomicU32,
    closed: AtomicBool,
    pub requests: Requests,
}

// SAFETY: `alive` points to an atomic in a page that is never unmapped; everything else is Sync.
unsafe impl Sync for Run {}
// SAFETY: as above.
unsafe impl Send for Run {}

/// The words by which the exit handler tells the flusher to drain everything, and waits until everything is drained.
#[derive(Debug, Default)]
pub(crate) struct Exit {
    /// A word that is 1 when the process exits: everything is to be drained.
    pub requested: AtomicU32,
    /// A word that is 1 when everything is drained.
    pub finished: AtomicU32,
    /// A count that grows as long as the flusher makes progress.
    pub progress: AtomicU64,
}

/// The two counts by which threads request work of one kind from the flusher, and wait for the end of the work. Such
/// work is to write the flight recorders after a panic, or to update the module table when a thread loads or unloads
/// modules. This is not a channel, because the thread may be inside a record, and because the flusher looks at the
/// counts between any two steps of its work.
#[derive(Debug, Default)]
pub(crate) struct CountedRequest {
    /// The number of requests that threads have made of the flusher.
    wanted: AtomicU32,
    /// The number of the last request that was carried out.
    done: AtomicU32,
}

impl CountedRequest {
    /// Requests work from the flusher, wakes the flusher by `wake`, and waits until the work is done, at most for
    /// `longest`.
    pub(crate) fn ask(&self, wake: &Wake, longest: Duration) {
        let request = self.wanted.fetch_add(1, Ordering::Release).wrapping_add(1);
        let start = sys::monotonic_ns();
        loop {
            wake.wake();
            let done = self.done.load(Ordering::Acquire);
            // Requests are carried out together: a later one may have been carried out together with this one.
            let behind = request.wrapping_sub(done) as i32;
            if behind <= 0 || u128::from(sys::monotonic_ns().saturating_sub(start)) > longest.as_nanos() {
                return;
            }
            sys::wait_word(&self.done, done, Duration::from_millis(50));
        }
    }

    /// Returns whether a request was made and not carried out yet. Only the flusher calls it.
    pub(crate) fn is_open(&self) -> bool {
        self.done.load(Ordering::Relaxed) != self.wanted.load(Ordering::Relaxed)
    }

    /// If there are requests that were not carried out yet, calls `work` and marks these requests as carried out. Only
    /// the flusher calls this.
    pub(crate) fn answer(&self, work: impl FnOnce()) {
        if self.is_open() {
            let wanted = self.wanted.load(Ordering::Acquire);
            work();
            self.done.store(wanted, Ordering::Release);
            sys::wake_word(&self.done, i32::MAX);
        }
    }
}

/// The sums of the counters of several threads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CounterSums {
    pub records: u64,
    pub lost: u64,
    pub stalls: u64,
    pub stall_ns: u64,
}

impl CounterSums {
    /// Returns the counts of the thread that has the ring with this header.
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
    /// Makes a run without starting its flusher. `root` is the id of the run at the root of the tree of forked
    /// processes; `None` makes this run the root.
    pub(crate) fn prepare(mut config: Config, root: Option<u32>) -> io::Result<&'static Run> {
        let alive = sys::page_wiped_on_fork().cast::<AtomicU32>();
        if alive.is_null() {
            return Err(io::Error::other("the system has no memory that is wiped on fork"));
        }
        // SAFETY: a fresh zeroed page, larger than the atomic and aligned.
        unsafe { &*alive }.store(1, Ordering::Release);
        config.clock = counter::available(config.clock);
        let began = clock::pair_of(config.clock);
        let id = random_id();
        let run: &'static Run = Box::leak(Box::new(Run {
            config,
            id,
            began,
            root: root.unwrap_or(id),
            exe: sys::executable(),
            here: std::env::current_dir().ok(),
            wake: Wake::default(),
            relay: Relay::default(),
            exit: Exit::default(),
            panic_request: CountedRequest::default(),
            look_request: CountedRequest::default(),
            // In a forked child, sites may wait that its parent's flusher did not get to.
            sites_queued: AtomicBool::new(true),
            ready: ReadyPool::new(),
            waiting: AtomicU32::new(0),
            supplied: AtomicU32::new(0),
            starved_until: AtomicU64::new(0),
            no_ring_possible: AtomicBool::new(false),
            rings: Mutex::default(),
            finished: Mutex::default(),
            bytes: AtomicU64::new(0),
            ringless_records: RinglessCounter::default(),
            start: Start::default(),
            looks: Looks::default(),
            panics: Panics::default(),
            page: AtomicPtr::default(),
            start_noted: AtomicBool::new(false),
            decision_ns: AtomicU64::new(0),
            inherited: if root.is_some() { ringless_records::unreported_count() } else { 0 },
            alive,
            closed: AtomicBool::new(false),
            requests: Requests::default(),
        }));
        Ok(run)
    }

    /// Returns the properties that the run's rings have in common.
    pub(crate) fn terms(&'static self) -> Terms {
        let Config { full_policy: policy, max_stall, .. } = self.config;
        Terms { run: self.id, wake: &self.wake, policy, max_stall }
    }

    /// Returns false in a child that was forked from the process whose run this is.
    pub(crate) fn is_of_this_process(&self) -> bool {
        // SAFETY: the page is never unmapped.
        unsafe { &*self.alive }.load(Ordering::Relaxed) == 1
    }

    /// Returns whether the run was shut down.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Adds `records`, which found no ring, or no file, to the run's count, unless this is a forked child.
    pub(crate) fn count_ringless(&self, records: u64) {
        if self.is_of_this_process() {
            self.ringless_records.add(records);
        }
    }

    /// Subtracts `records` from the count of records that found no ring, because a thread's file reports them.
    pub(crate) fn subtract_ringless(&self, records: u64) {
        self.ringless_records.subtract(records);
    }

    /// Returns the number of records that found no ring and that no file reports, including those that were made
    /// before there was a run.
    pub(crate) fn ringless_records(&self) -> u64 {
        self.ringless_records.count().max(ringless_records::unreported_count().saturating_sub(self.inherited))
    }

    /// Counts `records`, which found no ring, as reported, and sets the run's own count of such records to 0: the run's
    /// own file reports them.
    pub(crate) fn note_ringless_reported(&self, records: u64) {
        self.subtract_ringless(self.ringless_records.count());
        ringless_records::count_reported(records);
    }

    /// Moves the run's count of records without a ring to `page`, which outlives the process, and makes traced threads
    /// use the page. Only the flusher calls it: before there is a ring, and after it has restored a removed page.
    pub(crate) fn move_counters_to(&self, page: &'static TracedCounters) {
        self.ringless_records.move_to(&page.ringless_records);
        // Release: a thread that has no ring may panic.
        self.page.store(ptr::from_ref(page).cast_mut(), Ordering::Release);
    }

    fn page(&self) -> Option<&TracedCounters> {
        // SAFETY: null, or from a reference that is good for ever.
        unsafe { self.page.load(Ordering::Acquire).as_ref() }
    }

    /// Stores the name of the signal that ends the process in the page that outlives the process, if there is one.
    pub(crate) fn note_signal(&self, name: &str) {
        if let Some(page) = self.page() {
            page.signal.set(name);
        }
    }

    /// Returns the counts of the program's panics: those in the page that outlives the process or, if there is no such
    /// page, those in this process's memory.
    pub(crate) fn panics(&self) -> &Panics {
        self.page().map_or(&self.panics, |page| &page.panics)
    }

    /// Returns the description of a thread's end, for the last line of the thread's file. If the `reason` is the exit
    /// of the process, the description has the known cause of the exit. Only the flusher calls this.
    pub(crate) fn ended(&self, reason: EndReason) -> Ended {
        let seen = Some(clock::now());
        match reason {
            EndReason::Exit => {
                Ended { reason, cause: self.cause_of_exit(u64::from(sys::process_id())), seen }
            }
            EndReason::Shutdown => Ended { seen, ..reason.into() },
            _ => reason.into(),
        }
    }

    /// Returns the known cause of the process's exit; `main` is the id of its main thread.
    ///
    /// A panic is the cause if its hook has called `exit`, or if it was in the main thread and the exit status is the
    /// one of a program whose `main` has panicked.
    pub(crate) fn cause_of_exit(&self, main: u64) -> Cause {
        /// The status of a program whose `main` has panicked.
        const PANICKED: u32 = 101;
        let status = sys::exit_status();
        let in_main = |tid: &u64| status == Some(PANICKED) && *tid == main;
        let panic = self.panics().deadly().or_else(|| self.panics().last().filter(in_main));
        // The status 0 (success) is left out.
        let status = status.filter(|status| *status != 0);
        Cause { panic, signal: None, status }
    }

    /// Stores the time `ns`, in nanoseconds, that the decision to begin this run took on the thread that made it.
    pub(crate) fn note_decision_time(&self, ns: u64) {
        self.decision_ns.store(ns, Ordering::Relaxed);
    }

    /// Stores the cost of the run's start, which the file of the thread `tid` reports: the thread took a ring at the
    /// ticks `since`, after a wait of `ns` nanoseconds. Does nothing and returns false if a thread has stored the cost
    /// before. The thread `tid` calls this before it makes a record.
    pub(crate) fn note_start(&self, tid: u64, since: Ticks, ns: u64) -> bool {
        if self.start_noted.swap(true, Ordering::Relaxed) {
            return false;
        }
        let ns = ns.saturating_add(self.decision_ns.load(Ordering::Relaxed));
        self.start.set(tid, since, ns);
        if let Some(page) = self.page() {
            page.start.set(tid, since, ns);
        }
        true
    }

    /// Takes a ring for the calling thread. If no ring is ready, waits for one, until no thread has got a ring for a
    /// certain time. Returns the ring, and whether the thread has waited; `None` if there is no ring.
    pub(crate) fn claim(&'static self) -> Option<(&'static ThreadRing, bool)> {
        if let Some((ring, left)) = self.ready.take() {
            if left < SPARE / 2 {
                self.wake.wake();
            }
            return Some((ring, false));
        }
        if sys::monotonic_ns() < self.starved_until.load(Ordering::Relaxed) {
            return None;
        }
        // The flusher thread has not begun, and cannot begin before this thread goes on.
        if self.supplied.load(Ordering::Relaxed) == 0 && sys::blocks_new_threads() {
            return None;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let ring = self.wait_for_ring();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        ring.map(|ring| (ring, true))
    }

    /// Waits for a ring: without limit as long as rings are handed out to other threads, otherwise for a bounded time.
    /// If the thread gets no ring in that time, no thread waits for a ring for a while.
    fn wait_for_ring(&'static self) -> Option<&'static ThreadRing> {
        let begun = sys::monotonic_ns();
        let (mut since, mut idle_since, mut looks) = (begun, begun, 0);
        let mut seen = self.supplied.load(Ordering::Acquire);
        let mut written = self.exit.progress.load(Ordering::Relaxed);
        loop {
            if let Some((ring, _)) = self.ready.take() {
                return Some(ring);
            }
            if self.no_ring_possible.load(Ordering::Relaxed) || self.is_closed() {
                return None;
            }
            self.wake.wake();
            sys::wait_word(&self.supplied, seen, RECHECK_INTERVAL);
            looks += 1;
            let (now, supplied) = (sys::monotonic_ns(), self.supplied.load(Ordering::Acquire));
            let progress = self.exit.progress.load(Ordering::Relaxed);
            if supplied != seen {
                (since, idle_since, looks, seen) = (now, now, 0, supplied);
            } else if progress != written {
                (idle_since, written) = (now, progress);
            }
            let is_over = now.saturating_sub(idle_since) > MAX_IDLE_CLAIM_WAIT
                || now.saturating_sub(since) > MAX_TOTAL_CLAIM_WAIT;
            if is_over && looks >= MAX_RECHECKS {
                self.starved_until.store(now + MAX_CLAIM_WAIT, Ordering::Relaxed);
                return None;
            }
        }
    }

    /// Puts a ring into the pool that threads take from; returns false if the pool is full. Only the flusher calls it.
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

    /// Adds `bytes` to the number of bytes that were written to files. Only the flusher calls it.
    pub(crate) fn count_written(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.exit.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether the process's last thread, and not the flusher, ends the trace files. If so, handlers of `exit`
    /// that run after the tracer's handler may still trace. The last thread finds the rings by their ring files, so the
    /// result is true only if each ring has a file.
    pub(crate) fn is_ended_by_last_thread(&self) -> bool {
        sys::LAST_THREAD_IS_CALLED && self.rings.lock().iter().all(|ring| ring.place == RingPlace::Shared)
    }

    /// Waits until all records that were made before this call are in the files.
    pub(crate) fn flush(&self) -> io::Result<()> {
        self.ask(RequestKind::Flush, || {})
    }

    /// Waits until the module table has the modules that are loaded now, at most for the longest wait that the settings
    /// allow: the flusher may be held up by a disk, or by a lock that the calling thread has.
    pub(crate) fn look_at_modules(&self) {
        self.look_request.ask(&self.wake, self.config.max_stall);
    }

    /// Waits while the flusher drains all rings, ends the files and then ends itself.
    pub(crate) fn shut_down(&self) -> io::Result<()> {
        self.shut_down_while(|| {})
    }

    /// Does the same as [`Run::shut_down`], and calls `meanwhile` several times a second while the thread waits.
    pub(crate) fn shut_down_while(&self, meanwhile: impl FnMut()) -> io::Result<()> {
        let result = self.ask(RequestKind::ShutDown, meanwhile);
        self.close();
        result
    }

    /// Marks the run as closed, because the run has no flusher any more, or never had one.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    fn ask(&self, wanted: RequestKind, mut meanwhile: impl FnMut()) -> io::Result<()> {
        self.requests.ask(wanted, || self.wake.wake(), &mut meanwhile)
    }
}

/// Returns a number that is random enough to distinguish runs. Its source is the seed of std's hash maps, which comes
/// from the system.
fn random_id() -> u32 {
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u32(sys::process_id());
    hasher.write_u64(sys::monotonic_ns());
    let hash = hasher.finish();
    (hash ^ (hash >> 32)) as u32
}
