//! The call graph, the collapsed tree: one line for each call path, with the number and the times of its calls in all
//! threads. Memory grows with the number of paths, not with the trace.

use std::collections::HashMap;

use regex::Regex;

use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::ui::messages::{Grouped, count};
use crate::ui::table::Alignment::{Left, Right};
use crate::ui::table::Columns;
use crate::ui::units::duration;
use crate::view::call_counts::{CallCounts, Counting};
use crate::view::calls::{Folded, NO_CALLS};
use crate::view::export::Export;
use crate::view::export::tree::TreeLayout;
use crate::view::export::tree::met_calls::named_functions;
use crate::view::function_names::{FunctionId, lock};
use crate::view::layout::Context;

/// The maximum depth for which a line is indented. Without it, the spaces before the paths of an endless recursion
/// would take much memory.
const MAX_INDENTED: usize = 500;

/// The format of `tree --collapse`, which shows each call path once.
#[derive(Debug)]
pub(super) struct CallGraph {
    min_duration: u64,
    function: Option<Regex>,
    counts: CallCounts,
}

/// A call path, with the sums over all threads. In the list of paths, a path comes after the path of its caller.
#[derive(Debug)]
struct Path {
    caller: Option<usize>,
    /// The last function of the path; `None` if the path stands for all calls that were nested too deeply below its
    /// caller.
    function: Option<FunctionId>,
    folded: Folded,
    calls: u64,
    /// The time of the calls in nanoseconds, without the time of the calls inside them.
    own: u64,
    /// The time of the calls, in nanoseconds.
    total: u64,
}

impl CallGraph {
    /// Makes the format of `tree --collapse`.
    #[must_use]
    pub(super) fn new(layout: &TreeLayout, context: &Context) -> CallGraph {
        let counting = Counting { paths: true, depth: context.depth, ..Counting::default() };
        CallGraph {
            min_duration: layout.min_duration,
            // The command line rejects invalid patterns.
            function: layout.function.as_deref().and_then(|pattern| Regex::new(pattern).ok()),
            counts: CallCounts::new(counting, context.threads()),
        }
    }

    /// Returns the call paths, each with the sums over all threads.
    fn paths(&self) -> Vec<Path> {
        let (mut paths, mut numbers) = (Vec::<Path>::new(), HashMap::new());
        self.counts.each_path(|_, functions, folded, (own, calls)| {
            let mut last = None;
            for function in functions.iter().copied().map(Some).chain(folded.map(|_| None)) {
                let number = *numbers.entry((last, function)).or_insert_with(|| {
                    paths.push(Path {
                        caller: last,
                        function,
                        folded: Folded::default(),
                        calls: 0,
                        own: 0,
                        total: 0,
                    });
                    paths.len() - 1
                });
                last = Some(number);
            }
            if let Some(path) = last.and_then(|last| paths.get_mut(last)) {
                folded.into_iter().for_each(|folded| path.folded.add_all(folded));
                path.calls += folded.map_or(calls, Folded::calls);
                path.own = path.own.saturating_add(own);
            }
        });
        for number in (0..paths.len()).rev() {
            let total = paths[number].total.saturating_add(paths[number].own);
            paths[number].total = total;
            if let Some(caller) = paths[number].caller {
                paths[caller].total = paths[caller].total.saturating_add(total);
            }
        }
        paths
    }

    /// Returns the shown paths as a table, those that took the longest first.
    fn table(&self) -> String {
        let (paths, names) = (self.paths(), lock(self.counts.names()));
        let mut called: Vec<Vec<usize>> = vec![Vec::new(); paths.len()];
        let mut outermost = Vec::new();
        for (number, path) in paths.iter().enumerate() {
            path.caller.map_or(&mut outermost, |caller| &mut called[caller]).push(number);
        }
        let name = |number: usize| match paths[number].function {
            Some(function) => names.get(function).name.clone(),
            None => paths[number].folded.text(|function| &names.get(function).name),
        };
        // The path that is shown next has to be the last one of the list.
        let sort = |numbers: &mut Vec<usize>| {
            let total = |number: usize| paths[number].total;
            numbers.sort_by(|a, b| total(*a).cmp(&total(*b)).then_with(|| name(*b).cmp(&name(*a))));
        };
        sort(&mut outermost);
        called.iter_mut().for_each(sort);
        let mut columns =
            Columns::new(&[("calls", Right), ("total", Right), ("self", Right), ("function", Left)]);
        // The depth of a path counts from the outermost wanted function.
        let mut open: Vec<(usize, Option<usize>)> =
            outermost.into_iter().map(|number| (number, None)).collect();
        while let Some((number, around)) = open.pop() {
            let path = &paths[number];
            let (name, function) = (name(number), path.function.map(|function| names.get(function)));
            let matches = |pattern: &Regex| function.is_some_and(|function| pattern.is_match(&function.name));
            let is_wanted = self.function.as_ref().is_none_or(matches);
            let depth = around.map(|depth| depth + 1).or(is_wanted.then_some(0));
            // The paths below this one take no longer.
            if path.total < self.min_duration {
                continue;
            }
            if let Some(depth) = depth {
                let at = function.map(|function| &function.at[..]).filter(|at| !at.is_empty());
                let at = at.map_or_else(String::new, |at| format!("  ({at})"));
                let indent = "  ".repeat(depth.min(MAX_INDENTED));
                columns.row([
                    Grouped(path.calls).to_string(),
                    duration(path.total),
                    duration(path.own),
                    format!("{indent}{name}{at}"),
                ]);
            }
            open.extend(called[number].iter().map(|number| (*number, depth)));
        }
        columns.text("")
    }

    /// Returns a note if no path is shown.
    fn note_without_paths(&self) -> Option<String> {
        let calls = || self.counts.each_function().map(|(_, function, counted)| (function, counted.calls));
        let pattern = self.function.as_ref();
        let names = lock(self.counts.names());
        let is_called = |pattern: &Regex| calls().any(|(id, _)| pattern.is_match(&names.get(id).name));
        if calls().next().is_none() {
            return Some(NO_CALLS.to_owned());
        }
        pattern.filter(|pattern| !is_called(pattern)).map(|_| {
            let functions = named_functions(calls(), &names);
            format!("no called function matches --function; there are calls of {functions}")
        })
    }
}

impl Export for CallGraph {
    fn begin(&mut self, _origins: &[Origin], _out: &mut Vec<u8>) {}

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, _out: &mut Vec<u8>) {
        self.counts.record(origin, record);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.counts.finish();
        let (calls, threads) = (count(self.counts.calls(), "call"), self.counts.labels().len() as u64);
        let head = format!("{calls} of {}", count(threads, "thread"));
        for line in [Some(head), self.counts.threads().waits_in_words()].into_iter().flatten() {
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
        }
        out.extend_from_slice(self.table().as_bytes());
    }

    fn takes_calls(&self) -> bool {
        true
    }

    fn omissions(&self) -> Vec<String> {
        self.counts.other_kinds().omissions().chain(self.note_without_paths()).collect()
    }

    fn call_counts(&mut self) -> Option<&mut CallCounts> {
        Some(&mut self.counts)
    }

    fn begin_at(&mut self, first: u64) {
        self.counts.begin_at(first);
    }

    fn learn_thread(&mut self, number: usize, origin: &Origin, label: String) {
        self.counts.label_thread(number, origin, label);
    }
}
