//! Raw files: their records become lines when the merge reaches them.

use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trace_format::line::{Key, Kind, Line, Ticks};
use trace_format::raw::{self, CallLines, Decoded, Decoder, Raw, is_clean};
use trace_format::record::{Flags, Record, RecordKind};

use crate::file::file_with_ring::FileWithRing;
use crate::file::map::Map;
use crate::file::record_text::RecordText;
use crate::file::records::Records;
use crate::file::rendered::{LineSource, RecordNeeds, push_lines};

/// The number of records that are rendered to estimate how much longer lines are than records.
const SAMPLED: usize = 200;
/// The number of blocks at the end of a file that are searched for a `# clock` line.
const OUTLINED: usize = 16;
/// The number of blocks at the beginning of a file, and also at its end, that are searched for `# name` lines.
const NAMED: usize = 2;
const BLOCK: usize = raw::BLOCK as usize;

/// A raw file, or the part of one that a merge may read.
#[derive(Debug)]
pub(crate) struct RawFile {
    /// The path that `# damaged` lines name.
    path: PathBuf,
    bytes: RawBytes,
    /// The approximate number of bytes of text that one byte of records becomes when it is rendered.
    growth: u64,
    /// The ticks of the first record and of the last record. They are stored because they are requested often.
    period: Option<(u64, u64)>,
    /// The minimum duration of a shown call, in ticks. Shorter calls without records inside are left out.
    least: u64,
}

#[derive(Debug)]
enum RawBytes {
    /// The bytes of a mapped file up to this offset.
    Mapped(Arc<Map>, usize),
    /// The file of a thread whose ring was read.
    FileWithRing(Arc<FileWithRing>),
}

impl Deref for RawBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            RawBytes::Mapped(map, end) => &map[..*end],
            RawBytes::FileWithRing(held) => held.file(),
        }
    }
}

impl RawFile {
    /// Returns the raw file at `path`, whose bytes are in `map`. If the thread is `alive`, leaves out an incomplete
    /// last message.
    #[must_use]
    pub(crate) fn new(path: &Path, map: Arc<Map>, alive: bool) -> RawFile {
        let end = if alive { whole_messages(&map) } else { map.len() };
        RawFile::of(path, RawBytes::Mapped(map, end))
    }

    /// Returns the raw file in `held`, which contains the file and the ring of a thread.
    #[must_use]
    pub(crate) fn held(path: &Path, held: Arc<FileWithRing>) -> RawFile {
        RawFile::of(path, RawBytes::FileWithRing(held))
    }

    fn of(path: &Path, bytes: RawBytes) -> RawFile {
        let growth = growth(&bytes);
        let period = Raw::parse(&bytes).and_then(|raw| Some((raw.first()?.0.0, raw.last()?.0)));
        RawFile { path: path.to_path_buf(), bytes, growth, period, least: 0 }
    }

    fn raw(&self) -> Option<Raw<'_>> {
        Raw::parse(&self.bytes)
    }
}

/// Returns the approximate number of bytes of text that one byte of a file's records becomes when it is rendered,
/// estimated from some records in the middle of the file.
fn growth(bytes: &[u8]) -> u64 {
    let Some(raw) = Raw::parse(bytes) else { return 1 };
    let start = bytes.len() / 2 / BLOCK * BLOCK;
    let end = raw.records(start).nth(SAMPLED).map_or(bytes.len(), |(at, _)| at).min(start + BLOCK);
    let lines = lines_of(bytes, start..end.min(bytes.len()), Path::new(""));
    (lines.len() / (end - start).max(1)) as u64 + 1
}

/// Returns the length of a raw file, in bytes, up to the end of its last complete message.
#[must_use]
pub(crate) fn whole_messages(bytes: &[u8]) -> usize {
    let Some(raw) = Raw::parse(bytes) else { return 0 };
    let end = raw.without_torn_tail();
    let open = Raw::parse(&bytes[..end]).and_then(|raw| raw.open_message());
    open.unwrap_or(end)
}

/// Renders the lines of the records in a range of a raw file. The last line has no line feed if its message continues.
#[must_use]
pub(crate) fn lines_of(bytes: &[u8], range: Range<usize>, path: &Path) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(raw) = Raw::parse(bytes) {
        Decoder::new(raw.tid()).decode(raw, range, path.as_os_str().as_encoded_bytes(), &mut out);
    }
    out
}

/// Returns the records of one block.
fn records_of(raw: Raw<'_>, block: usize) -> impl Iterator<Item = Record<'_>> {
    let records = raw.records(block * BLOCK).take_while(move |(at, _)| *at < (block + 1) * BLOCK);
    records.map(|(_, record)| record)
}

impl LineSource for RawFile {
    fn period(&self) -> Option<(u64, u64)> {
        self.period
    }

    fn bytes_before(&self, ticks: u64) -> u64 {
        self.raw().map_or(0, |raw| (raw.place(Ticks(ticks)) as u64).saturating_mul(self.growth))
    }

    fn outline(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let Some(raw) = self.raw() else { return out };
        let mut put = |record: Record<'_>| {
            let key = Key { ticks: record.ticks, tid: raw.tid() };
            Line { key, kind: Kind::Meta, payload: record.payload }.write(&mut out);
        };
        let is_meta = |record: &Record<'_>| record.kind == RecordKind::Meta && is_clean(record.payload);
        let is_of = |record: &Record<'_>, word: &[u8]| is_meta(record) && record.payload.starts_with(word);
        let blocks = self.bytes.len().div_ceil(BLOCK);
        // The `# name` lines after the head are repeated if the file is small, which changes no name.
        raw.records(0).map(|(_, record)| record).take_while(is_meta).for_each(&mut put);
        for block in (0..blocks).take(NAMED).chain((NAMED..blocks).rev().take(NAMED).rev()) {
            records_of(raw, block).filter(|record| is_of(record, b"name ")).for_each(&mut put);
        }
        let clock = |block| records_of(raw, block).filter(|record| is_of(record, b"clock ")).last();
        (0..blocks).rev().take(OUTLINED).find_map(clock).into_iter().for_each(put);
        out
    }

    fn each_meta(&self, take: &mut dyn FnMut(&[u8])) {
        let Some(raw) = self.raw() else { return };
        let metas = raw.records(0).map(|(_, record)| record).filter(|record| record.kind == RecordKind::Meta);
        metas.filter(|record| is_clean(record.payload)).for_each(|record| take(record.payload));
    }

    fn newest_first(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        let blocks = self.bytes.len().div_ceil(BLOCK);
        let of_block = move |block| {
            let records = self.raw().into_iter().flat_map(move |raw| records_of(raw, block));
            let mut ticks: Vec<u64> = records.filter(Record::begins).map(|record| record.ticks.0).collect();
            ticks.reverse();
            ticks
        };
        Box::new((0..blocks).rev().flat_map(of_block))
    }

    fn has_sites(&self) -> bool {
        true
    }

    fn leave_out_shorter_calls(&mut self, ticks: u64) {
        self.least = ticks;
    }

    fn lines(&self, from: u64, until: Option<u64>, out: &mut Vec<u8>, damaged: &mut dyn FnMut(usize, usize)) {
        let Some(raw) = self.raw() else { return };
        let name = self.path.as_os_str().as_encoded_bytes();
        let mut decoder = Decoder::new(raw.tid()).without_shorter_calls(self.least);
        let found = decoder.decode_times(raw, (Ticks(from), until.map(Ticks)), name, out);
        found.damaged.iter().for_each(|place| damaged(place.start, place.len()));
    }

    fn records(
        &self,
        (from, until): (u64, Option<u64>),
        wanted: &RecordNeeds,
        out: &mut Records,
        damaged: &mut dyn FnMut(usize, usize),
    ) -> bool {
        let Some(raw) = self.raw() else { return true };
        let name = self.path.as_os_str().as_encoded_bytes();
        let mut decoder = Decoder::new(raw.tid()).without_shorter_calls(self.least);
        if let Some(sites) = &wanted.sites {
            decoder = decoder.with_site_numbers(sites.clone());
        }
        let (of_calls, mut text) = (CallLines::new(raw.tid()), Vec::new());
        let mut line = |ticks, record: &Record<'_>, place: Option<&[u8]>, out: &mut Records| {
            text.clear();
            of_calls.write(ticks, record, place, &mut text);
            out.push_lines(&RecordText::of_lines(0, &text, 1));
        };
        let found = decoder.records(raw, (Ticks(from), until.map(Ticks)), name, &mut |record| match record {
            Decoded::Call(ticks, call) if wanted.calls => {
                out.push_address(ticks, call.kind == RecordKind::Enter, call.address(), call.flags());
            }
            Decoded::Scope(ticks, scope, place) if wanted.calls => {
                let flags = scope.flags();
                let is_entered = !flags.has(Flags::LEAVE);
                out.push_text(ticks, is_entered, place, flags.of_calls(), scope.span());
            }
            Decoded::Call(ticks, call) => line(ticks, &call, None, out),
            Decoded::Scope(ticks, scope, place) => line(ticks, &scope, Some(place), out),
            Decoded::Message { lines, site, values } => {
                let message = RecordText::new(0, lines);
                out.push_lines(&RecordText { site, values: values.filter(|_| wanted.values), ..message });
            }
            Decoded::Lines(lines) => push_lines(lines, out),
        });
        found.damaged.iter().for_each(|place| damaged(place.start, place.len()));
        !found.backward
    }
}
