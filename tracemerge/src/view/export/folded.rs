//! Folded stacks: a line for each call path with its own time in nanoseconds, as `report --format folded`
//! writes them. Memory grows with the number of paths, not with the trace.

use trace_format::line::Kind;

use crate::input::inputs::Origin;
use crate::view::export::Export;
use crate::view::export::events::sentences;
use crate::view::export::report::{ReportFormat, ReportStyle};
use crate::view::function_names::SharedNames;
use crate::view::records::RecordText;

/// The format of folded stacks.
#[derive(Debug)]
pub struct FoldedFormat {
    report: ReportFormat,
    /// The numbers of messages, call stacks and `#` lines, which have no place in call paths.
    messages: u64,
    stacks: u64,
    metas: u64,
}

impl FoldedFormat {
    /// Makes a format with the functions of `names`, and `labels` for the threads of all origins.
    #[must_use]
    pub fn new(names: SharedNames, labels: Vec<String>) -> FoldedFormat {
        let style = ReportStyle { folded: true, ..ReportStyle::default() };
        FoldedFormat { report: ReportFormat::new(style, names, labels), messages: 0, stacks: 0, metas: 0 }
    }
}

impl Export for FoldedFormat {
    fn begin(&mut self, origins: &[Origin], out: &mut Vec<u8>) {
        self.report.begin(origins, out);
    }

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>) {
        match record.kind {
            Kind::Message | Kind::Continuation => self.messages += 1,
            Kind::Stack => self.stacks += 1,
            Kind::Meta => self.metas += 1,
            Kind::Enter | Kind::Leave => {}
        }
        self.report.record(origin, record, out);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.report.finish(out);
    }

    fn untold(&self) -> Vec<String> {
        let cut = self.report.cut_calls();
        sentences([
            (self.messages, "message", "left out: call paths have none"),
            (self.stacks, "call stack", "left out: paths are those of calls"),
            (self.metas, "# line", "left out, losses and stalls among them"),
            (cut.unmatched, "leaving", "whose entering no record tells: left out"),
            (cut.unseen, "call", "whose leaving no record tells: ended with the call around"),
            (cut.still_open, "call", "still running at the end: ended with the thread or the trace"),
        ])
    }
}
