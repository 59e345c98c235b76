//! Where merged lines go: a file, a pipe, a pager; and how far that is.

pub mod draft;
pub mod pager;
pub mod progress;
pub mod sink;
pub mod target;
