//! A layer whose filter follows the tracer's switch. When a span is entered or left, it avoids the usual path of layers
//! with a filter.
//!
//! On that path, `tracing-subscriber` looks the span up in the registry each time, and the registry counts the
//! reference: this takes as long as recording the entering and the leaving. Spans that this layer has in its cache have
//! passed the filter before, so the filter is not asked about them again.
#![allow(unsafe_code, reason = "a question about types is passed on; argued")]

use std::any::TypeId;

use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Dispatch, Event, Interest, LevelFilter, Metadata, Subscriber};
use tracing_subscriber::filter::combinator::And;
use tracing_subscriber::filter::{FilterExt as _, Filtered};
use tracing_subscriber::layer::{Context, Filter, Layer as _};
use tracing_subscriber::registry::LookupSpan;

use crate::entered;
use crate::layer::Layer;
use crate::subscriber::{is_wanted, largest_level, watch_tracing_switch};

/// The filter of the layer. While tracing is off, it lets nothing through; otherwise it applies `TRACER_FILTER`, which
/// decides by target and level.
///
/// The filter decides for its own layer only. Other layers receive the spans and events that they want; `tracing`
/// switches off callsites that no layer wants.
#[derive(Debug, Default)]
pub struct Switch(());

impl<S> Filter<S> for Switch {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        is_wanted(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_wanted(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(largest_level())
    }
}

/// The layer with its filter. The function [`layer()`] returns it.
#[derive(Debug)]
pub struct SwitchedLayer<S>(Filtered<Layer, Switch, S>);

/// Makes a layer with its filter. If it is undecided whether the process traces, this call decides it, as a first
/// record does.
///
/// The layer can be [given another filter](SwitchedLayer::with_filter), which then decides as well. The layer must be
/// added to the registry of `tracing-subscriber`, or to layers on that registry: other subscribers do not support
/// filters of a layer.
#[must_use]
pub fn layer<S>() -> SwitchedLayer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    watch_tracing_switch();
    SwitchedLayer(Layer::default().with_filter(Switch(())))
}

impl<S> SwitchedLayer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    /// Adds a further filter, such as `EnvFilter`, for this layer only. The layer receives what both filters let
    /// through.
    ///
    /// Every layer has a method of this name, which would put one filter around the other. `tracing-subscriber` would
    /// then take them for filters of two layers, and would keep a callsite on even if only one of the filters wants it.
    #[must_use]
    pub fn with_filter<F>(self, filter: F) -> Filtered<Layer, And<Switch, F, S>, S>
    where
        F: Filter<S>,
    {
        Layer::default().with_filter(Switch(()).and(filter))
    }
}

impl<S> tracing_subscriber::Layer<S> for SwitchedLayer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    #[inline]
    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if !self.0.inner().enter_recent(id) {
            self.0.on_enter(id, context);
        }
    }

    #[inline]
    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        // A span that the filter has kept out was not entered here.
        entered::leave(id.into_u64());
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        // The filter may keep this span out, and its id in the registry may be that of a noted span that has ended.
        self.0.inner().forget(id);
        self.0.on_new_span(attributes, id, context);
    }

    // All calls below are passed on unchanged.

    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        self.0.on_register_dispatch(subscriber);
    }

    fn on_layer(&mut self, subscriber: &mut S) {
        self.0.on_layer(subscriber);
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.0.register_callsite(metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>, context: Context<'_, S>) -> bool {
        self.0.enabled(metadata, context)
    }

    fn event_enabled(&self, event: &Event<'_>, context: Context<'_, S>) -> bool {
        self.0.event_enabled(event, context)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.0.max_level_hint()
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        self.0.on_record(id, values, context);
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        self.0.on_follows_from(id, follows, context);
    }

    #[inline]
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        self.0.on_event(event, context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.0.on_close(id, context);
    }

    fn on_id_change(&self, old: &Id, new: &Id, context: Context<'_, S>) {
        self.0.on_id_change(old, new, context);
    }

    /// Returns pointers to this layer and its parts, by which `tracing-subscriber` finds out that the layer has a
    /// filter. Otherwise it would take this layer for one that wants everything.
    unsafe fn downcast_raw(&self, id: TypeId) -> Option<*const ()> {
        if id == TypeId::of::<Self>() {
            return Some(std::ptr::from_ref(self).cast());
        }
        // SAFETY: the pointer that it returns leads into `self`, and is valid as long.
        unsafe { self.0.downcast_raw(id) }
    }
}
