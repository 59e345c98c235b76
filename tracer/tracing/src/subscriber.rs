//! A subscriber that hands everything over to the tracer, and keeps nothing for a span but how often it was cloned.

use std::fmt;

use tracer::__bridge as bridge;
use tracer::Tracer;
use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::{Dispatch, Event, Interest, LevelFilter, Metadata, callsite, dispatcher};

use crate::clones::Clones;
use crate::span::{self, Known, NUMBER_BITS};
use crate::{entered, said};

/// The bits of an id as `tracing` has it that are the span's own; above them is the number of its kind.
const ID_BITS: u32 = u64::BITS - NUMBER_BITS;
/// The id of spans that are not recorded: of kinds beyond the limit, or past the last id.
const UNRECORDED: u64 = u64::MAX;

/// The subscriber for programs that want nothing else.
///
/// For each entering and leaving it writes a record and looks at a stack of the thread's own, no more. A span has ended
/// when its last handle is dropped, whether spans inside of it go on or not; cloning a span takes a lock. Layers of
/// `tracing-subscriber` that keep data for spans need the registry, and [`layer`](crate::layer()).
///
/// Of spans and events of other targets and levels than `TRACER_FILTER` says, and while tracing is off, it is not
/// even told. 65,536 kinds of spans, each of one callsite, and 2⁴⁸ spans are recorded.
#[derive(Debug)]
pub struct Subscriber(Clones);

impl Subscriber {
    /// Makes the subscriber. This decides whether the process traces, as its first record does.
    #[must_use]
    pub fn new() -> Subscriber {
        follow_the_switch();
        Subscriber(Clones::default())
    }
}

impl Default for Subscriber {
    fn default() -> Subscriber {
        Subscriber::new()
    }
}

/// Has callsites asked again whenever tracing is switched.
pub(crate) fn follow_the_switch() {
    static FOLLOWS: std::sync::Once = std::sync::Once::new();
    FOLLOWS.call_once(|| {
        // Decided now: callsites are asked under a lock of `tracing`'s.
        let _ = Tracer::get().is_enabled();
        bridge::on_switch(|_| callsite::rebuild_interest_cache());
    });
}

/// An error of [`init`]: the process has a subscriber for all of its threads already.
#[derive(Debug)]
pub struct SetError(dispatcher::SetGlobalDefaultError);

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the process has a subscriber for `tracing` already, beside which `tracer_tracing::layer` can stand: {}",
            self.0
        )
    }
}

impl std::error::Error for SetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// Makes a [`Subscriber`] that of all threads of this process.
///
/// # Errors
/// The process has one already; nothing is changed then.
pub fn init() -> Result<(), SetError> {
    dispatcher::set_global_default(Dispatch::new(Subscriber::new())).map_err(SetError)
}

/// Returns the largest level that may be on now.
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

/// Returns whether the tracer wants to hear of a callsite.
pub(crate) fn is_wanted(metadata: &Metadata<'_>) -> bool {
    bridge::is_allowed(metadata.target(), said::level(*metadata.level()))
}

/// Returns the span behind an id that `new_span` has given.
#[inline]
fn known(id: &Id) -> Option<Known> {
    let id = id.into_u64();
    let kind = if id == UNRECORDED { None } else { span::by_number(id >> ID_BITS) }?;
    Some(Known { id: id & ((1 << ID_BITS) - 1), kind })
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
        if let Some(Known { id, kind }) = known(id) {
            said::recorded(values, kind.metadata, id);
        }
    }

    fn record_follows_from(&self, id: &Id, follows: &Id) {
        if let (Some(Known { id, kind }), Some(other)) = (known(id), known(follows)) {
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
        if let Some(Known { id, kind }) = known(&id).filter(|_| is_last) {
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
