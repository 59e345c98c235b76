//! Writes the view `locks` as text for people.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::ui::messages::{Grouped, count};
use crate::ui::table::Alignment::{Left, Right};
use crate::ui::table::Columns;
use crate::ui::units::duration;
use crate::view::calls::MORE;
use crate::view::export::events::Inventory;
use crate::view::export::locks::LocksFormat;
use crate::view::export::locks::chains::{ChainId, Link};
use crate::view::export::locks::waits::{
    Awaited, Condition, Holder, Lock, PlaceId, Places, Sum, Waiting, Waits,
};
use crate::view::thread_states::OffSum;

/// The maximum number of listed links of a chain, or of listed threads of a deadlock. Further ones are only counted.
const LINKS: usize = 64;

/// The text for an unknown value.
const UNKNOWN: &str = "?";

/// Writes the whole text of the view `locks`.
pub(super) fn tell(format: &LocksFormat, inventory: &Inventory, out: &mut Vec<u8>) {
    let mut text = String::new();
    let with_locks =
        |waits: &Waits| [waits.locks.len(), waits.conditions.len(), waits.futexes.len()] != [0, 0, 0];
    let process_numbers: Vec<usize> = (0..format.records.processes.len())
        .filter(|process| with_locks(&format.records.processes[*process]))
        .collect();
    if process_numbers.is_empty() {
        text.push_str("no lock was waited for, as far as tracer::sync recorded\n");
    }
    for (number, process) in process_numbers.iter().enumerate() {
        if number > 0 {
            text.push('\n');
        }
        if inventory.processes().len() > 1 {
            let of = &inventory.processes()[*process];
            let _ = writeln!(text, "process {} ({})", of.pid(), of.name);
        }
        let (waits, latest) = (&format.records.processes[*process], inventory.registry.last_time(*process));
        let names = thread_names(inventory, *process);
        let rows = format.layout.rows;
        ProcessReport { waits, latest, places: &format.records.places, names, rows, text: &mut text }.tell();
    }
    if let Some(note) = inventory.registry.states().in_words() {
        let _ = writeln!(text, "\n{note}");
    }
    out.extend_from_slice(text.as_bytes());
}

/// Returns the labels of a process's threads, by the ids of the threads.
fn thread_names(inventory: &Inventory, process: usize) -> HashMap<u64, &str> {
    let threads = inventory.threads().iter().filter(|thread| thread.process == process);
    threads.map(|thread| (thread.tid, thread.full_label())).collect()
}

/// A writer of the text about one process.
struct ProcessReport<'a> {
    waits: &'a Waits,
    /// The time of the process's last sign of life, in nanoseconds.
    latest: u64,
    places: &'a Places,
    names: HashMap<u64, &'a str>,
    rows: usize,
    text: &'a mut String,
}

impl ProcessReport<'_> {
    fn tell(&mut self) {
        let Waits { locks, conditions, futexes, open, unseen, .. } = self.waits;
        let slept_at = futexes.values().filter(|futex| futex.sum.waits > 0).count();
        let kinds = [(locks.len(), "lock"), (conditions.len(), "condition"), (slept_at, "word")];
        let kinds = kinds.iter().filter(|(number, _)| *number > 0);
        let kinds: Vec<String> = kinds.map(|(number, noun)| count(*number as u64, noun)).collect();
        let mut head = format!("{} waited for", kinds.join(" and "));
        if !open.is_empty() {
            let _ = write!(head, "; {} not ended", has(open.len() as u64, "wait"));
        }
        if *unseen > 0 {
            let _ = write!(head, "; {} without a record of the end", count(*unseen, "wait"));
        }
        self.line(&head);
        self.open_waits();
        self.locks();
        self.conditions();
        self.chains();
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// If only some of `number` items were listed, writes how many were left out.
    fn more(&mut self, number: usize, noun: &str) {
        if let Some(more) = number.checked_sub(self.rows).filter(|more| *more > 0) {
            self.line(&format!("  and {} (--rows)", count(more as u64, &format!("more {noun}"))));
        }
    }

    fn thread(&self, id: u64) -> String {
        self.names.get(&id).map_or_else(|| format!("thread {id}"), |name| (*name).to_owned())
    }

    fn place(&self, id: PlaceId) -> &str {
        self.places.text(id).unwrap_or(UNKNOWN)
    }

    /// Returns a text for the object that a thread waits for, with the place in the source where it was made: `lock 3
    /// (src/pool.rs:31)`.
    fn awaited(&self, awaited: Awaited) -> String {
        let (kind, id, made) = match awaited {
            Awaited::Lock(id) => ("lock", id, self.waits.locks.get(&id).map(|lock| lock.made)),
            Awaited::Condition(id) => {
                ("condition", id, self.waits.conditions.get(&id).map(|condition| condition.made))
            }
            Awaited::Futex(address) => {
                let place = self.waits.futexes.get(&address).map_or(UNKNOWN, |futex| self.place(futex.made));
                return format!("word {address:#x} ({place})");
            }
        };
        let made = made.map_or(UNKNOWN, |made| self.place(made));
        format!("{kind} {id} ({made})")
    }

    fn holder(&self, holder: Holder) -> String {
        let thread = self.thread(holder.thread);
        match self.places.text(holder.since) {
            Some(since) => format!("{thread} since {since}"),
            None => thread,
        }
    }

    fn open_waits(&mut self) {
        if self.waits.open.is_empty() {
            return;
        }
        self.line("\nwaits that have not ended");
        let mut open: Vec<(&u64, &Waiting)> = self.waits.open.iter().collect();
        open.sort_by_key(|(thread, waiting)| (waiting.since, **thread));
        for (thread, waiting) in open.iter().take(self.rows) {
            self.open_wait(**thread, waiting);
        }
        self.more(open.len(), "wait");
        for ring in self.waits.deadlocks() {
            let mut names: Vec<String> = ring.iter().take(LINKS).map(|thread| self.thread(*thread)).collect();
            if let Some(more) = ring.len().checked_sub(LINKS).filter(|more| *more > 0) {
                names.push(format!("{MORE} {}", count(more as u64, "more thread")));
            }
            match &names[..] {
                [alone] => self.line(&format!("  deadlock: {alone} waits for itself")),
                [first, ..] => self.line(&format!("  deadlock: {} -> {first}", names.join(" -> "))),
                [] => {}
            }
        }
    }

    fn open_wait(&mut self, thread: u64, waiting: &Waiting) {
        let time = duration(self.latest.saturating_sub(waiting.since));
        let (name, awaited) = (self.thread(thread), self.awaited(waiting.awaited));
        self.line(&format!("  {name}: {time} for {awaited}, at {}", self.place(waiting.at)));
        let mut notes = Vec::new();
        match waiting.awaited {
            Awaited::Lock(_) => notes.push(match self.waits.holder(waiting) {
                Some(holder) if holder.thread == thread => format!(
                    "held by the thread itself since {}: locked twice, or held across an await",
                    self.place(holder.since)
                ),
                Some(holder) => format!("held by {}", self.holder(holder)),
                None => "the holder is unknown".to_owned(),
            }),
            Awaited::Condition(id) => {
                notes.extend(self.waits.conditions.get(&id).map(|of| self.last_notification(of, waiting)));
            }
            Awaited::Futex(address) => {
                notes.extend(self.waits.futexes.get(&address).map(|of| self.last_notification(of, waiting)));
            }
        }
        let off = self.waits.holder_off(waiting, self.latest);
        let off = OffSum { unknown: 0, ..off };
        if off.all() > 0 {
            let (time, parts) = (duration(off.all()), off.in_words(1));
            notes.push(format!("the holder was off the processor for {time} of the wait ({parts})"));
        }
        if waiting.has_traced_since {
            notes.push(
                "the thread has traced since: in a signal handler, or the wait's end was lost".to_owned(),
            );
        }
        for note in notes {
            self.line(&format!("    {note}"));
        }
    }

    /// Describes the last notification of a condition for which a thread waits.
    fn last_notification(&self, condition: &Condition, waiting: &Waiting) -> String {
        let Some(last) = condition.last else { return "never notified".to_owned() };
        let by = format!("{} at {}", self.thread(last.by.thread), self.place(last.by.since));
        let when = match waiting.since.checked_sub(last.wall) {
            Some(before) => format!("{} before the wait began", duration(before)),
            None => format!("{} after the wait began", duration(last.wall - waiting.since)),
        };
        if last.wakes == 0 {
            let lost = if waiting.since >= last.wall {
                "if the thread had already decided to wait"
            } else {
                "because a thread records its wait just before it begins to listen"
            };
            return format!("the last notification ({by}, {when}) found nobody waiting: it is lost {lost}");
        }
        format!("the last notification ({by}, {when}) was for {}", count(last.wakes, "thread"))
    }

    fn locks(&mut self) {
        let mut locks: Vec<(&u64, &Lock)> = self.waits.locks.iter().collect();
        locks.sort_by_key(|(id, lock)| (std::cmp::Reverse(lock.sum.total), **id));
        for (id, lock) in locks.iter().take(self.rows) {
            let mut head = format!("\n{}: {}", self.awaited(Awaited::Lock(**id)), in_words(lock.sum));
            if lock.given_up > 0 {
                let _ = write!(head, "; {} given up", Grouped(lock.given_up));
            }
            let off = known_off(lock.sum);
            if let Some(off) = off.filter(|off| off.all() > 0) {
                let (time, parts) = (duration(off.all()), off.in_words(1));
                let _ = write!(head, "; the holder was off the processor for {time} of that time ({parts})");
            }
            self.line(&head);
            let rows: Vec<_> = lock
                .behind
                .iter()
                .map(|(behind, sum)| {
                    let holder =
                        behind.holder.map_or_else(|| UNKNOWN.to_owned(), |of| self.thread(of.thread));
                    let since = behind.holder.map_or(UNKNOWN, |of| self.place(of.since));
                    (*sum, [self.place(behind.at).to_owned(), holder, since.to_owned()])
                })
                .collect();
            self.table(["waited at", "behind", "which had it since"], rows, self.waits.has_states());
        }
        self.more(locks.len(), "lock");
    }

    fn conditions(&mut self) {
        let Waits { conditions, futexes, .. } = self.waits;
        let of_conditions = conditions.iter().map(|(id, of)| (Awaited::Condition(*id), of));
        let of_futexes = futexes.iter().map(|(address, of)| (Awaited::Futex(*address), of));
        // The tracer's own threads are woken by futexes, too, but their waits are not recorded.
        let of_futexes = of_futexes.filter(|(_, of)| of.sum.waits > 0);
        let mut all: Vec<(Awaited, &Condition)> = of_conditions.chain(of_futexes).collect();
        all.sort_by_key(|(awaited, condition)| (std::cmp::Reverse(condition.sum.total), *awaited));
        for (awaited, condition) in all.iter().take(self.rows) {
            self.condition(*awaited, condition);
        }
        self.more(all.len(), "condition");
    }

    fn condition(&mut self, awaited: Awaited, condition: &Condition) {
        let &Condition { sum, notifications, without_waiter, latency, timeouts, .. } = condition;
        let mut head = format!("\n{}: {}", self.awaited(awaited), in_words(sum));
        if timeouts > 0 {
            let _ = write!(head, ", {} timed out", Grouped(timeouts));
        }
        let _ = write!(head, "; {}", count(notifications, "notification"));
        if without_waiter > 0 {
            let _ = write!(head, ", {} found nobody waiting", Grouped(without_waiter));
        }
        if let Some(average) = latency.total.checked_div(latency.waits) {
            let _ = write!(
                head,
                "; woken after {} on average, {} at most",
                duration(average),
                duration(latency.max)
            );
        }
        self.line(&head);
        let rows: Vec<_> = condition
            .woken
            .iter()
            .map(|((by, at), sum)| {
                let thread = by.map_or_else(|| "nobody".to_owned(), |by| self.thread(by.thread));
                let place = by.map_or("", |by| self.place(by.since));
                (*sum, [self.place(*at).to_owned(), thread, place.to_owned()])
            })
            .collect();
        self.table(["waited at", "woken by", "which notified at"], rows, false);
    }

    /// Writes a table: each row has a sum of waits and three texts. `with_off` adds a column for the time for which the
    /// holders were not running on a processor. The row with the greatest time comes first.
    fn table(&mut self, headings: [&str; 3], mut rows: Vec<(Sum, [String; 3])>, with_off: bool) {
        rows.sort_by(|(a, texts_a), (b, texts_b)| b.total.cmp(&a.total).then_with(|| texts_a.cmp(texts_b)));
        let [one, two, three] = headings;
        let off = with_off.then_some(("holder off", Right));
        let numbers = [("waits", Right), ("total", Right), ("max", Right)].into_iter().chain(off);
        let texts = [(one, Left), (two, Left), (three, Left)];
        let mut columns = Columns::new(&numbers.chain(texts).collect::<Vec<_>>());
        let number = rows.len();
        for (sum, [one, two, three]) in rows.into_iter().take(self.rows) {
            let (waits, total, max) =
                (Grouped(sum.waits).to_string(), duration(sum.total), duration(sum.max));
            let off = || known_off(sum).map_or_else(|| "-".to_owned(), |off| duration(off.all()));
            let numbers = [waits, total, max].into_iter().chain(with_off.then(off));
            columns.row(numbers.chain([one, two, three]).collect::<Vec<_>>());
        }
        self.text.push_str(&columns.text("  "));
        self.more(number, "line");
    }

    fn chains(&mut self) {
        let all = &self.waits.chains;
        if all.sums().len() > 0 {
            self.line("\nlongest chains");
        }
        let mut chains: Vec<(ChainId, Sum)> = all.sums().collect();
        chains.sort_by(|(chain, sum), (other, of_other)| {
            let greatest_first = (all.length(*other), of_other.max).cmp(&(all.length(*chain), sum.max));
            let links = |chain| all.links(chain).take(LINKS);
            greatest_first.then_with(|| links(*chain).cmp(links(*other))).then_with(|| chain.cmp(other))
        });
        for (chain, sum) in chains.iter().take(self.rows) {
            let length = u64::from(all.length(*chain));
            self.line(&format!("  {} in a row, {}", count(length, "wait"), in_words(*sum)));
            for link in all.links(*chain).take(LINKS) {
                let line = self.link(link);
                self.line(&format!("    {line}"));
            }
            if let Some(more) = length.checked_sub(LINKS as u64).filter(|more| *more > 0) {
                self.line(&format!("    {MORE} {}", count(more, "more wait")));
            }
        }
        self.more(chains.len(), "chain");
        if self.waits.misses_chains {
            self.line("  too many simultaneous waits to examine each chain: longer chains may be missing");
        }
    }

    fn link(&self, link: &Link) -> String {
        let behind = link.holder.map(|holder| format!(", behind {}", self.holder(holder)));
        format!(
            "{} for {} at {}{}",
            self.thread(link.thread),
            self.awaited(link.awaited),
            self.place(link.at),
            behind.unwrap_or_default()
        )
    }
}

/// Returns for how long the holders were not running on a processor during these waits, as far as it is known; `None`
/// if nothing is known.
fn known_off(sum: Sum) -> Option<OffSum> {
    let known = OffSum { unknown: 0, ..sum.holder_off };
    (sum.holder_off.unknown < sum.total || sum.total == 0).then_some(known)
}

/// Describes a sum of waits in words: `12 waits, 1.25 s, 300 ms at most`.
fn in_words(sum: Sum) -> String {
    match sum.waits {
        0 => "no waits".to_owned(),
        1 => format!("1 wait, {}", duration(sum.total)),
        waits => format!("{}, {}, {} at most", count(waits, "wait"), duration(sum.total), duration(sum.max)),
    }
}

/// Returns a count with its noun and the verb: `1 wait has`, `2 waits have`.
fn has(number: u64, noun: &str) -> String {
    format!("{} {}", count(number, noun), if number == 1 { "has" } else { "have" })
}
