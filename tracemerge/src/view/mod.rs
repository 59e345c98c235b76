//! Views: the part of the traces that is shown, and the format in which it is shown. A plain merge is the
//! view of everything, unchanged.
//!
//! In the order of their use: [`request`] describes the user's request; [`plan`] finds the bytes that it
//! needs ([`byte_range`] finds a period in a file, [`breaks`] finds the places at which a file is out of
//! order); [`delivery`] merges and writes these bytes. On the way, [`lines_to_records`] joins lines into
//! records, [`select`] leaves some of them out, and [`export`] formats the others; [`batch`] is the part of
//! this work that the merging threads do.

pub(crate) mod batch;
pub(crate) mod breaks;
pub(crate) mod by_number;
pub(crate) mod byte_range;
pub(crate) mod call_counts;
pub(crate) mod calls;
pub(crate) mod delivery;
pub(crate) mod export;
pub(crate) mod function_names;
pub(crate) mod known_spans;
pub(crate) mod latency;
pub(crate) mod layout;
pub(crate) mod lines_to_records;
pub(crate) mod long_waits;
#[cfg(test)]
pub(crate) mod made_traces;
pub(crate) mod neighbours;
pub(crate) mod plan;
pub(crate) mod request;
pub(crate) mod rows;
pub(crate) mod select;
pub(crate) mod shape;
pub(crate) mod sites;
pub(crate) mod sorts;
pub(crate) mod span_message;
pub(crate) mod span_threads;
pub(crate) mod thread_by_thread;
pub(crate) mod thread_labels;
pub(crate) mod thread_states;
pub(crate) mod threads;
pub(crate) mod unmatched;
pub(crate) mod values;
pub(crate) mod wanted_threads;
pub(crate) mod work_time;
