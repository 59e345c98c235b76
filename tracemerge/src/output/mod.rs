//! The places where merged lines go: a file, a pipe, a pager; and the progress on the way there.

pub mod draft;
pub mod folder;
pub mod pager;
pub mod place;
pub mod progress;
pub mod redrawn;
pub mod sink;
pub mod target;
