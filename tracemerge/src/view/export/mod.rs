//! Converts records into formats. Each format has its own file, and all formats implement one trait.

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

/// The number of buffered bytes that triggers a write.
const BUFFER: usize = 64 << 10;

/// A format of the output. Formatted records are appended to memory, which the caller writes from time to
/// time.
pub(crate) trait Export: Send + Sync {
    /// Begins the output, which may contain records of all these `origins`.
    fn begin(&mut self, origins: &[Origin], out: &mut Vec<u8>);

    /// Appends a record, which must be the next one in the order of the merge.
    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>);

    /// Ends the output, after the last record.
    fn finish(&mut self, out: &mut Vec<u8>);

    /// Appends a further part of the output after [`Export::finish`], for formats whose output after the last record
    /// may be larger than memory should hold. Returns whether there may be another part.
    fn further_part(&mut self, _out: &mut Vec<u8>) -> io::Result<bool> {
        Ok(false)
    }

    /// Returns a sentence for each type of information that was in the records and is not in the output, with its
    /// count. Call this after the output has ended.
    fn omissions(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether the output consists of the unchanged records of the traces.
    fn is_verbatim(&self) -> bool {
        false
    }

    /// Returns a function that copies this format, which must have begun, so that several threads can each format
    /// some of the records. Returns `None` if the output of a record depends on the records before it.
    fn copies(&self) -> Option<Copies<'_>> {
        None
    }

    /// Returns whether this format accepts calls as numbers, without their lines.
    fn takes_calls(&self) -> bool {
        false
    }

    /// Returns the counts of calls, if this format shows nothing else; otherwise `None`. The caller may add
    /// records to the counts instead of calling [`Export::record`].
    fn call_counts(&mut self) -> Option<&mut CallCounts> {
        None
    }

    /// Makes the offsets of all later records count from `first`, in nanoseconds of steady time. This function,
    /// [`Export::show_processes`] and [`Export::learn_thread`] are for traces that are followed, of which less is
    /// known at the beginning.
    fn begin_at(&mut self, _first: u64) {}

    /// Makes all later records name the process of their thread, because there are several processes.
    fn show_processes(&mut self) {}

    /// Sets the label of the thread of the origin with the index `_number`: the thread is new, or its name has become
    /// known.
    fn learn_thread(&mut self, _number: usize, _origin: &Origin, _label: String) {}

    /// Appends the records that the format has held back until later records come, as far as it can. Called for
    /// traces that are followed, because the next record may come much later.
    fn end_round(&mut self, _out: &mut Vec<u8>) {}

    /// Returns the whole output for the records so far, if each further record may change all of the output;
    /// otherwise `None`.
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
    /// The number of lines of all records so far.
    pub lines: u64,
}

impl<'a> Exporting<'a> {
    /// Makes a stage that writes records of `origins` to `out`, in this `format`, which must have begun.
    pub(crate) fn new(
        format: &'a mut dyn Export,
        origins: &'a [Origin],
        out: &'a mut dyn Write,
    ) -> Exporting<'a> {
        Exporting { format, origins, out, text: Vec::new(), lines: 0 }
    }

    /// Writes the remaining bytes, and returns the number of lines.
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
