//! What is shown of the traces, and how. A plain merge is the view of everything, as it stands in the traces.
//!
//! In the order of their use: [`request`] is what is asked for, [`plan`] the bytes that this wants ([`range`] finds where a
//! range of time lies in a file, [`breaks`] where a file is not in order), [`delivery`] has these merged and written. On
//! that way [`records`] puts lines together, [`select`] leaves some out, [`export`] formats; [`batch`] is what of it the
//! threads of the merge do.

pub mod batch;
pub mod breaks;
pub mod delivery;
pub mod export;
pub mod plan;
pub mod range;
pub mod records;
pub mod request;
pub mod select;
