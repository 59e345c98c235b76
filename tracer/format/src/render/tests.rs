//! Tests of the renderer: they build rings record by record, and compare the lines that the renderer makes.

use proptest::prelude::*;

use super::*;
use crate::escape::{EscapeContext, unescape};
use crate::line::{Kind, Line};
use crate::meta::EndReason;
use crate::record::tests::lay_out;
use crate::record::{enter_word, leave_word, message_word, stack_word};

const BLOCK: u64 = 64;

fn render(
    state: &mut Renderer,
    main: &[(u64, Flags, &str)],
    nested: &[(u64, Flags, &str)],
    idle: bool,
) -> String {
    let own = |list: &[(u64, Flags, &str)]| -> Vec<_> {
        list.iter().map(|(t, f, s)| (*t, *f, s.as_bytes().to_vec())).collect()
    };
    let (main, nested) = (lay_out(&own(main), 64), lay_out(&own(nested), 64));
    let mut out = Vec::new();
    let mut main = Records::new([&main, &[]], 0, BLOCK);
    let mut nested = Records::new([&nested, &[]], 0, BLOCK);
    state.records(
        &mut main,
        &mut nested,
        idle,
        &mut References::without_modules(&Plans::default()),
        usize::MAX,
        &mut out,
    );
    String::from_utf8(out).unwrap()
}

fn renderer() -> Renderer {
    Renderer::new(320, RenderState::default(), Encoding::Text)
}

proptest! {
    #[test]
    fn lines_agree_with_a_naive_renderer_at_any_window_boundaries(
        texts in prop::collection::vec((0u64..3, "([a-z ]{0,40}|[ -~]{0,40}|[a-z]{600,700}|.{0,5})"), 0..if cfg!(miri) { 10 } else { 200 })
    ) {
        let mut ticks = 0;
        let mut expected = Vec::new();
        let messages: Vec<_> = texts
            .iter()
            .map(|(step, text)| {
                ticks += step;
                expected.extend(format!("{ticks:016x}-00000320 : ").bytes());
                crate::escape::escape_into(&mut expected, text.as_bytes(), EscapeContext::Line);
                expected.push(b'\n');
                (ticks, Flags::NONE, text.clone().into_bytes())
            })
            .collect();
        let bytes = lay_out(&messages, 4096);
        let mut main = Records::new([&bytes, &[]], 0, 4096);
        let (mut renderer, mut out) = (renderer(), Vec::new());
        renderer.records(&mut main, &mut Records::empty(0, BLOCK), true, &mut References::without_modules(&Plans::default()), usize::MAX, &mut out);
        prop_assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&expected));
        prop_assert_eq!(renderer.state().records, texts.len() as u64);
    }
}

#[test]
fn line_feeds_start_new_lines_and_a_trailing_one_an_empty_line() {
    let text = render(&mut renderer(), &[(1, Flags::NONE, "a\nb\n"), (2, Flags::NONE, "")], &[], true);
    let expected = "0000000000000001-00000320 : a\n0000000000000001-00000320 | b\n\
                    0000000000000001-00000320 | \n0000000000000002-00000320 : \n";
    assert_eq!(text, expected);
}

#[test]
fn nested_records_are_merged_by_ticks_after_the_record_around_them() {
    let mut state = renderer();
    let main = [(1, Flags::NONE, "one"), (5, Flags::NONE, "five")];
    let nested = [(3, Flags::NONE, "three"), (5, Flags::NONE, "5b"), (9, Flags::NONE, "nine")];
    let text = render(&mut state, &main, &nested, false);
    let order: Vec<&str> = text.lines().map(|l| &l[28..]).collect();
    assert_eq!(order, ["one", "three", "five"]);
    let text = render(&mut state, &[(8, Flags::NONE, "eight")], &nested[1..], true);
    let order: Vec<&str> = text.lines().map(|l| &l[28..]).collect();
    assert_eq!(order, ["5b", "eight", "nine"]);
}

#[test]
fn pieces_become_one_message_and_a_missing_end_is_reported() {
    let mut state = renderer();
    let text = render(&mut state, &[(1, Flags::MORE, "half ")], &[(2, Flags::NONE, "nested")], true);
    assert_eq!(text, "0000000000000001-00000320 : half ");
    let more = [(1, Flags::CONT, "whole"), (3, Flags::MORE, "torn"), (4, Flags::NONE, "next")];
    let text = render(&mut state, &more, &[], true);
    assert_eq!(
        text,
        "whole\n0000000000000003-00000320 : torn\n0000000000000003-00000320 # lost records=1 reason=torn\n\
         0000000000000004-00000320 : next\n"
    );
    assert_eq!((state.state().records, state.state().lost), (2, [0, 0, 0, 1, 0, 0, 0, 0]));
}

#[test]
fn a_message_torn_by_an_end_is_reported_once_even_if_its_rest_comes() {
    let mut state = renderer();
    let mut text = render(&mut state, &[(1, Flags::MORE, "half ")], &[], true).into_bytes();
    state.end(EndReason::Exit, None, &mut text);
    let continued = Flags::NONE.with(Flags::CONT).with(Flags::MORE);
    let more = [(1, continued, "the "), (1, Flags::CONT, "rest"), (2, Flags::NONE, "whole")];
    text.extend(render(&mut state, &more[..1], &[(2, Flags::NONE, "nested")], true).bytes());
    text.extend(render(&mut state, &more[1..], &[], true).bytes());
    // A message that begins in a file that was left is reported where it ends, with its own ticks.
    text.extend(
        render(&mut state, &[(3, Flags::CONT, "the end"), (3, Flags::NONE, "after")], &[], true).bytes(),
    );
    let text = String::from_utf8(text).unwrap();
    let payloads: Vec<&str> = text.lines().map(|l| &l[14..]).collect();
    let expected = [
        "01-00000320 : half ",
        "01-00000320 # lost records=1 reason=torn",
        "01-00000320 # end records=0 lost=1 reason=exit",
        "02-00000320 : nested",
        "02-00000320 : whole",
        "03-00000320 # lost records=1 reason=torn",
        "03-00000320 : after",
    ];
    assert_eq!(payloads, expected);
    assert_eq!(state.state().records, 3);
}

#[test]
fn losses_and_waits_without_records_are_reported_once() {
    let mut state = renderer();
    let mut out = Vec::new();
    let losses = Losses { full: 3, panic: 0, nested: 1, stall_ns: 7 };
    state.losses(&losses, &mut out);
    state.losses(&losses, &mut out);
    state.waits_without_record(&losses, &mut out);
    state.waits_without_record(&losses, &mut out);
    state.end(EndReason::Thread, None, &mut out);
    let text = String::from_utf8(out).unwrap();
    let payloads: Vec<&str> = text.lines().map(|l| &l[26..]).collect();
    assert_eq!(
        payloads,
        [
            "# lost records=3 reason=full",
            "# lost records=1 reason=nested",
            "# stall ns=7",
            "# end records=0 lost=4 reason=thread waited=7"
        ]
    );
}

proptest! {
    #[test]
    fn messages_are_read_back_from_their_lines(texts in prop::collection::vec("(?s).{0,11}", 0..20)) {
        let main: Vec<_> = texts.iter().enumerate().map(|(i, s)| (i as u64, Flags::NONE, s.as_str())).collect();
        let rendered = render(&mut renderer(), &main, &[], true);
        let mut read: Vec<Vec<u8>> = Vec::new();
        for text in rendered.split_terminator('\n') {
            let line = Line::parse(text.as_bytes()).unwrap();
            let payload = unescape(line.payload);
            match (line.kind, read.last_mut()) {
                (Kind::Continuation, Some(last)) => {
                    last.push(b'\n');
                    last.extend(payload);
                }
                _ => read.push(payload),
            }
        }
        let expected: Vec<Vec<u8>> = texts.into_iter().map(String::into_bytes).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn any_ring_content_gives_sorted_valid_lines(
        main: Vec<u8>, nested: Vec<u8>, words in prop::collection::vec((0u8..4, 0u8..5, 0u16..40, any::<u64>()), 0..9)
    ) {
        let mut mixed = Vec::new();
        for (kind, flags, len, ticks) in words {
            mixed.extend((u64::from(len) << 16 | u64::from(flags) << 8 | u64::from(kind)).to_le_bytes());
            mixed.extend(ticks.to_le_bytes());
            mixed.resize(mixed.len() + usize::from(len).next_multiple_of(8), b'\\');
        }
        mixed.extend(&main);
        let mut out = Vec::new();
        let mut state = renderer();
        let mut main = Records::new([&mixed, &main], 0, 128);
        let mut nested = Records::new([&nested, &[]], 0, 64);
        state.records(&mut main, &mut nested, true, &mut References::without_modules(&Plans::default()), usize::MAX, &mut out);
        state.end(EndReason::Killed, None, &mut out);
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.split_terminator('\n').collect();
        prop_assert!(lines.iter().all(|l| Line::parse(l.as_bytes()).is_ok()), "{}", text);
        prop_assert!(lines.is_sorted_by_key(|l| &l[..16]));
    }
}

#[test]
fn the_module_table_precedes_the_first_address_of_each_file_once() {
    let line = |path: &str| {
        Meta::parse(format!(
            "module start=0000000000001000 end=0000000000002000 bias=0000000000000000 build_id= path=\"{path}\" after=0 seen=1"
        ).as_bytes()).expect("a line")
    };
    let mut modules = [line("/a"), line("/b")];
    let words = [
        message_word(0, Flags::NONE, 0),
        enter_word(0x1a2b),
        leave_word(0x1a2b, true),
        stack_word(Flags::WHOLE, 0),
    ];
    let records = |words: &[u64]| -> Vec<u8> {
        words.iter().flat_map(|word| [*word, 7]).flat_map(u64::to_le_bytes).collect()
    };
    let (plans, mut renderer) = (Plans::default(), renderer());
    let mut rendered = |renderer: &mut Renderer, words: &[u64]| {
        let (bytes, mut out) = (records(words), Vec::new());
        let mut refer = References { plans: &plans, modules: &mut modules };
        renderer.records(
            &mut Records::new([&bytes, &[]], 0, 4096),
            &mut Records::empty(0, 64),
            true,
            &mut refer,
            usize::MAX,
            &mut out,
        );
        let text = String::from_utf8(out).expect("UTF-8");
        text.lines()
            .map(|line| line[26..].split(" start").next().unwrap_or_default().trim_end().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        rendered(&mut renderer, &words),
        [":", "# module", "# module", "> 0x1a2b", "< unwinding 0x1a2b", "^"]
    );
    assert_eq!(rendered(&mut renderer, &words[1..2]), ["> 0x1a2b"]);
    assert_eq!(renderer.state().records, 5);
    renderer.begin_file();
    assert_eq!(rendered(&mut renderer, &words[3..]), ["# module", "# module", "^"]);
}
