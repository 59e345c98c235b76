//! Records messages, with typed values, for events and for what happens to spans.
//!
//! This code is hot. The values of a message are collected on the stack before its record begins. The message's place
//! in the source is described only when a message with values of these types is recorded there for the first time.

use std::fmt;

use tracer::__bridge::{self as bridge, By, Definition, Values};
use tracing_core::field::{Field, Visit};
use tracing_core::{Event, Level, Metadata, callsite, span};

use crate::logged;

/// The name of the field that contains the text of an event.
const MESSAGE: &str = "message";

/// The kind of report that a message is: an event, or something that has happened to a span. Messages about different
/// things have different sites, so this is a part of the number of the message's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageSubject {
    Event,
    NewSpan,
    Recorded,
    Follows,
    Closed,
}

/// The key of the span's id among the values of a message. Fields have other keys: they are numbered from 0.
const SPAN: u64 = 1 << 32;
const PARENT: u64 = SPAN + 1;
const FOLLOWS: u64 = SPAN + 2;

pub(crate) fn place(callsite: &callsite::Identifier, about: MessageSubject) -> u64 {
    let address = std::ptr::from_ref(callsite.0).cast::<()>().addr() as u64;
    // Callsites at different addresses have different numbers, whatever the message is about.
    address.wrapping_mul(8).wrapping_add(about as u64)
}

pub(crate) fn level(level: Level) -> bridge::Level {
    match level {
        Level::ERROR => bridge::Level::Error,
        Level::WARN => bridge::Level::Warn,
        Level::INFO => bridge::Level::Info,
        Level::DEBUG => bridge::Level::Debug,
        _ => bridge::Level::Trace,
    }
}

/// Returns the definition of the site of an event or a span, without its fields.
pub(crate) fn defined(metadata: &Metadata<'_>) -> Definition {
    Definition {
        level: level(*metadata.level()),
        target: metadata.target().to_owned(),
        module: metadata.module_path().unwrap_or("").to_owned(),
        file: metadata.file().unwrap_or("").to_owned(),
        line: metadata.line().unwrap_or(0),
        ..Definition::default()
    }
}

/// A visitor that collects the values of fields.
pub(crate) struct ValueVisitor<'a>(pub(crate) &'a mut Values);

impl Visit for ValueVisitor<'_> {
    #[inline]
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.i64(field.index() as u64, value);
    }

    #[inline]
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.u64(field.index() as u64, value);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.0.i128(field.index() as u64, value);
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.0.u128(field.index() as u64, value);
    }

    #[inline]
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.f64(field.index() as u64, value);
    }

    #[inline]
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.bool(field.index() as u64, value);
    }

    #[inline]
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.str(field.index() as u64, value);
    }

    /// Adds an error and its causes, in the form `broken name.sources=[why, and why that]`, where `name` is the field's
    /// name.
    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let key = field.index() as u64;
        match value.source() {
            None => self.0.text(key, format_args!("{value}")),
            Some(source) => {
                self.0.text(key, format_args!("{value} {}.sources={}", field.name(), ErrorChain(source)));
            }
        }
    }

    #[inline]
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.text(field.index() as u64, format_args!("{value:?}"));
    }
}

/// An error and the chain of its causes, which is written as a list in brackets.
struct ErrorChain<'a>(&'a (dyn std::error::Error + 'static));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}", self.0)?;
        let mut next = self.0.source();
        while let Some(error) = next {
            write!(f, ", {error}")?;
            next = error.source();
        }
        f.write_str("]")
    }
}

/// A visitor that describes fields (their names, and the texts before their values) in the order in which
/// `ValueVisitor` collects the values.
pub(crate) struct DefinitionVisitor {
    fields: Vec<bridge::Field>,
    before: String,
}

impl DefinitionVisitor {
    fn add(&mut self, field: &Field) {
        let name = field.name();
        let (before, by) = match name {
            MESSAGE => (String::new(), By::Display),
            name => (format!("{}=", name.strip_prefix("r#").unwrap_or(name)), By::Debug),
        };
        self.before.push_str(&before);
        let before = std::mem::replace(&mut self.before, " ".to_owned());
        self.fields.push(bridge::Field { before, name: name.to_owned(), by });
    }

    /// Adds the description of a number that is no field: `before` is the text before the number, `name` is the
    /// number's name.
    fn add_number(&mut self, before: &str, name: &str) {
        let before = std::mem::take(&mut self.before) + before;
        self.fields.push(bridge::Field { before, name: name.to_owned(), by: By::Display });
    }
}

impl Visit for DefinitionVisitor {
    fn record_debug(&mut self, field: &Field, _: &dyn fmt::Debug) {
        self.add(field);
    }

    fn record_error(&mut self, field: &Field, _: &(dyn std::error::Error + 'static)) {
        self.add(field);
    }
}

pub(crate) fn begin(level: Level, target: &str) -> DefinitionVisitor {
    DefinitionVisitor { fields: Vec::new(), before: format!("{level} {target}: ") }
}

/// Completes the definition of an event's site: adds the described fields to `definition`, which has the place and the
/// level.
pub(crate) fn of_event(describing: DefinitionVisitor, definition: Definition) -> Definition {
    let DefinitionVisitor { fields, before } = describing;
    // Without fields there is only the beginning.
    let tail = if fields.is_empty() { before } else { String::new() };
    Definition { fields, tail, ..definition }
}

/// Records an event.
#[inline]
pub(crate) fn event(event: &Event<'_>) {
    let metadata = event.metadata();
    if logged::is_logged(metadata) {
        return logged::event(event);
    }
    let mut values = Values::new();
    event.record(&mut ValueVisitor(&mut values));
    bridge::message(place(&metadata.callsite(), MessageSubject::Event), &values, || {
        let mut describing = begin(*metadata.level(), metadata.target());
        event.record(&mut describing);
        of_event(describing, defined(metadata))
    });
}

/// Records that a span with the id `id` was made, with its fields, and with the id of its parent if it has one.
#[inline]
pub(crate) fn new_span(attributes: &span::Attributes<'_>, id: u64, parent: Option<u64>) {
    let mut values = Values::new();
    values.u64(SPAN, id);
    attributes.record(&mut ValueVisitor(&mut values));
    if let Some(parent) = parent {
        values.u64(PARENT, parent);
    }
    let metadata = attributes.metadata();
    bridge::message(place(&metadata.callsite(), MessageSubject::NewSpan), &values, || {
        let mut describing = of_span(metadata);
        attributes.record(&mut describing);
        ended(describing, metadata, " new", parent.map(|_| (" parent=", "parent")))
    });
}

/// Records the values of fields that the span `id` got after it was made.
pub(crate) fn recorded(record: &span::Record<'_>, metadata: &'static Metadata<'static>, id: u64) {
    let mut values = Values::new();
    values.u64(SPAN, id);
    record.record(&mut ValueVisitor(&mut values));
    bridge::message(place(&metadata.callsite(), MessageSubject::Recorded), &values, || {
        let mut describing = of_span(metadata);
        record.record(&mut describing);
        ended(describing, metadata, "", None)
    });
}

/// Records that the span `id` follows from the span `other`.
pub(crate) fn follows(metadata: &'static Metadata<'static>, id: u64, other: u64) {
    let mut values = Values::new();
    values.u64(SPAN, id);
    values.u64(FOLLOWS, other);
    bridge::message(place(&metadata.callsite(), MessageSubject::Follows), &values, || {
        let describing = of_span(metadata);
        ended(describing, metadata, "", Some((" follows_from=", "follows_from")))
    });
}

/// Records that the span `id` has no handle left, so that it will not be entered again.
pub(crate) fn closed(metadata: &'static Metadata<'static>, id: u64) {
    let mut values = Values::new();
    values.u64(SPAN, id);
    bridge::message(place(&metadata.callsite(), MessageSubject::Closed), &values, || {
        ended(of_span(metadata), metadata, " closed", None)
    });
}

/// Begins the description of a message about a span: `span=7 name{`, before the fields.
fn of_span(metadata: &Metadata<'_>) -> DefinitionVisitor {
    let mut describing = begin(*metadata.level(), metadata.target());
    describing.add_number("span=", "span");
    describing.before = format!(" {}{{", metadata.name());
    describing
}

/// Completes the definition of the site of a message about a span. The text `word` comes after the fields. If `number`
/// is given, a further number follows that is no field: `number` contains the text before it and its name.
fn ended(
    mut definition_visitor: DefinitionVisitor,
    metadata: &Metadata<'_>,
    word: &str,
    number: Option<(&str, &str)>,
) -> Definition {
    // The text before a further field: only a space, unless there is no field yet.
    let mut open = std::mem::take(&mut definition_visitor.before);
    open.truncate(open.trim_end_matches(' ').len());
    let mut tail = match open.strip_suffix('{') {
        Some(name) => name.to_owned(),
        None => "}".to_owned(),
    };
    tail.push_str(word);
    definition_visitor.before = tail;
    if let Some((before, name)) = number {
        definition_visitor.add_number(before, name);
    }
    Definition { fields: definition_visitor.fields, tail: definition_visitor.before, ..defined(metadata) }
}
