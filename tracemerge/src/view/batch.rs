//! The work that the threads of a merge do for a view before its lines are written: they join the lines of
//! each job to records, search these, and format them where that can be done without knowing the records
//! before.

use std::io;

use trace_format::line::{Kind, Ticks};

use crate::input::inputs::Origin;
use crate::output::sink::{Batch, Sink};
use crate::view::export::Export;
use crate::view::lines_to_records::{RecordText, Take, each_record};
use crate::view::select::{Matching, Selection};

/// The number of bytes of memory that a batch keeps at most from one job to the next.
const KEPT_BYTES: usize = 8 << 20;

/// The records of one job on their way to the thread that writes: formatted already, or as they stand in the
/// traces.
#[derive(Debug)]
pub struct RecordBatch<'a, T> {
    matching: Matching<'a, T>,
    /// The number of the boot's first source among all sources.
    first: usize,
    /// The number of bytes that were merged into the batch.
    merged: usize,
}

impl<'a, T: Hold> RecordBatch<'a, T> {
    /// Makes an empty batch for lines of a boot whose first source has the number `first` among all sources.
    /// Records that `selection` wants go to the last stage, `held`.
    pub fn new(selection: &'a Selection, first: usize, held: T) -> RecordBatch<'a, T> {
        RecordBatch { matching: Matching::new(selection, held), first, merged: 0 }
    }

    /// Returns the last stage, which holds the wanted records.
    pub fn held(&self) -> &T {
        self.matching.next()
    }
}

impl<T: Hold> Sink for RecordBatch<'_, T> {
    fn lines(&mut self, source: usize, lines: &[u8]) -> io::Result<()> {
        self.merged += lines.len();
        // The lines of a record have one key, so the merge passes them on together.
        each_record(self.first + source, lines, &mut self.matching)
    }
}

impl<T: Hold> Batch for RecordBatch<'_, T> {
    fn clear(&mut self) {
        self.merged = 0;
        self.matching.next_mut().clear();
    }

    fn merged(&self) -> usize {
        self.merged
    }
}

/// The last stage of a job, which holds the records that are to be written.
pub trait Hold: Take + Send {
    /// Drops all records, and keeps the memory unless it is much.
    fn clear(&mut self);
}

/// Records in the format in which they will be written.
pub struct Formatted<'a> {
    format: Box<dyn Export>,
    origins: &'a [Origin],
    /// The bytes that are to be written.
    pub text: Vec<u8>,
    /// The number of lines that the records have in the traces.
    pub lines: u64,
}

impl<'a> Formatted<'a> {
    /// Makes an empty stage that puts records of `origins` into this `format`.
    #[must_use]
    pub fn new(format: Box<dyn Export>, origins: &'a [Origin]) -> Formatted<'a> {
        Formatted { format, origins, text: Vec::new(), lines: 0 }
    }
}

impl Take for Formatted<'_> {
    fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
        self.lines += record.line_count;
        self.format.record(&self.origins[record.origin], record, &mut self.text);
        Ok(())
    }
}

impl Hold for Formatted<'_> {
    fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(KEPT_BYTES);
        self.lines = 0;
    }
}

/// Records as they stand in the traces, for a format in which a record depends on those before it.
#[derive(Debug, Default)]
pub struct Unformatted {
    /// The lines of each record, and its values behind them.
    bytes: Vec<u8>,
    records: Vec<Unbound>,
}

/// A record without its bytes. There are many at once, so it is small.
#[derive(Debug)]
struct Unbound {
    origin: usize,
    ticks: Ticks,
    line_count: u64,
    /// Where its lines end among the bytes of all records, and where its values do.
    lines_end: usize,
    end: usize,
    site: u32,
    kind: Kind,
    has_values: bool,
}

impl Unformatted {
    /// Returns the records, in order.
    pub fn records(&self) -> impl ExactSizeIterator<Item = RecordText<'_>> {
        let mut start = 0;
        self.records.iter().map(move |record| {
            let &Unbound { origin, ticks, line_count, lines_end, end, site, kind, has_values } = record;
            let lines = &self.bytes[start..lines_end];
            let values = has_values.then(|| &self.bytes[lines_end..end]);
            start = end;
            RecordText { origin, ticks, kind, lines, line_count, site, values }
        })
    }
}

impl Take for Unformatted {
    fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
        let &RecordText { origin, ticks, kind, lines, line_count, site, values } = record;
        self.bytes.extend_from_slice(lines);
        let lines_end = self.bytes.len();
        self.bytes.extend_from_slice(values.unwrap_or_default());
        let (end, has_values) = (self.bytes.len(), values.is_some());
        self.records.push(Unbound { origin, ticks, line_count, lines_end, end, site, kind, has_values });
        Ok(())
    }
}

impl Hold for Unformatted {
    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.records.clear();
    }
}
