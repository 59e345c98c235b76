//! The part of the traces that a command wants, as far as it is known before the traces are found. It limits what is
//! read of data sets; of trace files, only the wanted bytes are read anyway.

use crate::time::point_of_time::When;

/// The part of the traces that a command wants. The default is everything.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "parquet"), allow(dead_code, reason = "without data sets nothing is left out"))]
pub(crate) struct Part {
    /// The time of the first wanted lines.
    pub since: Option<When>,
    /// The time of the first lines after the wanted part.
    pub until: Option<When>,
    /// The wanted processes; if the list is empty, all.
    pub processes: Vec<u32>,
    /// The ids of the wanted threads; if the list is empty, all. A thread is wanted, too, if its label contains one of
    /// the ids.
    pub threads: Vec<u64>,
}
