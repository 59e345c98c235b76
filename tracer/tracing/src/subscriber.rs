//! A subscriber that passes everything to the tracer, and stores nothing for a span except how often it was cloned.

use std::fmt;

use tracer::__bridge as bridge;
use tracer::Tracer;
use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::{Dispatch, Event, Interest, LevelFilter, Metadata, callsite, dispatcher};

use crate::clones::Clones;
use crate::span::{self, NUMBER_BITS, RecordedSpan};
use crate::{entered, said};

/// The number of bits for the span's id in the trace within the span's id in `tracing`. The bits above them contain the
/// number of the span's kind (callsite).
const ID_BITS: u32 = u64::BITS - NUMBER_BITS;
/// The id in `tracing` of all spans that are not recorded, because the process has too many kinds of spans or too many
/// spans.
const UNRECORDED: u64 = u64::MAX;

/// The subscriber for programs that need no other one.
///
/// When a span is entered or left, the subscriber only writes a record, and changes the thread's list of entered spans.
/// A span ends when its last handle is dropped, whether spans inside it go on or not; cloning a span takes a lock.
/// Layers of `tracing-subscriber` that keep data for spans need the registry, and [`layer`](crate::layer()).
///
/// `tracing` does not even pass on spans and events that `TRACER_FILTER` excludes by their target and level, and none
/// while tracing is off. The subscriber records up to 65,536 kinds of spans, each of one callsite, and up to 2⁴⁸ spans.
#[derive(Debug)]
pub struct Subscriber(Clones);

impl Subscriber {
    /// Makes the subscriber. If it is undecided whether the process traces, this call decides it, as a first record
    /// does.
    #[must_use]
    pub fn new() -> Subscriber {
        watch_tracing_switch();
        Subscriber(Clones::default())
    }
}

impl Default for Subscriber {
    fn default() -> Subscriber {
        Subscriber::new()
    }
}

/// Makes `tracing` ask again which callsites are wanted, whenever tracing is switched on or off.
pub(crate) fn watch_tracing_switch() {
    static FOLLOWS: std::sync::Once = std::sync::Once::new();
    FOLLOWS.call_once(|| {
        // Decided now, because `tracing` asks about callsites under a lock.
        let _ = Tracer::get().is_enabled();
        bridge::on_switch(|_| callsite::rebuild_interest_cache());
    });
}

/// An error of [`init`]: the process already has a subscriber for all of its threads.
#[derive(Debug)]
pub struct SetError(dispatcher::SetGlobalDefaultError);

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the process already has a subscriber for `tracing`; add `tracer_tracing::layer` to that one: {}",
            self.0
        )
    }
}

impl std::error::Error for SetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// Makes a [`Subscriber`] the subscriber of all threads of this process.
///
/// # Errors
/// The process already has a subscriber for all threads; nothing is changed.
pub fn init() -> Result<(), SetError> {
    dispatcher::set_global_default(Dispatch::new(Subscriber::new())).map_err(SetError)
}

/// Returns the largest level of spans and events that may be on now.
pub(crate) fn largest_level() -> LevelFilter {
    match bridge::largest_level() {
        bridge::Level::None => LevelFilter::OFF,
        bridge::Level::Error => LevelFilter::ERROR,
        bridge::Level::Warn => LevelFilter::WARN,
        bridge::Level::Info => LevelFilter::INFO,
        bridge::Level::Debug => LevelFilter::DEBUG,
        bridge::Level::Trace => LevelFilter::TRACE,
    }
}

/// Returns whether the tracer wants the spans or events of a callsite.
pub(crate) fn is_wanted(metadata: &Metadata<'_>) -> bool {
    bridge::is_allowed(metadata.target(), said::level(*metadata.level()))
}

/// Returns the span for `id`, an id that `new_span` has returned; `None` if the span is not recorded.
#[inline]
fn known(id: &Id) -> Option<RecordedSpan> {
    let id = id.into_u64();
    let kind = if id == UNRECORDED { None } else { span::by_number(id >> ID_BITS) }?;
    Some(RecordedSpan { id: id & ((1 << ID_BITS) - 1), kind })
}

impl tracing_core::Subscriber for Subscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_wanted(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(largest_level())
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_wanted(metadata)
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let Some(kind) = span::kind(attributes.metadata()) else { return Id::from_u64(UNRECORDED) };
        let id = bridge::span_id();
        if id >> ID_BITS != 0 {
            return Id::from_u64(UNRECORDED);
        }
        let parent = match attributes.parent() {
            Some(parent) => known(parent).map(|parent| parent.id),
            None if attributes.is_contextual() => entered::current().map(|entered| entered.span.id),
            None => None,
        };
        said::new_span(attributes, id, parent);
        Id::from_u64(kind.number << ID_BITS | id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        if let Some(RecordedSpan { id, kind }) = known(id) {
            said::recorded(values, kind.metadata, id);
        }
    }

    fn record_follows_from(&self, id: &Id, follows: &Id) {
        if let (Some(RecordedSpan { id, kind }), Some(other)) = (known(id), known(follows)) {
            said::follows(kind.metadata, id, other.id);
        }
    }

    #[inline]
    fn event(&self, event: &Event<'_>) {
        said::event(event);
    }

    #[inline]
    fn enter(&self, id: &Id) {
        if let Some(span) = known(id) {
            entered::enter(id.into_u64(), span);
        }
    }

    #[inline]
    fn exit(&self, id: &Id) {
        entered::leave(id.into_u64());
    }

    fn clone_span(&self, id: &Id) -> Id {
        if id.into_u64() != UNRECORDED {
            self.0.add(id.into_u64());
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let is_last = id.into_u64() != UNRECORDED && self.0.take(id.into_u64());
        if let Some(RecordedSpan { id, kind }) = known(&id).filter(|_| is_last) {
            said::closed(kind.metadata, id);
        }
        is_last
    }

    fn current_span(&self) -> Current {
        match entered::current() {
            Some(entered) => Current::new(Id::from_u64(entered.called), entered.span.kind.metadata),
            None => Current::none(),
        }
    }
}
