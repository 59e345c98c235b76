//! Views: the part of the traces that is shown, and the format in which it is shown. A plain merge is the
//! view of everything, unchanged.
//!
//! In the order of their use: [`request`] describes the user's request; [`plan`] finds the bytes that it
//! needs ([`byte_range`] finds a period in a file, [`breaks`] finds the places at which a file is out of
//! order); [`delivery`] merges and writes these bytes. On the way, [`lines_to_records`] joins lines into
//! records, [`select`] leaves some of them out, and [`export`] formats the others; [`batch`] is the part of
//! this work that the merging threads do.

pub mod batch;
pub mod breaks;
pub mod by_number;
pub mod byte_range;
pub mod call_counts;
pub mod calls;
pub mod delivery;
pub mod export;
pub mod function_names;
pub mod known_spans;
pub mod latency;
pub mod layout;
pub mod lines_to_records;
pub mod long_waits;
#[cfg(test)]
pub mod made_traces;
pub mod plan;
pub mod request;
pub mod rows;
pub mod select;
pub mod shape;
pub mod sites;
pub mod sorts;
pub mod span_message;
pub mod thread_by_thread;
pub mod thread_labels;
pub mod thread_states;
pub mod threads;
pub mod values;
pub mod wanted_threads;
pub mod work_time;
