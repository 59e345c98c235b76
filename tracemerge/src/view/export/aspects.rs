//! The details of messages, calls and functions that some formats omit, and how often they occurred. Each format lists
//! the details that it cannot express; the inventory counts them.

use trace_format::record::Flags;
use trace_format::sites::Level;

use crate::view::export::events::{Inventory, TypedSite, sentences};
use crate::view::function_names::CallInfo;

/// A detail of messages, calls or functions that some formats cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aspect {
    /// The level of messages.
    Levels,
    /// The target of messages.
    Targets,
    /// The module path of messages, if it differs from the target.
    Modules,
    /// The place of messages in the source: the file and the line.
    Places,
    /// The functions that contain the messages.
    Functions,
    /// The names and types of the values of messages, if the output has only the text.
    Values,
    /// The text of messages, if the output has only the template and the values.
    Texts,
    /// The file and the line of functions.
    FunctionPlaces,
    /// The ids of spans.
    Spans,
    /// The end of a span, or its cancellation, as told by a leave record.
    Ends,
    /// The unwinding of the stack by a panic.
    Unwinding,
    /// The places from which functions were called.
    CallSites,
}

/// The counts of calls with additional details.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallDetailCounts {
    /// The count of calls that belong to a span.
    spans: u64,
    /// The count of leave records that ended a span.
    ends: u64,
    /// The count of leave records that were written because a panic unwound the stack.
    unwinding: u64,
    /// The count of calls with a known call site.
    call_sites: u64,
}

impl CallDetailCounts {
    /// Counts the details of an enter record: that its call belongs to a span, and that its call site is known.
    #[inline]
    pub(crate) fn entered(&mut self, call_info: &CallInfo) {
        self.spans += u64::from(call_info.span.is_some());
        self.call_sites += u64::from(call_info.called.from.is_some());
    }

    /// Counts the details of a leave record: that it ended a span, and that a panic unwound the stack.
    #[inline]
    pub(crate) fn left(&mut self, call_info: &CallInfo) {
        self.ends += u64::from(call_info.left.has(Flags::ENDED) || call_info.left.has(Flags::CANCELLED));
        self.unwinding += u64::from(call_info.left.has(Flags::UNWINDING));
    }
}

impl Aspect {
    /// Returns two parts of a sentence about an omitted detail: the noun that is counted, and the phrase after it.
    #[must_use]
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Aspect::Levels => ("message", "with a level: the level is omitted"),
            Aspect::Targets => ("message", "with a target: the target is omitted"),
            Aspect::Modules => ("message", "with a module path besides the target: the path is omitted"),
            Aspect::Places => ("message", "with a place in the source: the place is omitted"),
            Aspect::Functions => ("message", "with a known function: the function is omitted"),
            Aspect::Values => {
                ("message", "with values: these are in the text, without their names and types")
            }
            Aspect::Texts => ("message", "with values: the template and the values replace the text"),
            Aspect::FunctionPlaces => ("function", "with a place in the source: the place is omitted"),
            Aspect::Spans => ("call", "of a span: the id of the span is omitted"),
            Aspect::Ends => ("leave record", "with the end of a span: the end is omitted"),
            Aspect::Unwinding => ("leave record", "because of a panic: the panic is omitted"),
            Aspect::CallSites => ("call", "with a known place in the source: the place is omitted"),
        }
    }
}

/// Returns a sentence about each omitted detail whose count is not 0.
pub(crate) fn omissions(numbers: impl IntoIterator<Item = (u64, Aspect)>) -> Vec<String> {
    sentences(numbers.into_iter().map(|(number, aspect)| {
        let (noun, rest) = aspect.words();
        (number, noun, rest)
    }))
}

impl Inventory {
    /// Returns a sentence, with a count, about each of the `aspects` that occurred: these are omitted from the output.
    #[must_use]
    pub(crate) fn without(&self, aspects: &[Aspect]) -> Vec<String> {
        omissions(aspects.iter().map(|aspect| (self.number_with(*aspect), *aspect)))
    }

    /// Returns the number of messages, calls, leave records or functions that have the detail `aspect`.
    fn number_with(&self, aspect: Aspect) -> u64 {
        let messages = |has: fn(&TypedSite) -> bool| {
            let sites = self.sites.iter().flatten().filter(|known| has(known));
            sites.map(|known| known.messages).sum()
        };
        match aspect {
            Aspect::Levels => messages(|known| known.site.level != Level::None),
            Aspect::Targets => messages(|known| !known.target().is_empty()),
            Aspect::Modules => {
                messages(|known| known.target() != known.site.module && !known.site.module.is_empty())
            }
            Aspect::Places => messages(|known| !known.site.file.is_empty()),
            Aspect::Functions => messages(|known| !known.site.function.is_empty()),
            Aspect::Values | Aspect::Texts => {
                self.sites.iter().flatten().map(|known| known.with_values).sum()
            }
            Aspect::FunctionPlaces => {
                self.functions.iter().filter(|function| !function.file.is_empty()).count() as u64
            }
            Aspect::Spans => self.calls.spans,
            Aspect::Ends => self.calls.ends,
            Aspect::Unwinding => self.calls.unwinding,
            Aspect::CallSites => self.calls.call_sites,
        }
    }
}
