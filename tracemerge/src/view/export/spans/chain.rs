//! The chain of spans that probably waited for each other. Each link of the chain is a period in which a span was idle.
//! It names the span that a thread left last before the idle span was resumed, and which the idle span therefore
//! probably waited for. The next link is an idle period of the span so named: the period that overlaps most with the
//! one of this link.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::view::known_spans::SpanKey;

/// The maximum number of links of a chain that are shown.
const MAX_SHOWN: usize = 16;
/// The length, in links, from which a chain is cut to `MAX_SHOWN` links. So memory does not grow with the length of a
/// trace in which each request waits for the request before it.
const MAX_KEPT: usize = 64;
/// The maximum number of idle times that are kept for a span.
const MAX_IDLE: usize = 32;

/// A span that a thread left, and the time when it was left, in nanoseconds of steady time.
pub(super) type Left = (SpanKey, u64);

/// A time in which a span was idle, as a link of a chain.
#[derive(Clone, Debug)]
pub(super) struct Idle {
    /// The name and the number of the idle span.
    span: Arc<str>,
    /// The time when the span became idle, in nanoseconds of steady time.
    pub(super) since: u64,
    /// The time for which the span was idle, in nanoseconds.
    pub(super) ns: u64,
    /// The span that a thread left last before the idle span was resumed, and the time from the leaving to the
    /// resumption, in nanoseconds; `None` if no thread left another span during the idle time.
    pub(super) after: Option<(Arc<str>, u64)>,
    /// The idle time of the span in `after` that overlaps with this idle time the most; `None` if there is none.
    cause: Option<Arc<Idle>>,
    /// The number of links of the chain that begins with this idle time.
    links: usize,
}

impl Idle {
    fn end(&self) -> u64 {
        self.since + self.ns
    }

    /// Returns the span that the idle span probably waited for, and the nanoseconds from the moment when a thread left
    /// that span until the idle span was resumed. Returns `None` if the thread left that span in the first half of the
    /// idle time, because a span that has been woken seldom waits that long for a thread.
    fn waited_for(&self) -> Option<(&str, u64)> {
        let (span, gap) = self.after.as_ref()?;
        (*gap <= self.ns / 2).then_some((&**span, *gap))
    }

    /// Iterates over this idle time, the idle time that probably caused it, the one that probably caused that, and so
    /// on.
    fn links(&self) -> impl Iterator<Item = &Idle> {
        std::iter::successors(Some(self), |idle| idle.waited_for().and(idle.cause.as_deref()))
    }

    /// Returns the lines that show the chain from this idle time on: for each link, the start and the length of the
    /// idle time in nanoseconds, and a text about it. Returns no lines if it is unknown which span the idle span waited
    /// for.
    pub(super) fn chain(&self, duration: impl Fn(u64) -> String) -> Vec<(Option<(u64, u64)>, String)> {
        let mut lines = Vec::new();
        if self.waited_for().is_none() {
            return lines;
        }
        for idle in self.links().take(MAX_SHOWN) {
            let time = Some((idle.since, idle.ns));
            match idle.waited_for() {
                Some((span, gap)) => {
                    let gap = duration(gap);
                    lines.push((time, format!("{} idle, until {gap} after a thread left {span}", idle.span)));
                    if idle.cause.is_none() {
                        lines.push((None, format!("{span} was not idle in that time")));
                    }
                }
                None => {
                    lines.push((time, format!("{} idle; no span was left shortly before its end", idle.span)))
                }
            }
        }
        if self.links().nth(MAX_SHOWN).is_some() {
            lines.push((None, "… and more".to_owned()));
        }
        lines
    }
}

/// A span that has begun and not ended, or that has ended and is the one that was left last in its process.
#[derive(Debug)]
struct Span {
    name: Arc<str>,
    /// The number of threads that are in the span.
    entered: u32,
    /// The steady time at which the last thread left the span, in nanoseconds; meaningless while a thread is in the
    /// span.
    idle_since: u64,
    /// The idle times of the span, the oldest first. Each is longer than all later ones: an idle time is dropped when
    /// an equal or longer one follows.
    idle: VecDeque<Arc<Idle>>,
}

/// The spans that have begun and have not ended, and for each process the span that was left last.
#[derive(Debug, Default)]
pub(super) struct Chains {
    spans: HashMap<SpanKey, Span>,
    last_left: HashMap<usize, Left>,
    /// For each process, the span that was left last in it, but only if that span has ended.
    ended: HashMap<usize, SpanKey>,
}

impl Chains {
    /// Begins a span, which is idle until a thread enters it. Does nothing if the span has begun.
    pub(super) fn begin(&mut self, key: SpanKey, name: &str, now: u64) {
        self.spans.entry(key).or_insert_with(|| Span {
            name: format!("{name} #{}", key.1).into(),
            entered: 0,
            idle_since: now,
            idle: VecDeque::new(),
        });
    }

    /// Enters a span. Returns two values: the idle time that ends, if no thread was in the span before, and the span
    /// that was left last before this one was resumed.
    ///
    /// `enclosing` is about the innermost span that the thread is already in: the time at which the thread entered
    /// `enclosing` describes the innermost span that the thread is already in: the time at which the thread entered
    /// that span, and the span that was left last before. If that time is after the moment when the new span became
    /// idle, both spans belong to one task, which was resumed at that time.
    pub(super) fn enter(
        &mut self,
        key: SpanKey,
        now: u64,
        enclosing: Option<(u64, Option<Left>)>,
    ) -> (Option<Arc<Idle>>, Option<Left>) {
        let Some(span) = self.spans.get_mut(&key) else { return (None, None) };
        span.entered += 1;
        let since = span.idle_since;
        let left = match enclosing {
            Some((entered, left)) if entered >= since => left,
            _ => self.last_left.get(&key.0).copied(),
        };
        let left = left.filter(|(last, at)| *last != key && *at >= since);
        if span.entered > 1 || now <= since {
            return (None, left);
        }
        let name = span.name.clone();
        let other = left.and_then(|(last, at)| Some((self.spans.get(&last)?, at)));
        let after = other.map(|(other, at)| (other.name.clone(), now.saturating_sub(at)));
        let overlap = |idle: &Arc<Idle>| idle.end().saturating_sub(idle.since.max(since));
        let cause = other.and_then(|(other, _)| {
            let longest = other.idle.iter().max_by_key(|idle| overlap(idle))?;
            (overlap(longest) > 0).then(|| cut(longest))
        });
        let links = cause.as_ref().map_or(0, |cause| cause.links) + 1;
        let idle = Arc::new(Idle { span: name, since, ns: now - since, after, cause, links });
        if let Some(span) = self.spans.get_mut(&key) {
            while span.idle.back().is_some_and(|last| last.ns <= idle.ns) {
                span.idle.pop_back();
            }
            if span.idle.len() == MAX_IDLE {
                span.idle.pop_front();
            }
            span.idle.push_back(idle.clone());
        }
        (Some(idle), left)
    }

    /// Leaves a span, and ends it if `ends`.
    pub(super) fn leave(&mut self, key: SpanKey, now: u64, ends: bool) {
        let Some(span) = self.spans.get_mut(&key) else { return };
        span.entered = span.entered.saturating_sub(1);
        span.idle_since = now;
        self.last_left.insert(key.0, (key, now));
        if let Some(ended) = self.ended.remove(&key.0).filter(|ended| *ended != key) {
            self.spans.remove(&ended);
        }
        if ends {
            self.end(key);
        }
    }

    /// Ends a span.
    pub(super) fn end(&mut self, key: SpanKey) {
        if self.last_left.get(&key.0).is_some_and(|(last, _)| *last == key) {
            self.ended.insert(key.0, key);
        } else {
            self.spans.remove(&key);
        }
    }
}

/// Returns an idle time with its chain of causes. A chain of `MAX_KEPT` or more links is cut to `MAX_SHOWN` links.
fn cut(idle: &Arc<Idle>) -> Arc<Idle> {
    if idle.links < MAX_KEPT {
        return idle.clone();
    }
    let kept: Vec<&Idle> =
        std::iter::successors(Some(&**idle), |idle| idle.cause.as_deref()).take(MAX_SHOWN).collect();
    let mut cause: Option<Arc<Idle>> = None;
    for link in kept.into_iter().rev() {
        let links = cause.as_ref().map_or(0, |cause| cause.links) + 1;
        cause = Some(Arc::new(Idle { cause, links, ..link.clone() }));
    }
    cause.unwrap_or_else(|| idle.clone())
}
