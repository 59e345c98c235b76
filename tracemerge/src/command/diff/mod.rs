//! The subcommand `diff`: compares two traces thread by thread. Messages are compared by their *sorts*: if all files
//! record sites, messages of the same site have the same sort; otherwise messages whose texts without numbers are equal
//! have the same sort.
//!
//! A thread is paired with the thread of the same name, because thread ids differ from run to run. Several threads
//! with one name, except for numbers in it, are a pool, which is compared as one set of messages. A comparison takes
//! about 20 bytes of memory for each message.
//!
//! Calls of functions are compared by the names of the functions, on whatever threads they were.

mod call_counter;
mod common_messages;
mod compared_row;
mod fail_over;
mod functions;
mod input;
mod model;
mod noise;
mod pool;
mod text;
mod thread_pairs;

use std::path::PathBuf;
use std::sync::Arc;

use crate::command::diff::compared_row::ComparedRow;
pub(crate) use crate::command::diff::compared_row::columns_help;
pub(crate) use crate::command::diff::fail_over::Percent;
use crate::command::diff::functions::Functions;
use crate::command::diff::input::{Input, UnreadInput};
use crate::command::diff::model::Comparison;
use crate::input::site_catalog::SiteCatalog;
use crate::symbols::Settings;
use crate::ui::console::print;
use crate::ui::error::Error;
use crate::ui::messages::Messages;
use crate::view::rows::{RowForm, csv};
use crate::view::sorts::Sorts;

/// The form in which a comparison is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiffOutput {
    /// No output: the exit status is the whole result.
    Nothing,
    /// Tables for people, or one of the forms for programs.
    Shown(RowForm),
}

/// The user's options for a comparison.
#[derive(Clone, Debug)]
pub(crate) struct DiffOptions {
    /// The form of the output.
    pub output: DiffOutput,
    /// The maximum number of sorts of messages, and of functions, that are shown.
    pub rows: usize,
    /// The greatest slowdown with which the comparison still succeeds. If it is `None`, the comparison succeeds if the
    /// messages are the same.
    pub fail_over: Option<Percent>,
    /// The way in which names of functions are looked up.
    pub symbols: Settings,
}

/// Compares the traces `a` and `b`, and writes the differences to standard output. Each of `a` and `b` is an
/// application, a trace, a merged file, or a directory of traces.
///
/// Returns whether the comparison succeeds. Without a limit for slowdowns, it succeeds if all threads have the same
/// messages: single threads in the same order, pools in any order. With a limit, it succeeds if no function and no
/// message became slower by more than the limit.
///
/// # Errors
/// If there is nothing to compare, or if standard output does not accept the output.
pub(crate) fn diff(
    a: PathBuf,
    b: PathBuf,
    options: &DiffOptions,
    messages: &mut Messages,
) -> Result<bool, Error> {
    let catalog = Arc::new(SiteCatalog::default());
    let numbers = SiteCatalog::numbers(&catalog);
    let a = UnreadInput::open(a, &numbers, messages)?;
    let b = UnreadInput::open(b, &numbers, messages)?;
    let by_site = are_by_site(&a, &b, messages);
    let mut sorts = Sorts::new(catalog);
    let a = Input::read(a, by_site, &mut sorts, messages)?;
    let b = Input::read(b, by_site, &mut sorts, messages)?;
    let compared = thread_pairs::compare(&a, &b);
    if options.output == DiffOutput::Nothing && options.fail_over.is_none() {
        return Ok(compared.is_same());
    }
    let functions = Functions::of(&a, &b, &options.symbols, messages);
    let comparison = Comparison::of(&a, &b, &compared, (&sorts, by_site), functions, options);
    if let DiffOutput::Shown(form) = options.output {
        let text = match form {
            RowForm { json: true, .. } => comparison.to_json()?,
            RowForm { csv: true, .. } => csv(&ComparedRow::of(&comparison)),
            RowForm { .. } => text::of(&comparison),
        };
        print(form.content(), text.as_bytes())?;
    }
    let Some(found) = comparison.fail_over else { return Ok(compared.is_same()) };
    if found.is_empty() {
        return Err(Error::plain(
            "--fail-over has nothing to compare: no function was called, and no message was repeated, six times or \
             more in each trace",
        ));
    }
    let sentence = found.sentence();
    if let Some(sentence) = &sentence {
        messages.note(sentence);
    }
    Ok(sentence.is_none())
}

/// Returns whether sorts of messages are distinguished by sites: if all files record sites. If only some files do,
/// their messages would have no counterparts in the other files, so all sites are ignored.
fn are_by_site(a: &UnreadInput, b: &UnreadInput, messages: &Messages) -> bool {
    let (told, all) = [a, b]
        .map(UnreadInput::count_with_sites)
        .iter()
        .fold((0, 0), |(told, all), more| (told + more.0, all + more.1));
    if told > 0 && told < all {
        messages.note(format_args!(
            "{} of {all} files do not record where messages come from; the messages of all files are compared by their text",
            all - told
        ));
    }
    told == all
}
