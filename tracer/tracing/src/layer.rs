//! A layer for the registry of `tracing-subscriber`. It can be used together with other layers, and with any filter.

use tracer::__bridge as bridge;
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::recent::Recent;
use crate::span::{self, RecordedSpan};
use crate::subscriber::is_wanted;
use crate::{entered, said};

/// The layer that passes everything that it receives to the tracer. [`layer()`](crate::layer()) returns it with the
/// filter that belongs to it.
///
/// Without a filter of its own, which may be [`Switch`](crate::Switch), the layer receives all spans and events that
/// any layer wants. It then leaves out those that are off, because tracing is off or `TRACER_FILTER` excludes them.
#[derive(Debug, Default)]
pub struct Layer {
    recent: Recent,
}

/// Returns what this layer has stored in the registry about the span `id`; `None` if the span is not recorded.
#[cold]
#[inline(never)]
fn known<S>(id: &Id, context: &Context<'_, S>) -> Option<RecordedSpan>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    context.span(id)?.extensions().get::<RecordedSpan>().copied()
}

impl Layer {
    /// Records that the span `id` is entered, if the span is in the cache of recent spans, so that the registry is not
    /// needed; returns whether it is.
    #[inline(always)]
    pub(crate) fn enter_recent(&self, id: &Id) -> bool {
        let recent = self.recent.get(id.into_u64());
        recent.map(|span| entered::enter(id.into_u64(), span)).is_some()
    }

    /// Removes the entry for `id` from the cache of recent spans. Called for a new span, because the registry may have
    /// given it the id of a span that has ended. If the new span is recorded, it gets an entry afterwards.
    #[inline]
    pub(crate) fn forget(&self, id: &Id) {
        if self.recent.get(id.into_u64()).is_some() {
            self.recent.note(id.into_u64(), None);
        }
    }
}

impl<S> tracing_subscriber::Layer<S> for Layer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let kind = if is_wanted(attributes.metadata()) { span::kind(attributes.metadata()) } else { None };
        let (Some(kind), Some(span)) = (kind, context.span(id)) else {
            return self.recent.note(id.into_u64(), None);
        };
        let known = RecordedSpan { id: bridge::span_id(), kind };
        span.extensions_mut().insert(known);
        self.recent.note(id.into_u64(), Some(known));
        let parent = span.parent().and_then(|parent| Some(parent.extensions().get::<RecordedSpan>()?.id));
        said::new_span(attributes, known.id, parent);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(RecordedSpan { id, kind }) = known(id, &context) {
            said::recorded(values, kind.metadata, id);
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        if let (Some(span), Some(other)) = (known(id, &context), known(follows, &context)) {
            said::follows(span.kind.metadata, span.id, other.id);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(RecordedSpan { id, kind }) = known(&id, &context) {
            said::closed(kind.metadata, id);
        }
    }

    #[inline]
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        said::event(event);
    }

    #[inline]
    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if self.enter_recent(id) {
            return;
        }
        if let Some(span) = known(id, &context) {
            entered::enter(id.into_u64(), span);
        }
    }

    #[inline]
    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        entered::leave(id.into_u64());
    }
}
