//! Atomic variables through which threads and the flusher synchronize, with their states and their memory orderings.
//!
//! | file | contents | used by |
//! |---|---|---|
//! | `wake` | a flag that one thread sleeps on | both |
//! | `pool` | a pool of rings: the flusher puts rings into it, and threads take them | both |
//! | `detachment` | whether the thread and the flusher are done with a ring | both |
//! | `switch` | the word that says whether the process traces, and the steps that change it | any thread |
//! | `exclusion` | the mark of a thread that is inside the tracer's own code | any thread |

pub(crate) mod detachment;
pub(crate) mod exclusion;
pub(crate) mod pool;
pub(crate) mod switch;
pub(crate) mod wake;
