//! Words in memory by which threads and the flusher meet: each an atomic, with its states and orderings
//! beside it.
//!
//! | file | what | who runs it |
//! |---|---|---|
//! | `wake` | a flag that one thread sleeps on | both |
//! | `pool` | places from which threads take what the flusher has put there | both |
//! | `parting` | who of the two that know a ring has done with it | both |
//! | `switch` | the word that says whether the process traces, and who may change it | any thread |
//! | `exclusion` | the mark of a thread that is inside the tracer's own code | any thread |

pub(crate) mod exclusion;
pub(crate) mod parting;
pub(crate) mod pool;
pub(crate) mod switch;
pub(crate) mod wake;
