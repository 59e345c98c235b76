//! What runs on the program's threads: each record, a thread's first one, and the ends of threads and of the
//! process.
//!
//! | file | what |
//! |---|---|
//! | `record` | a record on its way to the thread's ring; a thread's first record takes one |
//! | `site` | a call of `trace!`: on or off, captured or formatted |
//! | `startup` | whether the process traces; starts and ends runs |
//! | `own_ring` | where a thread keeps its ring, and how it gives it up |
//! | `exit` | the end of the process |
//! | `panic` | the snapshot of a program that panics |

mod exit;
mod own_ring;
mod panic;
pub(crate) mod record;
mod site;
pub(crate) mod startup;
