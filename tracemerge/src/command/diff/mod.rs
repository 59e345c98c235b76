//! The subcommand `diff`: two traces compared thread by thread, by what messages look like without their numbers.
//!
//! Threads are paired by name and order of appearance, for their ids differ from run to run. Takes about 16 bytes of
//! memory for each message.

mod compare;
mod input;
mod latency;
mod model;
mod shape;
mod text;

use std::io::{self, Write};
use std::path::PathBuf;

use crate::command::diff::input::Input;
use crate::command::diff::model::Comparison;
use crate::command::diff::shape::Shapes;
use crate::ui::error::Error;
use crate::ui::messages::Messages;

/// What is written of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing: the status says it all.
    Nothing,
    /// Tables for people.
    Text,
    /// JSON for programs.
    Json,
}

/// Compares the traces `a` and `b`, each an application, a trace or merged file, or a directory of traces; writes what
/// differs to standard output, of the messages at most `rows` sorts. Returns whether all threads have the same messages
/// in the same order, numbers aside.
///
/// # Errors
/// Where there is nothing to compare.
pub fn diff(a: PathBuf, b: PathBuf, told: Told, rows: usize, messages: &mut Messages) -> Result<bool, Error> {
    let mut shapes = Shapes::default();
    let a = Input::read(a, &mut shapes, messages)?;
    let b = Input::read(b, &mut shapes, messages)?;
    let pairs = compare::pairs(&a, &b);
    let compared = || Comparison::of(&a, &b, &pairs, &shapes, rows);
    let text = match told {
        Told::Nothing => String::new(),
        Told::Text => text::of(&compared()),
        Told::Json => compared().to_json()?,
    };
    // Nobody may be reading; the status says it all.
    let _ = io::stdout().lock().write_all(text.as_bytes());
    Ok(pairs.iter().all(compare::Pair::is_same))
}
