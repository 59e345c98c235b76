//! Converts records into output formats. Each format has its own file, and all formats implement the trait `Export`.

pub(crate) mod aspects;
pub(crate) mod call_lines;
pub(crate) mod chrome;
pub(crate) mod csv;
pub(crate) mod ctf;
pub(crate) mod events;
pub(crate) mod fields;
pub(crate) mod flamegraph;
pub(crate) mod flows;
pub(crate) mod folded;
pub(crate) mod format;
pub(crate) mod html;
pub(crate) mod in_words;
pub(crate) mod json;
pub(crate) mod jsonl;
pub(crate) mod locks;
pub(crate) mod named_lines;
pub(crate) mod paint;
pub(crate) mod parquet;
pub(crate) mod parts;
pub(crate) mod perfetto;
pub(crate) mod pids;
pub(crate) mod rates;
pub(crate) mod report;
pub(crate) mod show;
pub(crate) mod spans;
pub(crate) mod speedscope;
pub(crate) mod stats;
pub(crate) mod summary;
pub(crate) mod text;
pub(crate) mod time_column;
pub(crate) mod tree;
pub(crate) mod uftrace;

use std::io::{self, Write};

use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::view::call_counts::CallCounts;
use crate::view::lines_to_records::RecordSink;

/// The number of formatted bytes in memory at which they are written to the output.
const BUFFER: usize = 64 << 10;

/// A writer of an output format. It appends formatted records to a buffer, which the caller writes to the output from
/// time to time.
pub(crate) trait Export: Send + Sync {
    /// Appends the beginning of the output. Its records may come from all these `origins` (files and rings).
    fn begin(&mut self, origins: &[Origin], out: &mut Vec<u8>);

    /// Appends a record, which must be the next one in the order of the merge.
    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>);

    /// Appends the end of the output, after the last record.
    fn finish(&mut self, out: &mut Vec<u8>);

    /// Appends a further part of the output after [`Export::finish`], and returns whether there may be another part.
    /// For formats whose output after the last record may be too large for memory.
    ///
    /// # Errors
    /// Returns an error if the format cannot read the data that it has kept.
    fn further_part(&mut self, _out: &mut Vec<u8>) -> io::Result<bool> {
        Ok(false)
    }

    /// Returns sentences about information that was in the records and is not in the output: one for each type of
    /// information, with its count. Must be called after the output has ended.
    fn omissions(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether the output consists of the unchanged records of the traces.
    fn is_verbatim(&self) -> bool {
        false
    }

    /// Returns a function that copies this format, whose output must have begun, so that several threads can each
    /// format some of the records. Returns `None` if the output of a record depends on the records before it.
    fn copies(&self) -> Option<Copies<'_>> {
        None
    }

    /// Returns whether this format accepts the records of calls in numeric form, without the text of their lines.
    fn takes_calls(&self) -> bool {
        false
    }

    /// Returns the counts of calls if this format shows only these, otherwise `None`. The caller may add records to the
    /// counts instead of calling [`Export::record`].
    fn call_counts(&mut self) -> Option<&mut CallCounts> {
        None
    }

    /// Sets the time from which the offsets of all later records are measured: `first`, in nanoseconds of steady time.
    /// This function, [`Export::show_processes`] and [`Export::learn_thread`] serve to follow traces that are still
    /// written: when the output begins, little is known about such traces.
    fn begin_at(&mut self, _first: u64) {}

    /// Makes the format name the process with the thread in all later records, because there are several processes now.
    fn show_processes(&mut self) {}

    /// Sets the label of the thread to which the origin with the index `_number` belongs. Called when a thread is new,
    /// or when its name becomes known.
    fn learn_thread(&mut self, _number: usize, _origin: &Origin, _label: String) {}

    /// Appends records that the format has held back to wait for later records, as far as it can. Called while traces
    /// are followed, because the next record may come much later.
    fn end_round(&mut self, _out: &mut Vec<u8>) {}

    /// Returns the whole output for the records so far, if each new record may change all of the output (as in a table
    /// of sums); otherwise `None`.
    fn current_output(&self) -> Option<String> {
        None
    }
}

/// A function that copies a format.
pub(crate) type Copies<'a> = Box<dyn Fn() -> Box<dyn Export> + Sync + 'a>;

/// The stage that converts records into a format and writes them.
pub(crate) struct Exporting<'a> {
    format: &'a mut dyn Export,
    origins: &'a [Origin],
    out: &'a mut dyn Write,
    /// The formatted bytes that are not written yet.
    text: Vec<u8>,
    /// The number of lines of all records that were formatted so far.
    pub lines: u64,
}

impl<'a> Exporting<'a> {
    /// Creates the stage, which writes records of `origins` to `out` in the format `format`, which must have begun its
    /// output.
    pub(crate) fn new(
        format: &'a mut dyn Export,
        origins: &'a [Origin],
        out: &'a mut dyn Write,
    ) -> Exporting<'a> {
        Exporting { format, origins, out, text: Vec::new(), lines: 0 }
    }

    /// Writes the bytes that are still in memory. Returns the number of lines of all records.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written.
    pub(crate) fn finish(self) -> io::Result<u64> {
        self.out.write_all(&self.text)?;
        Ok(self.lines)
    }
}

impl RecordSink for Exporting<'_> {
    fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
        self.lines += record.line_count;
        self.format.record(&self.origins[record.origin], record, &mut self.text);
        if self.text.len() >= BUFFER {
            self.out.write_all(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }
}
