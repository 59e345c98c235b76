//! What traced threads and the flusher share.
//!
//! | file | what |
//! |---|---|
//! | `run` | one process's life with tracing on: ready rings, the end |
//! | `requests` | what the flusher is asked for, and its answers |
//! | `process` | whether this process traces, and its run |
//! | `thread_name` | the name of a thread, longer than the system's where that can be had |
//! | `thread_ring` | a ring, and who has it |
//! | `sites` | the static behind each call of `trace!`, and the number that the flusher gives it |
//! | `definition` | sites that are made at run time |
//! | `pause`, `switched` | tracing that is paused and goes on; who is told when it is switched |
//! | `stats` | what the tracer has done so far in this process |
//! | `numbers` | numbers of spans and locks |
//! | `unplaced` | records that found no ring, until a file tells of them |

pub(crate) mod definition;
pub(crate) mod numbers;
pub(crate) mod pause;
pub(crate) mod process;
pub(crate) mod requests;
pub(crate) mod run;
pub(crate) mod sites;
pub(crate) mod stats;
pub(crate) mod switched;
pub(crate) mod thread_name;
pub(crate) mod thread_ring;
pub(crate) mod unplaced;
