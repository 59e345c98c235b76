//! A reader of the records of raw files with their sites.

use std::collections::BTreeMap;
use std::path::Path;

use trace_format::raw::Raw;
use trace_format::record::{Flags, RecordKind};
use trace_format::sites::Site;

use crate::names;

/// A record of a ring, read from a raw file.
#[derive(Clone, Debug)]
pub struct SiteRecord {
    /// The site of the record; `None` if it has none, or if the file does not describe it.
    pub site: Option<Site>,
    /// The kind of the record.
    pub kind: RecordKind,
    /// The flags of the record.
    pub flags: Flags,
    /// The id of the span that was entered or left.
    pub span: Option<u64>,
    /// The captured values, or the text.
    pub payload: Vec<u8>,
    /// The id of the thread.
    pub tid: u64,
}

/// Reads the raw files of a directory, one after the other, without the tracer's own records.
///
/// # Panics
/// If a file is not raw.
#[must_use]
pub fn site_records(directory: &Path) -> Vec<SiteRecord> {
    let mut all = Vec::new();
    let is_trace = |path: &Path| path.to_string_lossy().contains(".trace.");
    for path in names(directory).into_iter().filter(|path| is_trace(path)) {
        let bytes = std::fs::read(&path).expect("a file that can be read");
        let raw = Raw::parse(&bytes).unwrap_or_else(|| panic!("{} is not raw", path.display()));
        let mut sites = BTreeMap::new();
        for (_, record) in raw.records(0) {
            match record.kind {
                RecordKind::Site => {
                    let site = Site::parse(record.payload).expect("an entry of a site");
                    sites.insert(record.site(), site);
                }
                RecordKind::Message | RecordKind::Captured | RecordKind::Scope => all.push(SiteRecord {
                    site: sites.get(&record.site()).cloned(),
                    kind: record.kind,
                    flags: record.flags(),
                    span: record.span(),
                    payload: record.payload.to_vec(),
                    tid: raw.tid(),
                }),
                _ => {}
            }
        }
    }
    all
}
