//! `cargo tracer`: builds a Rust workspace so that all its functions are traced, without a change of its source.
//!
//! The steps of a build: `arguments` reads the request; `configuration` asks Cargo for the user's settings; `toolchain`
//! finds the compiler and compiles a small program to test whether the compiler can add hooks; `build` runs Cargo with
//! this program as the compiler's *wrapper*, the program that Cargo calls in place of the compiler. `wrapper` is what
//! this program does then: it adds the arguments for hooks to the compiler's arguments, or calls `listed` if single
//! functions are to have no hooks, or only room for hooks. `runner` runs the built program with tracing on, and has a
//! view of the program's trace shown.

mod arguments;
mod build;
mod configuration;
mod listed;
mod runner;
mod toolchain;
mod wrapper;

use std::ffi::OsString;

use crate::os::environment::replace_missing_temporary_directory;
use crate::ui::console::{Content, print};
use crate::ui::messages::{Messages, set_program_name};

/// The exit status if `cargo tracer` itself fails to build or to run the user's program.
const FAILED: u8 = 101;

/// Executes `args`, the first of which is this program's own name; returns the exit status. `tracemerge` is a function
/// that runs the command `tracemerge` with the given arguments.
pub(crate) fn main(
    args: impl IntoIterator<Item = OsString>,
    tracemerge: impl FnOnce(Vec<OsString>) -> u8,
) -> u8 {
    // The user has called `cargo tracer`, whichever program started this process.
    set_program_name("cargo tracer");
    replace_missing_temporary_directory();
    let mut args: Vec<OsString> = args.into_iter().skip(1).collect();
    // Cargo passes the name of its command on, `tracer`.
    let is_command = args.first().is_some_and(|word| word == "tracer");
    if !is_command && wrapper::is_wanted() {
        return wrapper::compile(args);
    }
    args.drain(..usize::from(is_command));
    if args.first().is_some_and(|word| word == runner::WORD) {
        return runner::run(args.into_iter().skip(1), tracemerge);
    }
    if args.first().is_some_and(|word| word == runner::VIEW) {
        args[0] = "tracemerge".into();
        return tracemerge(args);
    }
    match arguments::read(args) {
        Ok(arguments::CargoTask::Help) => printed(arguments::HELP),
        Ok(arguments::CargoTask::List(words)) => match build::describe(&words) {
            Ok(text) => printed(&text),
            Err(error) => {
                Messages::new(false).error(error);
                FAILED
            }
        },
        Ok(arguments::CargoTask::Build(request)) => build::build(&request),
        Err(error) => {
            Messages::new(false).error(error);
            2
        }
    }
}

/// Prints the text `help`; returns the exit status.
fn printed(help: &str) -> u8 {
    match print(Content::Text, help.as_bytes()) {
        Ok(()) => 0,
        Err(error) => {
            Messages::new(false).error(error);
            2
        }
    }
}
