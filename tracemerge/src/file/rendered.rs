//! The interface of sources that are not text: their lines are rendered on request.

use std::fmt::Debug;

use trace_format::line::Kind;
use trace_format::raw::SiteNumbers;

use crate::file::lines::{lines_of, whole_line};
use crate::file::record_text::{RecordText, kind_of};
use crate::file::records::Records;

/// The properties of records that a view needs besides their lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordNeeds {
    /// The numbering of the sites of messages, if sites are wanted.
    pub sites: Option<SiteNumbers>,
    /// Whether the captured values of messages are wanted.
    pub values: bool,
    /// Whether calls are wanted as numbers instead of lines.
    pub calls: bool,
}

/// A source that can be read as lines of text, sorted by their ticks.
///
/// Several threads request slices of time one after the other, and a slice may be requested again. The same request
/// has the same result at any time: a source keeps no state between requests.
pub(crate) trait LineSource: Debug + Send + Sync {
    /// Returns the ticks of the first line and of the last; `None` if there is no line.
    fn period(&self) -> Option<(u64, u64)>;

    /// Returns the approximate number of bytes of the lines whose ticks are less than `ticks`. For greater `ticks`, the
    /// number is never less. The sizes of slices depend on this number and it is requested often, so it should be a
    /// lookup in an index.
    fn bytes_before(&self, ticks: u64) -> u64;

    /// Returns the number of bytes of all lines, or of the records from which they are made.
    fn size(&self) -> u64 {
        self.bytes_before(u64::MAX)
    }

    /// Returns text in which the source describes itself: the `#` lines at its beginning, the `# name` lines near its
    /// beginning and its end, and a `# clock` line at its end, if there is one.
    fn outline(&self) -> Vec<u8>;

    /// Calls `take` with the payload of each `#` line in the file, in order.
    fn each_meta(&self, _take: &mut dyn FnMut(&[u8])) {}

    /// Returns the ticks of each traced record, the last record first.
    fn newest_first(&self) -> Box<dyn Iterator<Item = u64> + '_>;

    /// Returns whether the source records the sites of messages.
    fn has_sites(&self) -> bool {
        false
    }

    /// Leaves out, in all later requests, calls that took fewer than `ticks` and have no records inside. Does nothing
    /// if the source cannot do this faster than the reader of its lines.
    fn leave_out_shorter_calls(&mut self, _ticks: u64) {}

    /// Appends the lines with ticks from `from` on to `out`, in the order of their ticks, each with its line feed. If
    /// `until` is given, appends only lines with smaller ticks. Reports each range of bytes of the file that are not
    /// records to `damaged` by its offset and its length. Each such range is reported once, with the slice that has the
    /// record before the range. The `# damaged` lines for these ranges are among the appended lines.
    ///
    /// The lines of one slice are in memory together, so there should not be many with the same ticks.
    fn lines(&self, from: u64, until: Option<u64>, out: &mut Vec<u8>, damaged: &mut dyn FnMut(usize, usize));

    /// Adds to `out` the records whose lines [`lines`](Self::lines) would append, with the `wanted` properties.
    /// Returns whether all ticks were in order.
    fn records(
        &self,
        (from, until): (u64, Option<u64>),
        _wanted: &RecordNeeds,
        out: &mut Records,
        damaged: &mut dyn FnMut(usize, usize),
    ) -> bool {
        let mut text = Vec::new();
        self.lines(from, until, &mut text, damaged);
        push_lines(&text, out);
        true
    }
}

/// Adds the records in `lines` to `out`. Their source is the one that was last set by
/// [`begin_source`](Records::begin_source).
pub(crate) fn push_lines(lines: &[u8], out: &mut Records) {
    let mut rest = lines;
    while !rest.is_empty() {
        let first = whole_line(rest).len();
        let more = lines_of(&rest[first..]).take_while(|line| kind_of(line) == Some(Kind::Continuation));
        let (count, bytes) = more.fold((1, first), |(count, bytes), line| (count + 1, bytes + line.len()));
        out.push_lines(&RecordText::of_lines(0, &rest[..bytes], count));
        rest = &rest[bytes..];
    }
}
