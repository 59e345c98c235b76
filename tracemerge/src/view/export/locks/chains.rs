//! Chains of waits: a thread waits for a second thread, which itself waits for a third thread, and so on. A chain is
//! stored as its first link and the id of the chain behind this link, so chains with a common end share the end, and a
//! row of waiting threads takes only one entry for each thread.

use std::collections::HashMap;

use crate::view::export::locks::waits::{Awaited, Holder, PlaceId, Sum};

/// One step of a chain: a wait of a thread for a lock or a condition, with the place of the wait in the source and
/// the holder of the awaited object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Link {
    /// The id of the thread that waits.
    pub thread: u64,
    /// The awaited lock or condition.
    pub awaited: Awaited,
    /// The place in the source where the thread waits.
    pub at: PlaceId,
    /// The thread that holds the awaited object, if known.
    pub holder: Option<Holder>,
}

/// The id of a chain of waits.
pub(super) type ChainId = u32;

/// The maximum number of stored links. Once it is reached, further chains are left out.
const MAX_LINKS: usize = 1 << 19;

/// All chains of waits that have occurred.
#[derive(Debug, Default)]
pub(super) struct Chains {
    /// For each chain, its first link, the id of the chain behind this link, and the count of all links.
    chains: Vec<(Link, Option<ChainId>, u32)>,
    known: HashMap<(Link, Option<ChainId>), ChainId>,
    /// For each chain, the sum of the ended waits at its beginning.
    sums: HashMap<ChainId, Sum>,
}

/// The progress of the search for the chains of all threads, for one thread.
enum SearchState {
    /// The thread is on the path that is being followed, at this index of the path.
    OnTheWay(usize),
    /// The chain of the thread is found; `None` if there was no room for it.
    Walked(Option<ChainId>),
}

impl Chains {
    /// Returns the number of links of a chain.
    #[must_use]
    pub(super) fn length(&self, chain: ChainId) -> u32 {
        self.chains[chain as usize].2
    }

    /// Returns the links of a chain.
    pub(super) fn links(&self, chain: ChainId) -> impl Iterator<Item = &Link> {
        let mut next = Some(chain);
        std::iter::from_fn(move || {
            let (link, behind, _) = &self.chains[next? as usize];
            next = *behind;
            Some(link)
        })
    }

    /// Returns each chain at whose beginning waits have ended, with the sum of these waits.
    pub(super) fn sums(&self) -> impl ExactSizeIterator<Item = (ChainId, Sum)> {
        self.sums.iter().map(|(chain, sum)| (*chain, *sum))
    }

    /// Adds `ns` nanoseconds, the time of an ended wait, to the sum of the chain that began with the wait.
    pub(super) fn count(&mut self, chain: ChainId, ns: u64) {
        self.sums.entry(chain).or_default().add(ns);
    }

    /// Returns the chain that begins with `link` and continues with the chain `behind`; `None` if there are too many
    /// chains.
    fn step(&mut self, link: Link, behind: Option<ChainId>) -> Option<ChainId> {
        if let Some(known) = self.known.get(&(link, behind)) {
            return Some(*known);
        }
        let chain = ChainId::try_from(self.chains.len()).ok().filter(|_| self.chains.len() < MAX_LINKS)?;
        let length = behind.map_or(0, |behind| self.length(behind)) + 1;
        self.chains.push((link, behind, length));
        self.known.insert((link, behind), chain);
        Some(chain)
    }

    /// Returns, for each of these threads, the chain that begins with the thread's wait. Also returns whether there was
    /// room for all chains. `link` returns the wait of a thread. Visits each thread once. If threads wait for each
    /// other in a ring, each of them has the chain that begins with the smallest thread id of the ring.
    pub(super) fn of_all<'t>(
        &mut self,
        threads: impl Iterator<Item = &'t u64>,
        link: impl Fn(u64) -> Option<Link>,
    ) -> (HashMap<u64, ChainId>, bool) {
        let (mut met, mut is_all): (HashMap<u64, SearchState>, bool) = (HashMap::new(), true);
        let mut way: Vec<Link> = Vec::new();
        for &thread in threads {
            way.clear();
            let mut next = Some(thread);
            let mut behind = loop {
                let Some(at) = next else { break None };
                match met.get(&at) {
                    Some(SearchState::Walked(chain)) => break *chain,
                    Some(SearchState::OnTheWay(start)) => {
                        let ring = way.split_off(*start);
                        let chain = self.ring(&ring);
                        is_all &= chain.is_some();
                        met.extend(ring.iter().map(|link| (link.thread, SearchState::Walked(chain))));
                        break chain;
                    }
                    None => {}
                }
                let Some(link) = link(at) else { break None };
                met.insert(at, SearchState::OnTheWay(way.len()));
                way.push(link);
                next = link.holder.map(|holder| holder.thread);
            };
            for link in way.iter().rev() {
                behind = self.step(*link, behind);
                is_all &= behind.is_some();
                met.insert(link.thread, SearchState::Walked(behind));
            }
        }
        let walked = met.into_iter().filter_map(|(thread, met)| match met {
            SearchState::Walked(chain) => Some((thread, chain?)),
            SearchState::OnTheWay(_) => None,
        });
        (walked.collect(), is_all)
    }

    fn ring(&mut self, ring: &[Link]) -> Option<ChainId> {
        let first = (0..ring.len()).min_by_key(|at| ring[*at].thread)?;
        let in_order = ring[first..].iter().chain(&ring[..first]);
        let mut behind = None;
        for link in in_order.rev() {
            behind = Some(self.step(*link, behind)?);
        }
        behind
    }
}

/// Finds deadlocks: rings of threads in which each thread waits for a lock that the next thread holds, and the last
/// thread for a lock that the first one holds. Each ring begins with its smallest thread id.
pub(super) fn rings<'t>(
    threads: impl Iterator<Item = &'t u64>,
    holder_of: impl Fn(u64) -> Option<u64>,
) -> Vec<Vec<u64>> {
    let mut found = Vec::new();
    // The thread from which the walk reached each thread.
    let mut met: HashMap<u64, u64> = HashMap::new();
    for &start in threads {
        let mut next = Some(start);
        while let Some(at) = next.filter(|at| !met.contains_key(at)) {
            met.insert(at, start);
            next = holder_of(at);
        }
        let Some(at) = next.filter(|at| met.get(at) == Some(&start) && holder_of(*at).is_some()) else {
            continue;
        };
        let mut ring = vec![at];
        let mut next = holder_of(at);
        while let Some(other) = next.filter(|other| *other != at) {
            ring.push(other);
            next = holder_of(other);
        }
        let first = (0..ring.len()).min_by_key(|place| ring[*place]).unwrap_or(0);
        ring.rotate_left(first);
        found.push(ring);
    }
    found.sort();
    found
}
