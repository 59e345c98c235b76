//! The rotation of raw files, which drops the older half. The kept records are arranged into blocks again, because the
//! blocks of the new file begin between other records.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;

use trace_format::plans::Plans;
use trace_format::raw::{BLOCK, Raw, Writer};
use trace_format::record::{Record, RecordKind};
use trace_format::sites::Site;

use super::{Dropped, truncated_error};
use crate::reading::read_at_most;

/// Finds the record at which the kept half begins: the first record, at the position `from` or after it, that does not
/// continue a message. Returns the counts of everything before that record, and the plans by which the records of the
/// file's sites are rendered.
pub(super) fn find(file: &mut File, from: u64, length: u64) -> io::Result<(Dropped, Plans)> {
    let (mut dropped, mut plans, mut kept) = (Dropped::default(), Plans::default(), None);
    each_record(file, 0..length, |at, record| {
        if record.kind == RecordKind::Site {
            if let Some(site) = Site::parse(record.payload).filter(|_| plans.entry(record.site()).is_none()) {
                plans.add(&site);
            }
        } else if at >= from && !record.continues() {
            kept.get_or_insert(at);
        }
        if kept.is_none() && record.has_ticks() {
            dropped.last = record.ticks;
            dropped.messages += u64::from(record.counts());
            if record.kind == RecordKind::Meta {
                dropped.count_meta(record.payload);
            }
        }
        true
    })?;
    dropped.bytes = kept.unwrap_or(length);
    Ok((dropped, plans))
}

/// Writes `first`, and after it the records at the positions `kept` of the file, into `new`. Returns the length of
/// `new` in bytes.
pub(super) fn copy(
    file: &mut File,
    tid: u64,
    kept: Range<u64>,
    plans: &Plans,
    first: Vec<u8>,
    new: &mut File,
) -> io::Result<u64> {
    let (mut writer, mut out, mut length) = (Writer::new(tid), first, 0);
    let mut result = Ok(());
    each_record(file, kept, |_, record| {
        // A record whose site is unknown cannot be copied: it was unreadable in this file, too.
        writer.copy(record, plans, &mut out);
        if out.len() as u64 >= BLOCK {
            result = new.write_all(&out);
            writer.written(out.len());
            length += out.len() as u64;
            out.clear();
        }
        result.is_ok()
    })?;
    result?;
    new.write_all(&out)?;
    Ok(length + out.len() as u64)
}

/// Calls `see` with each record in a range of a file and its position in the file, until `see` returns false.
fn each_record(
    file: &mut File,
    range: Range<u64>,
    mut see: impl FnMut(u64, &Record<'_>) -> bool,
) -> io::Result<()> {
    let mut start = range.start / BLOCK * BLOCK;
    file.seek(SeekFrom::Start(start))?;
    while start < range.end {
        let bytes = BLOCK.min(range.end - start);
        let block = read_at_most(file, bytes)?;
        if block.len() as u64 != bytes {
            return Err(truncated_error());
        }
        // Each block can be read alone.
        let records = Raw::parse(&block).into_iter().flat_map(|raw| raw.records(0));
        for (at, record) in records.map(|(at, record)| (start + at as u64, record)) {
            if at >= range.start && !see(at, &record) {
                return Ok(());
            }
        }
        start += bytes;
    }
    Ok(())
}
