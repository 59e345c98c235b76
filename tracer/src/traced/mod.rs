//! The code on the program's threads: each record, a thread's first one, and the ends of threads and of the process.
//!
//! | file | contents |
//! |---|---|
//! | `record` | a record on its way to the thread's ring, which the thread takes at its first record |
//! | `site` | a call of `trace!`: on or off, captured or formatted |
//! | `scope` | functions entered and left |
//! | `dynamic` | records of sites that are made at run time, for bridges |
//! | `hooks` | functions entered and left, as reported by the hooks that compilers put into every function |
//! | `call_stack`, `chosen` | the calls that the hooks record: chosen by depth and duration, and by name |
//! | `stack_record` | call stacks |
//! | `lock_record` | the records of waits for locks |
//! | `decision` | whether the process traces: decided once, or anew by the program |
//! | `owner`, `guest` | this copy's interface for other copies of the library, and how it joins another one |
//! | `startup` | the start of a run |
//! | `fork` | a forked child, which becomes a run of its own |
//! | `own_ring` | the variables in which a thread keeps its ring, and how it gives the ring up |
//! | `exit` | the end of the process |
//! | `panic` | a panic: its record, whether it ends the process, the snapshot of flight recorders |
//! | `signals` | a signal that ends the process, on request |

mod call_stack;
mod chosen;
pub(crate) mod decision;
pub mod dynamic;
mod exit;
mod fork;
mod guest;
pub mod hooks;
pub(crate) mod lock_record;
mod own_ring;
mod owner;
mod panic;
pub(crate) mod record;
pub(crate) mod scope;
pub(crate) mod signals;
mod site;
pub(crate) mod stack_record;
mod startup;
