//! The interface of sources that are no text: their lines are rendered when they are asked for.

use std::fmt::Debug;

use trace_format::line::Kind;
use trace_format::raw::SiteNumbers;

use crate::file::lines::{lines_of, whole_line};
use crate::file::record_text::{RecordText, kind_of};
use crate::file::records::Records;

/// What a view wants to know of records besides their lines.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// What numbers the sites of messages, if these are wanted.
    pub sites: Option<SiteNumbers>,
    /// Whether the captured values of messages are wanted.
    pub values: bool,
    /// Whether calls are wanted as numbers, and not as lines.
    pub calls: bool,
}

/// A source that can be read as lines of text, sorted by their ticks.
///
/// Several threads ask for slices of time one after the other, and a slice may be asked for again. The same
/// question has the same answer at any time: nothing is kept between two of them.
pub trait LineSource: Debug + Send + Sync {
    /// The ticks of the first line and of the last; `None` where there is no line.
    fn period(&self) -> Option<(u64, u64)>;

    /// About how many bytes the lines take that have smaller `ticks`. More ticks give no fewer bytes. Slices
    /// are made by this number and it is asked for often, so it should be a look into an index.
    fn bytes_before(&self, ticks: u64) -> u64;

    /// The number of bytes that all lines take, or that they are made of.
    fn size(&self) -> u64 {
        self.bytes_before(u64::MAX)
    }

    /// Text in which the source describes itself: the `#` lines at its beginning, and some at its end, a
    /// `# clock` line among them if there is one.
    fn outline(&self) -> Vec<u8>;

    /// Calls `take` with the payload of each `#` line that stands in the file, in order.
    fn each_meta(&self, _take: &mut dyn FnMut(&[u8])) {}

    /// The ticks of each record that was traced, the last record first.
    fn newest_first(&self) -> Box<dyn Iterator<Item = u64> + '_>;

    /// Returns whether the source has the sites of messages.
    fn has_sites(&self) -> bool {
        false
    }

    /// Has calls left out from here on that have taken fewer than `ticks` and have nothing inside, where the source can do
    /// so sooner than who reads its lines.
    fn leave_out_shorter_calls(&mut self, _ticks: u64) {}

    /// Appends the lines with ticks from `from` on, and smaller than `until` if that is given, to `out`: in
    /// order of their ticks, each with its line feed. Bytes of the file that are no record are reported to
    /// `damaged` by offset and number, once: with the slice that has the record before them. Their
    /// `# damaged` lines are among the appended ones.
    ///
    /// The lines of one slice are in memory together, so there should not be many with the same ticks.
    fn lines(&self, from: u64, until: Option<u64>, out: &mut Vec<u8>, damaged: &mut dyn FnMut(usize, usize));

    /// Adds the records whose lines [`lines`](Self::lines) would append to `out`, with what is `wanted` of them. Returns
    /// whether all ticks were in order.
    fn records(
        &self,
        (from, until): (u64, Option<u64>),
        _wanted: &Wanted,
        out: &mut Records,
        damaged: &mut dyn FnMut(usize, usize),
    ) -> bool {
        let mut text = Vec::new();
        self.lines(from, until, &mut text, damaged);
        push_lines(&text, out);
        true
    }
}

/// Adds the records that some lines have, which are of the source that was begun last.
pub fn push_lines(lines: &[u8], out: &mut Records) {
    let mut rest = lines;
    while !rest.is_empty() {
        let first = whole_line(rest).len();
        let more = lines_of(&rest[first..]).take_while(|line| kind_of(line) == Some(Kind::Continuation));
        let (count, bytes) = more.fold((1, first), |(count, bytes), line| (count + 1, bytes + line.len()));
        out.push_lines(&RecordText::of_lines(0, &rest[..bytes], count));
        rest = &rest[bytes..];
    }
}
