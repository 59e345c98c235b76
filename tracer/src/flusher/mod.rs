//! The flusher: the one background thread, which turns rings into files.
//!
//! | file | content |
//! |---|---|
//! | `mod` | the thread: its loop, requests, the end of the process |
//! | `ring_drain` | a ring of this process and the drain of the thread that has it |
//! | `pace` | how fast a ring fills, and so when the flusher has to look at it again |
//! | `own_descriptors` | the table of open files, the flusher's own or the program's |
//! | `supply` | rings: made, reserved, lent out again, freed |
//!
//! The flusher creates, reserves, writes and closes every file. Its thread takes no signals, never panics, and never
//! writes to stdout; records that it makes itself are discarded. [`Flusher::drain_once`] writes the records.

mod own_descriptors;
mod pace;
mod ring_drain;
mod supply;

#[cfg(all(test, unix, not(loom)))]
mod tests;

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ring_drain::{Extent, RingDrain};
use supply::Supply;
use trace_format::life::Ending;
use trace_format::meta::{self, EndReason, Ended, Meta};
use trace_store::counter;
use trace_store::drain::{Announcement, Drain, DrainContext, RunFile, SMALLEST_FILE, TracePlace};
use trace_store::recovery;

use crate::ring::clock;
use crate::shared::requests::{Request, RequestKind};
use crate::shared::run::Run;
use crate::shared::{pause, ringless_records};
use crate::sys;
use crate::user::relay;
use crate::words::exclusion::Excluded;

/// While the flusher makes rings for threads: the number of its steps after which it also drains all rings. A ring of 1
/// MiB takes some 20 steps.
const DRAIN_STEPS: usize = 160;
/// The minimum time between two checks of threads, trace files and the run's directory: see
/// [`Flusher::check_threads_and_files`].
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The minimum time between two signs of life of the process, which are written for recoverers.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum number of rings of ended threads that wait while their files cannot be written.
const MAX_WAITING_RINGS: usize = 64;
/// The maximum number of flight recorders of ended threads that are kept.
const MAX_KEPT_RECORDERS: usize = 16;
/// The time from a failed attempt to write a file to the next attempt.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Runs the flusher thread. First calls `publish`, which makes `run` the run of the process; if `publish` returns
/// false, the flusher ends without having made anything.
pub(crate) fn run(run: &'static Run, publish: impl FnOnce() -> bool) {
    let _excluded = Excluded::mark_permanently();
    let _ended = EndRequests(run);
    sys::name_thread(c"tracer-flusher");
    if !publish() {
        run.close();
        return;
    }
    own_descriptors::take_own(run);
    Flusher::new(run).run();
}

/// A guard that answers open requests when the flusher ends, in whatever way.
struct EndRequests(&'static Run);

impl Drop for EndRequests {
    fn drop(&mut self) {
        self.0.requests.end();
    }
}

/// The flusher thread's own data.
struct Flusher {
    run: &'static Run,
    /// The `# run` line of each file.
    info: meta::Run,
    place: TracePlace,
    supply: Supply,
    rings: Vec<RingDrain>,
    /// A buffer for lines that are about to be written to a file.
    out: Vec<u8>,
    checked_at: Instant,
    /// The time of the last sign of life that was written.
    looked: Option<Instant>,
    /// True once the flusher has looked for dead runs.
    recovered: bool,
    /// The time at which the flusher tries again to write files that could not be written; `None`: at once.
    retry: Option<Instant>,
    /// The first error that no `flush` has returned yet.
    error: Option<io::Error>,
    /// The state of the current outage, a time in which files cannot be written: whether a `flush` has returned its
    /// error. `None` while files can be written. Each outage is reported to the user once.
    outage: Option<bool>,
    /// The drain of the thread that has ended last. The end of the run can be reported in this thread's file.
    last_ended: Option<Drain>,
    /// The number of threads with flight recorders whose end the flusher has seen.
    ended: u64,
    /// The text of the last error in writing a file.
    last_error: String,
}

impl Flusher {
    fn new(run: &'static Run) -> Flusher {
        let (ticks, wall) = run.began;
        let wanted = run.config.directory.as_deref();
        let mut place = TracePlace::new(wanted, &run.exe, run.here.as_deref(), run.id, relay::say);
        place.max_bytes = run.config.max_bytes;
        place.limit_total(run.config.max_total);
        place.encoding = run.config.format.encoding();
        let info = meta::Run {
            version: trace_format::VERSION,
            id: run.id,
            root: run.root,
            pid: sys::process_id(),
            exe: run.exe.as_os_str().as_encoded_bytes().to_vec(),
            boot: sys::boot_id(),
            ticks,
            wall,
            clock: run.config.clock,
        };
        let runtime = run.config.runtime_directory.clone().unwrap_or_else(sys::runtime_directory);
        place.announcement = Announcement::new(&info, place.name(), runtime);
        let supply = Supply::new(run, &info, &mut place);
        Flusher {
            run,
            info,
            place,
            supply,
            rings: Vec::new(),
            out: Vec::new(),
            checked_at: Instant::now(),
            looked: None,
            recovered: false,
            retry: None,
            error: None,
            outage: None,
            last_ended: None,
            ended: 0,
            last_error: String::new(),
        }
    }

    fn run(mut self) {
        // Before there are records: a process that ends at once has names for its calls.
        self.supply.write_modules();
        // The process's first record waits for this ring.
        self.supply.add(self.run, &mut self.rings);
        while self.supply.is_urgent(self.run) && self.supply.advance(self.run, &mut self.rings) {}
        let clock = ring_drain::clock_line();
        self.run.looks.begin(&clock);
        self.supply.note_look(|looks| looks.begin(&clock));
        loop {
            self.look();
            self.supply.keep_open();
            self.supply.write_modules();
            self.look_at_modules();
            self.follow_user();
            self.supply.write_sites();
            self.supply_rings();
            if self.handle_requests().is_break() {
                return;
            }
            self.drain_once();
            self.follow_switch();
            self.take_snapshot();
            self.recover_once();
            self.check_threads_and_files();
            if self.is_exiting() && self.run.exit.finished.load(Ordering::Relaxed) == 0 {
                self.at_process_exit();
            }
            self.run.wake.sleep(self.time_until_next_look());
        }
    }

    /// Returns how long the flusher may sleep: until a ring may be a quarter full, so that no thread has to wake the
    /// flusher, but at most the interval that the user has set.
    fn time_until_next_look(&self) -> Duration {
        let longest = self.run.config.flush_interval;
        let next = self.rings.iter().filter_map(RingDrain::next_look).min();
        next.map_or(longest, |at| at.saturating_duration_since(Instant::now()).min(longest))
    }

    /// Writes a sign of life, for recoverers: the values of the clocks.
    fn look(&mut self) {
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK_INTERVAL) {
            self.looked = Some(Instant::now());
            let clock = counter::look(clock::now);
            self.run.looks.look(&clock);
            self.supply.note_look(|looks| looks.look(&clock));
        }
    }

    /// Checks whether the process has changed its user. If so, writes a line about that into the existing files, which
    /// belong to the former user: later files belong to the new user.
    fn follow_user(&mut self) {
        let (rings, place) = (&mut self.rings, &mut self.place);
        let user = self.supply.follow_user(self.run, rings, &self.info, place);
        // A file that cannot take the line now remains the former user's.
        if let Some(uid) = user {
            self.write_line_to_all(&Meta::Credentials { uid });
        }
    }

    /// Writes a line into each file that can take one now.
    fn write_line_to_all(&mut self, line: &Meta) {
        for ring in &mut self.rings {
            let mut context = DrainContext {
                info: &self.info,
                place: &mut self.place,
                tables: &mut self.supply,
                out: &mut self.out,
            };
            let _ = ring.write_meta_line(&mut context, line);
        }
    }

    /// Pauses or resumes tracing, if another process has requested that. Writes the time of the switch into the files:
    /// a function call that was in progress at that time may have been left without a record.
    fn follow_switch(&mut self) {
        let Some((switch, on)) = self.supply.switch().and_then(|switch| Some((switch, switch.take()?)))
        else {
            return;
        };
        let is_changed = if on { pause::go_on() } else { pause::pause() };
        if is_changed {
            let ticks = clock::now();
            self.drain_once();
            // If there is no room for the line, there is none for records either.
            self.write_line_to_all(&Meta::Switched { on, ticks });
        }
        match pause::is_paused() {
            Some(paused) if paused != on => switch.is_now(paused),
            // The program is just deciding whether it traces: the next look tries again.
            _ => switch.ask(on),
        }
    }

    /// Updates the module table if a thread waits for that, because it loads or unloads modules.
    fn look_at_modules(&mut self) {
        self.run.look_request.answer(|| self.supply.look_at_modules());
    }

    /// Makes rings ready for threads that need one. Drains the rings of ended threads first, because reusing a ring is
    /// cheaper than making one.
    fn supply_rings(&mut self) {
        let ended: fn(&RingDrain) -> bool = |ring| ring.has_ended() && !ring.is_failing() && !ring.keeps();
        for step in 1.. {
            self.look_at_modules();
            // Threads that have rings must not wait until all other threads have got rings.
            if step % DRAIN_STEPS == 0 {
                self.drain_once();
            }
            if self.supply.needs_ring(self.run) && self.rings.iter().any(ended) {
                self.drain_matching(ended);
            } else if !self.supply.advance(self.run, &mut self.rings) {
                return;
            }
        }
    }

    /// Carries out the requests that threads have queued. Returns `Break` after a request to shut down.
    fn handle_requests(&mut self) -> std::ops::ControlFlow<()> {
        while let Some(request) = self.run.requests.take() {
            match request.wanted {
                RequestKind::Flush => self.answer_flush(request),
                RequestKind::ShutDown => {
                    self.shut_down();
                    request.answer(self.error.take().map_or(Ok(()), Err));
                    return std::ops::ControlFlow::Break(());
                }
            }
        }
        std::ops::ControlFlow::Continue(())
    }

    fn answer_flush(&mut self, request: Request) {
        self.retry = None;
        // This flush returns the errors that it meets, whatever an earlier one has returned.
        self.outage = self.outage.map(|_| false);
        self.drain_all();
        let error = self.error.take();
        self.outage = self.outage.map(|_| error.is_some());
        request.answer(error.map_or(Ok(()), Err));
    }

    /// Writes the records in all rings, in each up to its thread's position when the flusher looks at the ring.
    fn drain_once(&mut self) {
        self.drain_matching(|_| true);
    }

    /// Writes the records in all rings, flight recorders included.
    fn drain_all(&mut self) {
        self.rings.iter_mut().for_each(RingDrain::want);
        self.drain_once();
    }

    /// Writes the records in flight recorders, if a panic has requested it.
    fn take_snapshot(&mut self) {
        self.run.panic_request.answer(|| self.drain_all());
    }

    fn drain_matching(&mut self, which: fn(&RingDrain) -> bool) {
        let retry = self.retry.is_none_or(|at| Instant::now() >= at);
        if retry {
            self.retry = None;
        }
        self.place.recheck_total();
        let mut errors = Vec::new();
        // Rings that are made meanwhile come after these, and have hardly any records yet.
        for index in 0..self.rings.len() {
            if which(&self.rings[index]) && (retry || !self.rings[index].is_failing()) {
                match self.drain_ring(index) {
                    Ok(ended) => {
                        self.place.note_ended(ended.as_ref().and_then(Drain::ended_file));
                        self.last_ended = ended.or(self.last_ended.take());
                        self.limit_total();
                    }
                    Err(error) => errors.push(error),
                }
            }
        }
        errors.extend(self.place.deferred_error.take());
        if errors.is_empty() && self.error.is_none() && !self.rings.iter().any(RingDrain::is_failing) {
            self.outage = None;
        }
        errors.into_iter().for_each(|error| self.note_error(error));
        self.limit_waiting();
        self.limit_kept();
        self.supply.take_back(self.run, &mut self.rings);
    }

    /// Writes the records in one ring, in portions. Between two portions, hands out rings to threads that wait for one:
    /// writing all records may take longer than these threads wait. If the thread of the drained ring has ended,
    /// returns the drain that has written the thread's file.
    fn drain_ring(&mut self, index: usize) -> io::Result<Option<Drain>> {
        let run = self.run;
        let mut can_make = true;
        loop {
            let mut context = DrainContext {
                info: &self.info,
                place: &mut self.place,
                tables: &mut self.supply,
                out: &mut self.out,
            };
            let is_interrupted = || run.look_request.is_open() || can_make && Supply::has_waiting_thread(run);
            match self.rings[index].drain(&mut context, &is_interrupted)? {
                Extent::All(ended) => return Ok(ended),
                Extent::Partial => {
                    self.limit_total();
                    self.look_at_modules();
                    if Supply::has_waiting_thread(run) {
                        can_make = self.supply.serve(run, &mut self.rings);
                        self.supply.complete(run, &mut self.rings);
                    }
                }
            }
        }
    }

    /// Drops files, or the older halves of files, until all files together are within the limit that the user has set.
    fn limit_total(&mut self) {
        if !self.place.is_over_total() {
            return;
        }
        let longest = |rings: &[RingDrain]| rings.iter().map(RingDrain::file_length).max().unwrap_or(0);
        self.place.drop_ended(self.info.id, longest(&self.rings));
        while self.place.is_over_total() {
            let ring = self.rings.iter_mut().max_by_key(|ring| ring.file_length());
            let Some(ring) = ring.filter(|ring| ring.file_length() > SMALLEST_FILE) else { break };
            let mut context = DrainContext {
                info: &self.info,
                place: &mut self.place,
                tables: &mut self.supply,
                out: &mut self.out,
            };
            if !ring.drop_older_half(&mut context) {
                break;
            }
            self.place.drop_ended(self.info.id, longest(&self.rings));
        }
        if self.place.is_over_total() {
            self.place.note_nothing_droppable();
        }
    }

    /// Limits the number of rings of ended threads that wait while files cannot be written, to [`MAX_WAITING_RINGS`].
    fn limit_waiting(&mut self) {
        let waits = |ring: &&mut RingDrain| ring.has_ended() && ring.is_failing();
        let surplus = self.rings.iter_mut().filter(waits).count().saturating_sub(MAX_WAITING_RINGS);
        let lost: u64 = self.rings.iter_mut().filter(waits).take(surplus).map(RingDrain::give_up).sum();
        if lost > 0 {
            relay::say(format_args!(
                "{lost}{}: the files of threads that have ended cannot be written",
                are_lost(lost)
            ));
            ringless_records::count_without_ring(lost);
            self.run.count_ringless(lost);
        }
    }

    /// Keeps the flight recorders of the last few threads that have ended. The run's own file reports the number of
    /// records that are dropped with older flight recorders. At the end of the process all flight recorders are
    /// written.
    fn limit_kept(&mut self) {
        let kept = |ring: &&mut RingDrain| ring.has_ended() && ring.keeps();
        for ring in self.rings.iter_mut().filter(kept) {
            ring.note_end(&mut self.ended);
        }
        if self.is_exiting() {
            return;
        }
        let surplus = self.rings.iter_mut().filter(kept).count().saturating_sub(MAX_KEPT_RECORDERS);
        for _ in 0..surplus {
            if let Some(oldest) = self.rings.iter_mut().filter(kept).min_by_key(|ring| ring.end_position()) {
                self.supply.forget(oldest.give_up());
            }
        }
    }

    fn note_error(&mut self, error: io::Error) {
        self.last_error = error.to_string();
        self.retry = Some(Instant::now() + RETRY_INTERVAL);
        let returned = *self.outage.get_or_insert_with(|| {
            relay::say(format_args!(
                "{error}; the tracer tries again twice a second, and keeps records while there is room"
            ));
            false
        });
        if !returned && self.error.is_none() {
            self.error = Some(error);
        }
    }

    /// Recovers dead runs of this executable, once, so that their memory does not leak.
    fn recover_once(&mut self) {
        if !std::mem::replace(&mut self.recovered, true) {
            let (exe, id) = (self.info.exe.clone(), self.info.id);
            let directories = match &self.run.config.runtime_directory {
                Some(directory) => vec![directory.clone()],
                None => sys::runtime_directories(),
            };
            // The recovery may take long, and the threads of this run go on tracing.
            recovery::recover_in_background(
                &directories,
                // This run excludes itself by its id, whatever has become of its locks.
                |run, _| run.exe == exe && run.id != id,
                || {
                    self.run.count_written(0);
                    self.look_at_modules();
                    self.supply_rings();
                    self.drain_once();
                },
            );
        }
    }

    /// Finds threads that ended unnoticed or have new names, and deleted files, at most once in [`CHECK_INTERVAL`].
    fn check_threads_and_files(&mut self) {
        if self.checked_at.elapsed() >= CHECK_INTERVAL {
            self.checked_at = Instant::now();
            let mut context = DrainContext {
                info: &self.info,
                place: &mut self.place,
                tables: &mut self.supply,
                out: &mut self.out,
            };
            for ring in &mut self.rings {
                ring.end_if_thread_is_gone();
                ring.check_file();
                ring.follow_name(&mut context);
            }
            self.check_directory();
        }
    }

    /// Restores the removed parts of the run's directory. Before that, writes the records in all rings to trace
    /// files, where they are safe: a ring without a file cannot be recovered.
    fn check_directory(&mut self) {
        if let Some(missing) = self.supply.missing() {
            self.drain_all();
            self.supply.restore(self.run, &mut self.rings, &missing, &self.info, &mut self.place);
        }
    }

    /// Drains everything and ends every file, because the process exits. Threads that still run may go on tracing;
    /// the loop goes on draining them.
    fn at_process_exit(&mut self) {
        self.retry = None;
        // A ring that has lost its file cannot be left to a recoverer.
        self.check_directory();
        self.supply.set_ending(Ending::Exit);
        self.drain_all();
        // In that case the last thread ends the files, and writes the number of files into one of them.
        if self.run.is_ended_by_last_thread() && !self.rings.iter().all(RingDrain::is_free) {
            report_ringless_records(self.run.ringless_records());
            self.place.retry_removals_at_end();
            return self.release_exit();
        }
        // Threads that have just been joined, or are about to be, get a moment to end.
        for _ in 0..10 {
            if self.rings.iter().all(|ring| ring.is_free() || ring.waits_for_exit()) {
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
            self.rings.iter_mut().for_each(RingDrain::want);
            self.drain_matching(RingDrain::has_ended);
        }
        let ended = self.run.ended(EndReason::Exit);
        self.end_files(ended);
        // The ring of the thread that called `exit` has waited for that.
        self.rings.iter_mut().filter(|ring| ring.has_ended()).for_each(RingDrain::want);
        self.drain_matching(RingDrain::has_ended);
        // Shared rings stay, and are recovered when files can be written.
        self.end_run_file(ended, RingDrain::dies_with_process);
        self.place.retry_removals_at_end();
        self.supply.clear(&self.rings);
        self.release_exit();
    }

    /// Writes the losses that no thread's file can report into a file of the run's own: records of threads that never
    /// got a ring, records dropped with flight recorders or files, and records that are lost with the rings for which
    /// `goes` returns true.
    fn end_run_file(&mut self, ended: Ended, goes: fn(&RingDrain) -> bool) {
        let unwritten = self.report_unwritten(goes);
        let ringless = self.run.ringless_records();
        // Read after that count: a thread that gets its ring now moves its part of the count there, and it is reported
        // twice rather than never.
        let unseen: u64 = self.rings.iter().filter(|ring| goes(ring)).map(RingDrain::unseen_losses).sum();
        let forgotten = self.supply.forgotten();
        report_ringless_records(ringless + unseen);
        // Files that are dropped after this would be reported nowhere: threads may trace until the process is gone.
        self.place.limit_total(u64::MAX);
        let dropped = self.place.dropped();
        let ringless_records = ringless + unseen + unwritten;
        if ringless_records == 0 && forgotten == 0 && dropped.files == 0 {
            return;
        }
        let file = RunFile { tid: sys::thread_id(), ringless_records, forgotten, dropped, ended };
        match file.write(&mut self.place, &self.info) {
            Ok(()) => self.run.note_ringless_reported(ringless),
            Err(error) => self.note_error(error),
        }
    }

    fn is_exiting(&self) -> bool {
        self.run.exit.requested.load(Ordering::Acquire) == 1
    }

    fn release_exit(&self) {
        self.run.exit.finished.store(1, Ordering::Release);
        sys::wake_word(&self.run.exit.finished, i32::MAX);
    }

    /// Reports to the user the number of records that are lost because their files cannot be written: those in the
    /// rings for which `goes` returns true. Returns the number.
    fn report_unwritten(&mut self, goes: fn(&RingDrain) -> bool) -> u64 {
        let mut context = DrainContext {
            info: &self.info,
            place: &mut self.place,
            tables: &mut self.supply,
            out: &mut self.out,
        };
        let going = self.rings.iter().filter(|ring| goes(ring) && ring.is_failing());
        let lost = going.map(|ring| ring.unreported_records(&mut context)).fold(0, u64::saturating_add);
        if lost > 0 {
            let error = &self.last_error;
            relay::say(format_args!("{lost}{}: writing failed: {error}", are_lost(lost)));
        }
        lost
    }

    /// Ends all files, and writes the number of the run's files into one of them. If all files were ended before,
    /// writes the number into the file of the thread that has ended last.
    fn end_files(&mut self, ended: Ended) {
        let mut errors = Vec::new();
        let mut said = false;
        for ring in &mut self.rings {
            let mut context = DrainContext {
                info: &self.info,
                place: &mut self.place,
                tables: &mut self.supply,
                out: &mut self.out,
            };
            match ring.end(&mut context, ended) {
                Ok(is_written) => said |= is_written,
                Err(error) => errors.push(error),
            }
        }
        if let Some(last) = self.last_ended.as_mut().filter(|_| !said) {
            let mut context = DrainContext {
                info: &self.info,
                place: &mut self.place,
                tables: &mut self.supply,
                out: &mut self.out,
            };
            // An error is ignored: the user may have removed the file.
            let _ = last.end_run(&mut context, ended);
        }
        errors.into_iter().for_each(|error| self.note_error(error));
    }

    /// Ends tracing: takes all rings from their threads, drains everything and ends every file.
    fn shut_down(&mut self) {
        self.retry = None;
        self.supply.set_ending(Ending::Shutdown);
        self.run.no_ring_possible.store(true, Ordering::Relaxed);
        for ring in &self.rings {
            ring.close();
        }
        self.drain_all();
        let ended = self.run.ended(EndReason::Shutdown);
        self.end_files(ended);
        self.end_run_file(ended, |_| true);
        self.place.retry_removals_at_end();
        self.supply.end(self.run, &mut self.rings);
        self.run.relay.end();
        // If the process exits meanwhile, its exit handler has nothing to wait for.
        self.release_exit();
    }
}

/// Reports to the user how many records are lost because no ring or no file could be made for them.
fn report_ringless_records(records: u64) {
    if records > 0 {
        relay::say(format_args!("{records}{}: no ring or no file could be made", are_lost(records)));
    }
}

/// Returns the words that follow the number `records` in a message that these records are lost.
const fn are_lost(records: u64) -> &'static str {
    if records == 1 { " record is lost" } else { " records are lost" }
}
