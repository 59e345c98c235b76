//! The merge against a naive twin, which finds the lines one by one, puts them all in one list and sorts it stably.
//!
//! In tests, slices and windows have only a few lines, so each test also tests how time is partitioned. All files are
//! merged in every possible way, and all results must be the same.

use super::*;
use crate::file::damage::SHOWN;
use crate::file::lines::strip_line_feed;
use crate::file::rendered::LineSource;
use crate::input::findings::{FindingCounts, Findings};
use crate::input::slice::{PartLines, Slice, SlicePart, TickPeriod};
use crate::input::source::{SortedRange, Source, breaks, whole};
use crate::merge::in_order::{InOrderRoom, PartText, merge_in_order};
use crate::merge::merged_lines::MergedLines;
use crate::merge::slices::merge_by_tree;
use crate::merge::workers::{merge_by, merge_by_all};
use crate::output::sink::Sink;
use itertools::Itertools;
use proptest::prelude::*;
use trace_format::line::{Key, Kind, Line};
use trace_format::meta::Meta;

type Merged = (Vec<u8>, Findings);

/// Runs all jobs of `work` by `threads` threads, and writes the merged lines to `out`.
fn merge_into<'a, W: MergeWork<'a>>(
    threads: usize,
    work: W,
    sources: &'a [Source],
    out: &mut impl io::Write,
) -> Result<Findings, Stop> {
    merge_by((threads, 2), work, sources, &|| MergedLines::new(sources), &mut |lines| lines.write(out))
}

/// Returns the sorted ranges of all sources; reports the breaks between them to `findings`.
fn split(sources: &[Source], findings: &mut Findings) -> Vec<SortedRange> {
    let mut ranges = Vec::new();
    for mut range in whole(sources) {
        let end = range.end;
        for (at, before, after) in breaks(sources[range.source].bytes()) {
            findings.broken(range.source, at, before, after);
            ranges.push(SortedRange { end: at, ..range });
            range.start = at;
        }
        ranges.push(SortedRange { end, ..range });
    }
    ranges
}

/// Merges by slices and by windows, each in one thread and in several, and checks that all results are the same.
fn merged_in_every_way(
    sources: &[Source],
    ranges: &[SortedRange],
    period: TickPeriod,
    threads: usize,
) -> Result<Merged, Stop> {
    let mut out = Vec::new();
    let expected = merge_into(1, Slices::new(sources, ranges, period, None), sources, &mut out);
    let expected = expected.map(|found| (out, found));
    for way in 0..4 {
        let mut out = Vec::new();
        let other = match way {
            0 => merge_into(1, Windows::new(sources, ranges, period, None, threads), sources, &mut out),
            1 => merge_into(threads, Slices::new(sources, ranges, period, None), sources, &mut out),
            2 => merge_into(threads, Windows::new(sources, ranges, period, None, threads), sources, &mut out),
            _ => {
                let (make, mut write) =
                    (|| MergedLines::new(sources), |lines: &MergedLines<'_>| lines.write(&mut out));
                let mut findings = Findings::default();
                merge_by_all(sources, ranges, period, None, &make, &mut write, &mut findings)
                    .map(|()| findings)
            }
        };
        match (&expected, other) {
            (Ok((expected, found)), Ok(other)) => {
                assert_eq!(String::from_utf8_lossy(expected), String::from_utf8_lossy(&out), "way {way}");
                assert_eq!(FindingCounts::from(found), FindingCounts::from(&other), "way {way}");
            }
            (Err(_), Err(_)) => {}
            (expected, other) => panic!("way {way}: {expected:?}, but {other:?}"),
        }
    }
    expected
}

/// Merges as the command does: first as if all files were sorted, and then with their breaks known.
fn merged(files: &[Vec<u8>]) -> Merged {
    let sources: Vec<Source> = files.iter().map(|bytes| Source::of("f", bytes)).collect();
    let first = merged_in_every_way(&sources, &whole(&sources), TickPeriod::ALL, 3);
    let mut breaks = Findings::default();
    let ranges = split(&sources, &mut breaks);
    let (again, found_again) = merged_in_every_way(&sources, &ranges, TickPeriod::ALL, 3).unwrap();
    assert_eq!(first.is_err(), ranges.len() > sources.len(), "a break is met exactly where there is one");
    if let Ok((out, findings)) = first {
        assert_eq!(out, again, "both ways give the same");
        assert_eq!(findings.lines, found_again.lines);
    }
    breaks.append(found_again);
    (again, breaks)
}

/// A renderer that has its lines, with their ticks, in memory.
#[derive(Debug)]
struct Made(Vec<(u64, Vec<u8>)>);

impl LineSource for Made {
    fn period(&self) -> Option<(u64, u64)> {
        Some((self.0.first()?.0, self.0.last()?.0))
    }

    fn bytes_before(&self, ticks: u64) -> u64 {
        // The number need not be exact.
        self.0.iter().filter(|line| line.0 < ticks).map(|line| line.1.len() as u64 / 2).sum()
    }

    fn outline(&self) -> Vec<u8> {
        Vec::new()
    }

    fn newest_first(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        Box::new(self.0.iter().rev().map(|line| line.0))
    }

    fn lines(&self, from: u64, until: Option<u64>, out: &mut Vec<u8>, damaged: &mut dyn FnMut(usize, usize)) {
        for (at, (ticks, line)) in self.0.iter().enumerate() {
            if *ticks >= from && until.is_none_or(|until| *ticks < until) {
                out.extend(line);
                // Each tenth line is reported as damaged.
                if at % 10 == 9 {
                    damaged(at, 1);
                }
            }
        }
    }
}

/// Returns the key of the line that begins at the offset `at`, parsed exactly as the format is specified, and the
/// offset behind the line.
fn line_by_the_book(bytes: &[u8], at: usize) -> Option<(Key, usize)> {
    let rest = &bytes[at..];
    let end = rest.iter().position(|&byte| byte == b'\n' || byte == 0).unwrap_or(rest.len());
    let line = Line::parse(&rest[..end]).ok()?;
    let text = std::str::from_utf8(line.payload).ok()?;
    let allowed = |c: char| c == '\t' || !(c < ' ' || ('\u{7f}'..='\u{9f}').contains(&c));
    text.chars().all(allowed).then_some((line.key, at + end + usize::from(rest.get(end) == Some(&b'\n'))))
}

/// Returns the offset at which the next line begins: lines begin behind line feeds and NULs.
fn next_by_the_book(bytes: &[u8], at: usize) -> usize {
    let begins =
        |&at: &usize| at > 0 && matches!(bytes[at - 1], b'\n' | 0) && line_by_the_book(bytes, at).is_some();
    (at..bytes.len())
        .find(|at| (*at == 0 && line_by_the_book(bytes, 0).is_some()) || begins(at))
        .unwrap_or(bytes.len())
}

/// Returns the content of a file in the order of its ticks: its lines, and `# damaged` lines for the other bytes.
fn contents(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut out = Vec::new();
    let Some((mut key, _)) = Some(next_by_the_book(bytes, 0)).and_then(|at| line_by_the_book(bytes, at))
    else {
        return out;
    };
    let mut at = 0;
    while at < bytes.len() {
        match line_by_the_book(bytes, at) {
            None => {
                let end = next_by_the_book(bytes, at);
                let text = bytes[at..end.min(at + SHOWN)].to_vec();
                let (offset, bytes_) = (at as u64, (end - at) as u64);
                let mut payload = Vec::new();
                Meta::Damaged { file: b"f".to_vec(), offset, bytes: bytes_, text }.write(&mut payload);
                let mut line = Vec::new();
                Line { key, kind: Kind::Meta, payload: &payload }.write(&mut line);
                out.push((key.ticks.0, line));
                at = end;
            }
            Some((of_line, end)) => {
                key = of_line;
                let mut text = strip_line_feed(&bytes[at..end]).to_vec();
                text.push(b'\n');
                out.push((key.ticks.0, text));
                at = end;
            }
        }
    }
    out
}

fn naive(files: &[Vec<u8>]) -> Vec<u8> {
    let mut all: Vec<_> = files.iter().flat_map(|bytes| contents(bytes)).collect();
    all.sort_by_key(|(ticks, _)| *ticks);
    all.into_iter().flat_map(|(_, line)| line).collect()
}

fn line(ticks: u64, tid: u64, text: &str) -> Vec<u8> {
    format!("{ticks:016x}-{tid:08} : {text}\n").into_bytes()
}

#[test]
fn a_message_keeps_its_lines_together() {
    let message = b"0000000000000005-00000001 : one\n0000000000000005-00000001 | two\n".to_vec();
    let other = line(5, 2, "other");
    assert_eq!(merged(&[message.clone(), other.clone()]).0, [message, other].concat());
}

#[test]
fn a_damaged_region_takes_the_key_before_it_or_else_the_next_key() {
    let file = [b"junk\n".to_vec(), line(3, 7, "a"), b"x\n\0\0y\n".to_vec(), line(5, 7, "b")].concat();
    let (out, _) = merged(&[file, line(4, 8, "between")]);
    let expected = "0000000000000003-00000007 # damaged file=\"f\" offset=0 bytes=5 text=\"junk\\x0a\"\n\
        0000000000000003-00000007 : a\n\
        0000000000000003-00000007 # damaged file=\"f\" offset=35 bytes=6 text=\"x\\x0a\\x00\\x00y\\x0a\"\n\
        0000000000000004-00000008 : between\n\
        0000000000000005-00000007 : b\n";
    assert_eq!(String::from_utf8_lossy(&out), expected);
}

#[test]
fn the_text_before_nul_bytes_in_a_line_is_kept() {
    let file = [b"0000000000000003-00000007 : last wor".to_vec(), vec![0; 500]].concat();
    let (out, findings) = merged(&[file]);
    let text = String::from_utf8_lossy(&out);
    assert!(
        text.starts_with("0000000000000003-00000007 : last wor\n0000000000000003-00000007 # damaged "),
        "{text}"
    );
    assert_eq!(findings.lines, 2);
}

#[test]
fn files_with_unevenly_spaced_ticks_are_merged() {
    // The ticks are all the same, far apart, or at both ends of the range.
    let ticks = |at: u64| match at % 4 {
        0 => at / 16,
        1 => 1 << (at % 64),
        2 => u64::MAX - at / 8,
        _ => 5,
    };
    let files: Vec<Vec<u8>> = (0..9)
        .map(|tid| {
            let mut all = (0..200).map(|at| ticks(at * 7 + tid)).collect_vec();
            all.sort_unstable();
            all.iter().flat_map(|&ticks| line(ticks, tid, &"x".repeat((ticks % 7) as usize))).collect()
        })
        .collect();
    assert_eq!(String::from_utf8(merged(&files).0), String::from_utf8(naive(&files)));
}

#[test]
fn a_file_in_reverse_order_is_sorted() {
    let lines: Vec<_> = (0..20_000).rev().map(|ticks| line(ticks, 1, "x")).collect();
    let (out, _) = merged(&[lines.concat(), line(5, 2, "y")]);
    assert_eq!(out, naive(&[lines.concat(), line(5, 2, "y")]));
}

#[test]
fn a_trace_truncated_anywhere_gives_a_prefix_and_at_most_one_torn_line() {
    let whole =
        [line(1, 1, "first"), line(2, 1, "second"), line(2, 123_456_789_012, ""), line(3, 1, "third")]
            .concat();
    for length in 0..=whole.len() {
        let prefix = &whole[..length];
        let lines = prefix.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let (out, findings) = merged(&[prefix.to_vec()]);
        assert!(out.starts_with(&whole[..lines]), "truncated to {length}");
        let rest = &prefix[lines..];
        if Line::parse(rest).is_ok() {
            assert_eq!(out[lines..], *[rest, b"\n"].concat(), "truncated to {length}");
        } else if lines > 0 {
            assert_eq!(
                findings.lines as usize,
                whole[..lines].split(|&b| b == b'\n').count() - 1 + usize::from(!rest.is_empty())
            );
        }
        assert_eq!(out, naive(&[prefix.to_vec()]), "truncated to {length}");
    }
}

proptest! {
    #[test]
    fn merging_sound_files_equals_a_stable_sort(
        mut files in prop::collection::vec(prop::collection::vec(0..30u64, 0..20), 0..12)
    ) {
        files.iter_mut().for_each(|ticks| ticks.sort_unstable());
        let text = |(tid, ticks): (usize, &Vec<u64>)| -> Vec<u8> {
            ticks.iter().enumerate().flat_map(|(n, &t)| line(t, tid as u64, &format!("line {n}"))).collect()
        };
        let texts: Vec<_> = files.iter().enumerate().map(text).collect();
        let (out, findings) = merged(&texts);
        prop_assert_eq!(&out, &naive(&texts));
        let lines = |text: &Vec<u8>| text.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect_vec();
        let ranked = texts.iter().enumerate().map(|(rank, text)| lines(text).into_iter().map(move |line| (rank, line)));
        let ranked = ranked.kmerge_by(|a, b| (&a.1[..16], a.0) < (&b.1[..16], b.0)).map(|(_, line)| line);
        prop_assert_eq!(out, ranked.collect_vec().concat());
        prop_assert_eq!(findings.lines as usize, files.iter().map(Vec::len).sum::<usize>());
    }

    #[test]
    fn a_time_range_selects_exactly_its_part_of_the_merge(
        mut files in prop::collection::vec(prop::collection::vec(0..30u64, 0..20), 0..6),
        since in 0..32u64,
        until in prop::option::of(0..32u64),
    ) {
        files.iter_mut().for_each(|ticks| ticks.sort_unstable());
        let texts: Vec<Vec<u8>> = files.iter().map(|ticks| ticks.iter().flat_map(|&t| line(t, 1, "x")).collect()).collect();
        let sources: Vec<Source> = texts.iter().map(|bytes| Source::of("f", bytes)).collect();
        let (out, _) = merged_in_every_way(&sources, &whole(&sources), TickPeriod { since, until }, 2).unwrap();
        let inside = |ticks: &u64| *ticks >= since && until.is_none_or(|until| *ticks < until);
        let mut expected: Vec<u64> = files.concat().into_iter().filter(inside).collect();
        expected.sort_unstable();
        let expected: Vec<u8> = expected.into_iter().flat_map(|t| line(t, 1, "x")).collect();
        prop_assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&expected));
    }

    #[test]
    fn generated_lines_are_merged_like_lines_of_files(
        mut files in prop::collection::vec((prop::collection::vec(0..30u64, 0..40), any::<bool>()), 0..6),
        since in 0..20u64,
    ) {
        files.iter_mut().for_each(|(ticks, _)| ticks.sort_unstable());
        let lines: Vec<Vec<(u64, Vec<u8>)>> = files.iter().map(|(ticks, _)| ticks.iter().enumerate()
            .map(|(n, &t)| (t, line(t, 1, &n.to_string()))).collect()).collect();
        let text = |lines: &Vec<(u64, Vec<u8>)>| {
            Source::of("f", &lines.iter().flat_map(|line| line.1.clone()).collect::<Vec<u8>>())
        };
        let texts: Vec<Source> = lines.iter().map(text).collect();
        let made: Vec<Source> = lines.iter().zip(&files).map(|(lines, (_, is_made))| match is_made {
            true => Source::of_lines("f".into(), Box::new(Made(lines.clone()))),
            false => text(lines),
        }).collect();
        let all = |sources: &[Source]| {
            merged_in_every_way(sources, &whole(sources), TickPeriod { since, until: None }, 2).unwrap().0
        };
        prop_assert_eq!(all(&texts), all(&made));
        let in_all = |sources: &[Source]| merged_in_every_way(sources, &whole(sources), TickPeriod::ALL, 3).unwrap();
        let ((out, findings), (expected, plain)) = (in_all(&made), in_all(&texts));
        prop_assert_eq!(out, expected);
        prop_assert_eq!(findings.lines, plain.lines);
        let told = lines.iter().zip(&files).any(|(lines, (_, is_made))| *is_made && lines.len() >= 10);
        prop_assert_eq!(findings != plain, told);
    }

    #[test]
    fn merging_damaged_files_equals_the_naive_merge(files in prop::collection::vec(damaged_file(), 0..6)) {
        let (out, findings) = merged(&files);
        let expected = naive(&files);
        prop_assert_eq!(findings.lines as usize, expected.iter().filter(|&&b| b == b'\n').count());
        prop_assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&expected));
        // The merged file is a sound trace: merged again, it does not change.
        prop_assert_eq!(&merged(std::slice::from_ref(&out)).0, &out);
    }

    #[test]
    fn merging_files_with_flipped_bits_equals_the_naive_merge(
        mut files in prop::collection::vec(prop::collection::vec(0..99u64, 1..30), 1..9),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..8u32), 1..9),
    ) {
        files.iter_mut().for_each(|ticks| ticks.sort_unstable());
        let mut texts: Vec<Vec<u8>> =
            files.iter().map(|ticks| ticks.iter().flat_map(|&t| line(t, 12, "some text")).collect()).collect();
        for (file, byte, bit) in flips {
            let (file, length) = { let file = file.index(texts.len()); (file, texts[file].len()) };
            texts[file][byte.index(length)] ^= 1 << bit;
        }
        let (out, findings) = merged(&texts);
        let expected = naive(&texts);
        prop_assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&expected));
        prop_assert_eq!(findings.lines as usize, expected.iter().filter(|&&b| b == b'\n').count());
    }

    #[test]
    fn any_bytes_are_merged_without_panic(files in prop::collection::vec(any::<Vec<u8>>(), 0..4)) {
        merged(&files);
    }
}

/// Makes a file of lines in any order, with all kinds of damage between them.
fn damaged_file() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => (0..20u64, 0..3u64).prop_map(|(ticks, tid)| line(ticks, tid, "text")),
        1 => Just(line(7, 1 << 40, "a long thread id")),
        1 => prop::sample::select(vec![&b"junk\n"[..], b"\n", b"\0\0\0", b"\0\n", b"half", b"000000000000000"])
            .prop_map(<[u8]>::to_vec),
        1 => Just(b"0000000000000005-00000001 : no end".to_vec()),
        2 => (0..20u64, prop::sample::select(vec![&b"\x1b[31m"[..], b"\r", b"\x7f", b"\xc2\x9b", b"\xff", b"\xe4\xbd"]))
            .prop_map(|(ticks, bad)| [&line(ticks, 1, "not ")[..30], bad, b"allowed\n"].concat()),
        1 => (0..20u64).prop_map(|ticks| line(ticks, 1, "gr\u{f6}\u{df}e\t\u{4f60}\u{597d} \u{1f980}")),
    ];
    (prop::collection::vec(part, 0..12), 0..30usize).prop_map(|(parts, excess)| {
        let mut bytes = parts.concat();
        bytes.truncate(bytes.len().saturating_sub(excess.saturating_sub(20)));
        bytes
    })
}

#[test]
fn a_long_line_between_short_ones_is_found_from_both_sides() {
    let long = "x".repeat(100_000);
    let file = |tid: u64| [line(1, tid, "a"), line(5, tid, &long), line(9, tid, "b")].concat();
    let others: Vec<u8> = (0..300).flat_map(|ticks| line(ticks / 30, 3, "y")).collect();
    let files = [file(1), file(2), others];
    assert!(merged(&files).0 == naive(&files));
}

#[test]
fn slices_split_between_ticks_at_any_distance() {
    let ticks = [0, 1, 1 << 20, 1 << 40, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX, u64::MAX];
    let file =
        |tid: u64| ticks.iter().flat_map(|&t| [line(t, tid, "one"), line(t, tid, "two")]).flatten().collect();
    let files: Vec<Vec<u8>> = (1..7).map(file).collect();
    assert_eq!(merged(&files).0, naive(&files));
    assert_eq!(merged(&files[..2]).0, naive(&files[..2]));
}

#[test]
fn nothing_outside_the_time_range_is_read() {
    // The junk stands outside of the period, where a look at it would be reported.
    let junk = b"junk\n".repeat(10);
    let parts = [line(1, 1, "a"), junk.clone(), line(2, 1, "b"), line(3, 1, "c"), line(4, 1, "d"), junk];
    let sources = [Source::of("f", &parts.concat())];
    let period = TickPeriod { since: 2, until: Some(4) };
    let (out, findings) = merged_in_every_way(&sources, &whole(&sources), period, 2).unwrap();
    assert_eq!(out, [line(2, 1, "b"), line(3, 1, "c")].concat());
    let mut expected = Findings::default();
    expected.lines = 2;
    assert_eq!(findings, expected);
}

/// Makes ticks of any magnitude from a small number.
fn spread(ticks: u64, mode: u8) -> u64 {
    match mode {
        0 => ticks,
        1 => ticks << 58,
        2 => u64::MAX - 63 + ticks.min(63),
        3 => 1 << ticks.min(63),
        4 => 7,
        _ if ticks < 32 => ticks / 8,
        _ => u64::MAX - (63 - ticks.min(63)) / 8,
    }
}

proptest! {
    #[test]
    fn text_and_generated_lines_merge_in_any_range_with_any_thread_count(
        files in prop::collection::vec((prop::collection::vec((0..64u64, 0..300usize), 0..60), any::<bool>()), 0..12),
        mode in 0..6u8, threads in 1..9usize,
        since in prop_oneof![3 => Just(0u64), 1 => 0..64u64], until in prop::option::of(0..64u64),
    ) {
        let text = |tid: usize, (at, &(ticks, length)): (usize, &(u64, usize))| {
            // One line in twenty is long.
            let length = if length < 280 { length % 30 } else { length * 9 };
            let ticks = spread(ticks, mode);
            (ticks, line(ticks, tid as u64, &format!("{at} {}", "x".repeat(length))))
        };
        let lines = files.iter().enumerate().map(|(tid, (of_file, _))| {
            let sorted = of_file.iter().copied().sorted().collect_vec();
            sorted.iter().enumerate().map(|item| text(tid, item)).collect_vec()
        });
        let lines = lines.collect_vec();
        let source = |(lines, (_, is_made)): (&Vec<(u64, Vec<u8>)>, &(_, bool))| match is_made {
            true => Source::of_lines("f".into(), Box::new(Made(lines.clone()))),
            false => Source::of("f", &lines.iter().flat_map(|line| line.1.clone()).collect_vec()),
        };
        let sources = lines.iter().zip(&files).map(source).collect_vec();
        let period = TickPeriod { since: spread(since, mode), until: until.map(|until| spread(until, mode)) };
        let is_in = |ticks| ticks >= period.since && period.until.is_none_or(|until| ticks < until);
        let expected = lines.iter().flatten().filter(|line| is_in(line.0)).sorted_by_key(|line| line.0);
        let expected = expected.flat_map(|line| line.1.clone()).collect_vec();
        let (out, _) = merged_in_every_way(&sources, &whole(&sources), period, threads).unwrap();
        prop_assert_eq!(String::from_utf8(out).unwrap(), String::from_utf8(expected).unwrap());
    }
}

/// An output that takes `writes` writes of a few bytes, then fails or panics.
struct Failing {
    writes: usize,
    panics: bool,
}

impl io::Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(self.writes > 0 || !self.panics, "the writer");
        self.writes = self.writes.checked_sub(1).ok_or_else(|| io::Error::other("full"))?;
        Ok(bytes.len().min(50))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn nine_files() -> Vec<Vec<u8>> {
    let file = |tid| (0..60).flat_map(|at| line(at * 3 + tid % 3, tid, "some words here")).collect();
    (0..9).map(file).collect()
}

/// Merges files by windows or by slices, by `threads` threads.
fn merged_into(
    out: &mut impl io::Write,
    threads: usize,
    files: &[Vec<u8>],
    by_windows: bool,
) -> Result<Findings, Stop> {
    let sources = files.iter().map(|bytes| Source::of("f", bytes)).collect_vec();
    let ranges = whole(&sources);
    if by_windows {
        return merge_into(
            threads,
            Windows::new(&sources, &ranges, TickPeriod::ALL, None, threads),
            &sources,
            out,
        );
    }
    merge_into(threads, Slices::new(&sources, &ranges, TickPeriod::ALL, None), &sources, out)
}

#[test]
fn threads_end_when_the_writer_fails_at_any_write() {
    let files = nine_files();
    for writes in 0..100 {
        for (threads, by_windows) in (1..6).cartesian_product([false, true]) {
            merged_into(&mut Failing { writes, panics: false }, threads, &files, by_windows).unwrap_err();
        }
    }
}

#[test]
fn threads_end_when_one_of_them_finds_ticks_that_go_back() {
    let mut files = nine_files();
    for place in 0..60 {
        let ticks = |at: u64| if at == place { 0 } else { at * 3 };
        files[3] = (0..60).flat_map(|at| line(ticks(at), 3, "some words")).collect();
        for (threads, by_windows) in (1..6).cartesian_product([false, true]) {
            // Even with ticks of 0, the second line does not go back: the first line has 0, too.
            assert_eq!(merged_into(&mut Vec::new(), threads, &files, by_windows).is_err(), place > 1);
        }
    }
}

#[test]
fn threads_end_when_one_of_them_panics() {
    let files = nine_files();
    for writes in 0..50 {
        let mut out = Failing { writes, panics: true };
        let merge = || merged_into(&mut out, 1 + writes % 5, &files, writes % 2 == 0);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(merge)).unwrap_err();
    }
}

/// A sink that stores the lines of each call separately.
#[derive(Debug, Default)]
struct Calls(Vec<(usize, Vec<u8>)>);

impl Sink for Calls {
    fn lines(&mut self, source: usize, lines: &[u8]) -> io::Result<()> {
        self.0.push((source, lines.to_vec()));
        Ok(())
    }
}

/// Merges files as one slice by the tree and, if they are in order, by words. Checks that both give the same, and
/// returns whether the files are in order.
fn words_agree_with_the_tree(files: &[Vec<u8>]) -> bool {
    let files = files.iter().filter(|bytes| !bytes.is_empty()).collect_vec();
    let sources = files.iter().map(|bytes| Source::of("f", bytes)).collect_vec();
    let part =
        |(source, bytes): (usize, &&Vec<u8>)| SlicePart { source, lines: PartLines::Text(0..bytes.len()) };
    let first = sources.iter().filter_map(Source::ends).map(|(first, _)| first).min().unwrap_or(0);
    let slice = Slice { period: TickPeriod::ALL, first, parts: files.iter().enumerate().map(part).collect() };
    let (mut expected, mut findings) = (Calls::default(), Findings::default());
    let by_tree = merge_by_tree(&sources, &slice, &[], false, &Room::default(), &mut expected, &mut findings);
    let texts = sources.iter().map(Source::bytes).enumerate();
    let texts = texts.map(|(source, bytes)| PartText { source, bytes, length: bytes.len() }).collect_vec();
    let room = &mut InOrderRoom::default();
    let (mut calls, mut found) = (Calls::default(), Findings::default());
    let in_order = merge_in_order(&texts, first, room, &mut calls, &mut found).unwrap();
    let mut lines = MergedLines::new(&sources);
    let mut found_again = Findings::default();
    assert_eq!(merge_in_order(&texts, first, room, &mut lines, &mut found_again).unwrap(), in_order);
    let mut written = Vec::new();
    lines.write(&mut written).unwrap();
    if !in_order {
        assert_eq!((calls.0, found, found_again, written), Default::default());
        return false;
    }
    by_tree.unwrap();
    assert_eq!((&found, &found_again), (&findings, &findings));
    let expected_text = expected.0.iter().flat_map(|(_, lines)| lines.clone()).collect_vec();
    assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(&expected_text));
    // The tree may give neighbours of one source in several calls, but not lines with one key.
    let mut joined: Vec<(usize, Vec<u8>)> = Vec::new();
    for (source, lines) in expected.0 {
        match joined.last_mut() {
            Some(last) if last.0 == source => last.1.extend(lines),
            _ => joined.push((source, lines)),
        }
    }
    assert_eq!(calls.0, joined);
    true
}

fn metadata(ticks: u64, tid: u64, payload: &str) -> Vec<u8> {
    format!("{ticks:016x}-{tid:08} # {payload}\n").into_bytes()
}

#[test]
fn words_and_tree_note_losses_in_the_same_order() {
    let losses = ["full", "unwritten", "rotated", "overwritten", "strange"];
    let file = |tid: usize| {
        let line = |at: usize| match (at + tid) % 3 {
            0 => line(at as u64, tid as u64, "x"),
            1 => metadata(
                at as u64,
                tid as u64,
                &format!("lost records={tid} reason={}", losses[(at * tid) % 5]),
            ),
            _ => metadata(at as u64, tid as u64, "backward from=5 to=3"),
        };
        (tid..30).flat_map(line).collect_vec()
    };
    assert!(words_agree_with_the_tree(&(1..6).map(file).collect_vec()));
}

#[test]
fn a_byte_that_is_odd_at_any_place_is_merged_like_before() {
    let file = |tid: u64| {
        let text = |at: u64| {
            line(at * 3 / 2 + tid % 2, tid, ["", "word", "gr\u{f6}\u{df}e", "x\ty"][at as usize % 4])
        };
        (0..4).flat_map(text).collect_vec()
    };
    let files = (1..3).map(file).collect_vec();
    assert!(words_agree_with_the_tree(&files));
    let (mut in_order, mut odd) = (0, 0);
    for (file, at) in (0..files.len()).flat_map(|file| (0..files[file].len()).map(move |at| (file, at))) {
        for byte in *b"\0\n\r 0az\xc2" {
            let mut changed = files.clone();
            changed[file][at] = byte;
            *(if words_agree_with_the_tree(&changed) { &mut in_order } else { &mut odd }) += 1;
        }
        let mut torn = files.clone();
        torn[file].truncate(at);
        words_agree_with_the_tree(&torn);
    }
    assert!(in_order > 100 && odd > 100, "{in_order} {odd}");
}

proptest! {
    #[test]
    fn words_agree_with_the_tree_on_sound_files(
        files in prop::collection::vec(prop::collection::vec((0..64u64, 0..300usize), 0..40), 0..20),
        mode in 0..6u8,
    ) {
        let file = |(tid, lines): (usize, &Vec<(u64, usize)>)| {
            let mut lines = lines.clone();
            lines.sort_unstable();
            let text = |(ticks, length): (u64, usize)| match length % 7 {
                0 => metadata(spread(ticks, mode), tid as u64, "clock of some kind"),
                _ => line(spread(ticks, mode), tid as u64, &"x".repeat(length)),
            };
            lines.into_iter().flat_map(text).collect_vec()
        };
        let files = files.iter().enumerate().map(file).collect_vec();
        let in_order = words_agree_with_the_tree(&files);
        // Ticks that are far apart have no room in a word.
        prop_assert!(in_order || matches!(mode, 1..=3 | 5) || files.iter().all(Vec::is_empty));
    }

    #[test]
    fn words_agree_with_the_tree_on_any_files(files in prop::collection::vec(damaged_file(), 0..6)) {
        words_agree_with_the_tree(&files);
    }
}
