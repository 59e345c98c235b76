//! The supply of rings: the flusher makes rings and reserves their memory ahead of need, lends the rings to threads,
//! takes them back, and frees them. All of this runs on the flusher thread.
#![allow(unsafe_code, reason = "frees rings that nobody has; argued where it stands")]

use std::io;
use std::sync::atomic::Ordering;

use trace_format::life::{Ending, Looks, Switch};
use trace_format::meta::{self, RingPlace};
use trace_format::plans::Plans;
use trace_format::render::{Modules as _, References};
use trace_format::ring::{Geometry, MIN_CAPACITY, State};
use trace_store::drain::{RunTables, TracePlace};
use trace_store::memory::{FIRST_BYTES, Memory, may_begin_small};
use trace_store::modules::ModuleTable;
use trace_store::run_directory::{DirectorySettings, Missing, RunDirectory, Unreserved};

use super::ring_drain::RingDrain;
use crate::ring::{ALL_RESERVED, clock};
use crate::shared::run::{CounterSums, Run, SPARE};
use crate::shared::sites;
use crate::shared::thread_ring::ThreadRing;
use crate::sys;
use crate::user::config::FullPolicy;
use crate::user::relay;

/// The number of ready rings beyond which further ones are freed.
const SURPLUS: usize = 4 * SPARE;

/// One ring may take 1/`SHARE` of the remaining shared memory, so that later threads get smaller rings instead of none.
const SHARE: u64 = 8;

/// The memory, in bytes, that private rings may take together; further ones are as small as possible.
const PRIVATE_BUDGET: u64 = 64 << 20;

/// Returns the geometry of a ring of `wanted` bytes, or of the largest smaller ring whose file fits in `budget`, or of
/// the smallest possible ring if none fits.
fn largest_within(wanted: u64, budget: u64) -> Geometry {
    let mut geometry = Geometry::of(wanted);
    while geometry.file_size() > budget && geometry.capacity > MIN_CAPACITY {
        geometry = Geometry::of(geometry.capacity / 2);
    }
    geometry
}

/// Makes the file of a ring, or of a smaller ring if there is not enough memory. If `in_part` is true, the function may
/// reserve only the first bytes of a large ring; then it also returns the part of the memory that the caller has to
/// reserve later.
fn create_shared(
    directory: &mut RunDirectory,
    index: u32,
    mut geometry: Geometry,
    in_part: bool,
) -> io::Result<(Memory, Option<Unreserved>)> {
    loop {
        let made = directory.create_ring(index, geometry).and_then(|(memory, mut rest)| {
            if in_part && may_begin_small(&geometry) {
                return Ok((memory, Some(rest)));
            }
            while rest.reserve_next(&memory)?.is_some() {}
            Ok((memory, None))
        });
        if made.is_err() {
            directory.remove_ring(index);
        }
        match made {
            Err(e) if e.kind() == io::ErrorKind::StorageFull && geometry.capacity > MIN_CAPACITY => {
                geometry = Geometry::of(geometry.capacity / 2);
            }
            result => return result,
        }
    }
}

/// The maximum number of handed-out rings whose memory is not reserved completely. The number is small because a thread
/// that waits for memory gives up after a while, but a thread that waits for a ring goes on waiting as long as other
/// threads get rings.
const MAX_GROWING: usize = SPARE;

/// The number of bytes of a ring after whose reservation the flusher yields the processor to other threads once, unless
/// a thread has taken the ring by then.
const YIELD_AT: u64 = 4 * FIRST_BYTES;

/// A ring whose memory is being reserved.
struct Growing {
    ring: &'static ThreadRing,
    rest: Unreserved,
    /// Whether threads may take the ring, or have taken it.
    is_handed_out: bool,
}

/// The maker of the run's rings, which keeps account of their memory.
pub(crate) struct Supply {
    directory: Result<RunDirectory, String>,
    /// The directories that the run used before the process changed its user: the new user may not make rings there.
    former: Vec<RunDirectory>,
    /// The id of the user who made `directory`.
    user: u32,
    /// The number of bytes that further shared rings may take.
    budget: u64,
    /// The number of bytes that further private rings may take; when it is used up, private rings are as small as
    /// possible.
    private_budget: u64,
    /// The number of records that were dropped together with the flight recorders of ended threads.
    forgotten: u64,
    /// The rings whose memory is not reserved completely.
    growing: Vec<Growing>,
    /// True while a ring may be handed out before all of its memory is reserved. Becomes false when the rest of a ring
    /// could not be reserved afterwards.
    in_part: bool,
    /// True once the user was warned that a ring is private, so that its records are lost if the process is killed.
    has_warned: bool,
    /// True once the user was warned that parts of the directory were removed.
    has_warned_of_removal: bool,
    /// Whether this process has removed the run's directory itself, because it exits or the run ends.
    is_removed: bool,
    made: u32,
    /// The plans by which the flusher formats the captured arguments of the sites in the run's site table.
    plans: Plans,
    /// The table of the process's modules, which is also written into the run's directory.
    modules: ModuleTable,
    run: &'static Run,
}

impl Supply {
    /// Makes the supply and the run's directory; if the directory cannot be made, all rings will be private.
    pub(crate) fn new(run: &'static Run, info: &meta::Run, place: &mut TracePlace) -> Supply {
        let (mut sites, mut plans) = (sites::in_site_table(), Plans::default());
        for site in &mut sites {
            plans.add_of_run(site);
        }
        let directory = RunDirectory::create(&maker(run, info, place), &sites);
        let budget = directory.as_ref().map_or(0, |d| sys::shared_memory_budget(d.path()));
        if let Err(why) = &directory {
            relay::say(format_args!("{why}; if the process is killed, the records in memory will be lost"));
        }
        if let Ok(directory) = &directory {
            run.move_counters_to(&directory.life.traced);
            directory.life.switch.begin(run.config.paused);
            place.count_files_in(directory.lock.clone());
        }
        Supply {
            growing: Vec::new(),
            in_part: true,
            has_warned: directory.is_err(),
            has_warned_of_removal: false,
            is_removed: false,
            former: Vec::new(),
            forgotten: 0,
            user: sys::effective_user(),
            directory: directory.map_err(|why| why.to_string()),
            budget,
            private_budget: PRIVATE_BUDGET,
            made: 0,
            plans,
            modules: ModuleTable::new(clock::now),
            run,
        }
    }

    /// Opens the site tables in the run's directories again if the program has closed them; see
    /// [`RunDirectory::keep_open`].
    pub(crate) fn keep_open(&mut self) {
        for directory in self.directories_mut() {
            // If this fails, the next call tries again.
            let _ = directory.keep_open();
        }
    }

    /// Writes the table of the process's modules into the run's directory, where recovery will find it: at the first
    /// call, and later only if records with addresses were rendered since.
    pub(crate) fn write_modules(&mut self) {
        let directory = self.directory.as_ref().ok().map(RunDirectory::path);
        self.modules.keep_in(directory);
    }

    /// Brings the table of the process's modules up to date.
    pub(crate) fn look_at_modules(&mut self) {
        self.modules.lines();
    }

    /// Adds `records` to the number of records that were dropped with the flight recorders of threads that ended long
    /// ago.
    pub(crate) fn forget(&mut self, records: u64) {
        self.forgotten += records;
        for directory in self.directories_mut() {
            directory.life.flusher.forgotten.fetch_add(records, Ordering::Relaxed);
        }
    }

    /// Returns the number of all records that were dropped because the flight recorders of ended threads, which held
    /// them, were discarded.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn directories_mut(&mut self) -> impl Iterator<Item = &mut RunDirectory> {
        self.directory.iter_mut().chain(&mut self.former)
    }

    /// Returns the new user if the process has changed its user since the last call. In that case makes a directory of
    /// the new user, in which later rings are made: the process may have no access to the former directory, and a
    /// recoverer may not be able to read it.
    pub(crate) fn follow_user(
        &mut self,
        run: &'static Run,
        tails: &mut Vec<RingDrain>,
        info: &meta::Run,
        place: &mut TracePlace,
    ) -> Option<u32> {
        let user = sys::effective_user();
        if std::mem::replace(&mut self.user, user) == user {
            return None;
        }
        let made = RunDirectory::create(&maker(run, info, place), &sites::in_site_table());
        match &made {
            Ok(directory) => {
                self.budget = sys::shared_memory_budget(directory.path());
                place.count_files_in(directory.lock.clone());
            }
            Err(why) => relay::say(format_args!(
                "the program has become user {user}, and {why}; if it is killed, the records that later threads \
                 have in memory will be lost"
            )),
        }
        self.has_warned = made.is_err();
        let before = std::mem::replace(&mut self.directory, made.map_err(|why| why.to_string()));
        self.former.extend(before);
        // Later threads get rings of the new user.
        self.discard_ready(run, tails);
        Some(user)
    }

    fn discard_ready(&mut self, run: &'static Run, tails: &mut Vec<RingDrain>) {
        while let Some((ring, _)) = run.ready.take() {
            tails.retain(|tail| !std::ptr::eq(tail.ring, ring));
            self.discard(run, ring);
        }
    }

    /// Returns the removed parts of the run's directory, if there are any.
    pub(crate) fn missing(&self) -> Option<Missing> {
        if self.is_removed {
            return None;
        }
        let missing = self.directory.as_ref().ok()?.missing();
        (!missing.is_nothing()).then_some(missing)
    }

    /// Restores the missing parts of the run's directory, as far as possible, and makes threads whose rings have lost
    /// their files take other rings: records in a ring without a file are lost with the process. If a part cannot be
    /// restored now, the next check of the directory tries again.
    pub(crate) fn restore(
        &mut self,
        run: &'static Run,
        tails: &mut Vec<RingDrain>,
        missing: &Missing,
        info: &meta::Run,
        place: &mut TracePlace,
    ) {
        let Ok(directory) = &mut self.directory else { return };
        let restored = directory.restore(missing, &maker(run, info, place), &sites::in_site_table());
        if !std::mem::replace(&mut self.has_warned_of_removal, true) {
            let (path, what) = (directory.path(), missing_part_name(missing));
            let now = match &restored {
                Ok(()) => "it was put back, and threads go on in new rings".into(),
                Err(why) => {
                    format!(
                        "{why}; until that succeeds, records in memory will be lost if the process is killed"
                    )
                }
            };
            relay::say(format_args!(
                "somebody has removed {what} of {path:?} while the program is traced: {now}. Keep cleaners of temporary files \
                 (and RemoveIPC of systemd) from there, or set TRACER_RUNTIME_DIR to another directory"
            ));
        }
        if restored.is_ok() && (missing.directory || missing.life) {
            run.move_counters_to(&directory.life.traced);
            place.count_files_in(directory.lock.clone());
        }
        if directory.has_no_modules() {
            self.modules.keep_in(None);
        }
        if !missing.rings.is_empty() {
            self.discard_ready(run, tails);
            let is_missing = |tail: &&mut RingDrain| {
                tail.ring.place == RingPlace::Shared && missing.rings.contains(&tail.ring.index)
            };
            tails.iter_mut().filter(is_missing).for_each(RingDrain::orphan);
        }
    }

    /// Writes the entries of the queued sites into the site tables of the run's directories, where recovery will find
    /// them. A run without a directory has only private rings, which cannot be recovered.
    pub(crate) fn write_sites(&mut self) {
        sites::write_queued_entries(self.run, |mut entry| {
            let mut directories = self.directory.iter_mut().chain(&mut self.former);
            self.plans.add_of_run(&mut entry)
                && directories.all(|directory| directory.add_site(&entry).is_ok())
        });
    }

    /// Returns whether the flusher should make another ring: there should be a ready ring for each waiting thread, and
    /// [`SPARE`] further ones unless the process exits.
    pub(crate) fn needs_ring(&self, run: &Run) -> bool {
        let waiting = run.waiting.load(Ordering::Relaxed) as usize;
        let exiting = run.exit.requested.load(Ordering::Relaxed) == 1;
        let spare = if exiting { 0 } else { SPARE };
        let soon = self.growing.iter().filter(|growing| !growing.is_handed_out).count();
        run.ready.count() + soon < waiting + spare
    }

    /// Returns whether a thread waits for a ring, or has a ring whose memory is not reserved completely.
    pub(crate) fn is_urgent(&self, run: &Run) -> bool {
        Supply::has_waiting_thread(run) || self.growing.iter().any(|growing| growing.is_handed_out)
    }

    /// Returns whether a thread waits for a ring and none is ready for it. Returns false while no ring can be made.
    pub(crate) fn has_waiting_thread(run: &Run) -> bool {
        !run.no_ring_possible.load(Ordering::Relaxed)
            && run.ready.count() < run.waiting.load(Ordering::Relaxed) as usize
    }

    /// Does the most urgent work for the supply of rings: hands out a ring for a waiting thread, reserves the next part
    /// of a ring that a thread has, or makes or reserves a ring that is to be kept ready. Returns false if nothing is
    /// left to do, or nothing can be done.
    pub(crate) fn advance(&mut self, run: &'static Run, tails: &mut Vec<RingDrain>) -> bool {
        let is_handed_out = |growing: &Growing| growing.is_handed_out;
        let count = self.growing.iter().filter(|growing| growing.is_handed_out).count();
        // Even if no ring can be made, the rings that threads have must get their memory.
        if Supply::has_waiting_thread(run) && count < MAX_GROWING && self.serve(run, tails) {
            return true;
        }
        match self.growing.iter().position(is_handed_out) {
            Some(at) => self.reserve_next(run, tails, at),
            None if !self.growing.is_empty() => self.reserve_next(run, tails, 0),
            None => return self.needs_ring(run) && self.add(run, tails),
        }
        true
    }

    /// Reserves the rest of the memory of all rings that were made.
    pub(crate) fn complete(&mut self, run: &'static Run, tails: &mut Vec<RingDrain>) {
        while !self.growing.is_empty() {
            self.reserve_next(run, tails, 0);
        }
    }

    /// Hands out a ring to a thread that waits for one; returns false if no ring can be had.
    pub(crate) fn serve(&mut self, run: &'static Run, tails: &mut Vec<RingDrain>) -> bool {
        match self.growing.iter().position(|growing| !growing.is_handed_out) {
            Some(at) => {
                self.growing[at].is_handed_out = true;
                let ring = self.growing[at].ring;
                self.hand_out(run, tails, ring)
            }
            None => self.add(run, tails),
        }
    }

    /// Reserves the next part of the memory of the ring `growing[at]`.
    fn reserve_next(&mut self, run: &'static Run, tails: &mut Vec<RingDrain>, at: usize) {
        let Growing { ring, rest, is_handed_out } = &mut self.growing[at];
        let (ring, is_handed_out) = (*ring, *is_handed_out);
        let reserved = rest.reserve_next(&ring.memory);
        if let Ok(end) = reserved {
            ring.reserved_to(end.unwrap_or(ALL_RESERVED));
            if let Some(end) = end {
                // Reserving the rest keeps the processor busy for long, and the thread that waits for the ring may have
                // to run on the same one, if it has not begun to run on another.
                if is_handed_out && end == YIELD_AT && ring.header().tenancy.state() == Ok(State::Free) {
                    std::thread::yield_now();
                }
                return;
            }
        }
        self.stop_growing(ring);
        match reserved {
            Ok(_) if is_handed_out => {}
            Ok(_) => {
                self.hand_out(run, tails, ring);
            }
            Err(_) => {
                self.in_part = false;
                if is_handed_out {
                    // Its thread takes another one, which may be smaller, at its next record.
                    ring.close();
                } else {
                    self.discard(run, ring);
                }
            }
        }
    }

    /// Makes a ring. If a thread waits for a ring, or the new ring's memory is reserved completely, puts the ring into
    /// the pool of ready rings. Returns false if the ring cannot be made, or if the pool is full.
    pub(crate) fn add(&mut self, run: &'static Run, tails: &mut Vec<RingDrain>) -> bool {
        match self.make(run) {
            Ok(None) => false,
            Ok(Some((ring, rest))) => {
                run.no_ring_possible.store(false, Ordering::Relaxed);
                // A thread is about to wait for the first ring.
                let is_wanted = ring.index == 0 || run.waiting.load(Ordering::Relaxed) > 0;
                let is_handed_out = rest.is_none() || is_wanted;
                let is_kept = !is_handed_out || self.hand_out(run, tails, ring);
                if let Some(rest) = rest.filter(|_| is_kept) {
                    self.growing.push(Growing { ring, rest, is_handed_out });
                }
                is_kept
            }
            Err(error) => {
                if !run.no_ring_possible.swap(true, Ordering::Relaxed) {
                    relay::say(format_args!(
                        "cannot make a ring for a thread: {error}; its records are lost"
                    ));
                }
                false
            }
        }
    }

    /// Puts a ring into the pool of ready rings; if the pool is full, frees the ring and returns false.
    fn hand_out(&mut self, run: &'static Run, tails: &mut Vec<RingDrain>, ring: &'static ThreadRing) -> bool {
        run.rings.lock().push(ring);
        let is_put = run.put_ready(ring);
        if is_put {
            tails.push(RingDrain::new(run, ring));
        } else {
            self.discard(run, ring);
        }
        is_put
    }

    /// Makes a ring: a shared ring if possible, a smaller one if memory is short, and a private ring as the last
    /// resort. Makes no ring if a shared one is impossible now and no thread waits: it may be possible when a thread
    /// waits.
    ///
    /// The ring may be returned together with the part of its memory that is still to be reserved.
    fn make(&mut self, run: &'static Run) -> io::Result<Option<(&'static ThreadRing, Option<Unreserved>)>> {
        let index = self.made;
        self.made += 1;
        let geometry = largest_within(run.config.ring_size, self.budget / SHARE);
        // A thread that never waits for room must not have to wait for the rest of the memory, either.
        let in_part = self.in_part && run.config.full_policy == FullPolicy::Block;
        let why = match &mut self.directory {
            Err(why) => why.clone(),
            Ok(_) if geometry.file_size() > self.budget => "a quarter of the shared memory is in use".into(),
            Ok(directory) => match create_shared(directory, index, geometry, in_part) {
                Ok((memory, rest)) => {
                    self.budget -= memory.geometry().file_size();
                    let reserved = if rest.is_some() { FIRST_BYTES } else { ALL_RESERVED };
                    let (place, why) = (RingPlace::Shared, String::new());
                    let ring = ThreadRing::leak(run.terms(), memory, reserved, index, place, why);
                    return ring.map(|ring| Some((ring, rest)));
                }
                Err(_) if run.waiting.load(Ordering::Relaxed) == 0 => return Ok(None),
                Err(error) => error.to_string(),
            },
        };
        if !std::mem::replace(&mut self.has_warned, true) {
            relay::say(format_args!(
                "no shared memory for the ring of a thread: {why}; if the process is killed, the records in it will \
                 be lost"
            ));
        }
        let geometry = largest_within(run.config.ring_size, self.private_budget);
        let memory = Memory::private(geometry)?;
        self.private_budget = self.private_budget.saturating_sub(geometry.file_size());
        let ring = ThreadRing::leak(run.terms(), memory, ALL_RESERVED, index, RingPlace::Private, why);
        ring.map(|ring| Some((ring, None)))
    }

    /// Makes the drained rings of ended threads ready for other threads. Frees a ring instead if it was closed, or if
    /// enough rings are ready.
    pub(crate) fn take_back(&mut self, run: &'static Run, tails: &mut Vec<RingDrain>) {
        let mut ready = run.ready.count();
        let mut surplus = Vec::new();
        tails.retain_mut(|tail| {
            if !tail.was_freed() {
                return true;
            }
            let again = ready < SURPLUS && !tail.ring.is_closed() && run.put_ready(tail.ring);
            ready += usize::from(again);
            if !again {
                surplus.push(tail.ring);
            }
            again
        });
        for ring in surplus {
            self.discard(run, ring);
        }
    }

    /// Frees a ring that no thread has and no thread can take.
    fn discard(&mut self, run: &'static Run, ring: &'static ThreadRing) {
        self.stop_growing(ring);
        self.unlink(ring);
        run.rings.lock().retain(|other| !std::ptr::eq(*other, ring));
        // SAFETY: it was free or taken out of `ready`, it is out of the list, and its tail is gone.
        unsafe { ThreadRing::free(ring) };
    }

    /// Removes a ring from the list of rings whose memory is not reserved completely.
    #[inline(never)]
    fn stop_growing(&mut self, ring: &ThreadRing) {
        if let Some(at) = self.growing.iter().position(|growing| std::ptr::eq(growing.ring, ring)) {
            self.growing.swap_remove(at);
        }
    }

    fn unlink(&mut self, ring: &ThreadRing) {
        let bytes = ring.geometry().file_size();
        match (&mut self.directory, ring.place) {
            (Ok(directory), RingPlace::Shared) => {
                directory.remove_ring(ring.index);
                self.former.iter_mut().for_each(|former| former.remove_ring(ring.index));
                self.budget += bytes;
            }
            _ => self.private_budget = (self.private_budget + bytes).min(PRIVATE_BUDGET),
        }
    }

    /// Removes, at the process's exit, the files of rings that no thread has, and what is left of rings whose files
    /// were removed. If no thread has a ring, removes the run's directory, too. A thread that makes its first record
    /// later still finds the ready rings in memory.
    pub(crate) fn clear(&mut self, tails: &[RingDrain]) {
        // The records of an orphan are already written as far as possible.
        for tail in tails.iter().filter(|tail| tail.is_free() || tail.is_orphan()) {
            self.unlink(tail.ring);
        }
        if tails.iter().all(RingDrain::is_free) {
            self.remove_directories();
        }
    }

    fn remove_directories(&mut self) {
        self.is_removed = true;
        self.directory.iter().chain(&self.former).for_each(RunDirectory::remove);
    }

    /// Writes how the run ends into the run's life file, for recoverers.
    pub(crate) fn set_ending(&self, ending: Ending) {
        self.directory.iter().chain(&self.former).for_each(|directory| directory.life.set_ending(ending));
    }

    /// Writes a sign of life into the run's life file, for recoverers.
    pub(crate) fn note_look(&self, note: impl Fn(&Looks)) {
        self.directory.iter().chain(&self.former).for_each(|directory| note(&directory.life.looks));
    }

    /// Returns the switch by which other processes pause and resume the run; `None` if the run has no directory.
    pub(crate) fn switch(&self) -> Option<&'static Switch> {
        self.directory.as_ref().ok().map(|directory| &directory.life.switch)
    }

    /// Removes the run's directories and frees all rings, at shutdown. The memory of rings that threads may still use
    /// stays until these threads leave them.
    pub(crate) fn end(&mut self, run: &'static Run, tails: &mut Vec<RingDrain>) {
        let taken: Vec<_> = std::iter::from_fn(|| run.ready.take()).map(|(ring, _)| ring).collect();
        run.rings.lock().clear();
        for tail in tails.drain(..) {
            self.stop_growing(tail.ring);
            self.unlink(tail.ring);
            if taken.iter().any(|ring| std::ptr::eq(*ring, tail.ring)) {
                // SAFETY: taken out of `ready` before any thread, out of the list, and its tail is gone.
                unsafe { ThreadRing::free(tail.ring) };
            } else {
                run.finished.lock().add(CounterSums::of(tail.ring.header()));
                // SAFETY: its tail is gone, it is out of the list, and it is not ready for any thread.
                unsafe { ThreadRing::abandon(tail.ring) };
            }
        }
        self.remove_directories();
    }
}

/// Returns the settings with which the run's directory is made.
fn maker<'a>(run: &'a Run, info: &'a meta::Run, place: &'a TracePlace) -> DirectorySettings<'a> {
    DirectorySettings::new(run.config.runtime_directory.as_deref(), sys::thread_id(), info, place)
}

/// Returns the name, in a message to the user, of the missing part of the run's directory.
fn missing_part_name(missing: &Missing) -> &'static str {
    match missing {
        Missing { directory: true, .. } => "all",
        Missing { life: true, .. } => "the life file",
        Missing { manifest: true, .. } => "the manifest",
        Missing { sites: true, .. } => "the site table",
        _ => "rings",
    }
}

impl RunTables for Supply {
    fn references(&mut self) -> References<'_> {
        // A thread queues a site before it commits the first record of the site.
        self.write_sites();
        References { plans: &self.plans, modules: &mut self.modules }
    }
}
