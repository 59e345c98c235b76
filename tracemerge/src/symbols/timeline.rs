//! Which module an address is of, at which ticks: the module table of one process over its time.

use std::collections::BTreeMap;
use std::sync::Arc;

use trace_format::line::Ticks;
use trace_format::meta::{AddressRange, Meta, Module};

/// A line of the module table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModuleLine {
    /// A module is there, from here on.
    Loaded(Arc<Module>),
    /// The modules at these addresses are gone.
    Unloaded(AddressRange),
}

impl ModuleLine {
    /// Returns the line of the module table that a `#` line is, if it is one.
    #[must_use]
    pub fn of(meta: Meta) -> Option<ModuleLine> {
        match meta {
            Meta::Module(module) => Some(ModuleLine::Loaded(Arc::new(module))),
            Meta::Unloaded(range) => Some(ModuleLine::Unloaded(range)),
            _ => None,
        }
    }

    fn range(&self) -> AddressRange {
        match self {
            ModuleLine::Loaded(module) => module.range,
            ModuleLine::Unloaded(range) => *range,
        }
    }
}

/// A module while it is at its place.
#[derive(Clone, Debug)]
struct Stay {
    module: Arc<Module>,
    from: Ticks,
    /// The ticks of the line by which it is gone.
    until: Option<Ticks>,
}

/// The modules of one process over its time.
///
/// Modules that are there at the same time do not overlap. So in a tree over all addresses, in which a module
/// stands at the few nodes that make up its range, the modules of one node follow each other in time: a
/// search takes logarithmic time for each node on the way down, whatever a trace says.
#[derive(Debug, Default)]
pub struct Timeline {
    stays: Vec<Stay>,
    /// The addresses at which ranges begin or end, ascending.
    borders: Vec<u64>,
    /// The tree: node 1 is the root, and node n has the children 2n and 2n + 1. Each node has its stays by
    /// number, in the order of time.
    nodes: Vec<Vec<usize>>,
}

impl Timeline {
    /// Makes the timeline of a process from the module lines of all its files, with the ticks of each, in any
    /// order. Of lines with the same ticks, the later given one counts later; a line that is repeated changes
    /// nothing.
    #[must_use]
    pub fn new(lines: impl IntoIterator<Item = (Ticks, ModuleLine)>) -> Timeline {
        let mut lines: Vec<(Ticks, ModuleLine)> = lines.into_iter().collect();
        lines.retain(|(_, line)| line.range().start < line.range().end);
        lines.sort_by_key(|(ticks, _)| *ticks);
        let mut timeline = Timeline { stays: stays(&lines), ..Timeline::default() };
        let ranges = timeline.stays.iter().map(|stay| stay.module.range);
        timeline.borders = ranges.flat_map(|range| [range.start, range.end]).collect();
        timeline.borders.sort_unstable();
        timeline.borders.dedup();
        timeline.nodes = vec![Vec::new(); 2 * timeline.leaves()];
        for number in 0..timeline.stays.len() {
            timeline.place(number);
        }
        timeline
    }

    /// Returns the module that `address` was of at `ticks`. A record that has the very ticks at which a
    /// module went is of that module still.
    #[must_use]
    pub fn find(&self, ticks: Ticks, address: u64) -> Option<&Arc<Module>> {
        let part = self.borders.partition_point(|border| *border <= address).checked_sub(1)?;
        let mut node = self.leaves() + part;
        let mut found: Option<usize> = None;
        while node > 0 {
            // Two are there at once only when one goes at these ticks: then it is the earlier one.
            found = self.there_at(node, ticks).into_iter().chain(found).min();
            node /= 2;
        }
        found.map(|number| &self.stays[number].module)
    }

    /// Returns the number of the first stay of a node that is there at `ticks`.
    fn there_at(&self, node: usize, ticks: Ticks) -> Option<usize> {
        let stays = self.nodes.get(node)?;
        let first =
            stays.partition_point(|number| self.stays[*number].until.is_some_and(|until| until < ticks));
        let number = *stays.get(first)?;
        (self.stays[number].from <= ticks).then_some(number)
    }

    fn leaves(&self) -> usize {
        self.borders.len().next_power_of_two()
    }

    /// Puts a stay at the nodes that make up its range.
    fn place(&mut self, number: usize) {
        let range = self.stays[number].module.range;
        let leaf = |address| self.leaves() + self.borders.partition_point(|border| *border < address);
        let (mut low, mut high) = (leaf(range.start), leaf(range.end));
        while low < high {
            if low % 2 == 1 {
                self.nodes[low].push(number);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                self.nodes[high].push(number);
            }
            (low, high) = (low / 2, high / 2);
        }
    }
}

/// Returns when each module was there, from lines in the order of their ticks.
fn stays(lines: &[(Ticks, ModuleLine)]) -> Vec<Stay> {
    let mut stays: Vec<Stay> = Vec::new();
    // The stays that have no end yet, by the address at which they begin.
    let mut there: BTreeMap<u64, usize> = BTreeMap::new();
    for (ticks, line) in lines {
        let range = line.range();
        if let ModuleLine::Loaded(module) = line {
            if there.get(&range.start).is_some_and(|number| stays[*number].module == *module) {
                continue;
            }
        }
        // Those that are there do not overlap, so the last ones to begin before the end are those that reach
        // into the range.
        while let Some((&start, &number)) = there.range(..range.end).next_back() {
            if stays[number].module.range.end <= range.start {
                break;
            }
            stays[number].until = Some(*ticks);
            there.remove(&start);
        }
        if let ModuleLine::Loaded(module) = line {
            there.insert(range.start, stays.len());
            stays.push(Stay { module: Arc::clone(module), from: *ticks, until: None });
        }
    }
    stays
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn loaded(start: u64, end: u64, path: &str) -> ModuleLine {
        let range = AddressRange { start, end };
        ModuleLine::Loaded(Arc::new(Module {
            range,
            bias: start,
            build_id: vec![],
            path: path.as_bytes().to_vec(),
        }))
    }

    fn unloaded(start: u64, end: u64) -> ModuleLine {
        ModuleLine::Unloaded(AddressRange { start, end })
    }

    fn found(timeline: &Timeline, ticks: u64, address: u64) -> &str {
        timeline.find(Ticks(ticks), address).map_or("", |module| std::str::from_utf8(&module.path).unwrap())
    }

    fn timeline(lines: &[(u64, ModuleLine)]) -> Timeline {
        Timeline::new(lines.iter().map(|(ticks, line)| (Ticks(*ticks), line.clone())))
    }

    #[test]
    fn an_address_is_of_the_module_that_was_there_at_its_ticks() {
        let lines = [
            (10, loaded(0x1000, 0x3000, "a")),
            (10, loaded(0x4000, 0x5000, "b")),
            (20, unloaded(0x1000, 0x3000)),
            (30, loaded(0x2000, 0x2800, "c")),
        ];
        let all = timeline(&lines);
        let at = |ticks, address| found(&all, ticks, address).to_owned();
        assert_eq!([at(9, 0x1000), at(10, 0x1000), at(15, 0x2fff), at(15, 0x3000)], ["", "a", "a", ""]);
        // A line of the flusher has the ticks of the record before it.
        assert_eq!([at(20, 0x1000), at(21, 0x1000), at(29, 0x2000)], ["a", "", ""]);
        assert_eq!([at(30, 0x2000), at(99, 0x27ff), at(99, 0x2800)], ["c", "c", ""]);
        assert_eq!([at(0, 0x4000), at(10, 0x4fff), at(u64::MAX, 0x4fff)], ["", "b", "b"]);
        let reversed = Timeline::new(lines.iter().rev().map(|(ticks, line)| (Ticks(*ticks), line.clone())));
        assert_eq!(found(&reversed, 15, 0x1000), "a", "the order of files is not that of time");
        assert_eq!(found(&Timeline::default(), 1, 1), "");
    }

    #[test]
    fn a_module_in_the_place_of_another_ends_all_of_it() {
        let all = timeline(&[(1, loaded(0x1000, 0x3000, "old")), (5, loaded(0x2000, 0x4000, "new"))]);
        assert_eq!(["old", "old"], [found(&all, 5, 0x1800), found(&all, 5, 0x2800)]);
        assert_eq!(["", "new"], [found(&all, 6, 0x1800), found(&all, 6, 0x2800)]);
    }

    #[test]
    fn a_repeated_line_changes_nothing() {
        let line = || loaded(0x1000, 0x2000, "a");
        let all = timeline(&[(1, line()), (5, line()), (7, unloaded(0, u64::MAX)), (9, line())]);
        assert_eq!(["a", "a", "", "a"], [1, 7, 8, 9].map(|ticks| found(&all, ticks, 0x1fff)));
        assert_eq!(all.stays.len(), 2);
    }

    fn any_line() -> impl Strategy<Value = (u64, ModuleLine)> {
        (0..12u64, 0..12u64, 0..6u64, 0..4u8).prop_map(|(ticks, start, length, kind)| {
            let line = match kind {
                0 => unloaded(start, start + length),
                _ => loaded(start, start + length, ["a", "b", "c"][usize::from(kind - 1)]),
            };
            (ticks, line)
        })
    }

    /// Goes through the lines one by one, with the module of each address.
    fn naive(lines: &[(u64, ModuleLine)], ticks: u64, address: u64) -> String {
        let mut lines: Vec<_> =
            lines.iter().filter(|(_, line)| line.range().start < line.range().end).collect();
        lines.sort_by_key(|(at, _)| *at);
        let mut there: Vec<(u64, Arc<Module>)> = Vec::new();
        let mut gone: Vec<(u64, Arc<Module>)> = Vec::new();
        for (at, line) in lines.into_iter().filter(|(at, _)| *at <= ticks) {
            let range = line.range();
            if matches!(line, ModuleLine::Loaded(module) if there.iter().any(|(_, other)| other == module)) {
                continue;
            }
            let hit = |module: &Module| module.range.start < range.end && range.start < module.range.end;
            let (hits, rest) = there.into_iter().partition::<Vec<_>, _>(|(_, module)| hit(module));
            there = rest;
            gone.extend(hits.into_iter().filter(|_| *at == ticks));
            if let ModuleLine::Loaded(module) = line {
                there.push((*at, Arc::clone(module)));
            }
        }
        let all = gone.iter().chain(&there).filter(|(_, module)| module.range.contains(address));
        let first = all.min_by_key(|(from, _)| *from);
        first.map_or(String::new(), |(_, module)| String::from_utf8(module.path.clone()).unwrap())
    }

    proptest! {
        #[test]
        fn the_tree_finds_what_a_walk_through_all_lines_finds(
            lines in prop::collection::vec(any_line(), 0..30), ticks in 0..13u64, address in 0..20u64,
        ) {
            let all = timeline(&lines);
            prop_assert_eq!(found(&all, ticks, address), naive(&lines, ticks, address));
        }
    }

    #[test]
    fn a_hundred_thousand_lines_that_replace_each_other_take_no_time() {
        let lines = (0..100_000u64).map(|n| (Ticks(n), loaded(n % 977, 5000 + n % 1013, &n.to_string())));
        let all = Timeline::new(lines);
        for ticks in (1..100_000).step_by(97) {
            assert_eq!(found(&all, ticks, 3000), (ticks - 1).to_string());
        }
    }
}
