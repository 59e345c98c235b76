//! Stage *read*, second half: the bytes of the files that are merged, and where they fall into ranges.
//!
//! A *range* is a part of a file in which ticks never go backwards. A sound file is one range, and the merge
//! takes that for granted until it sees otherwise; only then, or where the output cannot be begun anew,
//! [`split`] goes over the bytes beforehand.

use std::borrow::Cow;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trace_format::file::Encoding;

use crate::file::held::Held;
use crate::file::lines::{Token, first_ticks, last_ticks, line_at, skip_bad, without_torn_tail};
use crate::file::map::Map;
use crate::file::raw::RawFile;
use crate::file::render::Render;
use crate::find::header::Trace;
use crate::input::findings::Findings;
use crate::os::processors::{OPENING, map_on_all_processors};
use crate::ui::error::Error;
use crate::ui::messages::shown;

/// A file, mapped, or text from a ring; or something that is made into text.
#[derive(Debug)]
pub struct Source {
    /// The path of the file, for messages.
    pub path: PathBuf,
    bytes: Bytes,
    /// What was cut off since it was mapped does not count.
    end: usize,
}

#[derive(Debug)]
enum Bytes {
    /// A file.
    Mapped(Arc<Map>),
    /// The file of a thread whose ring was read.
    File(Arc<Held>),
    /// The bytes that a ring in memory has for the file.
    Ring(Arc<Held>),
    /// What has no text before it is asked for it.
    Rendered(Box<dyn Render>),
}

impl Source {
    /// Maps the file of `trace`, and takes what its ring has behind it, if that was read. Otherwise, of a run that was
    /// alive before this call, what is not yet a whole line is left out: so the merge has a prefix of the thread.
    ///
    /// # Errors
    /// Where the file cannot be opened or mapped.
    pub fn open(trace: &Trace, alive: bool) -> Result<Vec<Source>, Error> {
        let path = trace.path.clone();
        if let Some(held) = &trace.held {
            let (of_file, of_ring) = (held.file().len(), held.rest().len());
            let (file, end) = match Encoding::of(held.file()) {
                Encoding::Text => (Bytes::File(held.clone()), of_file),
                Encoding::Raw => (Bytes::Rendered(Box::new(RawFile::held(&path, held.clone()))), 0),
            };
            let file = Some(Source { path, bytes: file, end }).filter(|_| of_file > 0);
            let ring = Source { path: held.ring.clone(), bytes: Bytes::Ring(held.clone()), end: of_ring };
            let ring = Some(ring).filter(|_| of_ring > 0);
            return Ok(file.into_iter().chain(ring).collect());
        }
        let map = match trace.map.as_ref().filter(|map| !alive && trace.is_as_it_was(map)) {
            Some(map) => map.clone(),
            None => Arc::new(Map::open_known(&path)?),
        };
        if map.is_empty() {
            return Err(Error::plain(format!("{} has become empty while it was read", shown(&path))));
        }
        Ok(vec![Source::of_trace(path, map, alive)])
    }

    /// [Opens](Self::open) all files, of which `alive` says whether their runs are: by all processors.
    ///
    /// # Errors
    /// As [`Self::open`], for each file.
    pub fn open_all(traces: &[Trace], alive: impl FnMut(&Trace) -> bool) -> Vec<Result<Vec<Source>, Error>> {
        // All are asked before the first is opened.
        let files: Vec<_> = traces.iter().zip(traces.iter().map(alive).collect::<Vec<_>>()).collect();
        let opened =
            map_on_all_processors(&files, |_| OPENING, |&(trace, alive)| Some(Source::open(trace, alive)));
        let failed = |trace: &Trace| Error::plain(format!("{} was not opened", shown(&trace.path)));
        opened
            .into_iter()
            .zip(traces)
            .map(|(result, trace)| result.unwrap_or_else(|| Err(failed(trace))))
            .collect()
    }

    /// The trace file at `path`, lines or records.
    ///
    /// # Errors
    /// Where it cannot be opened or mapped.
    pub fn of_trace_file(path: PathBuf) -> Result<Source, Error> {
        let map = Arc::new(Map::open(&path)?);
        Ok(Source::of_trace(path, map, false))
    }

    fn of_trace(path: PathBuf, map: Arc<Map>, alive: bool) -> Source {
        map.will_be_read_through();
        if Encoding::of(&map) == Encoding::Raw {
            let raw = RawFile::new(&path, map, alive);
            return Source { path, bytes: Bytes::Rendered(Box::new(raw)), end: 0 };
        }
        let end = if alive { without_torn_tail(&map).len() } else { map.len() };
        Source { path, bytes: Bytes::Mapped(map), end }
    }

    /// A source whose lines `render` makes; `path` is for messages.
    #[cfg(test)]
    pub fn of_lines(path: PathBuf, render: Box<dyn Render>) -> Source {
        Source { path, bytes: Bytes::Rendered(render), end: 0 }
    }

    /// What makes the lines, where they are not there already.
    #[inline]
    #[must_use]
    pub fn rendered(&self) -> Option<&dyn Render> {
        match &self.bytes {
            Bytes::Rendered(render) => Some(&**render),
            _ => None,
        }
    }

    /// What stands for the file at `path`.
    #[must_use]
    pub fn of_map(path: &Path, map: Map) -> Source {
        let end = map.len();
        Source { path: path.to_owned(), bytes: Bytes::Mapped(Arc::new(map)), end }
    }

    /// The whole of a file that is open and does not change; `path` is for messages.
    ///
    /// # Errors
    /// The file cannot be mapped.
    pub fn of_file(path: PathBuf, file: &File) -> Result<Source, Error> {
        let map = Map::of_file(file, &path)?;
        map.will_be_read_through();
        let end = map.len();
        Ok(Source { path, bytes: Bytes::Mapped(Arc::new(map)), end })
    }

    /// A file called `path` that has `bytes`.
    #[cfg(test)]
    pub fn of(path: &str, bytes: &[u8]) -> Source {
        Source { path: path.into(), bytes: Bytes::Mapped(Arc::new(Map::of(bytes))), end: bytes.len() }
    }

    /// Says that those bytes were read for the last time, so that they take no memory of this process any more. Small
    /// ranges are not worth it. They may be read all the same.
    pub fn forget(&self, range: Range<usize>) {
        if let Bytes::Mapped(map) = &self.bytes {
            map.forget(range);
        }
    }

    /// Text in which the source's `#` lines are found, those at its ends at least.
    #[must_use]
    pub fn outline(&self) -> Cow<'_, [u8]> {
        match self.rendered() {
            Some(render) => Cow::Owned(render.outline()),
            None => Cow::Borrowed(self.bytes()),
        }
    }

    /// The ticks of the first line and of the last; `None` where there is no line.
    #[must_use]
    pub fn ends(&self) -> Option<(u64, u64)> {
        match self.rendered() {
            Some(render) => render.span(),
            None => first_ticks(self.bytes()).zip(last_ticks(self.bytes())),
        }
    }

    /// Bytes of the file, or of what there is in its place.
    #[must_use]
    pub fn size(&self) -> usize {
        let rendered = self.rendered().map(Render::size);
        rendered.map_or_else(|| self.bytes().len(), |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Where in the bytes these `lines` are, if they are a part of them and no copy.
    #[inline]
    #[must_use]
    pub fn place(&self, lines: &[u8]) -> Option<Range<usize>> {
        place_of(self.bytes(), lines)
    }

    /// Where the file ends now, if a part of these bytes was cut off since it was mapped: zeros stand there instead.
    #[must_use]
    pub fn truncated_at(&self) -> Option<usize> {
        let truncated_at = match &self.bytes {
            Bytes::Mapped(map) => map.truncated_at(),
            Bytes::File(held) => held.truncated_at(),
            Bytes::Ring(_) | Bytes::Rendered(_) => None,
        };
        // The page that a file ends in has zeros, too.
        let there = self.bytes().get(..truncated_at?)?;
        let end = there.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        (end < self.end).then_some(end)
    }

    /// Gives up what was cut off; returns whether there was something that was not given up before.
    pub fn end_where_truncated(&mut self) -> bool {
        self.truncated_at().is_some_and(|end| {
            self.end = end;
            true
        })
    }

    /// Whether this is text from a ring.
    #[must_use]
    pub fn is_ring(&self) -> bool {
        matches!(self.bytes, Bytes::Ring(_))
    }

    /// The bytes that are merged; none where they are [rendered](Self::rendered).
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let bytes = match &self.bytes {
            Bytes::Mapped(map) => map,
            Bytes::File(held) => held.file(),
            Bytes::Ring(held) => held.rest(),
            Bytes::Rendered(_) => &[],
        };
        &bytes[..self.end]
    }
}

/// Where in `whole` the bytes of `part` are, if they are a part of it and no copy.
#[inline]
#[must_use]
pub fn place_of(whole: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    let end = start.checked_add(part.len())?;
    (end <= whole.len()).then_some(start..end)
}

/// A part of a file with ascending ticks. It begins and ends where lines begin, or at the file's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortedRange {
    /// The file's place among the sources.
    pub source: usize,
    /// The offset of the range's first byte.
    pub start: usize,
    /// Behind its last byte.
    pub end: usize,
}

/// One range for each file.
#[must_use]
pub fn whole(sources: &[Source]) -> Vec<SortedRange> {
    let range = |(source, file): (usize, &Source)| SortedRange { source, start: 0, end: file.bytes().len() };
    sources.iter().enumerate().map(range).collect()
}

/// All ranges of all files, files in their order, and the breaks between them told to `findings`.
#[must_use]
pub fn split(sources: &[Source], findings: &mut Findings) -> Vec<SortedRange> {
    let mut ranges = Vec::with_capacity(sources.len());
    for (source, breaks) in all_breaks(sources).into_iter().enumerate() {
        let mut range = SortedRange { source, start: 0, end: sources[source].bytes().len() };
        for (at, before, after) in breaks {
            findings.broken(source, at, before, after);
            ranges.push(SortedRange { end: at, ..range });
            range.start = at;
        }
        ranges.push(range);
    }
    ranges
}

/// Where ticks go backwards: offset of the line, ticks before, its ticks.
pub type Break = (usize, u64, u64);

/// The breaks of each file.
fn all_breaks(sources: &[Source]) -> Vec<Vec<Break>> {
    map_on_all_processors(sources, |source| source.bytes().len(), |source| breaks(source.bytes()))
}

/// The breaks in `bytes`.
pub fn breaks(bytes: &[u8]) -> Vec<Break> {
    let mut breaks = Vec::new();
    let (mut at, mut ticks) = (0, 0);
    loop {
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
