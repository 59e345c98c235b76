//! The subcommand `diff`: compares two traces thread by thread, by the shapes of messages, which are messages
//! without their numbers.
//!
//! Threads are paired by name and order of appearance, for their ids differ from run to run. A comparison
//! takes about 16 bytes of memory for each message.

mod compare;
mod input;
mod model;
mod text;

use std::io::{self, Write};
use std::path::PathBuf;

use crate::command::diff::input::Input;
use crate::command::diff::model::Comparison;
use crate::ui::error::Error;
use crate::ui::messages::Messages;
use crate::view::shape::Shapes;

/// The form in which a comparison is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing is written: the status says it all.
    Nothing,
    /// The comparison is written as tables for people.
    Text,
    /// The comparison is written as JSON for programs.
    Json,
}

/// Compares the traces `a` and `b`, each of which is an application, a trace or merged file, or a directory
/// of traces; writes the differences to standard output, with at most `rows` sorts of messages. Returns
/// whether all threads have the same messages in the same order, numbers aside.
///
/// # Errors
/// There is nothing to compare.
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
