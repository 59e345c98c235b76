//! The work that the merging threads do for a view before its lines are written: they join the lines of each
//! job into records, search these records, and format them if the format of a record does not depend on the
//! records before it.

use std::io;
use std::ops::Range;

use crate::file::record_text::RecordText;
use crate::file::records::Records;
use crate::input::inputs::Origin;
use crate::output::sink::{Batch, Sink};
use crate::view::export::Export;
use crate::view::lines_to_records::{RecordSink, each_record};
use crate::view::select::{Matching, Selection};

/// The maximum number of bytes of memory that a batch keeps from one job to the next.
const KEPT_BYTES: usize = 8 << 20;

/// The records of one merge job on their way to the thread that writes: already formatted, or unchanged from the
/// traces.
#[derive(Debug)]
pub(crate) struct RecordBatch<'a, T> {
    selection: &'a Selection,
    matching: Matching<'a, T>,
    /// The index of the boot's first source among the sources of all boots. The lines of this batch come from one boot.
    first: usize,
    /// The number of bytes of lines and records that were merged into the batch.
    merged: usize,
}

impl<'a, T: RecordHolder> RecordBatch<'a, T> {
    /// Makes an empty batch for lines of one boot. `first` is the index of the boot's first source among the sources of
    /// all boots. The batch puts the records that `selection` wants into `held`.
    pub(crate) fn new(selection: &'a Selection, first: usize, held: T) -> RecordBatch<'a, T> {
        RecordBatch { selection, matching: Matching::new(selection, held), first, merged: 0 }
    }

    /// Returns the holder of the wanted records.
    pub(crate) fn held(&self) -> &T {
        self.matching.next()
    }
}

impl<T: RecordHolder> Sink for RecordBatch<'_, T> {
    fn lines(&mut self, source: usize, lines: &[u8]) -> io::Result<()> {
        self.merged += lines.len();
        // The lines of a record have one key, so the merge passes them on together.
        each_record(self.first + source, lines, &mut self.matching)
    }

    fn records(&mut self, records: &Records, range: Range<usize>) -> io::Result<()> {
        self.merged += Records::bytes_of(range.len());
        if self.selection.filters_messages() {
            return pass_on(records, range, self.first, &mut self.matching);
        }
        self.matching.next_mut().records(records, range, self.first)
    }
}

/// Passes the records of `range` to `next`, each with the index of its origin: the index of its source plus `first`.
fn pass_on(
    records: &Records,
    range: Range<usize>,
    first: usize,
    next: &mut impl RecordSink,
) -> io::Result<()> {
    records
        .each(range)
        .try_for_each(|record| next.record(&RecordText { origin: first + record.origin, ..record }))
}

impl<T: RecordHolder> Batch for RecordBatch<'_, T> {
    fn clear(&mut self) {
        self.merged = 0;
        self.matching.next_mut().clear();
    }

    fn merged(&self) -> usize {
        self.merged
    }
}

/// A holder of records: the last stage of a merge job, which keeps the wanted records until they are written.
pub(crate) trait RecordHolder: RecordSink + Send {
    /// Drops all records. Keeps the records' memory, unless it is large.
    fn clear(&mut self);

    /// Stores the records of `range`, all of which are wanted. `first` is the index of the origin of source 0; it is
    /// added to the index of each record's source.
    ///
    /// # Errors
    /// The holder takes no more records.
    fn records(&mut self, records: &Records, range: Range<usize>, first: usize) -> io::Result<()>
    where
        Self: Sized,
    {
        pass_on(records, range, first, self)
    }
}

/// A holder that puts records into the format in which they will be written.
pub(crate) struct Formatted<'a> {
    format: Box<dyn Export>,
    origins: &'a [Origin],
    /// The formatted bytes to write.
    pub text: Vec<u8>,
    /// The number of lines in the traces from which the records come.
    pub lines: u64,
}

impl<'a> Formatted<'a> {
    /// Makes an empty holder that puts records into `format`. `origins` has the origins of the records, by their
    /// indexes.
    #[must_use]
    pub(crate) fn new(format: Box<dyn Export>, origins: &'a [Origin]) -> Formatted<'a> {
        Formatted { format, origins, text: Vec::new(), lines: 0 }
    }
}

impl RecordSink for Formatted<'_> {
    fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
        self.lines += record.line_count;
        self.format.record(&self.origins[record.origin], record, &mut self.text);
        Ok(())
    }
}

impl RecordHolder for Formatted<'_> {
    fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(KEPT_BYTES);
        self.lines = 0;
    }
}

/// A holder that keeps records as they are in the traces, for a format in which a record depends on the records before
/// it.
#[derive(Debug, Default)]
pub(crate) struct Unformatted {
    records: Records,
    with_calls: bool,
}

impl Unformatted {
    /// Makes an empty holder. If `with_calls` is set, records of entering and leaving a function are stored in compact
    /// form, with the number of their place, even if the traces have them as text.
    #[must_use]
    pub(crate) fn new(with_calls: bool) -> Unformatted {
        Unformatted { records: Records::default(), with_calls }
    }

    /// Returns the records, in order.
    pub(crate) fn records(&self) -> impl ExactSizeIterator<Item = RecordText<'_>> {
        self.records.each(0..self.records.len())
    }
}

impl RecordSink for Unformatted {
    fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
        self.records.push_record(record, self.with_calls);
        Ok(())
    }
}

impl RecordHolder for Unformatted {
    fn clear(&mut self) {
        self.records.clear();
    }

    fn records(&mut self, records: &Records, range: Range<usize>, first: usize) -> io::Result<()> {
        self.records.append(records, range, first);
        Ok(())
    }
}
