//! Tests that compare raw files with text files: the same records give the same lines, however they are decoded.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;

use super::*;
use crate::file::{Encoding, run_of};
use crate::line::Ticks;
use crate::line::{Kind, Line};
use crate::meta::tests::any_run;
use crate::meta::{EndReason, LossReason, RingPlace, Run, Thread};
use crate::plans::Plans;
use crate::record::{
    Flags, PAD_WORD, RecordKind, Records, captured_word, enter_word, hook_enter_word, hook_leave_word,
    leave_word, message_word, scope_word, stack_word,
};
use crate::render::{References, RenderState, Renderer};
use crate::sites::Site;

const TID: u64 = 320;
/// The length in bytes of a block of the rings in these tests.
const RING_BLOCK: u64 = 1 << 17;
/// One more than the number of the last site. Under Miri, which is slow, there are fewer and smaller records.
const SITES: u32 = if cfg!(miri) { 16 } else { 200 };

fn site(id: u32) -> Site {
    Site { id, format: format!("site {id}: {{}}\n"), descriptor: vec![b'm'], ..Site::default() }
}

fn plans() -> Plans {
    Plans::of(&(1..SITES).map(site).collect::<Vec<_>>())
}

/// An action of a traced thread or of the flusher.
#[derive(Clone, Debug)]
enum Act {
    Message(usize, Flags),
    Captured(u32),
    Enter(u64),
    Leave(u64, bool),
    /// A compiler's hook records that the function at this address was entered (true) or left (false).
    Hook(u64, bool),
    Stack(Vec<u64>, bool),
    Scope(u32, Option<u64>, bool),
    /// The flusher writes the committed records.
    Flush,
    Lost,
}

fn acts() -> impl Strategy<Value = Vec<(u64, Act)>> {
    let flags = prop_oneof![5 => Just(0u8), 1 => 0u8..4].prop_map(Flags);
    let length = prop_oneof![8 => 0usize..60, 1 => 0usize..if cfg!(miri) { 500 } else { 50_000 }];
    let act = prop_oneof![
        4 => (length, flags).prop_map(|(length, flags)| Act::Message(length, flags)),
        6 => (1..SITES).prop_map(Act::Captured),
        4 => (0u64..1 << 54).prop_map(Act::Enter),
        3 => (0u64..1 << 54, any::<bool>()).prop_map(|(address, entered)| Act::Hook(address, entered)),
        3 => (0u64..1 << 54, any::<bool>()).prop_map(|(address, unwinding)| Act::Leave(address, unwinding)),
        1 => (any::<Vec<u64>>(), any::<bool>()).prop_map(|(stack, whole)| Act::Stack(stack, whole)),
        2 => (1..SITES + 20, any::<Option<u64>>(), any::<bool>()).prop_map(|(site, span, left)| Act::Scope(site, span, left)),
        1 => Just(Act::Flush),
        1 => Just(Act::Lost),
    ];
    prop::collection::vec((0u64..4, act), 0..if cfg!(miri) { 20 } else { 120 })
}

/// Returns the content of a trace file after these actions.
fn file(acts: &[(u64, Act)], run: &Run, encoding: Encoding) -> Vec<u8> {
    let (plans, mut file, mut out) = (plans(), Vec::new(), Vec::new());
    let mut renderer = Renderer::new(TID, RenderState::default(), encoding);
    renderer.begin_at(0);
    let thread = Thread { name: b"main".to_vec(), ring: RingPlace::Shared, why: Vec::new(), file: None };
    renderer.header(run, &thread, &mut out);
    let (mut ring, mut ticks) = (Vec::new(), 1000);
    let flush = |renderer: &mut Renderer, ring: &mut Vec<u8>, out: &mut Vec<u8>, file: &mut Vec<u8>| {
        let mut main = Records::new([ring, &[]], 0, RING_BLOCK);
        renderer.records(
            &mut main,
            &mut Records::empty(0, 64),
            true,
            &mut References::without_modules(&plans),
            usize::MAX,
            out,
        );
        assert_eq!(main.damaged(), 0);
        ring.clear();
        file.extend_from_slice(out);
        renderer.written(out.len());
        out.clear();
    };
    for (later, act) in acts {
        ticks += later;
        let (word, payload) = match act {
            Act::Message(length, flags) => {
                let text: String = "a\nb\x1b\\x41 ä".chars().cycle().take(*length).collect();
                (message_word(0, *flags, text.len()), text.into_bytes())
            }
            Act::Captured(site) => (captured_word(*site, 4), ticks.to_le_bytes()[..4].to_vec()),
            Act::Enter(address) => (enter_word(*address), Vec::new()),
            Act::Leave(address, unwinding) => (leave_word(*address, *unwinding), Vec::new()),
            Act::Hook(address, true) => (hook_enter_word(*address), Vec::new()),
            Act::Hook(address, false) => (hook_leave_word(*address), Vec::new()),
            Act::Stack(stack, whole) => {
                let flags = if *whole { Flags::WHOLE } else { Flags::NONE };
                (stack_word(flags, 8 * stack.len()), stack.iter().flat_map(|at| at.to_le_bytes()).collect())
            }
            Act::Scope(site, span, left) => {
                let flags = if *left { Flags::LEAVE } else { Flags::NONE };
                let flags = if span.is_some() { flags.with(Flags::ID) } else { flags };
                (scope_word(*site, flags), span.iter().flat_map(|id| id.to_le_bytes()).collect())
            }
            Act::Flush | Act::Lost => {
                flush(&mut renderer, &mut ring, &mut out, &mut file);
                if let Act::Lost = act {
                    renderer.close_torn(&mut out);
                    renderer.lost(3, LossReason::Full, &mut out);
                }
                continue;
            }
        };
        let room = RING_BLOCK as usize - ring.len() % RING_BLOCK as usize;
        if 16 + payload.len() > room {
            ring.extend_from_slice(&PAD_WORD.to_le_bytes());
            ring.resize(ring.len().next_multiple_of(RING_BLOCK as usize), 0xee);
        }
        ring.extend_from_slice(&word.to_le_bytes());
        ring.extend_from_slice(&ticks.to_le_bytes());
        ring.extend_from_slice(&payload);
        ring.resize(ring.len().next_multiple_of(8), 0xee);
    }
    flush(&mut renderer, &mut ring, &mut out, &mut file);
    renderer.end(EndReason::Thread, None, &mut out);
    file.append(&mut out);
    file
}

fn decode(bytes: &[u8]) -> (Vec<u8>, Rendered) {
    let (raw, mut out) = (Raw::parse(bytes).unwrap(), Vec::new());
    let rendered = Decoder::new(raw.tid()).decode(raw, 0..bytes.len(), b"f", &mut out);
    (out, rendered)
}

fn assert_sorted_lines(text: &[u8]) {
    let text = std::str::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.split_terminator('\n').collect();
    assert!(
        lines.iter().all(|line| Line::parse(line.as_bytes()).is_ok_and(|line| line.key.tid == TID)),
        "{text}"
    );
    assert!(lines.is_sorted_by_key(|line| &line[..16]), "{text}");
}

/// Returns a file of several blocks.
fn several_blocks() -> &'static [u8] {
    static FILE: LazyLock<Vec<u8>> = LazyLock::new(make_several_blocks);
    &FILE
}

fn make_several_blocks() -> Vec<u8> {
    let acts: Vec<_> = (0..40_000)
        .map(|n| (1, if n % 5 == 0 { Act::Message(30, Flags::NONE) } else { Act::Captured(1 + n % 7) }))
        .collect();
    file(&acts, &run(), Encoding::Raw)
}

fn run() -> Run {
    use crate::line::Ticks;
    use crate::meta::ClockKind;
    use crate::wall::Wall;
    let (exe, boot) = (b"/app".to_vec(), b"boot".to_vec());
    Run {
        version: 1,
        id: 2,
        root: 2,
        pid: 3,
        exe,
        boot,
        ticks: Ticks(7),
        wall: Wall(8),
        clock: ClockKind::Fast,
    }
}

/// Returns a file with messages at these ticks, a block for each vector.
fn file_at(blocks: &[Vec<u64>]) -> Vec<u8> {
    let mut file = Vec::new();
    for (number, ticks) in blocks.iter().enumerate() {
        file.resize(number * BLOCK as usize, 0);
        file.extend_from_slice(&MAGIC);
        file.extend_from_slice(&TID.to_le_bytes());
        for ticks in ticks {
            file.extend([message_word(0, Flags::NONE, 0), *ticks].iter().flat_map(|word| word.to_le_bytes()));
        }
        file.extend_from_slice(&PAD_WORD.to_le_bytes());
    }
    file
}

proptest! {
    #[test]
    fn nothing_is_found_after_the_last_ticks_even_if_ticks_go_back(
        blocks in prop::collection::vec(prop::collection::vec(0..30u64, 0..4), 1..if cfg!(miri) { 3 } else { 9 })
    ) {
        let file = file_at(&blocks);
        let raw = Raw::parse(&file).unwrap();
        let all = blocks.concat();
        prop_assert_eq!(raw.last().is_some(), !all.is_empty());
        let last = raw.last().map_or(0, |last| last.0);
        let mut later = (last + 1..32).step_by(if cfg!(miri) { 16 } else { 1 });
        prop_assert!(later.all(|ticks| raw.position(Ticks(ticks)) == file.len()), "behind {}", last);
        prop_assert!(all.is_empty() || all.contains(&last));
        if all.is_sorted() {
            prop_assert_eq!(last, all.last().copied().unwrap_or(0));
        }
    }

    #[test]
    fn a_raw_file_has_the_lines_of_the_text_file(acts in acts(), run in any_run()) {
        let text = file(&acts, &run, Encoding::Text);
        let bytes = file(&acts, &run, Encoding::Raw);
        let (decoded, rendered) = decode(&bytes);
        prop_assert_eq!(String::from_utf8_lossy(&decoded), String::from_utf8_lossy(&text));
        prop_assert!(rendered.damaged.is_empty() && !rendered.open);
        prop_assert_eq!(run_of(&bytes), run_of(&text));
        prop_assert_eq!(Encoding::of(&bytes), Encoding::Raw);
        prop_assert_eq!(Encoding::of(&text), Encoding::Text);
    }

    #[test]
    fn consecutive_time_ranges_add_up_to_the_whole_file(acts in acts(), mut cuts in prop::collection::vec(990u64..1400, 0..6)) {
        let bytes = file(&acts, &run(), Encoding::Raw);
        let raw = Raw::parse(&bytes).unwrap();
        cuts.sort_unstable();
        let froms = [0].into_iter().chain(cuts.iter().copied());
        let untils = cuts.iter().copied().map(Some).chain([None]);
        let mut text = Vec::new();
        for (from, until) in froms.zip(untils) {
            let start = text.len();
            let times = (Ticks(from), until.map(Ticks));
            Decoder::new(TID).decode_times(raw, times, b"f", &mut text);
            let times = text[start..].split(|b| *b == b'\n').filter(|line| !line.is_empty());
            for line in times.map(|line| Line::parse(line).unwrap().key.ticks.0) {
                prop_assert!(line >= from && until.is_none_or(|until| line < until));
            }
        }
        let (whole, _) = decode(&bytes);
        prop_assert_eq!(String::from_utf8_lossy(&text), String::from_utf8_lossy(&whole));
    }

    #[test]
    fn any_bytes_are_read_without_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300), small: bool) {
        if small {
            // Small numbers look like records.
            bytes.iter_mut().for_each(|byte| *byte %= 9);
        }
        let bytes = [&MAGIC[..], &TID.to_le_bytes(), &bytes].concat();
        let (text, rendered) = decode(&bytes);
        let text = if rendered.open { [&text[..], b"\n"].concat() } else { text };
        assert_sorted_lines(&text);
        let raw = Raw::parse(&bytes).unwrap();
        let _ = (raw.first(), raw.last(), raw.position(Ticks(5)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    #[cfg_attr(miri, ignore = "Miri would take minutes to read several blocks")]
    fn changed_bytes_damage_only_their_block(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)
    ) {
        let sound = several_blocks();
        let mut bytes = sound.to_vec();
        let mut blocks = Vec::new();
        for (place, byte) in &changes {
            let at = 16 + place.index(bytes.len() - 16);
            bytes[at] = *byte;
            blocks.push(at as u64 / BLOCK);
        }
        let (text, _) = decode(&bytes);
        assert_sorted_lines(&text);
        let lines = |text: &[u8]| text.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
        // The lines of other blocks are there, unless ticks before them were too great.
        if !lines(&text).iter().any(|line| line.windows(8).any(|w| w == b"backward")) {
            let damaged: std::collections::HashSet<_> = lines(&text).into_iter().collect();
            for block in (0..sound.len() as u64 / BLOCK).filter(|block| !blocks.contains(block)) {
                let (start, end) = ((block * BLOCK) as usize, ((block + 1) * BLOCK) as usize);
                let mut alone = Vec::new();
                Decoder::new(TID).decode(Raw::parse(sound).unwrap(), start..end, b"f", &mut alone);
                prop_assert!(lines(&alone).iter().all(|line| line.is_empty() || damaged.contains(line)));
            }
        }
    }
}

#[test]
fn a_file_truncated_anywhere_has_the_lines_before_the_cut() {
    let acts: Vec<_> = (0..12)
        .map(|n| (1, if n % 2 == 0 { Act::Message(9, Flags::NONE) } else { Act::Captured(n) }))
        .collect();
    let bytes = file(&acts, &run(), Encoding::Raw);
    let (whole, _) = decode(&bytes);
    for cut in (16..bytes.len()).step_by(if cfg!(miri) { 53 } else { 1 }) {
        let (text, rendered) = decode(&bytes[..cut]);
        assert_sorted_lines(&text);
        let sound = text.iter().rev().skip(1).position(|b| *b == b'\n').map_or(0, |at| text.len() - 1 - at);
        let sound = if rendered.damaged.is_empty() { text.len() } else { sound };
        assert!(whole.starts_with(&text[..sound]), "cut at {cut}");
        assert!(rendered.damaged.len() <= 1 && rendered.damaged.iter().all(|place| place.end == cut));
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri would take minutes to read several blocks")]
fn first_and_last_ticks_and_positions_by_time_are_found() {
    let bytes = several_blocks();
    assert!(bytes.len() as u64 > 4 * BLOCK);
    let raw = Raw::parse(bytes).unwrap();
    assert_eq!(raw.first().unwrap().0, Ticks(0));
    assert_eq!(raw.last(), Some(Ticks(41_000)));
    for ticks in (1000..41_010).step_by(997) {
        let naive = raw.records(0).find(|(_, record)| record.has_ticks() && record.ticks >= Ticks(ticks));
        let position = raw.position(Ticks(ticks));
        assert_eq!(position, naive.map_or(bytes.len(), |(at, _)| at), "{ticks}");
        assert!(raw.place(Ticks(ticks)).abs_diff(position) <= BLOCK as usize);
    }
    assert!((0..50_000).is_sorted_by_key(|ticks| raw.place(Ticks(ticks))));
}

#[test]
fn incomplete_messages_and_records_are_detected() {
    let message = |flags| (1, Act::Message(if cfg!(miri) { 5000 } else { 40_000 }, flags));
    let pieces = [message(Flags::MORE), message(Flags::MORE.with(Flags::CONT)), message(Flags::CONT)];
    for open in 1..3 {
        let acts = [&[(1, Act::Captured(3))], &pieces[..open]].concat();
        let bytes = file(&acts, &run(), Encoding::Raw);
        // The last line, which ends the message, is left out.
        let records: Vec<_> = Raw::parse(&bytes).unwrap().records(0).collect();
        let (at, _) = records[records.len() - 2];
        let raw = Raw::parse(&bytes[..at]).unwrap();
        assert_eq!(raw.open_message(), Some(records[3 + 1].0), "{open}");
        for torn in [8, 9, 4000] {
            let raw = Raw::parse(&bytes[..at - torn]).unwrap();
            assert_eq!(raw.without_torn_tail(), records[records.len() - 3].0, "{open} {torn}");
        }
        assert_eq!(raw.without_torn_tail(), at);
    }
    let bytes =
        file(&[(1, Act::Captured(3))].into_iter().chain(pieces).collect::<Vec<_>>(), &run(), Encoding::Raw);
    assert_eq!(Raw::parse(&bytes).unwrap().open_message(), None);
}

#[test]
#[cfg_attr(miri, ignore = "Miri would take minutes to read several blocks")]
fn a_file_read_in_any_parts_has_the_same_lines() {
    let bytes = several_blocks();
    let (whole, _) = decode(bytes);
    let (mut text, mut at) = (Vec::new(), 0);
    for cut in (0..bytes.len()).step_by(997).chain([bytes.len()]) {
        let raw = Raw::parse(&bytes[..cut]);
        let end = raw.map_or(0, |raw| raw.without_torn_tail());
        if let Some(raw) = raw {
            let found = Decoder::new(TID).decode(raw, at..end.max(at), b"f", &mut text);
            assert!(found.damaged.is_empty(), "{cut}: {:?}", found.damaged);
            at = end.max(at);
        }
    }
    assert_eq!(at, bytes.len());
    assert!(text == whole);
}

#[test]
#[cfg_attr(miri, ignore = "Miri would take minutes to read several blocks")]
fn a_copy_has_the_same_lines() {
    let bytes = several_blocks();
    let raw = Raw::parse(bytes).unwrap();
    let (mut writer, mut out, plans) = (Writer::new(TID), Vec::new(), plans());
    for (_, record) in raw.records(0) {
        assert!(writer.copy(&record, &plans, &mut out));
    }
    assert_eq!(decode(&out).0, decode(bytes).0);
}

/// Returns the text of the records of a file between two times, as [`Decoder::records`] passes them on, the damaged
/// places, and the site and the values of each message.
fn by_records(
    bytes: &[u8],
    times: (Ticks, Option<Ticks>),
) -> (Vec<u8>, Vec<Range<usize>>, Vec<KnownOfMessage>) {
    let (mut text, mut messages) = (Vec::new(), Vec::new());
    let lines = CallLines::new(TID);
    let mut decoder =
        Decoder::new(TID).with_site_numbers(SiteNumbers(Arc::new(|site: &Site| site.id + 1000)));
    let found = decoder.records(Raw::parse(bytes).unwrap(), times, b"f", &mut |record| match record {
        Decoded::Call(ticks, record) => lines.write(ticks, &record, None, &mut text),
        Decoded::Scope(ticks, record, place) => lines.write(ticks, &record, Some(place), &mut text),
        Decoded::Message { lines, site, values } => {
            text.extend_from_slice(lines);
            let first = lines.split(|&byte| byte == b'\n').next().unwrap();
            let first = Line::parse(first).unwrap();
            assert_eq!(first.kind, Kind::Message);
            messages.push((first.payload.to_vec(), site, values.map(<[u8]>::to_vec)));
        }
        Decoded::Lines(lines) => {
            assert!(lines.ends_with(b"\n"));
            text.extend_from_slice(lines);
        }
    });
    (text, found.damaged, messages)
}

/// The first line of a message, the number of its site, and its values.
type KnownOfMessage = (Vec<u8>, u32, Option<Vec<u8>>);

/// Fails unless the records of a file have the lines and the damage that its text has, between any two times.
fn assert_records_are_those_of_the_text(bytes: &[u8]) {
    for times in [(0, None), (0, Some(1100)), (1003, Some(1200)), (1050, None)] {
        let times = (Ticks(times.0), times.1.map(Ticks));
        let mut text = Vec::new();
        let found = Decoder::new(TID).decode_times(Raw::parse(bytes).unwrap(), times, b"f", &mut text);
        let (by_records, damaged, _) = by_records(bytes, times);
        assert_eq!(String::from_utf8_lossy(&by_records), String::from_utf8_lossy(&text), "{times:?}");
        assert_eq!(damaged, found.damaged);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 48 }))]
    #[test]
    fn records_agree_with_the_lines_even_in_damaged_files(
        acts in acts(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)
    ) {
        let mut bytes = file(&acts, &run(), Encoding::Raw);
        assert_records_are_those_of_the_text(&bytes);
        for (place, byte) in changes {
            let at = 16 + place.index(bytes.len() - 16);
            bytes[at] = byte;
            assert_records_are_those_of_the_text(&bytes);
        }
        let cut = bytes.len() - 1;
        assert_records_are_those_of_the_text(&bytes[..cut]);
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri would take minutes to read several blocks")]
fn each_message_has_its_site_and_its_values() {
    let (_, _, messages) = by_records(several_blocks(), (Ticks(0), None));
    assert!(!messages.is_empty());
    for (text, site, values) in messages {
        let number = text.strip_prefix(b"site ").map(|text| {
            let digits = text.split(|&byte| byte == b':').next().unwrap();
            std::str::from_utf8(digits).unwrap().parse::<u32>().unwrap()
        });
        assert_eq!((site, values.is_some()), (number.map_or(0, |number| number + 1000), number.is_some()));
    }
}

#[test]
fn a_formatted_message_has_its_site_if_the_table_has_it() {
    let records = [(7, 1u64), (250, 2), (0, 3), (7, 4)];
    let mut ring = Vec::new();
    for (site, ticks) in records {
        ring.extend_from_slice(&message_word(site, Flags::NONE, 8).to_le_bytes());
        ring.extend_from_slice(&ticks.to_le_bytes());
        ring.extend_from_slice(b"a text..");
    }
    let mut renderer = Renderer::new(TID, RenderState::default(), Encoding::Raw);
    let (mut main, mut nested) = (Records::new([&ring, &[]], 0, RING_BLOCK), Records::empty(0, RING_BLOCK));
    let mut bytes = Vec::new();
    renderer.begin_at(0);
    renderer.records(
        &mut main,
        &mut nested,
        true,
        &mut References::without_modules(&plans()),
        usize::MAX,
        &mut bytes,
    );
    let raw = Raw::parse(&bytes).unwrap();
    let kinds: Vec<_> = raw.records(0).map(|(_, record)| (record.kind, record.site())).collect();
    let message = |site| (RecordKind::Message, site);
    assert_eq!(kinds, [(RecordKind::Site, 7), message(7), message(250), message(0), message(7)]);
    let (_, _, messages) = by_records(&bytes, (Ticks(0), None));
    let sites: Vec<_> = messages.into_iter().map(|(_, site, values)| (site, values)).collect();
    assert_eq!(sites, [(1007, None), (0, None), (0, None), (1007, None)]);
}

#[test]
fn a_record_of_unknown_kind_is_a_line_or_damage_in_earlier_versions() {
    for version in [1, 2, 3, 4, 20] {
        let mut bytes = file(&[(1, Act::Captured(3))], &Run { version, ..run() }, Encoding::Raw);
        for word in [5u64 << 32 | 3 << 16 | 0xf0 << 8 | 31, 2000, 0x00aa_0bff] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let (text, found) = decode(&bytes);
        let last = text.split(|byte| *byte == b'\n').rev().nth(1).unwrap();
        let last = Line::parse(last).unwrap();
        if version < crate::FIRST_WITH_OTHER_KINDS {
            assert_eq!((found.damaged.len(), last.kind), (1, Kind::Meta), "{version}");
            continue;
        }
        assert!(found.damaged.is_empty(), "{version}");
        assert_eq!((last.kind, last.key.ticks), (Kind::from_byte(b'?').unwrap(), Ticks(2000)));
        assert_eq!(last.payload, b"kind=31 flags=240 site=5 bytes=ff0baa");
        // A copy of the file contains the record.
        let (mut writer, mut copy) = (Writer::new(TID), Vec::new());
        for (_, record) in Raw::parse(&bytes).unwrap().records(0) {
            writer.copy(&record, &plans(), &mut copy);
        }
        assert_eq!(decode(&copy).0, text);
    }
}
