//! The interface of sources that are no text: their lines are rendered when they are asked for.

use std::fmt::Debug;

use trace_format::raw::{Marker, Raw};

/// What each message of a source begins with on its way through a merge, where that is asked for.
#[derive(Clone, Debug)]
pub struct Marks {
    /// The maker of the [marks](trace_format::mark), which tell the sites of messages.
    pub marker: Marker,
    /// Whether the captured values of a message stand behind its mark, too; see
    /// [`crate::file::marked_values`].
    pub with_values: bool,
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

    /// The raw file that is rendered, where the source is one and nothing else: its calls can be read without lines.
    fn raw(&self) -> Option<Raw<'_>> {
        None
    }

    /// The ticks of each record that was traced, the last record first.
    fn newest_first(&self) -> Box<dyn Iterator<Item = u64> + '_>;

    /// Has each message from here on begin with a [mark](trace_format::mark) of its site, where the source
    /// tells sites, and with its values if that is asked for. Returns whether it does.
    fn mark_sites(&mut self, _marks: &Marks) -> bool {
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
}
