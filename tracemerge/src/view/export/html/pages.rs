//! The division of a trace into several pages, in the order of time: `page-1.html`, `page-2.html` and so on.
//!
//! When a page is full, it ends before the next record. Calls, spans and waits that are open then end in the page at
//! the time of that record, with a mark that they go on. They begin in the next page at their own, earlier times, so
//! that each page shows the whole time that they have taken so far. If a process has no further line, its calls, spans
//! and waits end at its last sign of life, as they do in a single page. Only one page at a time is in memory.

use trace_format::line::Ticks;

use super::columns::{CONTINUES, code, put_varint, span_kind};
use super::overview::Overview;
use super::page::HtmlFormat;
use crate::output::folder::put_part;
use crate::view::export::events::{EndedCall, Event, EventContent, Inventory};

/// The maximum size of the pieces in which a page is passed on, in bytes.
const PIECE: usize = 1 << 20;

/// The state of the division into pages: the current page, and the maximum number of records of a page.
#[derive(Debug)]
pub(super) struct Division {
    most: u64,
    /// The number of records in the page, without the calls that are repeated because they began in earlier pages;
    /// `carried` is the number of such calls.
    records: u64,
    carried: u64,
    /// The number of the current page: 1 for the first page.
    page: u64,
    /// The time at which the page begins, in nanoseconds since the first line; `None` for the first page.
    begin: Option<i64>,
}

impl Division {
    /// Creates a division into pages of at most `most` records.
    pub(super) fn new(most: u64) -> Division {
        Division { most, records: 0, carried: 0, page: 1, begin: None }
    }

    /// Counts a record. Returns whether the record is the first record of a new page.
    pub(super) fn begins_page(&mut self) -> bool {
        let is_full = self.records == self.most;
        self.records = if is_full { 1 } else { self.records + 1 };
        is_full
    }

    /// Returns a note for the reader of the page: that the numbers in its other notes are the sums of this page and all
    /// pages before it; `None` for the first page.
    pub(super) fn note(&self) -> Option<String> {
        let page = self.page;
        (page > 1).then(|| format!("the numbers in these notes are those of pages 1 to {page} together"))
    }
}

impl HtmlFormat {
    /// Ends the page before a record with these ticks and this time, and begins the next page.
    pub(super) fn divide(
        &mut self,
        (_, ticks, time): (usize, Ticks, u64),
        inventory: &Inventory,
        out: &mut Vec<u8>,
    ) {
        for thread in 0..self.lanes.len() {
            let process = inventory.threads()[thread].process;
            let goes_on = inventory.registry.may_go_on(process, time);
            let end = if goes_on { time } else { inventory.registry.last_time(process) };
            if goes_on {
                self.interrupt_calls(thread, (ticks, time), inventory);
            } else {
                self.end_calls(thread, (inventory.registry.last(process), end), inventory);
            }
            if let Some(wait) = self.lanes[thread].lock_wait.take() {
                self.put_lock_wait(thread, wait, end);
                self.lanes[thread].lock_wait = Some(wait).filter(|_| goes_on);
            }
        }
        let mut spans = Vec::new();
        let open: Vec<_> = self.content.spans.values().map(|of| (of.key, of.busy)).collect();
        for (key, busy) in open {
            let Some(span) = inventory.spans.as_ref().and_then(|spans| spans.get(key)) else { continue };
            let thread = busy.map_or(span.thread, |(thread, _)| thread);
            if inventory.registry.may_go_on(key.0, time) {
                self.end_span(span, (thread, time), span_kind::CONTINUES);
                spans.push((key, busy));
            } else {
                self.end_span(span, (thread, inventory.registry.last_time(key.0)), span_kind::OPEN);
            }
        }
        let begin = self.since_first(time);
        self.write_page(true, begin, inventory, out);
        self.overview = Overview::beginning_at(begin);
        let carried = self.carry_calls(begin, inventory);
        if let Some(division) = &mut self.division {
            (division.page, division.begin, division.carried) = (division.page + 1, Some(begin), carried);
        }
        for (key, busy) in spans {
            let Some(known) = &inventory.spans else { return };
            if let Some(span) = known.get(key) {
                self.begin_span((known, span), key, busy);
            }
        }
    }

    /// Ends the last page.
    pub(super) fn finish_pages(&mut self, inventory: &Inventory, out: &mut Vec<u8>) {
        self.write_page(false, self.last, inventory, out);
    }

    fn write_page(&mut self, is_continued: bool, end: i64, inventory: &Inventory, out: &mut Vec<u8>) {
        let Some(Division { page, begin, carried, .. }) = self.division else { return };
        let begin = begin.map_or_else(|| "null".to_owned(), |begin| begin.to_string());
        let part = format!("{page},{begin},{end},{is_continued},{carried}");
        let pieces = self.end_page(vec![("part", part.into_bytes())], end, inventory);
        let name = format!("page-{page}.html");
        pieces.iter().flat_map(|piece| piece.chunks(PIECE)).for_each(|piece| put_part(&name, piece, out));
    }

    /// Ends the open calls of a thread in this page, with a mark that they go on in the next page.
    fn interrupt_calls(&mut self, thread: usize, (ticks, time): (Ticks, u64), inventory: &Inventory) {
        let count = self.lanes[thread].open.len();
        if count == 0 {
            return;
        }
        let what = EventContent::Close(&[]);
        self.put(&Event { thread, ticks, time, what }, code::END, inventory);
        put_varint(CONTINUES, &mut self.block.more);
        put_varint(count as u64, &mut self.block.more);
        // The calls end from the innermost outwards, so no call inside them goes on; and none has a leave record.
        (0..count).for_each(|_| put_varint(0, &mut self.block.more));
        self.overview.open_calls(thread, self.since_first(time), 0);
        self.end_full_block(inventory);
    }

    /// Ends the open calls of a thread whose process has no further line. The calls do not go on in the next page.
    fn end_calls(&mut self, thread: usize, (ticks, time): (Ticks, u64), inventory: &Inventory) {
        let open = self.lanes[thread].open.iter().rev();
        let ended: Vec<EndedCall> = open
            .map(|(function, entered)| EndedCall {
                function: *function,
                entered: self.since_epoch(entered.time),
                has_leave_record: false,
                goes_on: false,
            })
            .collect();
        if !ended.is_empty() {
            let event = Event { thread, ticks, time, what: EventContent::Close(&ended) };
            self.end(&event, &ended, None, inventory);
            self.calls_changed(&event);
            self.end_full_block(inventory);
        }
    }

    /// Repeats the open calls of all threads at the beginning of a page, which begins at the time `begin`. Returns the
    /// number of repeated calls.
    fn carry_calls(&mut self, begin: i64, inventory: &Inventory) -> u64 {
        let mut carried = 0;
        for thread in 0..self.lanes.len() {
            let open = std::mem::take(&mut self.lanes[thread].open);
            for (function, entered) in &open {
                let entry = self.function(*function, inventory);
                self.block.record(thread, *entered, code::FIRST + u64::from(entry));
                self.end_full_block(inventory);
            }
            if !open.is_empty() {
                self.overview.open_calls(thread, begin, open.len());
            }
            carried += open.len() as u64;
            self.lanes[thread].open = open;
        }
        if carried > 0 {
            self.write_block(Vec::new(), inventory);
        }
        carried
    }
}
