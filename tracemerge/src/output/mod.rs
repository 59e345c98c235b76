//! The destinations of merged lines: a file, a directory, a pipe or a pager; and the progress on the way there.

pub(crate) mod draft;
pub(crate) mod folder;
pub(crate) mod pager;
pub(crate) mod place;
pub(crate) mod progress;
pub(crate) mod redrawn;
#[cfg(feature = "parquet")]
pub(crate) mod set;
pub(crate) mod sink;
pub(crate) mod target;
