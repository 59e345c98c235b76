//! The modules of one process over time, to find the module that has an address at certain ticks.

use std::collections::BTreeMap;
use std::sync::Arc;

use trace_format::line::Ticks;
use trace_format::meta::{AddressRange, Between, Meta, Module};

use crate::symbols::answer::Unnamed;

/// A line of a trace about the modules of its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModuleLine {
    /// A module was loaded.
    Loaded(Arc<Module>),
    /// The modules at these addresses were unloaded, between two readings of the list of modules by the tracer.
    Unloaded(AddressRange, Between),
    /// Modules that the tracer has never seen were loaded and unloaded again, at unknown addresses, between two of its
    /// readings of the list of modules.
    Missed(Between),
}

impl ModuleLine {
    /// Returns the line about modules that a `#` line has, if it has one.
    #[must_use]
    pub fn of(meta: Meta) -> Option<ModuleLine> {
        match meta {
            Meta::Module(module) => Some(ModuleLine::Loaded(Arc::new(module))),
            Meta::Unloaded { range, gone } => Some(ModuleLine::Unloaded(range, gone)),
            Meta::Missed { there, .. } => Some(ModuleLine::Missed(there)),
            _ => None,
        }
    }

    fn between(&self) -> Between {
        match self {
            ModuleLine::Loaded(module) => module.loaded,
            ModuleLine::Unloaded(_, between) | ModuleLine::Missed(between) => *between,
        }
    }
}

/// A stay of a module: the period for which the module is loaded at its addresses.
#[derive(Clone, Debug)]
struct ModuleLifetime {
    module: Arc<Module>,
    /// The two readings of the list of modules by the tracer between which the module was unloaded; `None` if it was
    /// not unloaded.
    gone: Option<Between>,
}

impl ModuleLifetime {
    /// Returns whether the module may have been loaded at `ticks`, as far as the tracer's readings of the list of
    /// modules show.
    fn may_be_loaded_at(&self, ticks: Ticks) -> bool {
        let loaded = self.module.loaded;
        // A module that was there at the first look was there before it, too.
        (loaded.after < ticks || loaded.after.0 == 0) && self.gone.is_none_or(|gone| ticks < gone.seen)
    }

    /// Returns whether the module was certainly loaded for the whole `time` between two readings of the list of
    /// modules.
    fn is_around(&self, time: &Between) -> bool {
        let loaded = self.module.loaded;
        (loaded.seen <= time.after || loaded.after.0 == 0)
            && self.gone.is_none_or(|gone| time.seen <= gone.after)
    }
}

/// The modules of one process: which file was mapped as code, at which addresses and when.
///
/// Modules that are loaded at the same time do not overlap. The modules are in a tree over all addresses, each at the
/// few nodes that make up its range. So the modules of one node follow each other in time, and a search takes
/// logarithmic time for each node between a leaf and the root, for any trace.
///
/// The tracer reads the list of modules now and then. If a record was made between the two readings around a change,
/// nothing shows whether it was made before or after the change. An address in such a record has no module if it could
/// be in two modules, or in a module that was never seen.
#[derive(Debug, Default)]
pub struct Timeline {
    stays: Vec<ModuleLifetime>,
    /// The pairs of readings of the list of modules between which modules were loaded and unloaded again without being
    /// seen.
    missed: Vec<Between>,
    /// The addresses at which the ranges of modules begin or end, in ascending order.
    borders: Vec<u64>,
    /// The tree: node 1 is the root, and node n has the children 2n and 2n + 1. Each node has the indexes, in the order
    /// of time, of the stays of those modules whose range of addresses contains the node's range.
    nodes: Vec<Vec<usize>>,
}

impl Timeline {
    /// Makes the timeline of a process from the lines about modules in all its files, in any order. A repeated line
    /// changes nothing.
    #[must_use]
    pub fn new(lines: impl IntoIterator<Item = ModuleLine>) -> Timeline {
        let mut lines: Vec<ModuleLine> = lines.into_iter().collect();
        // A module is unloaded before another one is loaded in its place.
        lines.sort_by_key(|line| (line.between().seen, matches!(line, ModuleLine::Loaded(_))));
        lines.dedup();
        let missed = lines.iter().filter_map(|line| match line {
            ModuleLine::Missed(time) => Some(*time),
            _ => None,
        });
        let mut timeline = Timeline { missed: missed.collect(), stays: stays(&lines), ..Timeline::default() };
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

    /// Returns the module that had `address` at `ticks`.
    ///
    /// # Errors
    /// No known module had the address, or nothing shows which one had it.
    pub fn find(&self, ticks: Ticks, address: u64) -> Result<&Arc<Module>, Unnamed> {
        let part = self.borders.partition_point(|border| *border <= address).checked_sub(1);
        let mut node = part.map_or(0, |part| self.leaves() + part);
        let mut found: Option<&ModuleLifetime> = None;
        while node > 0 {
            for stay in self.loaded_at(node, ticks) {
                if found.replace(stay).is_some() {
                    return Err(Unnamed::Changing);
                }
            }
            node /= 2;
        }
        let mut missed = self.missed.iter().filter(|time| time.after < ticks && ticks < time.seen);
        if missed.any(|time| found.is_none_or(|stay| !stay.is_around(time))) {
            return Err(Unnamed::Changing);
        }
        found.map(|stay| &stay.module).ok_or(Unnamed::NoModule)
    }

    /// Returns the stays in the node with the index `node` whose modules may have been loaded at `ticks`.
    fn loaded_at(&self, node: usize, ticks: Ticks) -> impl Iterator<Item = &ModuleLifetime> {
        let stays = self.nodes.get(node).map_or(&[][..], Vec::as_slice);
        let is_over = |number: &usize| self.stays[*number].gone.is_some_and(|gone| gone.seen <= ticks);
        let stays = stays[stays.partition_point(is_over)..].iter().map(|number| &self.stays[*number]);
        stays.take_while(move |stay| stay.may_be_loaded_at(ticks))
    }

    fn leaves(&self) -> usize {
        self.borders.len().next_power_of_two()
    }

    /// Adds the stay with the index `number` to the tree: to those nodes that together make up the module's range of
    /// addresses.
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

/// Returns the stays of all modules. `lines` must be in the order in which the tracer has read the list of modules.
fn stays(lines: &[ModuleLine]) -> Vec<ModuleLifetime> {
    let mut stays: Vec<ModuleLifetime> = Vec::new();
    // The stays that have no end yet, by the address at which they begin.
    let mut there: BTreeMap<u64, usize> = BTreeMap::new();
    for line in lines {
        let range = match line {
            ModuleLine::Loaded(module) => module.range,
            ModuleLine::Unloaded(range, _) => *range,
            ModuleLine::Missed(_) => continue,
        };
        if range.start >= range.end {
            continue;
        }
        if let ModuleLine::Loaded(module) = line {
            if there.get(&range.start).is_some_and(|number| stays[*number].module == *module) {
                continue;
            }
        }
        // Modules that are there do not overlap, so the last ones that begin before the end of the range are those
        // that reach into it.
        while let Some((&start, &number)) = there.range(..range.end).next_back() {
            if stays[number].module.range.end <= range.start {
                break;
            }
            stays[number].gone = Some(line.between());
            there.remove(&start);
        }
        if let ModuleLine::Loaded(module) = line {
            there.insert(range.start, stays.len());
            stays.push(ModuleLifetime { module: Arc::clone(module), gone: None });
        }
    }
    stays
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn between(after: u64, seen: u64) -> Between {
        Between { after: Ticks(after), seen: Ticks(seen) }
    }

    fn loaded(time: (u64, u64), range: (u64, u64), path: &str) -> ModuleLine {
        ModuleLine::Loaded(Arc::new(Module {
            range: AddressRange { start: range.0, end: range.1 },
            bias: range.0,
            build_id: vec![],
            path: path.as_bytes().to_vec(),
            loaded: between(time.0, time.1),
        }))
    }

    fn unloaded(time: (u64, u64), range: (u64, u64)) -> ModuleLine {
        ModuleLine::Unloaded(AddressRange { start: range.0, end: range.1 }, between(time.0, time.1))
    }

    fn found(timeline: &Timeline, ticks: u64, address: u64) -> &str {
        match timeline.find(Ticks(ticks), address) {
            Ok(module) => std::str::from_utf8(&module.path).unwrap(),
            Err(Unnamed::Changing) => "?",
            Err(_) => "",
        }
    }

    #[test]
    fn an_address_belongs_to_the_module_loaded_at_its_ticks() {
        let lines = [
            loaded((0, 10), (0x1000, 0x3000), "a"),
            loaded((0, 10), (0x4000, 0x5000), "b"),
            unloaded((20, 25), (0x1000, 0x3000)),
            loaded((30, 35), (0x2000, 0x2800), "c"),
        ];
        let all = Timeline::new(lines.clone());
        let at = |ticks, address| found(&all, ticks, address).to_owned();
        assert_eq!([at(1, 0x1000), at(10, 0x1000), at(15, 0x2fff), at(15, 0x3000)], ["a", "a", "a", ""]);
        // Between the two looks the module may have been there, and no other one can have been.
        assert_eq!([at(20, 0x1000), at(24, 0x1000), at(25, 0x1000), at(29, 0x2000)], ["a", "a", "", ""]);
        assert_eq!([at(31, 0x2000), at(99, 0x27ff), at(99, 0x2800)], ["c", "c", ""]);
        assert_eq!([at(0, 0x4000), at(10, 0x4fff), at(u64::MAX, 0x4fff)], ["b", "b", "b"]);
        let reversed = Timeline::new(lines.into_iter().rev());
        assert_eq!(found(&reversed, 15, 0x1000), "a", "the order of files is not that of time");
        assert_eq!(found(&Timeline::default(), 1, 1), "");
    }

    #[test]
    fn an_address_of_two_modules_between_two_readings_gets_no_name() {
        let all = Timeline::new([
            loaded((0, 10), (0x1000, 0x3000), "old"),
            unloaded((20, 30), (0x1000, 0x3000)),
            loaded((20, 30), (0x2000, 0x4000), "new"),
        ]);
        let at = |ticks| [0x1800, 0x2800, 0x3800].map(|address| found(&all, ticks, address));
        assert_eq!([at(20), at(25), at(30)], [["old", "old", ""], ["old", "?", "new"], ["", "new", "new"]]);
    }

    #[test]
    fn modules_missed_between_readings_get_no_name_and_hide_no_other_module() {
        let all = Timeline::new([
            loaded((0, 10), (0x1000, 0x2000), "stayed"),
            ModuleLine::Missed(between(20, 30)),
            loaded((20, 30), (0x3000, 0x4000), "came"),
        ]);
        let at = |ticks| [0x1800, 0x3800, 0x5000].map(|address| found(&all, ticks, address));
        let expected = [["stayed", "", ""], ["stayed", "?", "?"], ["stayed", "came", ""]];
        assert_eq!([at(20), at(25), at(30)], expected);
    }

    #[test]
    fn a_repeated_line_changes_nothing() {
        let line = || loaded((0, 1), (0x1000, 0x2000), "a");
        let all = Timeline::new([line(), line(), unloaded((5, 7), (0, u64::MAX)), line()]);
        assert_eq!(["a", "a", "", ""], [1, 6, 8, 9].map(|ticks| found(&all, ticks, 0x1fff)));
        assert_eq!(all.stays.len(), 1);
    }

    /// Makes lines about modules from looks that follow each other: each module is loaded or unloaded between two of
    /// the looks.
    fn any_lines() -> impl Strategy<Value = Vec<ModuleLine>> {
        let change = (1..4u64, 0..12u64, 0..6u64, 0..4u8);
        prop::collection::vec(change, 0..30).prop_map(|changes| {
            let mut look = 0;
            let line = |(later, start, length, kind): (u64, u64, u64, u8)| {
                let time = (look, look + later);
                look += later;
                let range = (start, start + length);
                match kind {
                    0 => unloaded(time, range),
                    _ => loaded(time, range, ["a", "b", "c"][usize::from(kind - 1)]),
                }
            };
            changes.into_iter().map(line).collect()
        })
    }

    /// Returns the result of [`found`] by checking each stay separately.
    fn naive(lines: &[ModuleLine], ticks: u64, address: u64) -> String {
        let stays = stays(lines);
        let there = stays
            .iter()
            .filter(|stay| stay.module.range.contains(address) && stay.may_be_loaded_at(Ticks(ticks)));
        let paths: Vec<_> =
            there.map(|stay| String::from_utf8_lossy(&stay.module.path).into_owned()).collect();
        match &paths[..] {
            [] => String::new(),
            [path] => path.clone(),
            _ => "?".to_owned(),
        }
    }

    proptest! {
        #[test]
        fn the_tree_agrees_with_a_scan_of_all_modules(
            lines in any_lines(), ticks in 0..50u64, address in 0..20u64,
        ) {
            let all = Timeline::new(lines.clone());
            prop_assert_eq!(found(&all, ticks, address), naive(&lines, ticks, address));
        }
    }

    #[test]
    fn a_hundred_thousand_overlapping_modules_are_looked_up_fast() {
        let lines =
            (1..100_000u64).map(|n| loaded((2 * n, 2 * n + 1), (n % 977, 5000 + n % 1013), &n.to_string()));
        let all = Timeline::new(lines);
        for n in (1..99_999).step_by(97) {
            assert_eq!(found(&all, 2 * n + 1, 3000), n.to_string());
        }
    }
}
