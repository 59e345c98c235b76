//! What runs on the program's threads: each record, a thread's first one, and the ends of threads and of the
//! process.
//!
//! | file | what |
//! |---|---|
//! | `record` | a record on its way to the thread's ring; a thread's first record takes one |
//! | `site` | a call of `trace!`: on or off, captured or formatted |
//! | `scope` | functions entered and left |
//! | `dynamic` | records of sites that are made at run time, for bridges |
//! | `hooks` | the same, told by what compilers put into every function |
//! | `call_stack`, `chosen` | which calls the hooks record: by depth and duration, and by name |
//! | `stack_record` | call stacks |
//! | `lock_record` | what locks tell of those who wait for them |
//! | `decision` | whether the process traces: decided once, or anew by the program |
//! | `owner`, `guest` | what this copy of the library offers to others in the process, and how it joins one |
//! | `startup` | the start of a run |
//! | `fork` | a forked child, which becomes a run of its own |
//! | `own_ring` | where a thread keeps its ring, and how it gives it up |
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
