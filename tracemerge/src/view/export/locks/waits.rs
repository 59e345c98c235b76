//! The waits of threads for locks and conditions: which are going on, and sums of those that have ended.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::view::export::locks::chains::{ChainId, Chains, Link, rings};
use crate::view::export::locks::numbers::Numbers;
use trace_format::locks::{LockRecord, LockWait};

/// A place in a program, by its number in [`Places`].
pub type PlaceId = u32;

/// The places in programs that were met: each is kept once.
#[derive(Debug, Default)]
pub struct Places {
    ids: HashMap<String, PlaceId>,
    texts: Vec<String>,
}

impl Places {
    /// Returns the number of a place.
    pub fn id(&mut self, place: &str) -> PlaceId {
        if let Some(id) = self.ids.get(place) {
            return *id;
        }
        let id = PlaceId::try_from(self.texts.len()).unwrap_or(PlaceId::MAX);
        self.texts.push(place.to_owned());
        self.ids.insert(place.to_owned(), id);
        id
    }

    /// Returns a place, unless it was not known where it was met.
    #[must_use]
    pub fn text(&self, id: PlaceId) -> Option<&str> {
        self.texts.get(id as usize).map(String::as_str).filter(|text| *text != UNKNOWN)
    }
}

/// A place that is not known, as records tell it.
pub const UNKNOWN: &str = "?:0";

/// How often something was waited for, and how long, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// The number of waits.
    pub waits: u64,
    /// The time of all of them.
    pub total: u64,
    /// The time of the longest.
    pub max: u64,
}

impl Sum {
    /// Adds a wait.
    pub fn add(&mut self, ns: u64) {
        self.waits += 1;
        self.total = self.total.saturating_add(ns);
        self.max = self.max.max(ns);
    }
}

/// The thread that has a lock, by its id, and the place of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holder {
    /// The thread.
    pub thread: u64,
    /// The place.
    pub since: PlaceId,
}

/// What waits for a lock have in common that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Behind {
    /// The thread that had the lock when the wait began, where it is known.
    pub holder: Option<Holder>,
    /// The place of the wait.
    pub at: PlaceId,
}

/// A lock that was waited for.
#[derive(Debug)]
pub struct Lock {
    /// The place where it was made, or where it was waited for first.
    pub made: PlaceId,
    /// All waits.
    pub sum: Sum,
    /// The waits by holder and place.
    pub behind: BTreeMap<Behind, Sum>,
    /// How many waits were given up.
    pub given_up: u64,
}

/// A condition that was waited for or notified.
#[derive(Debug)]
pub struct Condition {
    /// The place where it was made.
    pub made: PlaceId,
    /// All waits.
    pub sum: Sum,
    /// The waits by the notification that has ended them, where one has, and by their place.
    pub woken: BTreeMap<(Option<Holder>, PlaceId), Sum>,
    /// How many waits were ended by time.
    pub timeouts: u64,
    /// How many times it was notified.
    pub notifications: u64,
    /// How many of the notifications found nobody waiting.
    pub in_vain: u64,
    /// The times from notifications to the moments when the threads that they were for had the lock again.
    pub latency: Sum,
    /// The notification that came last; `None` where there was none.
    pub last: Option<Notification>,
    /// Notifications for threads that have not come back yet, by number.
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
            in_vain: 0,
            latency: Sum::default(),
            last: None,
            pending: Numbers::default(),
        }
    }
}

/// A notification of a condition.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    /// The time, in nanoseconds since 1970.
    pub wall: u64,
    /// The thread that has notified, and where.
    pub by: Holder,
    /// The number of threads that it was for.
    pub wakes: u64,
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Awaited {
    /// The lock with this number.
    Lock(u64),
    /// The condition with this number.
    Condition(u64),
    /// The word in memory with this address, which the system compares.
    Futex(u64),
}

/// A thread's wait that goes on.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// What the thread waits for.
    pub awaited: Awaited,
    /// The time since when, in nanoseconds since 1970.
    pub since: u64,
    /// The place of the wait.
    pub at: PlaceId,
    /// Who had the lock when the wait began.
    first_holder: Option<Holder>,
    /// The number of times that the lock had been handed over by then: see [`Queue`].
    handed: u64,
    /// The longest chain that has begun with this wait; `None` where it was alone, as far as was looked.
    chain: Option<ChainId>,
    /// Whether the thread has recorded something else since.
    pub has_traced_since: bool,
}

/// The waits for a lock that go on.
///
/// A lock that is handed over has one holder for all who wait, so that is noted once and not for each of them: many threads
/// that get a lock one after the other cost no more than their records.
#[derive(Debug, Default)]
struct Queue {
    /// How many times the lock was handed over.
    handed: u64,
    /// Who has it since then; `None` where that is not known.
    holder: Option<Holder>,
    /// The number of waits that began before it was handed over last.
    before: u64,
    /// The threads whose waits began since: each is behind the holder that its record names.
    since: HashSet<u64>,
}

/// The number of threads that are walked through for chains at most, on average for each record: in a program with fewer
/// that wait at once, all chains are found.
const STEPS: usize = 64;
/// How many may be walked through besides.
const FIRST_STEPS: usize = 1 << 20;

/// All waits of one process.
#[derive(Debug)]
pub struct Waits {
    /// The locks by number.
    pub locks: BTreeMap<u64, Lock>,
    /// The conditions by number.
    pub conditions: BTreeMap<u64, Condition>,
    /// The futexes by address: whoever wakes those who sleep there is said to notify them.
    pub futexes: BTreeMap<u64, Condition>,
    /// The waits that go on, by the id of the thread.
    pub open: BTreeMap<u64, Waiting>,
    /// The waits for each lock that somebody waits for.
    queues: HashMap<u64, Queue>,
    /// The chains of waits, and the times of those that have ended of more than one.
    pub chains: Chains,
    /// Whether a chain may have become longer since the open waits were walked through.
    has_new_chains: bool,
    /// The number of threads that may be walked through.
    steps: usize,
    /// Whether there were too many chains, or too long ones, to look at each.
    pub misses_chains: bool,
    /// The number of waits whose end no record tells.
    pub unseen: u64,
    /// How many waits go on behind each thread.
    followers: HashMap<u64, u64>,
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
        }
    }
}

impl Waits {
    /// Takes a record of a thread.
    pub fn take(&mut self, record: &LockRecord<'_>, thread: u64, wall: u64, places: &mut Places) {
        self.steps = self.steps.saturating_add(STEPS);
        match *record {
            LockRecord::Wait(wait) => self.wait(&wait, thread, wall, places),
            LockRecord::Got { id, ns } => {
                let at = self.end(thread, Awaited::Lock(id), ns, None);
                self.hand_over(id, at.map(|since| Holder { thread, since }));
            }
            LockRecord::GaveUp { id, ns } => {
                self.end(thread, Awaited::Lock(id), ns, None);
                if let Some(lock) = self.locks.get_mut(&id) {
                    lock.given_up += 1;
                }
            }
            LockRecord::ConditionWait { id, lock, made, at } => {
                let (made, at) = (places.id(made), places.id(at));
                self.conditions.entry(id).or_insert_with(|| Condition::new(made));
                // Whoever waits for the lock can have it now.
                self.hand_over(lock, None);
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
                condition.in_vain += u64::from(wakes == 0);
                condition.last = Some(notification);
                let (first, wakes) = LockRecord::numbers(first, wakes);
                condition.pending.insert(first, wakes, notification);
            }
        }
    }

    /// Notes that a thread has recorded something that is not of a lock.
    pub fn has_traced(&mut self, thread: u64) {
        if let Some(waiting) = self.open.get_mut(&thread) {
            waiting.has_traced_since = true;
        }
    }

    /// Ends all waits: from this time on nothing is recorded.
    pub fn pause(&mut self, wall: u64) {
        let open: Vec<(u64, Awaited, u64)> =
            self.open.iter().map(|(thread, of)| (*thread, of.awaited, of.since)).collect();
        for (thread, awaited, since) in open {
            self.unseen += 1;
            self.end(thread, awaited, wall.saturating_sub(since), None);
        }
    }

    /// Counts what goes on as waits up to `wall`, and leaves it open.
    pub fn count_open(&mut self, wall: u64) {
        self.find_chains();
        let open: Vec<Waiting> = self.open.values().cloned().collect();
        for waiting in open {
            self.count(&waiting, wall.saturating_sub(waiting.since), None);
        }
    }

    /// Notes the place from which a thread waits for a futex, where only the call stack tells it.
    pub fn place(&mut self, thread: u64, place: &str, places: &mut Places) {
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
        const NO_SLEEP: i64 = -11;
        const TIME_IS_OVER: i64 = -110;
        let Some(since) = self.open.get(&thread).map(|waiting| waiting.since) else { return };
        if result == NO_SLEEP {
            self.find_chains();
            self.remove(thread);
            return;
        }
        let mut notification = None;
        if let Some(futex) = self.futexes.get_mut(&address) {
            futex.timeouts += u64::from(result == TIME_IS_OVER);
            notification = futex.last.filter(|last| result == 0 && last.wall >= since);
            if let Some(notification) = notification {
                futex.latency.add(wall.saturating_sub(notification.wall));
            }
        }
        self.end(thread, Awaited::Futex(address), ns, notification);
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

    /// Finds the chains of the waits that go on, before one of them ends or changes: until then, chains only become longer,
    /// so each wait keeps the longest.
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

    /// Takes away a wait that goes on.
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

    /// Returns who has what a wait is for, as far as that is known.
    #[must_use]
    pub fn holder(&self, waiting: &Waiting) -> Option<Holder> {
        holder_in(&self.queues, waiting)
    }

    fn begin(&mut self, thread: u64, awaited: Awaited, at: PlaceId, holder: Option<Holder>, wall: u64) {
        if let Some(&Waiting { awaited, since, .. }) = self.open.get(&thread) {
            self.unseen += 1;
            self.end(thread, awaited, wall.saturating_sub(since), None);
        }
        let mut handed = 0;
        if let Awaited::Lock(id) = awaited {
            let queue = self.queues.entry(id).or_default();
            queue.since.insert(thread);
            handed = queue.handed;
        }
        let waiting = Waiting {
            awaited,
            since: wall,
            at,
            first_holder: holder,
            handed,
            chain: None,
            has_traced_since: false,
        };
        self.open.insert(thread, waiting);
        self.follow(holder, 1);
    }

    /// Counts more waits behind a thread.
    fn follow(&mut self, holder: Option<Holder>, waits: u64) {
        if let Some(Holder { thread, .. }) = holder.filter(|_| waits > 0) {
            *self.followers.entry(thread).or_default() += waits;
        }
    }

    /// Counts fewer waits behind a thread.
    fn unfollow(&mut self, holder: Option<Holder>, waits: u64) {
        let Some(Holder { thread, .. }) = holder else { return };
        let Some(number) = self.followers.get_mut(&thread) else { return };
        *number = number.saturating_sub(waits);
        if *number == 0 {
            self.followers.remove(&thread);
        }
    }

    /// Ends a thread's wait. Returns the place of the wait; `None` if no record tells of it.
    fn end(&mut self, thread: u64, awaited: Awaited, ns: u64, by: Option<Notification>) -> Option<PlaceId> {
        if self.open.get(&thread)?.awaited != awaited {
            return None;
        }
        self.find_chains();
        let waiting = self.remove(thread)?;
        self.count(&waiting, ns, by);
        Some(waiting.at)
    }

    fn count(&mut self, waiting: &Waiting, ns: u64, by: Option<Notification>) {
        match waiting.awaited {
            Awaited::Lock(id) => {
                let Some(lock) = self.locks.get_mut(&id) else { return };
                lock.sum.add(ns);
                let behind = Behind { holder: waiting.first_holder, at: waiting.at };
                lock.behind.entry(behind).or_default().add(ns);
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

    /// Notes who has a lock now, for all that wait for it.
    fn hand_over(&mut self, id: u64, holder: Option<Holder>) {
        if !self.queues.contains_key(&id) {
            return;
        }
        self.find_chains();
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let (former, before) = (queue.holder, queue.before);
        let since = std::mem::take(&mut queue.since);
        queue.before += since.len() as u64;
        queue.handed += 1;
        queue.holder = holder;
        let all = queue.before;
        self.unfollow(former, before);
        for thread in since {
            self.unfollow(self.open.get(&thread).and_then(|waiting| waiting.first_holder), 1);
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
        self.end(thread, Awaited::Condition(id), ns, notification);
    }

    /// Returns each ring of threads of which each waits for a lock that the next one has, and the last for one of the first.
    #[must_use]
    pub fn deadlocks(&self) -> Vec<Vec<u64>> {
        rings(self.open.keys(), |thread| Some(self.holder(self.open.get(&thread)?)?.thread))
    }
}

/// Returns who has what a wait is for: whoever the lock was handed to last or, if that was before, whom the wait's record names.
fn holder_in(queues: &HashMap<u64, Queue>, waiting: &Waiting) -> Option<Holder> {
    let Awaited::Lock(id) = waiting.awaited else { return waiting.first_holder };
    match queues.get(&id) {
        Some(queue) if queue.handed > waiting.handed => queue.holder,
        _ => waiting.first_holder,
    }
}
