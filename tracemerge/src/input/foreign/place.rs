//! The position in a log's lines at which their times stand.
//!
//! A line that has a date only at another position, for example in the text of an error, continues the message of the
//! line before. So the first lines of a log decide at which position its times are.

use std::collections::BTreeMap;

use crate::input::foreign::stamp::{Stamp, StampFormat};

/// The factor by which a weak position must be more frequent than any other position to be chosen as the position of a
/// log's times. A position is weak if it is after a margin, for example: dumps of objects and tables may have dates
/// there, in lines that continue another line.
const WEAK: usize = 20;
/// The bytes that form a margin: the blank beginning of a line.
const MARGIN: [u8; 2] = [b' ', b'\t'];

/// A description of the text before a time in a line. It omits what differs from line to line, so that it is equal for
/// lines with the time at the same position.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Lead {
    /// The number of words before the time. A column number would not do, because words such as `INFO` and `ERROR` have
    /// different lengths.
    words: usize,
    /// The `class` of the first byte after the margin, if there are words before the time; otherwise 0.
    first: u8,
    /// The bytes directly before the time, after the last blank, for example `[`. Names, numbers and colours in these
    /// bytes count as equal, except for names of fields: `time=` differs from `expires=`.
    glue: Vec<u8>,
    /// The number of bytes in the margin: the blanks at the beginning of the line.
    margin: usize,
}

impl Lead {
    fn of(line: &[u8], stamp: &Stamp, format: StampFormat) -> Lead {
        let before = &line[..stamp.at];
        let margin = before.iter().take_while(|b| MARGIN.contains(b)).count();
        let text = &before[margin..];
        let glue = text.rsplit(|b| MARGIN.contains(b)).next().unwrap_or_default();
        let words = text[..text.len() - glue.len()].split(|b| MARGIN.contains(b));
        let words = words.filter(|word| !word.is_empty()).count();
        if words > 0 && format == StampFormat::DayFirst && glue == b"[" {
            // Web servers write names of hosts and users before the time, in any number.
            return Lead { words: 1, first: 0, glue: glue.to_vec(), margin };
        }
        let first = if words > 0 { text.first().map_or(0, |b| class(*b)) } else { 0 };
        let mut glue = glue.to_vec();
        if !glue.contains(&b'=') {
            glue.dedup_by(|next, last| next.is_ascii_alphanumeric() && last.is_ascii_alphanumeric());
            glue.iter_mut().filter(|b| b.is_ascii_alphanumeric()).for_each(|b| *b = b'a');
        }
        Lead { words, first, glue, margin }
    }

    fn is_weak(&self) -> bool {
        self.margin > 0 || self.first == b'{' || self.glue.first() == Some(&b'{')
    }
}

/// Returns a byte that stands for all bytes of the same class: `A` for capital letters, `a` for small letters, `0` for
/// digits. Any other byte is a class of its own.
fn class(b: u8) -> u8 {
    match b {
        b'A'..=b'Z' => b'A',
        b'a'..=b'z' => b'a',
        b'0'..=b'9' => b'0',
        _ => b,
    }
}

/// The format of a log's times, and their position in its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StampPlace {
    format: StampFormat,
    lead: Lead,
    /// The column of the time in the first line that has its time at this position.
    column: usize,
}

impl StampPlace {
    /// Returns the position and the format of the times that most of the `lines` have; `None` if no line has a time.
    pub(super) fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<StampPlace> {
        let mut counts: BTreeMap<(StampFormat, Lead), (usize, usize)> = BTreeMap::new();
        for line in lines {
            for format in StampFormat::ALL {
                if let Some(stamp) = format.find(line) {
                    counts.entry((format, Lead::of(line, &stamp, format))).or_insert((0, stamp.at)).0 += 1;
                }
            }
        }
        // Of several places, the one with the fewest words before it comes first.
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|((format, lead), (count, _))| (usize::MAX - count, lead.words, *format));
        let most = counts.first()?.1.0;
        let strong = counts.iter().position(|((format, lead), (count, _))| {
            *format != StampFormat::Epoch && !lead.is_weak() && count.saturating_mul(WEAK) >= most
        });
        let ((format, lead), (_, column)) = counts.swap_remove(strong.unwrap_or(0));
        Some(StampPlace { format, lead, column })
    }

    /// Returns the time that a line has at this position; `None` if it has none. Another program may have written some
    /// of the lines, so a calendar date counts at this position even if it has another format. Numbers in another
    /// format do not count.
    pub(super) fn find(&self, line: &[u8]) -> Option<Stamp> {
        let is_here = |(format, stamp): &(StampFormat, Stamp)| {
            let lead = Lead::of(line, stamp, *format);
            // The lines of a web server begin with a host; a line that begins with a time is of its error log.
            let begins = lead.words == 0 && lead.margin == 0 && matches!(&lead.glue[..], b"" | b"[");
            // A word that is aligned to the right has a margin of any length.
            let is_aligned = stamp.at == self.column && lead.words > 0;
            lead == self.lead
                || (self.is_web_server() && begins)
                || (is_aligned && Lead { margin: self.lead.margin, ..lead } == self.lead)
        };
        let find = |format: &StampFormat| Some((*format, format.find(line)?)).filter(is_here);
        let own = std::iter::once(&self.format).find_map(find);
        let found = own
            .or_else(|| StampFormat::CALENDAR.iter().filter(|format| **format != self.format).find_map(find));
        found.map(|(_, stamp)| stamp)
    }

    /// Returns the name of the format of the times, for messages.
    pub(super) fn name(&self) -> &'static str {
        self.format.name()
    }

    fn is_web_server(&self) -> bool {
        self.format == StampFormat::DayFirst && self.lead.words > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::foreign::stamp::{SECOND, StampTime};

    /// Returns, for each line of a log, whether it has a time at the position that the log's lines decide.
    fn timed(log: &str) -> Vec<bool> {
        let lines = || log.lines().map(str::as_bytes);
        let place = StampPlace::of(lines()).expect("a place");
        lines().map(|line| place.find(line).is_some()).collect()
    }

    /// Checks a log in which each line begins with a mark that is not a part of it: `+` if the line has a time of its
    /// own, otherwise `-`.
    fn check(log: &str) {
        let marks: Vec<bool> = log.lines().map(|line| line.starts_with('+')).collect();
        let text: String = log.lines().map(|line| format!("{}\n", &line[1..])).collect();
        assert_eq!(timed(&text), marks, "{text}");
    }

    #[test]
    fn dates_inside_of_messages_are_no_times() {
        check(
            "+2026-11-21 13:00:05,459 DEBUG cannot verify\n\
             -a.b.SignatureException: expired at 2026-11-20T03:18:49.000Z, now is 2026-11-21T13:00:05.459Z\n\
             -\tat a.b.Parser.verify(Parser.java:132)\n\
             -Caused by: expired at 2026-11-20 03:18:49\n\
             -[2026-11-20 03:18:49] is in brackets\n\
             -\"2026-11-20 03:18:49\"\n\
             +2026-11-21 13:00:06,461 ERROR code 4\n",
        );
    }

    #[test]
    fn lines_with_a_margin_continue_even_if_more_of_them_have_dates() {
        check(
            "+2026-11-21T13:00:05Z INFO tls: peer certificate\n\
             -  not before: 2026-01-01 00:00:00\n\
             -  not before: 2026-02-01 00:00:00\n\
             -  not before: 2026-03-01 00:00:00\n\
             -2026: the year\n\
             +2026-11-21T13:00:06Z INFO tls: done\n",
        );
        check("+ 2026-11-21 13:00:05 one\n-no time\n+ 2026-11-21 13:00:06 two\n");
    }

    #[test]
    fn numbers_in_a_dump_are_no_times() {
        let dump = "-1795266099.125\n-1795266100\n-1795266101\n-{\n-   Delay = 1795266099;\n-}\n";
        check(&format!(
            "+Nov 21 13:00:05 host app[1]: phases = (\n{dump}+Nov 21 13:00:06 host app[1]: end\n"
        ));
    }

    #[test]
    fn times_behind_words_of_any_length_are_times() {
        check(
            "+INFO 2026-11-21T13:00:05Z one\n\
             +ERROR 2026-11-21T13:00:06Z two\n\
             -expired 2026-11-20T13:00:06Z\n\
             +WARN  2026-11-21T13:00:07Z three\n",
        );
        check(
            "+    INFO 2026-11-21 13:00:05,100 one\n\
             + WARNING 2026-11-21 13:00:06,100 two\n\
             -  not 2026-11-20 13:00:06\n\
             +CRITICAL 2026-11-21 13:00:07,100 three\n",
        );
        check(
            "+level=info time=\"2026-11-21T13:00:05Z\" msg=one\n\
             +level=warning time=\"2026-11-21T13:00:06Z\" msg=two\n\
             -level=warning expires=\"2026-11-21T13:00:06Z\" msg=two\n",
        );
        check(
            "+10.0.0.1 - bob [21/Nov/2026:14:43:52 +0000] \"GET / HTTP/1.1\" 200 1\n\
             +2026/11/21 14:43:53 [error] 7#7: *1 open() failed\n\
             +::1, 10.0.0.7 - - [21/Nov/2026:16:43:54 +0200] \"GET /[x] HTTP/1.1\" 200 1\n\
             +[Sat Nov 21 14:43:55.123456 2026] [core:error] [pid 1] failed\n",
        );
        check("+<34>1 2026-11-21T14:43:52Z host a\n+<134>1 2026-11-21T14:43:52Z host b\n");
        check("+<34>Nov 21 14:43:52 host a\n+<134>Nov  1 14:43:52 host b\n");
        check("+a.log:2026-11-21T14:43:52Z a\n+bc2.log:2026-11-21T14:43:52Z b\n");
        check("+\x1b[2m2026-11-21T14:43:52Z\x1b[0m a\n+\x1b[32m2026-11-21T14:43:52Z\x1b[0m b\n");
        check("+1234:M 21 Nov 2026 14:43:52.123 * a\n+77:C 21 Nov 2026 14:43:52.124 * b\n");
    }

    #[test]
    fn lines_of_another_program_have_times_if_these_stand_at_the_same_place() {
        check(
            "+{\"time\":\"2026-11-21T13:00:01Z\",\"msg\":\"one\"}\n\
             +{\"msg\":\"two\",\"time\":\"2026-11-21T13:00:02Z\"}\n\
             +2026-11-21T13:00:09Z WARN library says three\n\
             +2026/11/21 13:00:10 [error] 7#7: nginx says four\n\
             -{\"time\":\"2026-11-21T13:00:11Z\",\"msg\":\"cu\n\
             +{\"time\":\"2026-11-21T13:00:11Z\",\"msg\":\"five\"}\n",
        );
        check("+Nov 21 13:00:05 a\n+Nov 21 13:00:05 b\n+I1121 14:43:52.123456 1 x.go:1] c\n-1795266099 d\n");
    }

    #[test]
    fn month_names_of_other_languages_are_not_read() {
        check("+21-Nov-2026 14:43:52.123 one\n-21-Okt-2026 14:43:52.123 two\n-21-déc.-2026 14:43:52 three\n");
    }

    #[test]
    fn the_format_of_most_lines_is_chosen() {
        let log = "1795272232 starts\n2026-11-21T14:43:52Z one\n  more\n2026-11-21T14:43:53Z two\n";
        let place = StampPlace::of(log.lines().map(str::as_bytes)).unwrap();
        assert_eq!(place.name(), "ISO 8601 times");
        let epoch = StampPlace::of(["1795272232.5 a", "1795272233 b"].iter().map(|line| line.as_bytes()));
        let found = epoch.as_ref().unwrap().find(b"1795272233 b").unwrap();
        assert_eq!(found.time, StampTime::Wall(trace_format::wall::Wall(1_795_272_233 * SECOND)));
        assert_eq!(StampPlace::of(["", "hello"].iter().map(|line| line.as_bytes())), None);
    }
}
