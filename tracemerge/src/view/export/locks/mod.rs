//! The view `locks`, made from the lock records of `tracer::sync`: for each lock, how often and how long threads waited
//! for it, and behind which holder; which thread notified which; the chains of waits; and the waits that have not
//! ended.

mod chains;
pub(crate) mod numbers;
mod tell;
mod waits;

use std::sync::Arc;

use clap::Args;
use trace_format::meta::Meta;

use crate::ui::messages::count;
use crate::view::calls::Depth;
use crate::view::export::Export;
use crate::view::export::events::{Event, EventContent, EventExport, EventFormat, Inventory, LockContent};
#[cfg(feature = "parquet")]
use crate::view::export::locks::waits::{Awaited, CountedWait};
use crate::view::export::locks::waits::{Places, Waits};
use crate::view::layout::{Context, Layout, Needs, Subcommand};
use crate::view::rows::row_limit;
use trace_format::locks::LockRecord;

/// The layout of `locks`: the waits for locks and conditions.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocksLayout {
    /// The number of locks, conditions and chains that are listed, and of lines for each of them
    #[arg(long, value_name = "N|all", value_parser = row_limit, default_value_t = 20)]
    pub rows: usize,
}

impl Subcommand for LocksLayout {
    const NAME: &'static str = "locks";
    const ABOUT: &'static str = "Show which locks threads waited for, how long, and behind whom";
    const FOLLOW: Option<&'static str> = None;
    const HELP: &'static str = "\
For programs with the locks of tracer::sync (Mutex, RwLock, Condvar), which record only if
a thread has to wait. First it shows the waits that have not ended, with the thread that
holds the lock, and deadlocks; for a thread that waits for a condition, also the last
notification, which is lost if no thread was waiting. Then it shows for each lock how often
and how long threads waited, where, and behind which threads; for each condition also which
thread woke which, and after how long. Chains are waits behind threads that wait themselves.

For programs without these locks, a 'word' is an address at which threads have slept, if
they ran with a libtracer that was built with the feature futex (docs/functions.md).

'waited at' and 'since' are the source lines of calls: of the one that waits, and of the one by
which the holder got the lock. A thread that never had to record anything is shown by its id.
Waits that have not ended count up to the last sign of life of their process.

If tracemerge run has recorded the states of threads (TRACER_SCHED=1), 'holder off' is the
part of the waits in which the thread that had the lock was not on a processor.

Examples:
  tracemerge locks ./app
  tracemerge locks --since -2s --rows 5 ./app

Exit status: that of a merge";
}

impl Layout for LocksLayout {
    fn needs(&self) -> Needs {
        Needs { times: true, calls: true, labels: true, states: true, ..Needs::default() }
    }

    fn format(&self, context: &Context) -> Box<dyn Export> {
        Box::new(EventExport::new(LocksFormat::new(*self), Depth::All, context.threads(), Arc::default()))
    }

    fn is_summary(&self) -> bool {
        true
    }
}

/// The waits of all processes, derived from their lock records.
#[derive(Debug, Default)]
pub(crate) struct LockRecords {
    places: Places,
    /// The waits of each process.
    processes: Vec<Waits>,
    /// The number of lock records that were messages, as older traces have them.
    of_text: u64,
    /// Whether each wait that is added to the sums is also kept until [`LockRecords::take_counted`] passes it on.
    keeps_counted: bool,
}

/// A wait of a thread that was added to the sums, with the texts of its places in the source.
#[cfg(feature = "parquet")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedWait<'a> {
    /// The index of the process, and the id of the thread that waited.
    pub thread: (usize, u64),
    /// The kind of the awaited object: `lock`, `condition`, or `word` (a futex).
    pub kind: &'static str,
    /// The id of the awaited lock or condition, or the address of the futex.
    pub object: u64,
    /// The place in the source where the object was made; if it is not known, the place of the first wait for the
    /// object.
    pub made: Option<&'a str>,
    /// The place in the source where the thread waited.
    pub at: Option<&'a str>,
    /// The id of the thread that held the lock when the wait began, or that notified the waiting thread.
    pub holder: Option<u64>,
    /// The place in the source where the holder had acquired the lock, or where the notifying thread called the
    /// notification.
    pub since: Option<&'a str>,
    /// The beginning of the wait, in nanoseconds since 1970; `ns` is its duration.
    pub begin: u64,
    pub ns: u64,
    /// The way in which the wait ended: `got`, `gave up`, `woken`, `timed out`, `unseen` if there is no record of the
    /// end, or `open`.
    pub ending: &'static str,
}

/// The writer of the view `locks`, which shows which thread waited for which lock, and behind which holder.
#[derive(Debug)]
pub(crate) struct LocksFormat {
    layout: LocksLayout,
    records: LockRecords,
}

impl LocksFormat {
    /// Creates the writer of the view `locks`.
    #[must_use]
    pub(crate) fn new(layout: LocksLayout) -> LocksFormat {
        LocksFormat { layout, records: LockRecords::default() }
    }
}

/// Parts of the paths of source files that are skipped in the call stack of a wait, because their functions do not
/// belong to the program: files of the standard library, of lock crates, and of the code that records the wait.
const WAIT_FUNCTION_PATHS: [&str; 6] =
    ["/library/std/", "/library/core/", "/library/alloc/", "/parking_lot", "/lock_api", "capi/src/futex.rs"];

/// Returns the place in the source where the program itself has called a waiting function. `stack` is the call stack of
/// the wait, with names.
fn place_in_program(stack: &str) -> Option<&str> {
    let mut places = frames(stack).filter_map(|frame| frame.rsplit_once(" at ").map(|(_, place)| place));
    places.find(|place| !WAIT_FUNCTION_PATHS.iter().any(|part| place.contains(part)))
}

/// Returns the texts inside the outermost parentheses of a call stack, one for each frame. Parentheses inside these
/// texts must be balanced.
fn frames(stack: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut start) = (0usize, 0);
    stack.bytes().enumerate().filter_map(move |(at, byte)| {
        match byte {
            b'(' => {
                if depth == 0 {
                    start = at + 1;
                }
                depth += 1;
            }
            b')' => {
                depth = depth.saturating_sub(1);
                return (depth == 0).then(|| &stack[start..at]);
            }
            _ => {}
        }
        None
    })
}

impl LockRecords {
    /// Creates an empty object that also keeps each single wait until `take_counted` passes the wait on.
    #[cfg(feature = "parquet")]
    #[must_use]
    pub(crate) fn keeping() -> LockRecords {
        LockRecords { keeps_counted: true, ..LockRecords::default() }
    }

    /// Updates the waits with an event:
    /// * a lock record begins or ends a wait
    /// * a message or a call shows that its thread has gone on
    /// * a call stack shows where its thread waits
    /// * a `#` line may say that tracing was switched off, which ends all waits
    #[inline]
    pub(crate) fn take(&mut self, event: &Event<'_>, inventory: &Inventory) {
        let thread = &inventory.threads()[event.thread];
        for process in &inventory.processes()[self.processes.len()..] {
            let mut waits = Waits::with_states(inventory.registry.states(), process.run.as_ref());
            waits.counted = self.keeps_counted.then(Vec::new);
            self.processes.push(waits);
        }
        let waits = &mut self.processes[thread.process];
        match event.what {
            EventContent::Message { text, lock, .. } => {
                let is_of_lock = lock != LockContent::No;
                match is_of_lock.then(|| LockRecord::parse(text)).flatten() {
                    Some(record) => {
                        self.of_text += u64::from(lock == LockContent::Text);
                        waits.take(&record, thread.tid, event.time, &mut self.places);
                    }
                    None => waits.has_traced(thread.tid),
                }
            }
            EventContent::Enter(_) | EventContent::Leave(..) => waits.has_traced(thread.tid),
            EventContent::Stack(stack) => {
                if let Some(place) = place_in_program(stack) {
                    waits.place(thread.tid, place, &mut self.places);
                }
            }
            EventContent::Meta { meta: Some(Meta::Switched { on: false, ticks }), .. } => {
                waits.pause(thread.clock.steady(*ticks));
            }
            _ => {}
        }
    }

    /// Adds each wait that has not ended to the sums, with its duration until the last sign of life of its process. The
    /// wait stays open.
    pub(crate) fn count_open(&mut self, inventory: &Inventory) {
        for (process, waits) in self.processes.iter_mut().enumerate() {
            waits.count_open(inventory.registry.last_time(process));
        }
    }

    /// Passes to `each` the waits that were added to the sums since the previous call of this function.
    ///
    /// # Errors
    /// Returns an error if `each` does.
    #[cfg(feature = "parquet")]
    #[inline]
    pub(crate) fn take_counted<E>(
        &mut self,
        mut each: impl FnMut(&NamedWait<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let places = &self.places;
        for (process, waits) in self.processes.iter_mut().enumerate() {
            for counted in waits.counted.iter_mut().flat_map(|counted| counted.drain(..)) {
                let CountedWait { thread, awaited, made, at, holder, since, ns, ending } = counted;
                let (kind, object) = match awaited {
                    Awaited::Lock(id) => ("lock", id),
                    Awaited::Condition(id) => ("condition", id),
                    Awaited::Futex(address) => ("word", address),
                };
                each(&NamedWait {
                    thread: (process, thread),
                    kind,
                    object,
                    made: made.and_then(|made| places.text(made)),
                    at: places.text(at),
                    holder: holder.map(|holder| holder.thread),
                    since: holder.and_then(|holder| places.text(holder.since)),
                    begin: since,
                    ns,
                    ending: ending.name(),
                })?;
            }
        }
        Ok(())
    }
}

impl EventFormat for LocksFormat {
    fn event(&mut self, event: &Event<'_>, inventory: &Inventory, _out: &mut Vec<u8>) {
        self.records.take(event, inventory);
    }

    fn finish(&mut self, inventory: &Inventory, out: &mut Vec<u8>) {
        self.records.count_open(inventory);
        tell::tell(self, inventory, out);
    }

    fn omissions(&self, _inventory: &Inventory) -> Vec<String> {
        let read = (self.records.of_text > 0).then(|| count(self.records.of_text, "lock record"));
        let read_note = read.map(|records| {
            format!(
                "{records} read from the text of messages: an earlier version of the tracer wrote the trace"
            )
        });
        read_note.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
