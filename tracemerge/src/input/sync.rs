//! Finds the messages that machines have sent to each other. Pairs of patterns find the lines which say that a message
//! was sent, and that it was received. [`align_by_messages`](super::align_by_messages) uses these messages to put the
//! traces on one scale of ticks.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;

use regex::bytes::{Captures, Regex};
use trace_format::line::{Kind, Line, Ticks};

use crate::file::lines::{lines_of, strip_line_feed};
use crate::file::rendered::LineSource;
use crate::input::source::{Content, Source};
use crate::time::order::Message;

/// The maximum number of message ids that are kept in memory.
const MOST_IDS: usize = 8_000_000;
/// The number of bytes of lines of a rendered source that are in memory at the same time.
const RENDERED_BYTES: u64 = 4 << 20;

/// The two patterns of a `--sync` option: for lines that say that a message was sent, and for lines that say that a
/// message was received. The text that their groups match is the id of the message.
#[derive(Clone, Debug)]
pub(crate) struct SyncPatterns {
    sent: Regex,
    received: Regex,
    /// The groups of the patterns whose text is the id of a message.
    groups: Groups,
}

#[derive(Clone, Debug)]
enum Groups {
    /// This number of groups, from the first one on, in both patterns.
    First(usize),
    /// The groups with these numbers in the pattern for sending, to which the pattern for receiving refers by `\1` and
    /// so on.
    Named(Vec<usize>),
}

impl SyncPatterns {
    /// Compiles the two patterns. `\1` in the pattern for receiving means the text of the first group of the pattern
    /// for sending.
    ///
    /// # Errors
    /// A pattern is not a regular expression, or the two do not have the same groups.
    pub(crate) fn new(sent: &str, received: &str) -> Result<SyncPatterns, String> {
        let compiled = |pattern: &str| {
            Regex::new(pattern).map_err(|error| format!("{pattern:?} is not a regular expression: {error}"))
        };
        let first = compiled(sent)?;
        let of_first = first.captures_len() - 1;
        if of_first == 0 {
            return Err(format!(
                "{sent:?} has no group; put the text that identifies a message in parentheses, as in 'sent (\\S+)'"
            ));
        }
        let (text, named) = resolved(sent, received, of_first)?;
        let second = compiled(&text)?;
        let groups = if named.is_empty() {
            let of_second = second.captures_len() - 1;
            if of_first != of_second {
                return Err(format!(
                    "{sent:?} has {of_first} groups and {received:?} has {of_second}; both must identify a message \
                     by the same groups, or the second by \\1"
                ));
            }
            Groups::First(of_first)
        } else {
            Groups::Named(named)
        };
        Ok(SyncPatterns { sent: first, received: second, groups })
    }

    fn ids<'a>(&self, captures: &'a Captures<'_>, is_sending: bool) -> Vec<&'a [u8]> {
        let text = |group: Option<regex::bytes::Match<'a>>| group.map_or(&[][..], |found| found.as_bytes());
        match &self.groups {
            Groups::First(count) => (1..=*count).map(|group| text(captures.get(group))).collect(),
            Groups::Named(groups) if is_sending => {
                groups.iter().map(|group| text(captures.get(*group))).collect()
            }
            Groups::Named(groups) => groups.iter().map(|group| text(captures.name(&name(*group)))).collect(),
        }
    }
}

/// Returns the name that a group gets in the pattern for receiving if it refers to the group with this number of the
/// pattern for sending.
fn name(group: usize) -> String {
    format!("tracemerge_sync_{group}")
}

/// Resolves references in the pattern for receiving: replaces `\1` by the first group of the pattern for sending, and
/// so on. Returns the resulting pattern, and the numbers of the groups that were referred to, in ascending order.
fn resolved(sent: &str, received: &str, of_first: usize) -> Result<(String, Vec<usize>), String> {
    let (mut out, mut named) = (String::new(), Vec::new());
    let mut chars = received.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some(digit @ '1'..='9') => {
                let group = digit as usize - '0' as usize;
                if group > of_first {
                    return Err(format!(
                        "{received:?} refers to group {group}, but {sent:?} has only {of_first}"
                    ));
                }
                if named.contains(&group) {
                    return Err(format!("{received:?} refers to group {group} twice"));
                }
                let inner = group_text(sent, group).unwrap_or_default();
                out.push_str(&format!("(?P<{}>{inner})", name(group)));
                named.push(group);
            }
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    named.sort_unstable();
    Ok((out, named))
}

/// Returns the text inside the group with the number `wanted` of a regular expression. Groups inside of that text no
/// longer capture.
fn group_text(pattern: &str, wanted: usize) -> Option<String> {
    let chars: Vec<char> = pattern.chars().collect();
    let (mut at, mut groups, mut depth, mut in_class) = (0, 0, 0usize, 0usize);
    let mut inside: Option<(usize, String)> = None;
    while at < chars.len() {
        let mut piece = chars[at].to_string();
        let mut next = at + 1;
        match chars[at] {
            '\\' => {
                piece.extend(chars.get(next));
                next += 1;
            }
            '[' => in_class += 1,
            ']' if in_class > 0 => in_class -= 1,
            '(' if in_class == 0 => {
                depth += 1;
                let is_named = chars.get(next) == Some(&'?')
                    && (chars.get(next + 1) == Some(&'P') || chars.get(next + 1) == Some(&'<'));
                if chars.get(next) != Some(&'?') || is_named {
                    groups += 1;
                    if is_named {
                        next = at + chars[at..].iter().position(|c| *c == '>')? + 1;
                    }
                    piece = "(?:".to_owned();
                    if groups == wanted {
                        inside = Some((depth, String::new()));
                        at = next;
                        continue;
                    }
                }
            }
            ')' if in_class == 0 => {
                if let Some((_, text)) = inside.take_if(|inside| inside.0 == depth) {
                    return Some(text);
                }
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        if let Some((_, text)) = &mut inside {
            text.push_str(&piece);
        }
        at = next;
    }
    None
}

/// The messages between machines that were found, with counts for the user.
#[derive(Debug, Default)]
pub(crate) struct SyncMessages {
    /// The messages for which both lines were found, on machines with different clocks.
    pub messages: Vec<Message>,
    /// The numbers of lines that match a pattern: for sending (the first value), and for receiving (the second value).
    pub lines: [u64; 2],
    /// The number of ids that do not identify a message, because several lines for sending, or several for receiving,
    /// have the same id.
    pub repeated: u64,
    /// Whether more ids were found than are kept in memory.
    pub is_cut: bool,
}

/// The two lines of a message, for sending and for receiving. For each line that was found, it has the number of the
/// clock and the clock's reading.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    ends: [Option<(u32, i64)>; 2],
    is_repeated: bool,
}

/// A search for messages between machines: it reads the lines of sources and matches them with the patterns.
#[derive(Debug)]
pub(crate) struct Matcher<'a> {
    patterns: &'a [SyncPatterns],
    hashers: [RandomState; 2],
    known: HashMap<u128, Ends>,
    found: SyncMessages,
}

impl<'a> Matcher<'a> {
    /// Makes a matcher that has read no lines.
    #[must_use]
    pub(crate) fn new(patterns: &'a [SyncPatterns]) -> Matcher<'a> {
        let hashers = [RandomState::new(), RandomState::new()];
        Matcher { patterns, hashers, known: HashMap::new(), found: SyncMessages::default() }
    }

    /// Reads all lines of a source. `clock` is the number of the source's clock, and `reading` converts ticks to
    /// readings of that clock.
    pub(crate) fn read(&mut self, source: &Source, clock: u32, reading: &dyn Fn(Ticks) -> i64) {
        match source.content() {
            Content::Text(bytes) => self.read_lines(bytes, clock, reading),
            Content::Rendered(render) => each_slice(render, |lines| self.read_lines(lines, clock, reading)),
        }
    }

    fn read_lines(&mut self, lines: &[u8], clock: u32, reading: &dyn Fn(Ticks) -> i64) {
        for line in lines_of(lines) {
            let Ok(line) = Line::parse(strip_line_feed(line)) else { continue };
            if line.kind == Kind::Message {
                self.read_line(&line, clock, reading);
            }
        }
    }

    fn read_line(&mut self, line: &Line, clock: u32, reading: &dyn Fn(Ticks) -> i64) {
        for (number, patterns) in self.patterns.iter().enumerate() {
            for (end, pattern) in [&patterns.sent, &patterns.received].into_iter().enumerate() {
                let Some(captures) = pattern.captures(line.payload) else { continue };
                self.found.lines[end] += 1;
                let id = (number, patterns.ids(&captures, end == 0));
                let [high, low] = [0, 1].map(|at| u128::from(self.hashers[at].hash_one(&id)));
                let is_full = self.known.len() >= MOST_IDS;
                let ends = match self.known.entry(high << 64 | low) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(_) if is_full => {
                        self.found.is_cut = true;
                        continue;
                    }
                    Entry::Vacant(new) => new.insert(Ends::default()),
                };
                if ends.ends[end].is_some() {
                    ends.is_repeated = true;
                } else {
                    ends.ends[end] = Some((clock, reading(line.key.ticks)));
                }
            }
        }
    }

    /// Returns the messages that were found, sorted by their clocks and readings.
    #[must_use]
    pub(crate) fn finish(self) -> SyncMessages {
        let mut found = self.found;
        for ends in self.known.into_values() {
            if ends.is_repeated {
                found.repeated += 1;
            } else if let [Some((from, sent)), Some((to, received))] = ends.ends {
                if from != to {
                    found.messages.push(Message { from, to, sent, received });
                }
            }
        }
        found.messages.sort_by_key(|message| (message.from, message.sent, message.to, message.received));
        found
    }
}

/// Calls `take` with all lines of a rendered source, a limited number of bytes at a time.
fn each_slice(render: &dyn LineSource, mut take: impl FnMut(&[u8])) {
    let Some((mut from, last)) = render.period() else { return };
    let mut lines = Vec::new();
    loop {
        let enough = render.bytes_before(from).saturating_add(RENDERED_BYTES);
        let (mut low, mut high) = (from.saturating_add(1), last.saturating_add(1));
        while low < high {
            let middle = low.midpoint(high);
            if render.bytes_before(middle) < enough { low = middle + 1 } else { high = middle }
        }
        let until = Some(low).filter(|until| *until <= last);
        lines.clear();
        render.lines(from, until, &mut lines, &mut |_, _| {});
        take(&lines);
        match until {
            Some(until) => from = until,
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(patterns: &[SyncPatterns], lines: &[(u32, &str)]) -> SyncMessages {
        let mut matcher = Matcher::new(patterns);
        for (at, (clock, text)) in lines.iter().enumerate() {
            let line = format!("{at:016x}-00000009 : {text}\n");
            matcher.read_lines(line.as_bytes(), *clock, &|ticks| ticks.0 as i64);
        }
        matcher.finish()
    }

    #[test]
    fn the_second_pattern_refers_to_groups_of_the_first_one() {
        let patterns = [SyncPatterns::new(r"sent (\S+) to ([a-z]+(?:-(\d+))?)", r"^\2 got \1$").unwrap()];
        let lines = [
            (0, "sent 17 to db-3"),
            (1, "db-3 got 17"),
            (0, "sent 18 to db"),
            (1, "db-1 got 18"),
            (1, "db got 18"),
        ];
        let found = matched(&patterns, &lines);
        assert_eq!(found.lines, [2, 3]);
        let sent: Vec<_> = found.messages.iter().map(|message| (message.sent, message.received)).collect();
        assert_eq!(sent, [(0, 1), (2, 4)]);
    }

    #[test]
    fn messages_of_one_clock_and_repeated_ids_prove_nothing() {
        let patterns = [SyncPatterns::new(r"sent (\S+)", r"got (\S+)").unwrap()];
        let lines = [(0, "sent 1"), (0, "got 1"), (0, "sent 2"), (0, "sent 2"), (1, "got 2"), (1, "got 3")];
        let found = matched(&patterns, &lines);
        assert_eq!((found.messages.len(), found.repeated, found.lines), (0, 1, [3, 3]));
    }

    #[test]
    fn patterns_that_identify_nothing_are_refused() {
        for (sent, received) in
            [("sent", "got"), ("sent (.)", "got"), ("sent (.)", r"got \2"), ("(", "x"), ("(.)", "(")]
        {
            assert!(SyncPatterns::new(sent, received).is_err(), "{sent} {received}");
        }
    }
}
