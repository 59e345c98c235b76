//! `cargo tracer`: builds a workspace of Rust whose functions are all traced, without a change of its source.
//!
//! The way of a build: `arguments` says what is wanted; `toolchain` what compiler there is, and by a small program whether
//! its code can be given hooks; `build` has Cargo do what it was asked for, with this program as the compiler's *wrapper*,
//! which `wrapper` is: it adds to the compiler's arguments what makes hooks, or has `listed` give
//! single functions none, or room for them. What Cargo runs then, `runner` runs with tracing on, and has a view of its trace
//! shown.

mod arguments;
mod build;
mod listed;
mod runner;
mod toolchain;
mod wrapper;

use std::ffi::OsString;

use crate::ui::console::{Content, print};
use crate::ui::messages::{Messages, speak_as};

/// The exit status where something is wrong that has nothing to do with the user's program.
const FAILED: u8 = 101;

/// Does what `args` say, the first of which is this program's own name; returns the exit status. `tracemerge` runs that
/// command with arguments.
pub fn main(args: impl IntoIterator<Item = OsString>, tracemerge: impl FnOnce(Vec<OsString>) -> u8) -> u8 {
    // Whoever it is that has started this process, the user has called that.
    speak_as("cargo tracer");
    let mut args: Vec<OsString> = args.into_iter().skip(1).collect();
    // Cargo passes the name of its command on.
    let is_command = args.first().is_some_and(|word| word == "tracer");
    if !is_command && wrapper::is_wanted() {
        return wrapper::compile(args);
    }
    args.drain(..usize::from(is_command));
    if args.first().is_some_and(|word| word == runner::WORD) {
        return runner::run(args.into_iter().skip(1), tracemerge);
    }
    match arguments::read(args) {
        Ok(arguments::Wanted::Help) => printed(arguments::HELP),
        Ok(arguments::Wanted::Build(request)) => build::build(&request),
        Err(error) => {
            Messages::new(false).error(error);
            2
        }
    }
}

/// Prints help; returns the exit status.
fn printed(help: &str) -> u8 {
    match print(Content::Text, help.as_bytes()) {
        Ok(()) => 0,
        Err(error) => {
            Messages::new(false).error(error);
            2
        }
    }
}
