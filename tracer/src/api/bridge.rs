//! Functions for bridges: packages that pass on the messages of other crates, as `tracer-log` and `tracer-tracing`
//! do. Not for users: it may change with every version.
//!
//! A bridge gathers [`Values`] and calls [`message`] with a number that stands for the place, and a closure that
//! describes the place; or it makes a [`SpanSite`] and enters it. [`on_switch`] notifies it when tracing is switched,
//! so that it can switch off its callers.

pub use crate::ring::{Value, ValueType, Values};
pub use crate::shared::definition::{By, Definition, Field};
pub use crate::shared::switched::on_switch;
pub use crate::traced::dynamic::{
    EnteredSpan, SpanSite, is_allowed, is_enabled, largest_level, message, span_id,
};
pub use trace_format::sites::{Level, SiteKind};
