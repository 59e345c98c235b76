//! The sources of a merge: trace files and rings that are open for reading as text, or renderers that make text from
//! them. A source has one sorted range or several.
//!
//! A *sorted range* is a part of a source in which ticks never go back. An intact file is one sorted range, and the
//! merge assumes that each file is intact until it meets a line with smaller ticks; the merge then searches the bytes
//! for [breaks] and begins again. If the output cannot be begun again, the merge searches for breaks beforehand.

use std::borrow::Cow;
use std::fs::File;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trace_format::file::Encoding;
use trace_format::meta::{Meta, Run};

use crate::file::file_with_ring::FileWithRing;
use crate::file::line_index::{Numbering, index};
use crate::file::lines::{Token, first_ticks, last_ticks, line_at, metas_in, skip_bad, without_torn_tail};
use crate::file::map::Map;
use crate::file::raw_file::RawFile;
use crate::file::rendered::LineSource;
use crate::find::header::Trace;
use crate::os::processors::{OPENING_COST, map_on_all_processors};
use crate::time::anchor::{Anchor, anchors_in};
use crate::time::clocks::Clocks;
use crate::ui::error::Error;
use crate::ui::messages::shown;

/// A trace that is open for reading: text, or a renderer that makes text from another format.
#[derive(Debug)]
pub(crate) struct Source {
    /// The path of the file, for messages.
    pub path: PathBuf,
    stored: Stored,
}

/// The content of a source, as a merge reads it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content<'a> {
    /// The source is text, and these are its bytes.
    Text(&'a [u8]),
    /// The source is not text; the renderer makes its lines.
    Rendered(&'a dyn LineSource),
}

/// The data of an open source.
#[derive(Debug)]
enum Stored {
    /// The first `end` bytes of a text. Bytes after `end` are left out, because the file has lost them by truncation or
    /// because the last line is incomplete.
    Text { bytes: TextBytes, end: usize },
    /// A renderer, which makes text on demand.
    Rendered(Box<dyn LineSource>),
}

/// The bytes of a text, with the object that owns them.
#[derive(Debug)]
enum TextBytes {
    /// The bytes of a mapped file.
    Mapped(Arc<Map>),
    /// The bytes of a thread's file that was read together with the thread's ring.
    File(Arc<FileWithRing>),
    /// The lines of the records that are only in a thread's ring, which come after its file.
    Ring(Arc<FileWithRing>),
}

impl Deref for TextBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            TextBytes::Mapped(map) => map,
            TextBytes::File(held) => held.file(),
            TextBytes::Ring(held) => held.rest(),
        }
    }
}

impl Stored {
    /// Returns a text with all of `bytes`.
    fn text(bytes: TextBytes) -> Stored {
        let end = bytes.len();
        Stored::Text { bytes, end }
    }
}

impl Source {
    /// Opens the file of `trace` as a source. If the thread's ring was read, too, the ring's lines are a second source.
    /// If the ring was not read and the run was `alive` before this call, an incomplete last line of the file is left
    /// out, so that the merge has a prefix of the thread's trace.
    ///
    /// # Errors
    /// The file cannot be opened or mapped.
    pub(crate) fn open(trace: &Trace, alive: bool) -> Result<Vec<Source>, Error> {
        let path = trace.path.clone();
        if let Some(held) = &trace.held {
            let file = match Encoding::of(held.file()) {
                Encoding::Text => Stored::text(TextBytes::File(held.clone())),
                Encoding::Raw => Stored::Rendered(Box::new(RawFile::held(&path, held.clone()))),
            };
            let file = Some(Source { path, stored: file }).filter(|_| !held.file().is_empty());
            let ring = Stored::text(TextBytes::Ring(held.clone()));
            let ring =
                Some(Source { path: held.ring.clone(), stored: ring }).filter(|_| !held.rest().is_empty());
            return Ok(file.into_iter().chain(ring).collect());
        }
        let map = match trace.map.as_ref().filter(|map| !alive && trace.is_unchanged_since_mapped(map)) {
            Some(map) => map.clone(),
            None => Arc::new(Map::open_known(&path)?),
        };
        if map.is_empty() {
            return Err(Error::plain(format!(
                "{} has become empty while it was read: run the command again",
                shown(&path)
            )));
        }
        Ok(vec![Source::of_trace(path, map, alive)])
    }

    /// [Opens](Self::open) the files of all `traces`, on all processors. `alive` returns whether the run of a trace is
    /// alive.
    ///
    /// # Errors
    /// For each trace as [`Self::open`].
    pub(crate) fn open_all(
        traces: &[Trace],
        alive: impl FnMut(&Trace) -> bool,
    ) -> Vec<Result<Vec<Source>, Error>> {
        // All runs are checked before the first file is opened.
        let files: Vec<_> = traces.iter().zip(traces.iter().map(alive).collect::<Vec<_>>()).collect();
        let opened = map_on_all_processors(
            &files,
            |_| OPENING_COST,
            |&(trace, alive)| Some(Source::open(trace, alive)),
        );
        let failed = |trace: &Trace| {
            Error::plain(format!(
                "cannot open {}: the thread that opens it has failed; please report this defect",
                shown(&trace.path)
            ))
        };
        opened
            .into_iter()
            .zip(traces)
            .map(|(result, trace)| result.unwrap_or_else(|| Err(failed(trace))))
            .collect()
    }

    /// Opens the trace file at `path`, which is text or raw.
    ///
    /// # Errors
    /// The file cannot be opened or mapped.
    pub(crate) fn of_trace_file(path: PathBuf) -> Result<Source, Error> {
        let map = Arc::new(Map::open(&path)?);
        Ok(Source::of_trace(path, map, false))
    }

    fn of_trace(path: PathBuf, map: Arc<Map>, alive: bool) -> Source {
        map.advise_sequential();
        if Encoding::of(&map) == Encoding::Raw {
            let raw = RawFile::new(&path, map, alive);
            return Source { path, stored: Stored::Rendered(Box::new(raw)) };
        }
        let end = if alive { without_torn_tail(&map).len() } else { map.len() };
        Source { path, stored: Stored::Text { bytes: TextBytes::Mapped(map), end } }
    }

    /// Returns a source whose lines `render` makes; `path` is its name in messages.
    #[cfg(test)]
    pub(crate) fn of_lines(path: PathBuf, render: Box<dyn LineSource>) -> Source {
        Source { path, stored: Stored::Rendered(render) }
    }

    /// Returns a source with the bytes of `map`; `path` is its name in messages.
    #[must_use]
    pub(crate) fn of_map(path: &Path, map: Map) -> Source {
        Source { path: path.to_owned(), stored: Stored::text(TextBytes::Mapped(Arc::new(map))) }
    }

    /// Returns a source with all bytes of `file`, which is open and does not change; `path` is its name in messages.
    ///
    /// # Errors
    /// The file cannot be mapped.
    pub(crate) fn of_file(path: PathBuf, file: &File) -> Result<Source, Error> {
        let map = Map::of_file(file, &path)?;
        map.advise_sequential();
        Ok(Source { path, stored: Stored::text(TextBytes::Mapped(Arc::new(map))) })
    }

    /// Returns a source with `bytes`; `path` is its name in messages.
    #[cfg(test)]
    pub(crate) fn of(path: &str, bytes: &[u8]) -> Source {
        Source { path: path.into(), stored: Stored::text(TextBytes::Mapped(Arc::new(Map::of(bytes)))) }
    }

    /// Returns the text of the source, or its renderer.
    #[inline]
    #[must_use]
    pub(crate) fn content(&self) -> Content<'_> {
        match &self.stored {
            Stored::Text { bytes, end } => Content::Text(&bytes[..*end]),
            Stored::Rendered(render) => Content::Rendered(&**render),
        }
    }

    /// Returns the bytes of a source that is text; none for a source that is [rendered](Content::Rendered).
    #[inline]
    #[must_use]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self.content() {
            Content::Text(bytes) => bytes,
            Content::Rendered(_) => &[],
        }
    }

    /// Returns whether the source knows the sites of its messages.
    #[must_use]
    pub(crate) fn has_sites(&self) -> bool {
        match &self.stored {
            Stored::Text { .. } => false,
            Stored::Rendered(render) => render.has_sites(),
        }
    }

    /// Replaces the renderer of a source that is not text by the renderer that `change` makes of it.
    pub(crate) fn change(&mut self, change: impl FnOnce(Box<dyn LineSource>) -> Box<dyn LineSource>) {
        let nothing = Stored::text(TextBytes::Mapped(Arc::new(Map::nothing())));
        self.stored = match std::mem::replace(&mut self.stored, nothing) {
            Stored::Rendered(render) => Stored::Rendered(change(render)),
            text @ Stored::Text { .. } => text,
        };
    }

    /// Makes the source leave out calls that took fewer than `ticks` and contain no records, if leaving them out is
    /// cheap.
    pub(crate) fn leave_out_shorter_calls(&mut self, ticks: u64) {
        if let Stored::Rendered(render) = &mut self.stored {
            render.leave_out_shorter_calls(ticks);
        }
    }

    /// Marks the bytes in `range` as read for the last time, so that they need not stay in this process's memory. Small
    /// ranges are not worth the call. The bytes can still be read again.
    pub(crate) fn forget(&self, range: Range<usize>) {
        if let Stored::Text { bytes: TextBytes::Mapped(map), .. } = &self.stored {
            map.forget(range);
        }
    }

    /// Returns text that contains at least the `#` lines at the source's beginning and at its end.
    #[must_use]
    pub(crate) fn outline(&self) -> Cow<'_, [u8]> {
        match self.content() {
            Content::Text(bytes) => Cow::Borrowed(bytes),
            Content::Rendered(render) => Cow::Owned(render.outline()),
        }
    }

    /// Calls `take` with the payload of each `#` line of the source, in order.
    pub(crate) fn each_meta(&self, take: &mut dyn FnMut(&[u8])) {
        match self.content() {
            Content::Text(bytes) => metas_in(bytes).for_each(take),
            Content::Rendered(render) => render.each_meta(take),
        }
    }

    /// Returns the readings of the clocks in all `# clock` lines of the source, all of which is read for this.
    #[must_use]
    pub(crate) fn anchors(&self) -> Vec<Anchor> {
        match self.content() {
            Content::Text(bytes) => anchors_in(bytes).collect(),
            Content::Rendered(render) => {
                let mut anchors = Vec::new();
                render.each_meta(&mut |payload| {
                    if payload.starts_with(b"clock ") {
                        anchors.extend(Meta::parse(payload).as_ref().and_then(Anchor::of_meta));
                    }
                });
                anchors
            }
        }
    }

    /// Returns the ticks of the source's first line and of its last line; `None` if it has no line.
    #[must_use]
    pub(crate) fn ends(&self) -> Option<(u64, u64)> {
        match self.content() {
            Content::Text(bytes) => first_ticks(bytes).zip(last_ticks(bytes)),
            Content::Rendered(render) => render.period(),
        }
    }

    /// Returns the number of bytes of the source's text; for a source that is rendered, its [`LineSource::size`].
    #[must_use]
    pub(crate) fn size(&self) -> usize {
        match self.content() {
            Content::Text(bytes) => bytes.len(),
            Content::Rendered(render) => usize::try_from(render.size()).unwrap_or(usize::MAX),
        }
    }

    /// Returns the range of the source's bytes that `lines` occupy; `None` if `lines` are a copy.
    #[inline]
    #[must_use]
    pub(crate) fn place(&self, lines: &[u8]) -> Option<Range<usize>> {
        place_of(self.bytes(), lines)
    }

    /// Returns the offset at which the source's file ends now; `None` if it was not truncated since it was mapped.
    /// Behind that offset, the mapping has zeros.
    #[must_use]
    pub(crate) fn truncated_at(&self) -> Option<usize> {
        let Stored::Text { bytes, end } = &self.stored else { return None };
        let truncated_at = match bytes {
            TextBytes::Mapped(map) => map.truncated_at(),
            TextBytes::File(held) => held.truncated_at(),
            TextBytes::Ring(_) => None,
        };
        // The page that a file ends in has zeros, too.
        let there = bytes[..*end].get(..truncated_at?)?;
        let new_end = there.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        (new_end < *end).then_some(new_end)
    }

    /// Leaves out the bytes that the file has lost by truncation. Returns whether more bytes are left out than before.
    pub(crate) fn end_where_truncated(&mut self) -> bool {
        let truncated_at = self.truncated_at();
        if let (Some(new_end), Stored::Text { end, .. }) = (truncated_at, &mut self.stored) {
            *end = new_end;
        }
        truncated_at.is_some()
    }

    /// Returns whether the source is the text of records in a ring.
    #[must_use]
    pub(crate) fn is_ring(&self) -> bool {
        matches!(self.stored, Stored::Text { bytes: TextBytes::Ring(_), .. })
    }
}

/// Reads the clocks of `files`, each given with its run: the readings at the beginning and the end of each file. If
/// these show that the wall clock was set or the machine was suspended, reads all of each file, to find out when.
pub(crate) fn clocks_of<'a>(files: impl Iterator<Item = (&'a Run, &'a Source)> + Clone) -> Clocks {
    let mut clocks = Clocks::read(files.clone().map(|(run, source)| (run, source.outline())));
    if clocks.have_steps() {
        clocks.refine(files.map(|(run, source)| (run, source.anchors())));
    }
    clocks
}

/// Returns the range of `whole` in which the bytes of `part` lie in memory; `None` if `part` is a copy.
#[inline]
#[must_use]
pub(crate) fn place_of(whole: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    let end = start.checked_add(part.len())?;
    (end <= whole.len()).then_some(start..end)
}

/// A part of a text in which ticks never go back, or all of a source that is rendered. A part of a text begins and ends
/// where lines begin, or where the text begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortedRange {
    /// The index of the source among all sources.
    pub source: usize,
    /// The offset of the first byte of the range; 0 in a source that is rendered.
    pub start: usize,
    /// The offset after the last byte of the range; without meaning in a source that is rendered.
    pub end: usize,
}

/// Returns one sorted range for each source: all of it.
#[cfg(test)]
#[must_use]
pub(crate) fn whole(sources: &[Source]) -> Vec<SortedRange> {
    let range = |(source, file): (usize, &Source)| SortedRange { source, start: 0, end: file.bytes().len() };
    sources.iter().enumerate().map(range).collect()
}

/// A line whose ticks are smaller than those of the previous line: its offset, the previous line's ticks, and its own
/// ticks.
pub(crate) type Break = (usize, u64, u64);

/// The number of bytes that [`breaks`] skips at once if the lines in them are in order.
const INDEXED_BYTES: usize = if cfg!(test) { 100 } else { 256 << 10 };

/// Reads all of `bytes` and returns the breaks in them, in order.
pub(crate) fn breaks(bytes: &[u8]) -> Vec<Break> {
    let mut breaks = Vec::new();
    let (mut starts, mut words) = (Vec::new(), Vec::new());
    let (mut at, mut ticks, mut indexed) = (0, 0, 0);
    loop {
        if at >= indexed {
            let next = without_torn_tail(&bytes[at..bytes.len().min(at + INDEXED_BYTES)]);
            indexed = at + next.len().max(1);
            words.clear();
            let numbering = Numbering::new(ticks, next.len());
            if let Some(plain) = index(next, 0, numbering, &mut starts, &mut words) {
                (at, ticks) = (indexed, plain.last);
                continue;
            }
        }
        match line_at(bytes, at) {
            Token::End => return breaks,
            Token::Bad => at = skip_bad(bytes, at),
            Token::Line(line) => {
                if line.ticks < ticks {
                    breaks.push((at, ticks, line.ticks));
                }
                ticks = line.ticks;
                at = line.end;
            }
        }
    }
}
