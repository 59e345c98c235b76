//! The statements of a trace file about its run, in the lines at the beginning and at the end of the file.

use trace_format::file::thread_of;
use trace_format::line::{Kind, Line};
use trace_format::meta::{End, Meta, RingPlace, Thread};
use trace_format::raw::Raw;
use trace_format::record::RecordKind;
use trace_format::states::THREAD_NAME;

/// The facts about a file's run that lines at the beginning and at the end of the file state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The second line of the file, if that is a `# thread` line.
    pub thread: Option<Thread>,
    /// The last line of the file, if that is an `# end`.
    pub end: Option<End>,
    /// The number of files that the tracer has dropped from the file's run: the largest count near the end of a text
    /// file, or near the beginning of a raw file.
    pub dropped: u64,
}

impl Marks {
    /// Reads the facts about the run from a text file, or from text that continues a file.
    #[must_use]
    pub(crate) fn of_text(bytes: &[u8]) -> Marks {
        let whole = bytes.strip_suffix(b"\n");
        let last = whole.map(|text| memchr::memrchr(b'\n', text).map_or(text, |feed| &text[feed + 1..]));
        let end =
            last.and_then(meta).and_then(|meta| if let Meta::End(end) = meta { Some(end) } else { None });
        Marks { thread: thread_of(bytes), end, dropped: dropped_by(metas_at_end(bytes)) }
    }

    /// Reads the facts about the run from a raw file.
    #[must_use]
    pub(crate) fn of_raw(raw: Raw<'_>) -> Marks {
        let parsed = |kind, payload| (kind == RecordKind::Meta).then(|| Meta::parse(payload)).flatten();
        let end = match raw.last_record().and_then(|record| parsed(record.kind, record.payload)) {
            Some(Meta::End(end)) => Some(end),
            _ => None,
        };
        // The run's own file, which records dropped files, has few records.
        let metas =
            raw.records(0).take(MAX_LAST_LINES).filter_map(|(_, record)| parsed(record.kind, record.payload));
        Marks { thread: raw.thread(), end, dropped: dropped_by(metas) }
    }

    /// Returns the facts that the file states together with `rest`, the text that follows it.
    #[must_use]
    pub(crate) fn followed_by(self, rest: &[u8]) -> Marks {
        if rest.is_empty() {
            return self;
        }
        let rest = Marks::of_text(rest);
        Marks { thread: self.thread.or(rest.thread), end: rest.end, dropped: self.dropped.max(rest.dropped) }
    }

    /// Returns whether the file contains the thread states of its run, instead of the trace of a thread. Such a file
    /// has a special thread name, and no records.
    #[must_use]
    pub(crate) fn has_states(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.name == THREAD_NAME)
            && self.end.as_ref().is_some_and(|end| end.records == 0)
    }

    /// Returns whether the ring of the file is private memory of the process, which is lost when the process is killed.
    #[must_use]
    pub(crate) fn is_private(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.ring == RingPlace::Private)
    }
}

/// The maximum number of lines at the end of a text, or of records at the beginning of a raw file, that are searched
/// for the count of dropped files.
const MAX_LAST_LINES: usize = 16;

/// Returns the metadata in the last lines of a text, the last one first, up to a line that is not metadata.
fn metas_at_end(bytes: &[u8]) -> impl Iterator<Item = Meta> {
    bytes.rsplit(|&byte| byte == b'\n').skip(1).take(MAX_LAST_LINES).map_while(meta)
}

/// Returns the largest count of dropped files that `metas` state; 0 if they state none.
fn dropped_by(metas: impl Iterator<Item = Meta>) -> u64 {
    let dropped = |meta: Meta| if let Meta::Dropped { files } = meta { Some(files) } else { None };
    metas.filter_map(dropped).max().unwrap_or(0)
}

fn meta(line: &[u8]) -> Option<Meta> {
    let line = Line::parse(line).ok().filter(|line| line.kind == Kind::Meta)?;
    Meta::parse(line.payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_and_the_last_line_are_read() {
        let key = "0000000000000007-00000320";
        let text = format!(
            "{key} # run version=1\n{key} # thread name=\"a\" ring=private why=\"b\" file=3\n{key} : one\n\
             {key} # end records=1 lost=0 reason=exit files=4\n"
        );
        let marks = Marks::of_text(text.as_bytes());
        assert_eq!(marks.thread.as_ref().and_then(|thread| thread.file), Some(3));
        assert!(marks.is_private());
        assert_eq!(marks.end.as_ref().and_then(|end| end.files), Some(4));
        let torn = Marks::of_text(&text.as_bytes()[..text.len() - 1]);
        assert_eq!((torn.thread.is_some(), torn.end), (true, None));
        let goes_on = marks.followed_by(format!("{key} : two\n").as_bytes());
        assert_eq!((goes_on.thread.is_some(), goes_on.end), (true, None));
        assert_eq!(Marks::of_text(b""), Marks::default());
    }
}
