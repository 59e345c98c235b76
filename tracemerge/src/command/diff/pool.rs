//! Pools: several threads, in at least one of the traces, whose names are equal except for numbers. The distribution of
//! work among the threads, and the order of the work, differs from run to run, so the messages of all threads of a pool
//! are compared as one set.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use crate::command::diff::input::ThreadMessages;
use crate::view::sorts::SortId;

/// The least number of messages that a sort must have in each trace, so that differences in the order of its messages
/// are reported. Rare messages occur in any order.
const FREQUENT: u64 = 10;

/// A pool: the threads of both traces whose names are equal except for numbers.
pub(super) struct Pool<'a> {
    /// The name of the threads, with `#` for its numbers if these differ. `None` for the pool of nameless threads: the
    /// first threads of all processes except the first process.
    pub name: Option<Cow<'a, [u8]>>,
    /// The pool's threads in the first trace, and those in the second trace.
    pub threads: [Vec<&'a ThreadMessages>; 2],
    /// The sorts of messages of which one trace has more messages than the other; the sorts that differ most come
    /// first.
    pub sorts: Vec<SortCounts>,
    /// The pairs of successive messages that occur in this order in only one trace, the most frequent first.
    pub successions: Vec<Succession>,
}

/// The numbers of messages of a sort in each of the two traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SortCounts {
    /// The sort of the messages.
    pub sort: SortId,
    /// The number of messages of the sort in the first trace.
    pub a: u64,
    /// The number of messages of the sort in the second trace.
    pub b: u64,
}

/// Two successive messages of one thread, in an order that occurs in only one of the traces, though both have many
/// messages of these sorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Succession {
    /// The sort of the first message.
    pub first: SortId,
    /// The sort of the second message.
    pub second: SortId,
    /// The number of times that the two messages follow each other in the first trace.
    pub a: u64,
    /// The number of times that the two messages follow each other in the second trace.
    pub b: u64,
}

impl SortCounts {
    /// Returns whether both traces together have only one message of the sort.
    pub(super) fn is_once(&self) -> bool {
        self.a + self.b == 1
    }

    /// Returns the difference of the two counts, as a multiple of its standard deviation.
    pub(super) fn significance(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let float = |number: u64| number as f64;
        float(self.a.abs_diff(self.b)) / float(self.a + self.b).sqrt().max(1.0)
    }
}

impl<'a> Pool<'a> {
    /// Compares the messages of `threads`, the threads of a pool in both traces.
    pub(super) fn of(threads: [Vec<&'a ThreadMessages>; 2]) -> Pool<'a> {
        let name = common_name(&threads);
        let counts = threads.each_ref().map(|threads| {
            let mut counts: HashMap<SortId, u64> = HashMap::new();
            for sort in threads.iter().flat_map(|thread| &thread.sorts) {
                *counts.entry(*sort).or_default() += 1;
            }
            counts
        });
        let all: BTreeSet<SortId> = counts.iter().flat_map(HashMap::keys).copied().collect();
        let count = |side: usize, sort: SortId| counts[side].get(&sort).copied().unwrap_or(0);
        let both = |sort| SortCounts { sort, a: count(0, sort), b: count(1, sort) };
        let mut sorts: Vec<SortCounts> = all.into_iter().map(both).collect();
        let is_frequent = |sort| count(0, sort).min(count(1, sort)) >= FREQUENT;
        let successions = successions(&threads, is_frequent);
        sorts.retain(|sort| sort.a != sort.b);
        sorts.sort_by(|x, y| {
            let by_weight = y.significance().total_cmp(&x.significance());
            x.is_once().cmp(&y.is_once()).then(by_weight).then(x.sort.cmp(&y.sort))
        });
        Pool { name, threads, sorts, successions }
    }

    /// Returns whether the threads have several names, which differ in their numbers.
    pub(super) fn is_numbered(&self) -> bool {
        matches!(self.name, Some(Cow::Owned(_)))
    }

    /// Returns whether both traces have the same messages in this pool, on any of its threads.
    pub(super) fn is_same(&self) -> bool {
        self.sorts.is_empty()
    }

    /// Returns the number of the pool's messages in each of the two traces.
    pub(super) fn records(&self) -> [u64; 2] {
        self.threads.each_ref().map(|threads| threads.iter().map(|thread| thread.sorts.len() as u64).sum())
    }
}

/// Returns the name with `#` in place of each number, which is a sequence of decimal digits.
pub(super) fn without_numbers(name: &[u8]) -> Vec<u8> {
    let mut kept: Vec<u8> = Vec::with_capacity(name.len());
    let mut in_number = false;
    for byte in name {
        let is_digit = byte.is_ascii_digit();
        match (is_digit, in_number) {
            (false, _) => kept.push(*byte),
            (true, false) => kept.push(b'#'),
            (true, true) => {}
        }
        in_number = is_digit;
    }
    kept
}

/// Returns the name of the threads: as it is if all threads have the same name, otherwise with `#` for its numbers.
fn common_name<'a>(threads: &[Vec<&'a ThreadMessages>; 2]) -> Option<Cow<'a, [u8]>> {
    let mut names = threads.iter().flatten().map(|thread| thread.name.as_deref());
    let first = names.next()??;
    let all_have_it = names.all(|name| name == Some(first));
    Some(if all_have_it { Cow::Borrowed(first) } else { Cow::Owned(without_numbers(first)) })
}

/// Returns the pairs of successive messages that occur in this order in only one trace. Only messages of frequent sorts
/// are considered.
fn successions(threads: &[Vec<&ThreadMessages>; 2], is_frequent: impl Fn(SortId) -> bool) -> Vec<Succession> {
    let mut counts: HashMap<(SortId, SortId), [u64; 2]> = HashMap::new();
    for (side, threads) in threads.iter().enumerate() {
        let mut frequent: HashMap<SortId, bool> = HashMap::new();
        for thread in threads {
            let mut is_frequent = |sort| *frequent.entry(sort).or_insert_with(|| is_frequent(sort));
            for pair in thread.sorts.windows(2) {
                if is_frequent(pair[0]) && is_frequent(pair[1]) {
                    counts.entry((pair[0], pair[1])).or_default()[side] += 1;
                }
            }
        }
    }
    let of = |((first, second), [a, b]): (_, [u64; 2])| Succession { first, second, a, b };
    let mut successions: Vec<Succession> =
        counts.into_iter().map(of).filter(|succession| succession.a == 0 || succession.b == 0).collect();
    successions.sort_by_key(|succession| {
        (u64::MAX - succession.a.max(succession.b), succession.first, succession.second)
    });
    successions
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pool(sides: [&[Vec<SortId>]; 2], see: impl FnOnce(&Pool<'_>)) {
        let thread = |sorts: &Vec<SortId>| {
            let mut thread = ThreadMessages::new(7);
            thread.name = Some(b"pool".to_vec());
            thread.sorts.clone_from(sorts);
            thread
        };
        let threads = sides.map(|threads| threads.iter().map(thread).collect());
        let [a, b]: [Vec<ThreadMessages>; 2] = threads;
        see(&Pool::of([a.iter().collect(), b.iter().collect()]));
    }

    /// Pairs each message of `a` with an equal message of `b`, if there is one left. Returns the numbers of messages of
    /// `a` and of `b` without a partner.
    fn left(a: &[SortId], b: &[SortId]) -> (usize, usize) {
        let (mut only_a, mut b) = (0, b.to_vec());
        for sort in a {
            match b.iter().position(|other| other == sort) {
                Some(at) => drop(b.remove(at)),
                None => only_a += 1,
            }
        }
        (only_a, b.len())
    }

    proptest! {
        #[test]
        fn pools_differ_by_their_unmatched_messages(
            a in prop::collection::vec(prop::collection::vec(0..6u32, 0..9), 0..4),
            b in prop::collection::vec(prop::collection::vec(0..6u32, 0..9), 0..4),
        ) {
            let expected = left(&a.concat(), &b.concat());
            pool([&a, &b], |pool| {
                let surplus = |x: u64, y: u64| x.saturating_sub(y) as usize;
                let only_a: usize = pool.sorts.iter().map(|sort| surplus(sort.a, sort.b)).sum();
                let only_b: usize = pool.sorts.iter().map(|sort| surplus(sort.b, sort.a)).sum();
                assert_eq!((only_a, only_b), expected);
                assert_eq!(pool.is_same(), expected == (0, 0));
            });
        }

        #[test]
        fn pools_compare_equal_whichever_thread_did_the_work(
            mut messages in prop::collection::vec(0..6u32, 1..60), ways in any::<[u8; 2]>(),
        ) {
            let parts = |messages: &[u32], way: u8| -> Vec<Vec<u32>> {
                messages.chunks(1 + usize::from(way % 20)).map(<[u32]>::to_vec).collect()
            };
            let a = parts(&messages, ways[0]);
            messages.reverse();
            pool([&a, &parts(&messages, ways[1])], |pool| assert!(pool.is_same()));
        }
    }

    #[test]
    fn numbers_in_thread_names_are_replaced_by_number_signs() {
        for (name, expected) in [
            ("worker-1", "worker-#"),
            ("worker-20", "worker-#"),
            ("tokio-runtime-w 3", "tokio-runtime-w #"),
            ("3rd of 12", "#rd of #"),
            ("17", "#"),
            ("worker", "worker"),
            ("gr\u{f6}\u{df}e7", "gr\u{f6}\u{df}e#"),
            ("", ""),
        ] {
            assert_eq!(without_numbers(name.as_bytes()), expected.as_bytes(), "{name}");
        }
    }

    #[test]
    fn a_pool_is_named_by_the_common_part_of_its_thread_names() {
        let named = |names: &[&str]| -> Vec<ThreadMessages> {
            let thread = |name: &&str| {
                let mut thread = ThreadMessages::new(7);
                thread.name = Some(name.as_bytes().to_vec());
                thread
            };
            names.iter().map(thread).collect()
        };
        for (a, b, name, numbered) in [
            (&["http2", "http2"][..], &["http2"][..], "http2", false),
            (&["w1", "w2"], &[], "w#", true),
            (&["w1", "w1"], &["w2"], "w#", true),
            (&[], &["w1", "w1"], "w1", false),
        ] {
            let (a, b) = (named(a), named(b));
            let pool = Pool::of([a.iter().collect(), b.iter().collect()]);
            assert_eq!((pool.name.as_deref(), pool.is_numbered()), (Some(name.as_bytes()), numbered));
        }
    }

    #[test]
    fn an_order_of_one_run_is_reported_if_both_runs_repeat_its_messages() {
        let sound = [1, 2].repeat(20);
        // One thread lacks a 2, and a rare message may be at any position.
        let mut other = sound.clone();
        other.remove(21);
        other.insert(5, 3);
        pool([&[sound.clone(), sound.clone()], &[sound.clone(), other]], |pool| {
            assert_eq!(pool.successions, [Succession { first: 1, second: 1, a: 0, b: 1 }]);
            let counts = |sort, a, b| SortCounts { sort, a, b };
            assert_eq!(pool.sorts, [counts(2, 40, 39), counts(3, 0, 1)]);
        });
    }
}
