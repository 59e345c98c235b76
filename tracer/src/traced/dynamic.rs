//! Records of sites that are made at run time: messages with typed values, and spans.
//!
//! The functions run on traced threads; [`message`] and [`SpanSite::enter`] are hot. A site that was met before is
//! found in a table of the process, without a lock or an allocation, unless another site has taken its entry in the
//! table.

use std::cell::Cell;

use trace_format::record::{Flags, scope_word};
use trace_format::sites::{Level, SiteKind};
use trace_store::counter;

use super::record;
use super::scope;
use crate::copies;
use crate::ring::{Values, clock};
use crate::shared::definition::{self, Definition, Message};
use crate::shared::numbers::{self, Numbers};
use crate::shared::process;
use crate::shared::sites::{self, Captured, KINDS, Site};
use trace_format::line::Ticks;

/// The number of span ids that a thread reserves at once, so that it accesses the counter that all threads share only
/// once per so many new spans.
const BLOCK: u64 = 1 << 10;

thread_local! {
    /// The span ids that the thread has reserved: the id that it has given last, and the last id of its reserved block.
    static IDS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Mixes the number of a place and the shape of its values into the key by which a site is looked up. The mixing is the
/// last step of SplitMix64 with the constants of *Mix13*.
#[inline(always)]
fn key_of(place: u64, shape: u64) -> u64 {
    let mut key = place ^ shape.rotate_left(32);
    key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

/// Returns the site with the key `key`. If there is none yet, makes it from the result of `define`.
#[inline(always)]
fn find(key: u64, values: &Values, define: &mut dyn FnMut() -> Definition) -> Option<&'static Site> {
    sites::met(key).or_else(|| find_uncached(key, values, define))
}

#[cold]
#[inline(never)]
fn find_uncached(key: u64, values: &Values, define: &mut dyn FnMut() -> Definition) -> Option<&'static Site> {
    let site = definition::find(key, values.types(), define)?;
    sites::cache_site(site);
    Some(site)
}

/// Records a message with `values`, made at the place with the number `place`, unless tracing is off or the filter
/// leaves this place out. `define` describes the place; it is called if this place has made no message with values of
/// this shape before.
///
/// If the site was met before, the costs are one lookup in a table, a reading of the clock and a copy of the values. If
/// the site is not yet in the table that readers of the trace get, the message is formatted at the call. If the process
/// has 8,192 sites already, or the site's texts exceed 4 KiB, the message is formatted and has no site.
#[inline]
pub fn message(place: u64, values: &Values, mut define: impl FnMut() -> Definition) {
    if process::is_off() {
        return;
    }
    let key = key_of(place, values.shape());
    let Some(site) = find(key, values, &mut define) else { return message_without_site(values, &define()) };
    let word = site.word();
    if !site.is_on(word) {
        return;
    }
    let kind = (word >> 32) as u32 ^ (definition::signature(key) & !KINDS);
    let ticks = match kind {
        clock::ORDERED => counter::ordered(),
        clock::FAST => counter::fast(),
        clock::SYSTEM => counter::system(),
        _ => return format(site, values),
    };
    if !record::capture(Ticks(ticks), word as u32, values) {
        format(site, values);
    }
}

/// The result of recording the values of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValuesResult {
    /// The values are in a record.
    Recorded,
    /// The caller must format the message and record it, as a message of the site with this number, or without a site
    /// if the number is 0.
    Unformatted(u32),
}

/// Records a message with `values`, whose call was at `ticks`, as [`message`] does. If the values cannot be recorded,
/// the result tells the caller to format the message itself. That includes places that the filter has switched off: the
/// filter must not suppress their messages, because these places have no module.
#[inline]
pub fn record_values(
    place: u64,
    ticks: Ticks,
    values: &Values,
    mut define: impl FnMut() -> Definition,
) -> ValuesResult {
    let key = key_of(place, values.shape());
    let Some(site) = find(key, values, &mut define) else { return ValuesResult::Unformatted(0) };
    let word = site.word();
    if !site.is_on(word) {
        return ValuesResult::Unformatted(0);
    }
    let kind = (word >> 32) as u32 ^ (definition::signature(key) & !KINDS);
    let is_capturable = matches!(kind, clock::ORDERED | clock::FAST | clock::SYSTEM);
    if is_capturable && record::capture(ticks, word as u32, values) {
        return ValuesResult::Recorded;
    }
    if let Some(dynamic) = site.dynamic() {
        site.request_entry(Some(Captured { signature: dynamic.signature, describe: |_| {} }));
    }
    ValuesResult::Unformatted(site.number())
}

/// Formats a message of a site at the call, and has the site put into the table for readers.
#[cold]
#[inline(never)]
fn format(site: &'static Site, values: &Values) {
    let Some(dynamic) = site.dynamic() else { return };
    site.request_entry(Some(Captured { signature: dynamic.signature, describe: |_| {} }));
    record::trace(site.number(), format_args!("{}", Message(&dynamic.definition, values)));
}

#[cold]
#[inline(never)]
fn message_without_site(values: &Values, definition: &Definition) {
    if is_allowed(definition.filtered_by(), definition.level) {
        record::trace(0, format_args!("{}", Message(definition, values)));
    }
}

/// Returns whether tracing is on and the filter allows records with this target and level. The call does not decide
/// whether the process traces: a process that has not decided yet counts as one that traces.
#[must_use]
pub fn is_allowed(target: &str, level: Level) -> bool {
    !process::is_off() && sites::is_allowed(target, level)
}

/// Returns whether records of the place with the number `place` are on. If there is a filter, the first call for a
/// place calls `define`, which describes the place's target and level; later calls cost one lookup in a table and two
/// loads. Without a filter, a call costs three loads.
#[inline]
#[must_use]
pub fn is_enabled(place: u64, mut define: impl FnMut() -> Definition) -> bool {
    /// A number that stands for the shape of the values in the key of the place. Real values have this shape only with
    /// a probability of one in 2⁶⁴.
    const NO_SHAPE: u64 = 0x6e61_6d65_6f66_7461;
    if process::is_off() {
        return false;
    }
    if sites::allows_everything() {
        return true;
    }
    match find(key_of(place, NO_SHAPE), &Values::new(), &mut define) {
        Some(site) => site.is_on(site.word()),
        None => {
            let definition = define();
            is_allowed(definition.filtered_by(), definition.level)
        }
    }
}

/// Returns the largest level of records that may be on now; [`Level::None`] if tracing is off.
#[must_use]
pub fn largest_level() -> Level {
    if process::is_off() {
        return Level::None;
    }
    match copies::joined() {
        Some(owner) => Level::of(owner.largest_level()),
        None => sites::filter().map_or(Level::Trace, |filter| filter.largest_level().unwrap_or_default()),
    }
}

/// The site of spans that are opened at one place in the program: describes the place, and the spans' name, level and
/// fields.
#[derive(Clone, Copy, Debug)]
pub struct SpanSite(&'static Site);

/// A span that was entered. It holds word 0 of the record that is made when the span is left.
#[derive(Clone, Copy, Debug)]
pub struct EnteredSpan(u64);

impl SpanSite {
    /// Makes a site of spans for one place of the program. The site is never freed. Returns `None` if the process has
    /// too many sites already, or if the texts of the definition are too long.
    #[must_use]
    pub fn new(definition: Definition) -> Option<SpanSite> {
        let definition = Definition { kind: SiteKind::Span, fields: Vec::new(), ..definition };
        definition::make(definition, &[], 0).map(SpanSite)
    }

    /// Returns whether the site is on.
    #[inline]
    #[must_use]
    pub fn is_on(self) -> bool {
        self.0.is_on(self.0.word())
    }

    /// Records that the span with this id is entered, if its site is on. Call [`leave`](EnteredSpan::leave) on the
    /// result.
    #[inline]
    #[must_use]
    pub fn enter(self, id: u64) -> Option<EnteredSpan> {
        if !self.is_on() {
            return None;
        }
        let ticks = clock::now();
        let number = self.0.number_in_table();
        record::words(ticks, scope_word(number, Flags::ID), &[id]);
        Some(EnteredSpan(scope::mark_panic(scope_word(number, Flags::LEAVE.with(Flags::ID)))))
    }
}

impl EnteredSpan {
    /// Records that the span with this id is left, unless tracing is off.
    #[inline]
    pub fn leave(self, id: u64) {
        if !process::is_off() {
            record::words(clock::now(), scope::left(self.0), &[id]);
        }
    }
}

/// Returns the id of a new span, unique in the run.
#[inline]
#[must_use]
pub fn span_id() -> u64 {
    let (last, end) = IDS.get();
    let id = if last < end { last + 1 } else { take_id_block() };
    IDS.set((id, if last < end { end } else { id + BLOCK - 1 }));
    id
}

#[cold]
#[inline(never)]
fn take_id_block() -> u64 {
    numbers::take(Numbers::Spans, BLOCK)
}
