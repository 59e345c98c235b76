//! Sources that are no text: their lines are made when they are asked for.

use std::fmt::Debug;

/// Something that can be read as lines of text, sorted by their ticks.
///
/// Slices of time are asked for one after the other, by several threads at once; a slice may be asked for again.
/// Answers may be repeated at any time: nothing is kept between them here.
pub trait Render: Debug + Send + Sync {
    /// The ticks of the first line and of the last; `None` where there is no line.
    fn span(&self) -> Option<(u64, u64)>;

    /// About how many bytes the lines take whose ticks are smaller than these. More ticks, no fewer bytes. Asked
    /// often, so it should be a look into an index; slices are cut by it.
    fn bytes_before(&self, ticks: u64) -> u64;

    /// Bytes of what the lines are made of.
    fn size(&self) -> u64 {
        self.bytes_before(u64::MAX)
    }

    /// What the source says of itself, as text: the `#` lines at its beginning, and some at its end, a `# clock` line
    /// among them if there is one.
    fn outline(&self) -> Vec<u8>;

    /// The ticks of what was traced, last first: of each record once.
    fn newest_first(&self) -> Box<dyn Iterator<Item = u64> + '_>;

    /// Appends the lines with ticks from `from` on, and smaller than `until` if that is given, to `out`: in order
    /// of their ticks, each with its line feed. What of the file is no record is told to `damaged`, by offset and
    /// number of bytes, once: with the slice that the record before it is in. `# damaged` lines are its own to write.
    ///
    /// The lines of one slice are in memory together, so there should not be many with the same ticks.
    fn lines(&self, from: u64, until: Option<u64>, out: &mut Vec<u8>, damaged: &mut dyn FnMut(usize, usize));
}
