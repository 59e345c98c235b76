//! Matches the threads of both traces by their roles, and finds the first difference of the threads of each pair. The
//! role of a thread is its name without numbers; the first threads of processes, whose names are those of executables,
//! have special roles.

use std::collections::HashMap;

use crate::command::diff::common_messages::{Budget, unmatched};
use crate::command::diff::input::{Input, ThreadMessages};
use crate::command::diff::pool::{Pool, without_numbers};
use crate::view::sorts::SortId;

/// The threads of both traces, matched by their names without numbers: single threads as pairs, and several threads of
/// one name as pools.
pub(super) struct MatchedThreads<'a> {
    /// The pairs of threads. Threads of the first trace come first, in their order; then come the threads that only the
    /// second trace has, each as a pair without a thread of the first trace.
    pub pairs: Vec<Pair<'a>>,
    /// The pools of the first trace in the order of their first threads, then the pools that only the second trace has.
    pub pools: Vec<Pool<'a>>,
}

/// Two threads, one of each trace, that have the same role; or a thread that has no counterpart in the other trace.
pub(super) struct Pair<'a> {
    /// The thread in the first trace.
    pub a: Option<&'a ThreadMessages>,
    /// The thread in the second trace.
    pub b: Option<&'a ThreadMessages>,
    /// The number of equal messages with which both threads begin.
    pub alike: usize,
    /// The number of the thread's messages that are only in the first trace.
    pub only_a: usize,
    /// The number of the thread's messages that are only in the second trace.
    pub only_b: usize,
    /// Whether `only_a` and `only_b` are exact; otherwise they may be larger than necessary.
    pub exact: bool,
}

impl MatchedThreads<'_> {
    /// Returns whether the traces have the same messages: single threads in the same order, pools in any order.
    pub(super) fn is_same(&self) -> bool {
        self.pairs.iter().all(Pair::is_same) && self.pools.iter().all(Pool::is_same)
    }
}

impl Pair<'_> {
    /// Returns whether both threads have the same messages in the same order.
    pub(super) fn is_same(&self) -> bool {
        self.a.is_some() && self.b.is_some() && self.only_a == 0 && self.only_b == 0
    }
}

/// The role of a thread in its trace, by which it is matched with threads of the other trace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Role {
    /// The thread is the first one of the first process.
    First,
    /// The thread is the first one of another process. It is not identified by its name, which is that of the
    /// executable.
    FirstOfOther,
    /// The thread has a name, stored here with `#` in place of numbers, because the numbers do not identify the roles
    /// of the threads of a pool.
    Named(Vec<u8>),
}

/// The threads that have the same role: those of the first trace, and those of the second trace.
type ThreadsOfRole<'a> = [Vec<&'a ThreadMessages>; 2];

/// Matches the threads of both traces by their roles, and compares their messages.
pub(super) fn compare<'a>(a: &'a Input, b: &'a Input) -> MatchedThreads<'a> {
    let mut compared = MatchedThreads { pairs: Vec::new(), pools: Vec::new() };
    let mut budget = Budget::WHOLE;
    for (_, threads) in roles(&a.threads, &b.threads) {
        let [of_a, of_b] = &threads;
        if of_a.len() <= 1 && of_b.len() <= 1 {
            compared.pairs.push(pair(of_a.first().copied(), of_b.first().copied(), &mut budget));
        } else {
            compared.pools.push(Pool::of(threads));
        }
    }
    compared
}

/// Returns all roles with their threads, in the order in which the first thread of each role appears.
fn roles<'a>(a: &'a [ThreadMessages], b: &'a [ThreadMessages]) -> Vec<(Role, ThreadsOfRole<'a>)> {
    let mut roles: Vec<(Role, ThreadsOfRole<'a>)> = Vec::new();
    let mut known: HashMap<Role, usize> = HashMap::new();
    for (side, threads) in [a, b].into_iter().enumerate() {
        let mut first = Role::First;
        for thread in threads {
            let role = match thread.name.as_deref() {
                Some(name) => Role::Named(without_numbers(name)),
                None => std::mem::replace(&mut first, Role::FirstOfOther),
            };
            let at = *known.entry(role.clone()).or_insert_with(|| {
                roles.push((role, ThreadsOfRole::default()));
                roles.len() - 1
            });
            roles[at].1[side].push(thread);
        }
    }
    roles
}

fn pair<'a>(a: Option<&'a ThreadMessages>, b: Option<&'a ThreadMessages>, budget: &mut Budget) -> Pair<'a> {
    let sorts = |thread: Option<&'a ThreadMessages>| thread.map_or(&[][..], |thread| &thread.sorts[..]);
    let (of_a, of_b): (&[SortId], &[SortId]) = (sorts(a), sorts(b));
    let alike = of_a.iter().zip(of_b).take_while(|(a, b)| a == b).count();
    let found = unmatched(&of_a[alike..], &of_b[alike..], budget);
    Pair { a, b, alike, only_a: found.only_a, only_b: found.only_b, exact: found.exact }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(names: &[Option<&str>]) -> Vec<ThreadMessages> {
        let thread = |(tid, name): (u64, &Option<&str>)| {
            let mut thread = ThreadMessages::new(tid);
            thread.name = name.map(|name| name.as_bytes().to_vec());
            thread
        };
        (1..).zip(names).map(thread).collect()
    }

    #[test]
    fn threads_of_one_name_share_a_role_and_first_threads_have_their_own() {
        let a = threads(&[None, Some("w"), Some("io"), Some("w"), None]);
        let b = threads(&[Some("new"), Some("w"), None]);
        let found: Vec<_> = roles(&a, &b)
            .into_iter()
            .map(|(role, threads)| {
                (role, threads.map(|of| of.iter().map(|thread| thread.tid).collect::<Vec<_>>()))
            })
            .collect();
        let named = |name: &str| Role::Named(name.as_bytes().to_vec());
        let expected = [
            (Role::First, [vec![1], vec![3]]),
            (named("w"), [vec![2, 4], vec![2]]),
            (named("io"), [vec![3], vec![]]),
            (Role::FirstOfOther, [vec![5], vec![]]),
            (named("new"), [vec![], vec![1]]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn threads_whose_names_differ_only_in_numbers_share_a_role() {
        let a = threads(&[None, Some("worker-1"), Some("worker-2"), Some("io 1"), Some("io")]);
        let b = threads(&[None, Some("worker-3"), Some("io 2")]);
        let found = roles(&a, &b);
        let tids = |threads: &ThreadsOfRole<'_>| {
            threads.each_ref().map(|of| of.iter().map(|thread| thread.tid).collect::<Vec<_>>())
        };
        let found: Vec<_> = found.iter().map(|(_, threads)| tids(threads)).collect();
        assert_eq!(found, [[vec![1], vec![1]], [vec![2, 3], vec![2]], [vec![4], vec![3]], [vec![5], vec![]]]);
    }
}
