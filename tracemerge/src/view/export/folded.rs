//! Folded stacks: one line for each call path, with the path's own time in nanoseconds. The needed memory grows with
//! the number of paths, not with the size of the trace.

use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::view::call_counts::{CallCounts, Counting};
use crate::view::calls::{Depth, NO_CALLS};
use crate::view::export::Export;
use crate::view::export::aspects::{self, Aspect};
use crate::view::export::events::{folded_calls, sentences};
use crate::view::export::format::{OutputContent, OutputFormat};
use crate::view::function_names::{FunctionId, lock};
use crate::view::threads::Threads;

/// The description of the format `folded` for the command line.
pub(crate) static FORMAT: OutputFormat = OutputFormat {
    name: "folded",
    about: "Call paths with their own times in nanoseconds, for flame graphs",
    extension: "folded",
    content: OutputContent::Text,
    nests_calls: true,
    times_of_day: false,
    takes_states: false,
    begins,
    make: Some(|context| Box::new(FoldedFormat::new(context.depth, context.threads()))),
};

/// Returns whether the first line of `head` ends in a number after a space.
fn begins(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let number = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    line.len() > number.len() && !number.is_empty() && number.iter().all(u8::is_ascii_digit)
}

/// The writer of the format `folded`.
#[derive(Debug)]
pub(crate) struct FoldedFormat {
    counts: CallCounts,
}

impl FoldedFormat {
    /// Creates the writer for the calls of `threads`. `depth` limits the length of call paths.
    #[must_use]
    pub(crate) fn new(depth: Depth, threads: Threads) -> FoldedFormat {
        let counting = Counting { paths: true, depth, ..Counting::default() };
        FoldedFormat { counts: CallCounts::new(counting, threads) }
    }
}

/// Appends a line for each call path whose own time is not 0, with this time in nanoseconds: `main;serve;parse 1234`.
pub(crate) fn write_folded(counts: &CallCounts, out: &mut Vec<u8>) {
    let names = lock(counts.names());
    let labels: Vec<&str> = counts.labels().collect();
    let mut lines: Vec<String> = Vec::new();
    counts.each_path(|thread, functions, folded, (own, _)| {
        if own == 0 {
            return;
        }
        let mut line = labels[thread].replace(';', ":");
        for function in functions {
            line.push(';');
            line.push_str(&names.get(*function).name.replace(';', ":"));
        }
        if let Some(folded) = folded {
            line.push(';');
            line.push_str(&folded.text(|function| &names.get(function).name).replace(';', ":"));
        }
        lines.push(format!("{line} {own}"));
    });
    lines.sort();
    for line in lines {
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
}

impl Export for FoldedFormat {
    fn begin(&mut self, _origins: &[Origin], _out: &mut Vec<u8>) {}

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, _out: &mut Vec<u8>) {
        self.counts.record(origin, record);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.counts.finish();
        write_folded(&self.counts, out);
    }

    fn omissions(&self) -> Vec<String> {
        let (cut, others) = (self.counts.cut_calls(), self.counts.others());
        let mut omissions = sentences([
            (others.messages, "message", "left out: call paths have none"),
            (others.stacks, "call stack", "left out: only calls are shown"),
            (others.metas, "# line", "left out, including losses and stalls"),
            (cut.unmatched, "leave record", "without an enter record: left out"),
            (cut.unseen, "call", "without a leave record: ended with the enclosing call"),
            (cut.still_open, "call", "still running at the end: ended with the thread or the trace"),
        ]);
        omissions.extend(self.counts.has_no_calls().then(|| NO_CALLS.to_owned()));
        omissions.extend(self.counts.other_kinds().omissions());
        omissions.extend(folded_calls(self.counts.folded_calls(), self.counts.depth().most()));
        let names = lock(self.counts.names());
        let has_place = |function: FunctionId| !names.get(function).place().is_empty();
        let placed = self.counts.each_function().filter(|(_, function, _)| has_place(*function)).count();
        omissions.extend(aspects::omissions([
            (placed as u64, Aspect::FunctionPlaces),
            (others.spans, Aspect::Spans),
            (others.ends, Aspect::Ends),
            (others.unwinding, Aspect::Unwinding),
            (others.call_sites, Aspect::CallSites),
        ]));
        omissions
    }

    fn takes_calls(&self) -> bool {
        true
    }

    fn call_counts(&mut self) -> Option<&mut CallCounts> {
        Some(&mut self.counts)
    }
}
