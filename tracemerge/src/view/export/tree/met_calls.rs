//! The calls that a tree has met. If the tree shows none of them, a note tells the user which calls there were.

use std::collections::HashMap;

use crate::ui::messages::count;
use crate::view::function_names::{FunctionId, FunctionNames};

/// The maximum number of functions that a note names.
const NAMED_FUNCTIONS: usize = 3;

/// The calls that were met, for the note if the tree shows none of them.
#[derive(Debug, Default)]
pub(super) struct MetCalls {
    /// The number of all calls.
    pub all: u64,
    /// The number of calls of each function, counted until the first call that fits the user's selection.
    pub by_function: HashMap<FunctionId, u64>,
    /// Whether a call fits the user's selection, regardless of its duration.
    pub is_wanted: bool,
    /// Whether a call fits the user's selection and took long enough to be shown.
    pub is_shown: bool,
}

impl MetCalls {
    /// Adds a call of a function; `is_wanted` says whether it fits the user's selection.
    pub(super) fn add(&mut self, function: FunctionId, is_wanted: bool) {
        self.all += 1;
        self.is_wanted |= is_wanted;
        if !self.is_wanted {
            *self.by_function.entry(function).or_default() += 1;
        }
    }
}

/// Returns the functions that were called most, and how many others were called, for a sentence.
pub(super) fn named_functions(
    calls: impl Iterator<Item = (FunctionId, u64)>,
    names: &FunctionNames,
) -> String {
    let mut functions: Vec<(u64, &str)> =
        calls.map(|(function, calls)| (calls, &names.get(function).name[..])).collect();
    functions.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(other.1)));
    let named: Vec<&str> = functions.iter().take(NAMED_FUNCTIONS).map(|(_, name)| *name).collect();
    match (functions.len() - named.len(), &named[..]) {
        (0, [others @ .., last]) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        (0, named) => named.concat(),
        (more, named) => format!("{} and {}", named.join(", "), count(more as u64, "other")),
    }
}
