//! A layer on the registry of `tracing-subscriber`, beside other layers and behind any filter.

use tracer::__bridge as bridge;
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Interest, LevelFilter, Metadata, Subscriber};
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::layer::{Context, Filter, Layer as _};
use tracing_subscriber::registry::LookupSpan;

use crate::recent::Recent;
use crate::span::{self, Known};
use crate::subscriber::{follow_the_switch, is_wanted, largest_level};
use crate::{entered, said};

/// The layer that hands everything over to the tracer that it is told of. [`layer()`] gives it with the filter that
/// belongs to it.
///
/// Without [`Switch`] or another filter of its own, it is told of everything that any layer wants to hear, and leaves
/// out what is off.
#[derive(Debug, Default)]
pub struct Layer {
    recent: Recent,
}

/// The filter of the layer: nothing while tracing is off, and then what `TRACER_FILTER` says, by target and level.
///
/// It decides for its layer alone. Others are told what they ask for; and a callsite that no layer wants is off.
#[derive(Debug, Default)]
pub struct Switch(());

/// Makes a layer with its filter. This decides whether the process traces, as its first record does.
///
/// It can be given another filter, which then decides as well. The subscriber that it is added to must be the
/// registry of `tracing-subscriber`, or layers on that: others have no filters for a layer.
#[must_use]
pub fn layer<S>() -> Filtered<Layer, Switch, S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    follow_the_switch();
    Layer::default().with_filter(Switch(()))
}

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

/// Returns what is kept with a span of the registry.
#[cold]
#[inline(never)]
fn known<S>(id: &Id, context: &Context<'_, S>) -> Option<Known>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    context.span(id)?.extensions().get::<Known>().copied()
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
        let known = Known { id: bridge::span_id(), kind };
        span.extensions_mut().insert(known);
        self.recent.note(id.into_u64(), Some(known));
        let parent = span.parent().and_then(|parent| Some(parent.extensions().get::<Known>()?.id));
        said::new_span(attributes, known.id, parent);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(Known { id, kind }) = known(id, &context) {
            said::recorded(values, kind.metadata, id);
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        if let (Some(span), Some(other)) = (known(id, &context), known(follows, &context)) {
            said::follows(span.kind.metadata, span.id, other.id);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(Known { id, kind }) = known(&id, &context) {
            said::closed(kind.metadata, id);
        }
    }

    #[inline]
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        said::event(event);
    }

    #[inline]
    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let recent = self.recent.get(id.into_u64());
        if let Some(span) = recent.or_else(|| known(id, &context)) {
            entered::enter(id.into_u64(), span);
        }
    }

    #[inline]
    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        entered::leave(id.into_u64());
    }
}
