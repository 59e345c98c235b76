//! What the threads of a merge do with the lines of a view before these are written: each job's lines are put together to
//! records there, searched, and formatted as far as that can be done without knowing the records before.

use std::io;

use crate::input::inputs::Origin;
use crate::output::sink::{Batch, Sink};
use crate::view::export::Export;
use crate::view::records::{RecordText, Take, each_record};
use crate::view::select::{Matching, Selection};

/// A batch keeps at most this much memory from one job to the next.
const KEPT: usize = 8 << 20;

/// Records of one job on their way to the thread that writes: in a format already, or as they are.
#[derive(Debug)]
pub struct RecordBatch<'a, T> {
    matching: Matching<'a, T>,
    /// The number of the boot's first source among all.
    first: usize,
    /// The number of bytes that were merged into the batch.
    merged: usize,
}

impl<'a, T: Hold> RecordBatch<'a, T> {
    /// An empty batch of lines of a boot whose first source is number `first` of all, and of which `selection` wants some.
    pub fn new(selection: &'a Selection, first: usize, held: T) -> RecordBatch<'a, T> {
        RecordBatch { matching: Matching::new(selection, held), first, merged: 0 }
    }

    /// What the batch holds.
    pub fn held(&self) -> &T {
        self.matching.next()
    }
}

impl<T: Hold> Sink for RecordBatch<'_, T> {
    fn lines(&mut self, source: usize, lines: &[u8]) -> io::Result<()> {
        self.merged += lines.len();
        // A merge parts no record: its lines have one key.
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

/// The last stage of a job: it holds what is to be written.
pub trait Hold: Take + Send {
    /// Drops all that is held, and keeps the memory unless it is much.
    fn clear(&mut self);
}

/// Records as they will be written.
pub struct Formatted<'a> {
    format: Box<dyn Export>,
    origins: &'a [Origin],
    /// The bytes to be written.
    pub text: Vec<u8>,
    /// The number of lines in it, as they were in the traces.
    pub lines: u64,
}

impl<'a> Formatted<'a> {
    /// Formats records of `origins`.
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
        self.text.shrink_to(KEPT);
        self.lines = 0;
    }
}

/// Records as they stand in the traces, for a format in which they depend on those before them.
#[derive(Debug, Default)]
pub struct Unformatted {
    text: Vec<u8>,
    /// The origin of each record, and the offset in `text` where it ends.
    ends: Vec<(usize, usize)>,
}

impl Unformatted {
    /// The records, in order.
    pub fn records(&self) -> impl Iterator<Item = RecordText<'_>> {
        let mut start = 0;
        self.ends.iter().map(move |&(origin, end)| {
            let lines = &self.text[start..end];
            start = end;
            RecordText::new(origin, lines)
        })
    }
}

impl Take for Unformatted {
    fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
        self.text.extend_from_slice(record.lines);
        self.ends.push((record.origin, self.text.len()));
        Ok(())
    }
}

impl Hold for Unformatted {
    fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(KEPT);
        self.ends.clear();
    }
}
