//! Events that pass on records of the crate `log`.
//!
//! `tracing-log`, which the default `init` of `tracing-subscriber` sets up, has one callsite for all records of a
//! level. The target and the place in the source of the record itself are in fields of the event. This module uses them
//! as the target and the place of the event.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hasher as _};

use tracer::__bridge::{self as bridge, Definition, Values};
use tracing_core::field::{Field, Visit};
use tracing_core::{Event, Metadata};

use crate::said::{self, MessageSubject, ValueVisitor};

/// The target of the callsites of `tracing-log`.
const CALLSITE_TARGET: &str = "log";
/// The name of the field that contains the target of the record of `log`; the constants below name the fields for its
/// place.
const TARGET: &str = "log.target";
const MODULE: &str = "log.module_path";
const FILE: &str = "log.file";
const LINE: &str = "log.line";

/// Returns whether events with this metadata pass on records of `log`.
#[inline]
pub(crate) fn is_logged(metadata: &Metadata<'_>) -> bool {
    metadata.target() == CALLSITE_TARGET && metadata.fields().field(TARGET).is_some()
}

/// Records an event that passes on a record of `log`. All records of `log` from one place in the source belong to one
/// site.
#[inline(never)]
pub(crate) fn event(event: &Event<'_>) {
    let mut values = Values::new();
    let mut place = DefaultHasher::new();
    place.write_u64(said::place(&event.metadata().callsite(), MessageSubject::Event));
    event.record(&mut LoggedVisitor {
        place: &mut |field, text, number| {
            place.write(field.as_bytes());
            place.write(text.as_bytes());
            // No text in UTF-8 has this byte.
            place.write_u8(0xff);
            place.write_u64(number);
        },
        rest: &mut ValueVisitor(&mut values),
    });
    bridge::message(place.finish(), &values, || define(event));
}

#[cold]
fn define(event: &Event<'_>) -> Definition {
    let level = *event.metadata().level();
    let mut definition = Definition { level: said::level(level), ..Definition::default() };
    event.record(&mut LoggedVisitor {
        place: &mut |field, text, number| match field {
            TARGET => text.clone_into(&mut definition.target),
            MODULE => text.clone_into(&mut definition.module),
            FILE => text.clone_into(&mut definition.file),
            _ => definition.line = u32::try_from(number).unwrap_or(0),
        },
        rest: &mut Ignored,
    });
    let mut describing = said::begin(level, &definition.target);
    event.record(&mut LoggedVisitor { place: &mut |_, _, _| (), rest: &mut describing });
    said::of_event(describing, definition)
}

/// A visitor that separates the fields of an event: those that contain the target and the place of the record of `log`
/// go to `place`, as the field's name, its text and its number; all other fields go to `rest`.
struct LoggedVisitor<'a> {
    place: &'a mut dyn FnMut(&str, &str, u64),
    rest: &'a mut dyn Visit,
}

fn is_of_place(field: &Field) -> bool {
    [TARGET, MODULE, FILE, LINE].contains(&field.name())
}

impl Visit for LoggedVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if is_of_place(field) {
            (self.place)(field.name(), value, 0);
        } else {
            self.rest.record_str(field, value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if is_of_place(field) {
            (self.place)(field.name(), "", value);
        } else {
            self.rest.record_u64(field, value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.rest.record_debug(field, value);
    }
}

/// A visitor that ignores all fields.
struct Ignored;

impl Visit for Ignored {
    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}
