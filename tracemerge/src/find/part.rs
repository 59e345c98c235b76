//! The part of the traces that a command wants, as far as it is known before they are found. Traces are files, of which
//! the wanted bytes are read anyway; of a data set, the rest is left out unread.

use crate::time::point_of_time::When;

/// The part of the traces that a command wants. The default is everything.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "parquet"), allow(dead_code, reason = "without data sets nothing is left out"))]
pub(crate) struct Part {
    /// The time of the first wanted lines.
    pub since: Option<When>,
    /// The time of the first lines that are not wanted any more.
    pub until: Option<When>,
    /// The wanted processes; if the list is empty, all.
    pub processes: Vec<u32>,
    /// The ids of the wanted threads; if the list is empty, all. A thread whose label has such a number is wanted, too.
    pub threads: Vec<u64>,
}
