//! Functions for bridges: packages that pass on the messages of other crates, as `tracer-log` and `tracer-tracing` do.
//! They are not for users, and may change with every version.
//!
//! A bridge gathers [`Values`] and calls [`message`] with the number of a call's position in the source, and a closure
//! that describes this position; or it makes a [`SpanSite`] and enters it. [`on_switch`] notifies the bridge when
//! tracing is switched, so that the other crate can skip its messages while tracing is off.

pub use crate::ring::{Value, ValueType, Values};
pub use crate::shared::definition::{By, Definition, Field};
pub use crate::shared::switched::on_switch;
pub use crate::traced::dynamic::{
    EnteredSpan, SpanSite, is_allowed, is_enabled, largest_level, message, span_id,
};
pub use trace_format::sites::{Level, SiteKind};
