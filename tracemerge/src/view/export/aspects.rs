//! What some formats cannot tell of messages, calls and functions, and how often that was so. Each format names what it has no
//! place for; the numbers are the scene's.

use trace_format::record::Flags;
use trace_format::sites::Level;

use crate::view::export::events::{Scene, TypedSite, sentences};
use crate::view::function_names::Told;

/// Something that a format may have no place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// The level of messages.
    Levels,
    /// The target of messages.
    Targets,
    /// The module path of messages, where the target is another name.
    Modules,
    /// The file, the line and the function of messages.
    Places,
    /// The function that messages are in.
    Functions,
    /// The values of messages by name and type; their text is told.
    Values,
    /// The text of messages whose values are told.
    Texts,
    /// The file and the line of functions.
    FunctionPlaces,
    /// The ids of spans.
    Spans,
    /// That a span ended, or was given up before its end.
    Ends,
    /// That a panic unwinds the stack.
    Unwinding,
    /// From where functions were called.
    CallSites,
}

/// The numbers of calls by what is known of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownOfCalls {
    /// Calls of spans.
    spans: u64,
    /// Leavings of spans that have ended with them.
    ends: u64,
    /// Leavings because a panic unwinds the stack.
    unwinding: u64,
    /// Calls of which it is known where they were made.
    call_sites: u64,
}

impl KnownOfCalls {
    /// Counts the entering of a function.
    #[inline]
    pub fn entered(&mut self, told: &Told) {
        self.spans += u64::from(told.span.is_some());
        self.call_sites += u64::from(told.called.from.is_some());
    }

    /// Counts the leaving of a function.
    #[inline]
    pub fn left(&mut self, told: &Told) {
        self.ends += u64::from(told.left.has(Flags::ENDED) || told.left.has(Flags::CANCELLED));
        self.unwinding += u64::from(told.left.has(Flags::UNWINDING));
    }
}

impl Aspect {
    /// Returns what is counted, and what is said of it.
    #[must_use]
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Aspect::Levels => ("message", "with a level: it is not told"),
            Aspect::Targets => ("message", "with a target: it is not told"),
            Aspect::Modules => ("message", "with a module path besides the target: it is not told"),
            Aspect::Places => ("message", "with a place in the source: it is not told"),
            Aspect::Functions => ("message", "whose function is known: it is not told"),
            Aspect::Values => ("message", "with values: told in the text, without their names and types"),
            Aspect::Texts => ("message", "with values: told by the template and these, without the text"),
            Aspect::FunctionPlaces => ("function", "with a place in the source: it is not told"),
            Aspect::Spans => ("call", "of a span: its id is not told"),
            Aspect::Ends => ("leaving", "with which a span ended: that is not told"),
            Aspect::Unwinding => ("leaving", "because of a panic: that is not told"),
            Aspect::CallSites => ("call", "from a known place: it is not told"),
        }
    }
}

/// Returns a sentence for each aspect whose number is not 0.
pub fn untold(numbers: impl IntoIterator<Item = (u64, Aspect)>) -> Vec<String> {
    sentences(numbers.into_iter().map(|(number, aspect)| {
        let (noun, rest) = aspect.words();
        (number, noun, rest)
    }))
}

impl Scene {
    /// Returns a sentence for each of the `aspects` that something in the events had, with their number.
    #[must_use]
    pub fn without(&self, aspects: &[Aspect]) -> Vec<String> {
        untold(aspects.iter().map(|aspect| (self.number_with(*aspect), *aspect)))
    }

    /// Returns how many messages, calls or functions have something.
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
