//! Views: the part of the traces that is shown, and the format in which it is shown. A plain merge is the
//! view of everything, as it stands in the traces.
//!
//! In the order of their use: [`request`] says what the user asks for; [`plan`] finds the bytes that are
//! wanted for that ([`byte_range`] finds a period in a file, [`breaks`] finds the places where a file is not
//! in order); [`delivery`] has these bytes merged and written. On the way, [`lines_to_records`] joins lines to
//! records, [`select`] leaves some of them out, and [`export`] formats the rest; [`batch`] is the share of
//! this work that the threads of the merge do.

pub mod batch;
pub mod breaks;
pub mod by_number;
pub mod byte_range;
pub mod call_counts;
pub mod calls;
pub mod delivery;
pub mod export;
pub mod function_names;
pub mod latency;
pub mod lines_to_records;
#[cfg(test)]
pub mod made_traces;
pub mod plan;
pub mod request;
pub mod select;
pub mod shape;
pub mod sites;
pub mod sorts;
pub mod thread_by_thread;
pub mod thread_labels;
pub mod values;
pub mod wanted_threads;
