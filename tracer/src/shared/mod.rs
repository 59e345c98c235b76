//! The state that traced threads and the flusher share.
//!
//! | file | contents |
//! |---|---|
//! | `run` | one process's life with tracing on: ready rings, the end |
//! | `requests` | requests to the flusher, and its answers |
//! | `process` | whether this process traces, and its run |
//! | `thread_name` | the name of a thread: the whole one, if it is known, or the part that the system keeps |
//! | `thread_ring` | a ring, and who has it |
//! | `sites` | the static behind each call of `trace!`, and the number that the flusher gives it |
//! | `definition` | sites that are made at run time |
//! | `pause`, `switched` | tracing that is paused and goes on; listeners that are called when it is switched |
//! | `stats` | the counters of the tracer in this process |
//! | `numbers` | numbers of spans and locks |
//! | `ringless_records` | the count of records that found no ring, until a file reports them |

pub(crate) mod definition;
pub(crate) mod numbers;
pub(crate) mod pause;
pub(crate) mod process;
pub(crate) mod requests;
pub(crate) mod ringless_records;
pub(crate) mod run;
pub(crate) mod sites;
pub(crate) mod stats;
pub(crate) mod switched;
pub(crate) mod thread_name;
pub(crate) mod thread_ring;
