//! Inserts names of functions after the addresses in lines of calls and call stacks, before another format gets the
//! lines.

use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::view::export::Export;
use crate::view::function_names::{SharedNames, lock};
use trace_format::line::{Kind, Line};

/// A format that inserts names of functions after the addresses in lines, and passes the lines to another format.
pub(crate) struct NamedLines {
    /// The format to which the lines with names are passed.
    format: Box<dyn Export>,
    names: SharedNames,
    /// For each origin, the index of its process in `names`; `None` if the origin has had no record yet.
    processes: Vec<Option<usize>>,
    /// A buffer for a payload with names; `line` is a buffer for the line with this payload.
    payload: Vec<u8>,
    line: Vec<u8>,
}

impl NamedLines {
    /// Creates a format that inserts the names of functions into lines and passes them to `format`.
    pub(crate) fn new(format: Box<dyn Export>, names: SharedNames) -> NamedLines {
        NamedLines { format, names, processes: Vec::new(), payload: Vec::new(), line: Vec::new() }
    }

    fn process(&mut self, number: usize, origin: &Origin) -> usize {
        if self.processes.len() <= number {
            self.processes.resize(number + 1, None);
        }
        *self.processes[number].get_or_insert_with(|| lock(&self.names).process(origin))
    }

    /// Writes the line of a record, with names after its addresses, into the buffer `line`. Returns false if the record
    /// has no address whose name is known.
    fn name(&mut self, process: usize, record: &RecordText<'_>) -> bool {
        let Some(line) = record.parsed().next() else { return false };
        self.payload.clear();
        if !lock(&self.names).write_named(process, record.ticks, &line, &mut self.payload) {
            return false;
        }
        self.line.clear();
        Line { payload: &self.payload, ..line }.write(&mut self.line);
        true
    }
}

impl Export for NamedLines {
    fn begin(&mut self, origins: &[Origin], out: &mut Vec<u8>) {
        self.format.begin(origins, out);
    }

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>) {
        let process = self.process(record.origin, origin);
        match record.kind {
            Kind::Enter | Kind::Leave | Kind::Stack if self.name(process, record) => {
                return self.format.record(origin, &RecordText { lines: &self.line, ..*record }, out);
            }
            Kind::Meta => {
                if let Some(line) = record.parsed().next() {
                    lock(&self.names).take_meta(process, line.payload);
                }
            }
            _ => {}
        }
        self.format.record(origin, record, out);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.format.finish(out);
    }

    fn end_round(&mut self, out: &mut Vec<u8>) {
        self.format.end_round(out);
    }

    fn begin_at(&mut self, first: u64) {
        self.format.begin_at(first);
    }

    fn show_processes(&mut self) {
        self.format.show_processes();
    }

    fn learn_thread(&mut self, number: usize, origin: &Origin, label: String) {
        self.format.learn_thread(number, origin, label);
    }
}
