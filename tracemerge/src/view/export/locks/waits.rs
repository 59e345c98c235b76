//! The waits of threads for locks and conditions: the waits that have not ended, and the sums of those that have.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use trace_format::meta::Run;

use crate::view::export::locks::chains::{ChainId, Chains, Link, rings};
use crate::view::export::locks::numbers::Numbers;
use crate::view::thread_states::{OffSum, ThreadStates};
use trace_format::locks::{LockRecord, LockWait};

/// The id of a place in the source of a program: its index in [`Places`].
pub(super) type PlaceId = u32;

/// The places in the sources of programs that records have named, each stored once.
#[derive(Debug, Default)]
pub(super) struct Places {
    ids: HashMap<String, PlaceId>,
    texts: Vec<String>,
}

impl Places {
    /// Returns the id of a place in the source. Stores the place if it is new.
    pub(super) fn id(&mut self, place: &str) -> PlaceId {
        if let Some(id) = self.ids.get(place) {
            return *id;
        }
        let id = PlaceId::try_from(self.texts.len()).unwrap_or(PlaceId::MAX);
        self.texts.push(place.to_owned());
        self.ids.insert(place.to_owned(), id);
        id
    }

    /// Returns the text of a place; `None` if the place was recorded as unknown.
    #[must_use]
    pub(super) fn text(&self, id: PlaceId) -> Option<&str> {
        self.texts.get(id as usize).map(String::as_str).filter(|text| *text != UNKNOWN)
    }
}

/// The text that records have for an unknown place in the source.
pub(super) const UNKNOWN: &str = "?:0";

/// The sum of some waits: their count, and their durations in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    /// The count of waits.
    pub waits: u64,
    /// The sum of the durations.
    pub total: u64,
    /// The longest duration.
    pub max: u64,
    /// The part of `total` for which the holder of the lock was not running on a processor; 0 if the trace has no
    /// states of threads.
    pub holder_off: OffSum,
}

impl Sum {
    /// Adds a wait of `ns` nanoseconds.
    pub(super) fn add(&mut self, ns: u64) {
        self.waits += 1;
        self.total = self.total.saturating_add(ns);
        self.max = self.max.max(ns);
    }
}

/// The thread that holds a lock, with the place in the source where it has acquired the lock. For a condition: the
/// thread that has notified it, with the place of this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Holder {
    /// The id of the thread that holds the lock or has notified the condition.
    pub thread: u64,
    /// The place in the source where the thread has acquired the lock, or has notified.
    pub since: PlaceId,
}

/// The properties that waits for a lock must have in common to be counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LockWaitKey {
    /// The thread that held the lock when the wait began, if known.
    pub holder: Option<Holder>,
    /// The place in the source where the threads waited.
    pub at: PlaceId,
}

/// A lock for which threads waited.
#[derive(Debug)]
pub(super) struct Lock {
    /// The place in the source where the lock was made; if it is not known, the place of the first wait for the lock.
    pub made: PlaceId,
    /// The sum of all waits for the lock.
    pub sum: Sum,
    /// The sums of the waits, by the holder of the lock and the place of the wait.
    pub behind: BTreeMap<LockWaitKey, Sum>,
    /// The number of waits that ended although the thread did not get the lock.
    pub given_up: u64,
}

/// A condition that threads waited for or notified.
#[derive(Debug)]
pub(super) struct Condition {
    /// The place in the source where the condition was made; for a futex, the first known place where a thread waited
    /// for it.
    pub made: PlaceId,
    /// The sum of all waits for the condition.
    pub sum: Sum,
    /// The sums of the waits, by the notification that has ended them (if one has) and by the place of the wait in the
    /// source.
    pub woken: BTreeMap<(Option<Holder>, PlaceId), Sum>,
    /// The number of waits that timed out.
    pub timeouts: u64,
    /// The number of notifications.
    pub notifications: u64,
    /// The number of notifications that found nobody waiting.
    pub without_waiter: u64,
    /// The sum of the times from a notification to the moment at which the notified thread has returned from its wait,
    /// and holds the lock again.
    pub latency: Sum,
    /// The last notification; `None` if there was none.
    pub last: Option<Notification>,
    /// The notifications whose threads have not yet returned from their waits. The key is the number that such a thread
    /// will record when it is woken.
    pending: Numbers<Notification>,
}

impl Condition {
    fn new(made: PlaceId) -> Condition {
        Condition {
            made,
            sum: Sum::default(),
            woken: BTreeMap::new(),
            timeouts: 0,
            notifications: 0,
            without_waiter: 0,
            latency: Sum::default(),
            last: None,
            pending: Numbers::default(),
        }
    }
}

/// A notification of a condition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notification {
    /// The time of the notification, in nanoseconds since 1970.
    pub wall: u64,
    /// The notifying thread, and the place of its call.
    pub by: Holder,
    /// The number of notified threads.
    pub wakes: u64,
}

/// The object that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Awaited {
    /// The lock with this id.
    Lock(u64),
    /// The condition with this id.
    Condition(u64),
    /// The word in memory with this address, on which threads wait by a system call (a futex).
    Futex(u64),
}

/// A wait of a thread that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// The object that the thread waits for.
    pub awaited: Awaited,
    /// The beginning of the wait, in nanoseconds since 1970.
    pub since: u64,
    /// The place in the source where the thread waits.
    pub at: PlaceId,
    /// The thread that held the lock when the wait began.
    first_holder: Option<Holder>,
    /// The number of times that the lock had changed its holder before the wait began: see [`Queue`].
    holder_changes: u64,
    /// The facts that are known about the first change of the lock's holder during the wait; `None` before this change.
    handed_over: Option<HandedOver>,
    /// The longest chain of waits that was found and that begins with this wait; `None` if none was found.
    chain: Option<ChainId>,
    /// Whether the thread has recorded a message or a call since the beginning of the wait.
    pub has_traced_since: bool,
}

/// The way in which a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitEnding {
    /// The thread got the lock.
    Got,
    /// The thread has stopped waiting for the lock without getting it.
    GaveUp,
    /// The thread was woken by a notification.
    Woken,
    /// The wait timed out.
    TimedOut,
    /// The end of the wait was not recorded.
    Unseen,
    /// The wait had not ended at the end of the trace.
    Open,
}

#[cfg(feature = "parquet")]
impl WaitEnding {
    /// Returns the name of this ending in tables.
    #[must_use]
    pub(super) fn name(self) -> &'static str {
        match self {
            WaitEnding::Got => "got",
            WaitEnding::GaveUp => "gave up",
            WaitEnding::Woken => "woken",
            WaitEnding::TimedOut => "timed out",
            WaitEnding::Unseen => "unseen",
            WaitEnding::Open => "open",
        }
    }
}

/// A wait that was added to the sums.
#[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "only data sets have each wait"))]
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedWait {
    /// The id of the thread that waited.
    pub thread: u64,
    /// The object that the thread waited for.
    pub awaited: Awaited,
    /// The place in the source where the awaited object was made, if it is known.
    pub made: Option<PlaceId>,
    /// The place in the source where the thread waited.
    pub at: PlaceId,
    /// The thread that held the lock when the wait began, or whose notification ended the wait.
    pub holder: Option<Holder>,
    /// The beginning of the wait, in nanoseconds since 1970.
    pub since: u64,
    /// The duration of the wait, in nanoseconds.
    pub ns: u64,
    /// The way in which the wait ended.
    pub ending: WaitEnding,
}

/// For a wait during which the lock changed its holder: the times at the first change for which holders were not
/// running on a processor.
#[derive(Clone, Copy, Debug)]
struct HandedOver {
    /// The time for which the first holder was not running, from the beginning of the wait until the change.
    first: OffSum,
    /// The value that `off` of the lock's [`Queue`] had at the change.
    before: OffSum,
}

/// The waits for a lock that have not ended.
///
/// A new holder of the lock is the holder for all waiting threads, so it is stored once and not for each thread. So if
/// many threads get a lock one after another, this costs no more than reading their records.
#[derive(Debug, Default)]
struct Queue {
    /// The number of times that the lock has changed its holder.
    holder_changes: u64,
    /// The thread that holds the lock since the last change of its holder; `None` if it is not known.
    holder: Option<Holder>,
    /// The time of the last change of the holder, in nanoseconds.
    changed: u64,
    /// The sum of the times for which the holders were not running on a processor while they held the lock, from the
    /// first to the last change of the holder.
    off: OffSum,
    /// The number of open waits that began before the last change of the holder.
    before: u64,
    /// The threads whose waits began after the last change of the holder. For such a wait, the holder is the one that
    /// the record of the wait names.
    since: HashSet<u64>,
}

/// The number of threads that the search for chains may visit for each lock record, on average. If at most so many
/// threads wait at the same time, all chains are found.
const STEPS: usize = 64;
/// The number of threads that the search for chains may visit in addition to [`STEPS`] for each lock record.
const FIRST_STEPS: usize = 1 << 20;

/// All waits of one process.
#[derive(Debug)]
pub(super) struct Waits {
    /// The locks, by their ids.
    pub locks: BTreeMap<u64, Lock>,
    /// The conditions, by their ids.
    pub conditions: BTreeMap<u64, Condition>,
    /// The futexes, by address. They are treated like conditions: a thread that wakes the sleeping threads notifies
    /// them.
    pub futexes: BTreeMap<u64, Condition>,
    /// The waits that have not ended, by the id of the waiting thread.
    pub open: BTreeMap<u64, Waiting>,
    /// The queue of each lock for which threads wait.
    queues: HashMap<u64, Queue>,
    /// The chains of waits. Each ended wait that began a chain of more than one wait is added to the sum of the chain.
    pub chains: Chains,
    /// Whether a chain may have become longer since the last search.
    has_new_chains: bool,
    /// The number of threads that the search for chains may still visit, so that it does not take too long.
    steps: usize,
    /// Whether some chains were not examined, because there were too many or too long ones.
    pub misses_chains: bool,
    /// The number of waits without a record of their end.
    pub unseen: u64,
    /// For each thread, by its id, the number of open waits for objects that the thread holds.
    followers: HashMap<u64, u64>,
    /// The states of threads, and the run to which the waiting threads belong; `None` if the trace has no states of
    /// threads.
    states: Option<(Arc<ThreadStates>, Run)>,
    /// The waits that were added to the sums and not passed on yet; `None` if they are not kept one by one.
    pub counted: Option<Vec<CountedWait>>,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits {
            locks: BTreeMap::new(),
            conditions: BTreeMap::new(),
            futexes: BTreeMap::new(),
            open: BTreeMap::new(),
            queues: HashMap::new(),
            chains: Chains::default(),
            has_new_chains: false,
            steps: FIRST_STEPS,
            misses_chains: false,
            unseen: 0,
            followers: HashMap::new(),
            states: None,
            counted: None,
        }
    }
}

impl Waits {
    /// Creates an empty set of waits for the threads of a run. `states` tells when threads were not running, if the
    /// trace has states of threads.
    #[must_use]
    pub(super) fn with_states(states: &Arc<ThreadStates>, run: Option<&Run>) -> Waits {
        let states = run.filter(|_| !states.is_empty()).map(|run| (states.clone(), run.clone()));
        Waits { states, ..Waits::default() }
    }

    /// Returns whether the trace has states of threads.
    #[must_use]
    pub(super) fn has_states(&self) -> bool {
        self.states.is_some()
    }

    /// Returns for how long a holder was not running on a processor between two times.
    fn off_of(&self, holder: Option<Holder>, from: u64, until: u64) -> OffSum {
        let Some((states, run)) = &self.states else { return OffSum::default() };
        let whole = until.saturating_sub(from);
        let unknown = OffSum { unknown: whole, ..OffSum::default() };
        let times = holder.and_then(|holder| states.of(run, holder.thread));
        times.map_or(unknown, |times| times.between(from, until).within(whole))
    }

    /// Returns for how long the holders of a lock were not running on a processor, from the beginning of a wait for the
    /// lock to the time `until`.
    #[must_use]
    pub(super) fn holder_off(&self, waiting: &Waiting, until: u64) -> OffSum {
        let Awaited::Lock(id) = waiting.awaited else { return OffSum::default() };
        let Some((HandedOver { mut first, before }, queue)) = waiting.handed_over.zip(self.queues.get(&id))
        else {
            return self.off_of(waiting.first_holder, waiting.since, until);
        };
        first.add(&queue.off.without(&before));
        first.add(&self.off_of(queue.holder, queue.changed, until));
        first.within(until.saturating_sub(waiting.since))
    }

    /// Begins or ends a wait of `thread`, or adds a notification, as the lock record `record` of this thread says.
    /// `wall` is the time of the record.
    pub(super) fn take(&mut self, record: &LockRecord<'_>, thread: u64, wall: u64, places: &mut Places) {
        self.steps = self.steps.saturating_add(STEPS);
        match *record {
            LockRecord::Wait(wait) => self.wait(&wait, thread, wall, places),
            LockRecord::Got { id, ns } => {
                let at = self.end(thread, Awaited::Lock(id), (ns, WaitEnding::Got), None);
                self.hand_over(id, at.map(|since| Holder { thread, since }), wall);
            }
            LockRecord::GaveUp { id, ns } => {
                self.end(thread, Awaited::Lock(id), (ns, WaitEnding::GaveUp), None);
                if let Some(lock) = self.locks.get_mut(&id) {
                    lock.given_up += 1;
                }
            }
            LockRecord::ConditionWait { id, lock, made, at } => {
                let (made, at) = (places.id(made), places.id(at));
                self.conditions.entry(id).or_insert_with(|| Condition::new(made));
                // The waiting threads can get the lock now.
                self.hand_over(lock, None, wall);
                self.begin(thread, Awaited::Condition(id), at, None, wall);
            }
            LockRecord::Woken { id, by, ns } => self.woken(id, by, thread, (wall, ns), false),
            LockRecord::Timeout { id, by, ns } => self.woken(id, by, thread, (wall, ns), true),
            LockRecord::FutexWait { address } => {
                let unknown = places.id(UNKNOWN);
                self.futexes.entry(address).or_insert_with(|| Condition::new(unknown));
                self.begin(thread, Awaited::Futex(address), unknown, None, wall);
            }
            LockRecord::FutexWoken { address, ns, result } => {
                self.futex_woken(address, thread, (wall, ns), result);
            }
            LockRecord::FutexWake { address, most } => {
                let unknown = places.id(UNKNOWN);
                let futex = self.futexes.entry(address).or_insert_with(|| Condition::new(unknown));
                futex.notifications += 1;
                futex.last = Some(Notification { wall, by: Holder { thread, since: unknown }, wakes: most });
            }
            LockRecord::Notify { id, first, wakes, made, at, .. } => {
                let (made, since) = (places.id(made), places.id(at));
                let notification = Notification { wall, by: Holder { thread, since }, wakes };
                let condition = self.conditions.entry(id).or_insert_with(|| Condition::new(made));
                condition.notifications += 1;
                condition.without_waiter += u64::from(wakes == 0);
                condition.last = Some(notification);
                let (first, wakes) = LockRecord::numbers(first, wakes);
                condition.pending.insert(first, wakes, notification);
            }
        }
    }

    /// Marks the open wait of a thread, if there is one: the thread has recorded a message or a call since the wait
    /// began.
    pub(super) fn has_traced(&mut self, thread: u64) {
        if let Some(waiting) = self.open.get_mut(&thread) {
            waiting.has_traced_since = true;
        }
    }

    /// Ends all waits at the time `wall`, because tracing is switched off and their ends will not be recorded.
    pub(super) fn pause(&mut self, wall: u64) {
        let open: Vec<(u64, Awaited, u64)> =
            self.open.iter().map(|(thread, of)| (*thread, of.awaited, of.since)).collect();
        for (thread, awaited, since) in open {
            self.unseen += 1;
            self.end(thread, awaited, (wall.saturating_sub(since), WaitEnding::Unseen), None);
        }
    }

    /// Adds each open wait, with its duration until `wall`, to the sums and, if waits are kept one by one, to the list
    /// of counted waits. The wait stays open.
    pub(super) fn count_open(&mut self, wall: u64) {
        self.find_chains();
        let open: Vec<(u64, Waiting)> = self.open.iter().map(|(thread, of)| (*thread, of.clone())).collect();
        for (thread, waiting) in open {
            let off = self.holder_off(&waiting, wall);
            let ns = wall.saturating_sub(waiting.since);
            self.keep((thread, &waiting), (ns, WaitEnding::Open), None);
            self.count(&waiting, (ns, off), None);
        }
    }

    /// Sets the place in the source where a thread waits to `place`, from its call stack, if the record of the wait did
    /// not name the place (as for a futex).
    pub(super) fn place(&mut self, thread: u64, place: &str, places: &mut Places) {
        let unknown = places.id(UNKNOWN);
        let Some(waiting) = self.open.get_mut(&thread).filter(|waiting| waiting.at == unknown) else {
            return;
        };
        waiting.at = places.id(place);
        let Awaited::Futex(address) = waiting.awaited else { return };
        if let Some(futex) = self.futexes.get_mut(&address).filter(|futex| futex.made == unknown) {
            futex.made = waiting.at;
        }
    }

    fn futex_woken(&mut self, address: u64, thread: u64, (wall, ns): (u64, u64), result: i64) {
        const ERROR_AGAIN: i64 = -11;
        const ERROR_TIMED_OUT: i64 = -110;
        let Some(since) = self.open.get(&thread).map(|waiting| waiting.since) else { return };
        if result == ERROR_AGAIN {
            self.find_chains();
            self.remove(thread);
            return;
        }
        let mut notification = None;
        if let Some(futex) = self.futexes.get_mut(&address) {
            futex.timeouts += u64::from(result == ERROR_TIMED_OUT);
            notification = futex.last.filter(|last| result == 0 && last.wall >= since);
            if let Some(notification) = notification {
                futex.latency.add(wall.saturating_sub(notification.wall));
            }
        }
        let ending = if result == ERROR_TIMED_OUT { WaitEnding::TimedOut } else { WaitEnding::Woken };
        self.end(thread, Awaited::Futex(address), (ns, ending), notification);
    }

    fn wait(&mut self, wait: &LockWait<'_>, thread: u64, wall: u64, places: &mut Places) {
        let at = places.id(wait.at);
        let made = if wait.made == UNKNOWN { at } else { places.id(wait.made) };
        let holder = (wait.holder != 0).then(|| Holder { thread: wait.holder, since: places.id(wait.since) });
        self.locks.entry(wait.id).or_insert_with(|| Lock {
            made,
            sum: Sum::default(),
            behind: BTreeMap::new(),
            given_up: 0,
        });
        self.begin(thread, Awaited::Lock(wait.id), at, holder, wall);
        let waits_behind_it = self.followers.contains_key(&thread);
        let is_behind_one = holder.is_some_and(|holder| self.open.contains_key(&holder.thread));
        self.has_new_chains |= waits_behind_it || is_behind_one;
    }

    /// Finds the chains of the open waits. Must be called before an open wait ends or changes: until then, chains only
    /// become longer, so this is the moment to find the longest chain of each wait.
    fn find_chains(&mut self) {
        if !std::mem::take(&mut self.has_new_chains) {
            return;
        }
        let Some(steps) = self.steps.checked_sub(self.open.len()) else {
            self.misses_chains = true;
            return;
        };
        self.steps = steps;
        let (open, queues) = (&self.open, &self.queues);
        let link = |thread: u64| {
            let waiting = open.get(&thread)?;
            let holder = holder_in(queues, waiting);
            Some(Link { thread, awaited: waiting.awaited, at: waiting.at, holder })
        };
        let (found, is_all) = self.chains.of_all(open.keys(), link);
        self.misses_chains |= !is_all;
        for (thread, waiting) in &mut self.open {
            let Some(chain) = found.get(thread) else { continue };
            let known = waiting.chain.map_or(0, |known| self.chains.length(known));
            if self.chains.length(*chain) > known {
                waiting.chain = Some(*chain);
            }
        }
    }

    /// Removes and returns the open wait of a thread.
    fn remove(&mut self, thread: u64) -> Option<Waiting> {
        let waiting = self.open.remove(&thread)?;
        self.unfollow(self.holder(&waiting), 1);
        if let Awaited::Lock(id) = waiting.awaited {
            if let Some(queue) = self.queues.get_mut(&id) {
                if !queue.since.remove(&thread) {
                    queue.before = queue.before.saturating_sub(1);
                }
                if queue.before == 0 && queue.since.is_empty() {
                    self.queues.remove(&id);
                }
            }
        }
        Some(waiting)
    }

    /// Returns the thread that holds the awaited object of a wait, if it is known.
    #[must_use]
    pub(super) fn holder(&self, waiting: &Waiting) -> Option<Holder> {
        holder_in(&self.queues, waiting)
    }

    fn begin(&mut self, thread: u64, awaited: Awaited, at: PlaceId, holder: Option<Holder>, wall: u64) {
        if let Some(&Waiting { awaited, since, .. }) = self.open.get(&thread) {
            self.unseen += 1;
            self.end(thread, awaited, (wall.saturating_sub(since), WaitEnding::Unseen), None);
        }
        let mut holder_changes = 0;
        if let Awaited::Lock(id) = awaited {
            let queue = self.queues.entry(id).or_default();
            queue.since.insert(thread);
            holder_changes = queue.holder_changes;
        }
        let waiting = Waiting {
            awaited,
            since: wall,
            at,
            first_holder: holder,
            holder_changes,
            handed_over: None,
            chain: None,
            has_traced_since: false,
        };
        self.open.insert(thread, waiting);
        self.follow(holder, 1);
    }

    /// Adds `waits` to the number of open waits for objects of a holder.
    fn follow(&mut self, holder: Option<Holder>, waits: u64) {
        if let Some(Holder { thread, .. }) = holder.filter(|_| waits > 0) {
            *self.followers.entry(thread).or_default() += waits;
        }
    }

    /// Subtracts `waits` from the number of open waits for objects of a holder.
    fn unfollow(&mut self, holder: Option<Holder>, waits: u64) {
        let Some(Holder { thread, .. }) = holder else { return };
        let Some(number) = self.followers.get_mut(&thread) else { return };
        *number = number.saturating_sub(waits);
        if *number == 0 {
            self.followers.remove(&thread);
        }
    }

    /// Ends the wait of `thread` for `awaited`, and adds it to the sums. Returns the place in the source where the
    /// thread waited; `None` if the thread has no such wait. `by` is the notification that has ended the wait, if one
    /// has.
    fn end(
        &mut self,
        thread: u64,
        awaited: Awaited,
        (ns, ending): (u64, WaitEnding),
        by: Option<Notification>,
    ) -> Option<PlaceId> {
        if self.open.get(&thread)?.awaited != awaited {
            return None;
        }
        self.find_chains();
        let waiting = self.open.get(&thread)?;
        let off = self.holder_off(waiting, waiting.since.saturating_add(ns));
        let waiting = self.remove(thread)?;
        self.keep((thread, &waiting), (ns, ending), by);
        self.count(&waiting, (ns, off), by);
        Some(waiting.at)
    }

    /// Adds a wait to the list of single waits, if waits are kept one by one. `by` is the notification that has ended
    /// the wait, if one has.
    fn keep(
        &mut self,
        (thread, waiting): (u64, &Waiting),
        (ns, ending): (u64, WaitEnding),
        by: Option<Notification>,
    ) {
        let Some(counted) = &mut self.counted else { return };
        let &Waiting { awaited, since, at, first_holder, .. } = waiting;
        let made = match awaited {
            Awaited::Lock(id) => self.locks.get(&id).map(|lock| lock.made),
            Awaited::Condition(id) => self.conditions.get(&id).map(|condition| condition.made),
            Awaited::Futex(address) => self.futexes.get(&address).map(|futex| futex.made),
        };
        let holder = by.map(|by| by.by).or(first_holder);
        counted.push(CountedWait { thread, awaited, made, at, holder, since, ns, ending });
    }

    fn count(&mut self, waiting: &Waiting, (ns, off): (u64, OffSum), by: Option<Notification>) {
        match waiting.awaited {
            Awaited::Lock(id) => {
                let Some(lock) = self.locks.get_mut(&id) else { return };
                let behind = LockWaitKey { holder: waiting.first_holder, at: waiting.at };
                for sum in [&mut lock.sum, lock.behind.entry(behind).or_default()] {
                    sum.add(ns);
                    sum.holder_off.add(&off);
                }
            }
            Awaited::Condition(_) | Awaited::Futex(_) => {
                let condition = match waiting.awaited {
                    Awaited::Futex(address) => self.futexes.get_mut(&address),
                    Awaited::Condition(id) | Awaited::Lock(id) => self.conditions.get_mut(&id),
                };
                let Some(condition) = condition else { return };
                condition.sum.add(ns);
                let key = (by.map(|by| by.by), waiting.at);
                condition.woken.entry(key).or_default().add(ns);
            }
        }
        if let Some(chain) = waiting.chain.filter(|chain| self.chains.length(*chain) > 1) {
            self.chains.count(chain, ns);
        }
    }

    /// Sets the current holder of a lock. It is then the holder for all threads that wait for the lock.
    fn hand_over(&mut self, id: u64, holder: Option<Holder>, now: u64) {
        let Some(queue) = self.queues.get(&id) else { return };
        // Until the lock's holder changes for the first time, the holder is that in the record of each wait.
        let off = match queue.holder_changes {
            0 => OffSum::default(),
            _ => self.off_of(queue.holder, queue.changed, now),
        };
        self.find_chains();
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let (former, before) = (queue.holder, queue.before);
        let since = std::mem::take(&mut queue.since);
        queue.before += since.len() as u64;
        queue.holder_changes += 1;
        queue.holder = holder;
        queue.changed = now;
        queue.off.add(&off);
        let (all, before_now) = (queue.before, queue.off);
        self.unfollow(former, before);
        for thread in since {
            let Some(waiting) = self.open.get(&thread) else { continue };
            let (first_holder, since) = (waiting.first_holder, waiting.since);
            self.unfollow(first_holder, 1);
            let first = self.off_of(first_holder, since, now);
            if let Some(waiting) = self.open.get_mut(&thread) {
                waiting.handed_over = Some(HandedOver { first, before: before_now });
            }
        }
        self.follow(holder, all);
    }

    fn woken(&mut self, id: u64, by: u64, thread: u64, (wall, ns): (u64, u64), over: bool) {
        let mut notification = None;
        if let Some(condition) = self.conditions.get_mut(&id) {
            condition.timeouts += u64::from(over);
            notification = u32::try_from(by).ok().and_then(|by| condition.pending.remove(by));
            if let Some(notification) = notification {
                condition.latency.add(wall.saturating_sub(notification.wall));
            }
        }
        let ending = if over { WaitEnding::TimedOut } else { WaitEnding::Woken };
        self.end(thread, Awaited::Condition(id), (ns, ending), notification);
    }

    /// Returns the deadlocks: rings of threads in which each thread waits for a lock that the next thread holds, and
    /// the last thread for a lock that the first one holds.
    #[must_use]
    pub(super) fn deadlocks(&self) -> Vec<Vec<u64>> {
        rings(self.open.keys(), |thread| Some(self.holder(self.open.get(&thread)?)?.thread))
    }
}

/// Returns the thread that holds the awaited object of a wait. For a lock, this is the latest holder; if the holder has
/// not changed since the wait began, it is the holder that the record of the wait names.
fn holder_in(queues: &HashMap<u64, Queue>, waiting: &Waiting) -> Option<Holder> {
    let Awaited::Lock(id) = waiting.awaited else { return waiting.first_holder };
    match queues.get(&id) {
        Some(queue) if queue.holder_changes > waiting.holder_changes => queue.holder,
        _ => waiting.first_holder,
    }
}
