//! Tests of the tree against handwritten texts.

use std::sync::Arc;

use jiff::tz::TimeZone;
use proptest::prelude::*;
use trace_format::meta::{ClockKind, Run};

use super::*;
use crate::symbols::Settings;
use trace_format::wall::Wall;

use crate::time::anchor::Anchor;
use crate::time::clocks::TickClock;
use crate::view::export::report::{ReportForm, ReportLayout, ReportOrder};
use crate::view::made_traces::{Step, delivered, names, raw_file, steps, text, write};
use crate::view::thread_labels::Label;

fn origin(tid: u64) -> Origin {
    let clock = Arc::new(TickClock::of(ClockKind::System, [Anchor::new(Ticks(0), Wall(0))]));
    let name = Vec::new();
    Origin {
        run: None,
        tid,
        name,
        clock,
        is_shown: true,
        is_log: false,
        has_sites: true,
        waited: None,
        foreign: None,
    }
}

/// Lines of two threads: ticks in nanoseconds, the thread, and the rest of the line.
const LINES: &[(u64, usize, &str)] = &[
    (100, 0, "> app::main at src/main.rs:1"),
    (110, 0, ": begun"),
    (120, 0, "> app::fib at src/main.rs:9"),
    (125, 0, "> app::fib at src/main.rs:9"),
    (145, 0, "< app::fib at src/main.rs:9"),
    (150, 0, "< app::fib at src/main.rs:9"),
    (160, 1, "> span=3 app::serve at src/net.rs:7"),
    (170, 1, "> app::lost at src/net.rs:8"),
    (175, 1, "# lost records=1 reason=full"),
    (180, 1, "< span=3 ended app::serve at src/net.rs:7"),
    (190, 1, "> app::idle at src/net.rs:9"),
    (195, 1, ": waiting"),
    (195, 1, "# end records=5 lost=0 reason=killed"),
    (200, 0, "> app::wait at src/main.rs:20"),
    (201, 0, "^ 0x10 0x20 ..."),
    (400, 0, "< app::never at src/main.rs:99"),
    (500, 0, "> 0x1f"),
    (510, 0, "< unwinding 0x1f"),
    (930, 0, "# clock"),
    (930, 0, "# end records=13 lost=0 reason=killed"),
];

fn exported(format: &mut dyn Export) -> String {
    let (origins, mut out) = ([origin(7), origin(8)], Vec::new());
    format.begin(&origins, &mut out);
    for (ticks, at, text) in LINES {
        let line = format!("{ticks:016x}-{:08} {text}\n", at + 7);
        format.record(&origins[*at], &RecordText::new(*at, line.as_bytes()), &mut out);
    }
    format.finish(&mut out);
    while format.further_part(&mut out).unwrap() {}
    String::from_utf8(out).unwrap()
}

fn labels() -> Vec<Label> {
    ["main", "net"].map(|label| Label::from(label.to_owned())).to_vec()
}

fn context(depth: Depth) -> Context {
    let time = TimeColumn::new(TimeMode::Offset, 0, TimeZone::UTC);
    Context { names: names(), labels: labels(), depth, ..Context::new(time, Settings::default()) }
}

fn tree(layout: &TreeLayout, depth: Depth) -> String {
    let text = exported(&mut *layout.format(&context(depth)));
    // Without the column of times.
    text.lines().map(|line| format!("{}\n", &line[18..])).collect()
}

#[test]
fn each_thread_is_a_tree_with_the_lines_that_it_has_in_the_common_one() {
    let by_thread = TreeLayout { by_thread: true, ..TreeLayout::default() };
    for layout in [by_thread.clone(), TreeLayout { min_duration: 50, ..by_thread }] {
        // More than a test keeps in memory, so the temporary file is used, too.
        let text = exported(&mut *layout.format(&context(Depth::default())));
        let common = TreeLayout { by_thread: false, ..layout };
        let common = exported(&mut *common.format(&context(Depth::default())));
        // The time, two blanks and a label of four characters.
        let of = |label: &str| -> Vec<String> {
            let lines = common.lines().filter(|line| line[18..].starts_with(label));
            lines.map(|line| format!("{}{}", &line[..16], &line[22..])).collect()
        };
        let expected =
            [vec!["main".to_owned()], of("main"), vec![String::new(), "net".to_owned()], of("net ")];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected.concat());
    }
}

#[test]
fn calls_are_indented_and_show_why_they_did_not_return() {
    assert_eq!(
        tree(&TreeLayout::default(), Depth::default()),
        "main             app::main  (main.rs:1) {
main               : begun
main               app::fib  (main.rs:9) {
main      20 ns      app::fib  (main.rs:9)
main      30 ns    } app::fib
net              app::serve #3  (net.rs:7) {
net                app::lost  (net.rs:8) {
net                  # lost records=1 reason=full
net       10 ns    } app::lost  <- no leave record
net       20 ns  } app::serve
net              app::idle  (net.rs:9) {
net                : waiting
main               app::wait  (main.rs:20) {
main                 : by 0x10 (of no known module)
main                 : by 0x20 (of no known module)
main                 : by ... (the stack could not be followed further)
main      10 ns      0x1f (of no known module)  <- left by a panic
main     730 ns    } app::wait  <- still running when the process was killed
main     830 ns  } app::main  <- still running when the process was killed
net      740 ns  } app::idle  <- still running when the process was killed
"
    );
}

#[test]
fn depth_duration_and_function_choose_calls() {
    let depth = tree(&TreeLayout::default(), Depth::AtMost(1));
    let still = " <- still running when the process was killed";
    assert_eq!(
        depth,
        format!(
            "main             app::main  (main.rs:1) {{
main      30 ns    … 2 more calls of app::fib
net              app::serve #3  (net.rs:7) {{
net       10 ns    … 1 more call of app::lost  <- no leave record
net       20 ns  }} app::serve
net      740 ns  app::idle  (net.rs:9) {still}
main     730 ns    … 2 more calls (1 of 0x1f (of no known module)) {still}
main     830 ns  }} app::main {still}
"
        )
    );
    let long = tree(&TreeLayout { min_duration: 100, ..TreeLayout::default() }, Depth::default());
    assert!(!long.contains("fib") && !long.contains("begun") && !long.contains("serve"), "{long}");
    assert!(long.contains("app::wait  (main.rs:20)") && long.contains("app::main  (main.rs:1) {"), "{long}");
    assert!(long.contains("740 ns  app::idle"), "a call that hangs is long: {long}");
    let some = tree(
        &TreeLayout { function: Some("fib|serve".to_owned()), ..TreeLayout::default() },
        Depth::default(),
    );
    assert_eq!(some.lines().count(), 8, "{some}");
    assert!(some.contains("app::lost") && !some.contains("app::main"), "what is called is shown: {some}");
}

#[test]
fn equal_calls_that_follow_each_other_are_one_line_on_a_terminal() {
    // The time of each line, and the rest of the line.
    let lines = [
        (100, "> app::main at src/main.rs:1"),
        (100, "> app::f at src/main.rs:2"),
        (105, "< app::f at src/main.rs:2"),
        (105, "> app::f at src/main.rs:2"),
        (110, "< app::f at src/main.rs:2"),
        (110, "> app::f at src/main.rs:2"),
        (117, "< app::f at src/main.rs:2"),
        (117, "> app::g at src/main.rs:3"),
        (126, "< app::g at src/main.rs:3"),
        (126, "> app::f at src/main.rs:2"),
        (127, "< app::f at src/main.rs:2"),
        (127, ": between"),
        (127, "> app::f at src/main.rs:2"),
        (129, "< app::f at src/main.rs:2"),
        (129, "< app::main at src/main.rs:1"),
    ];
    let shown = |on_terminal, unfolded| {
        let layout = TreeLayout { unfolded, ..TreeLayout::default() };
        let mut format = layout.format(&Context { on_terminal, ..context(Depth::default()) });
        let (origins, mut out) = ([origin(7)], Vec::new());
        format.begin(&origins, &mut out);
        for (ticks, text) in lines {
            let line = format!("{ticks:016x}-00000007 {text}\n");
            format.record(&origins[0], &RecordText::new(0, line.as_bytes()), &mut out);
        }
        format.finish(&mut out);
        let text = String::from_utf8(out).unwrap();
        text.lines().map(|line| line[18..].to_owned()).collect::<Vec<_>>()
    };
    let folded = [
        "main             app::main  (main.rs:1) {",
        "main      17 ns    app::f  (main.rs:2)  \u{d7}3",
        "main       9 ns    app::g  (main.rs:3)",
        "main       1 ns    app::f  (main.rs:2)",
        "main               : between",
        "main       2 ns    app::f  (main.rs:2)",
        "main      29 ns  } app::main",
    ];
    assert_eq!(shown(true, false), folded);
    let each = shown(false, false);
    assert_eq!((each.len(), &each), (9, &shown(true, true)));
}

/// Returns the times of the lines that have one, in nanoseconds.
fn times(tree: &str) -> Vec<u64> {
    let time = |line: &str| line.get(..16)?.trim().replace('.', "").parse::<u64>().ok();
    tree.lines().filter_map(time).collect()
}

/// Returns the tree of records of two threads, and its notes.
fn tree_of(
    layout: &TreeLayout,
    records: impl Iterator<Item = (u64, usize, String)>,
) -> (String, Vec<String>) {
    let (mut format, origins) = (layout.format(&context(Depth::default())), [origin(7), origin(8)]);
    let mut out = Vec::new();
    for (ticks, at, text) in records {
        let line = format!("{ticks:016x}-{:08} {text}\n", at + 7);
        format.record(&origins[at], &RecordText::new(at, line.as_bytes()), &mut out);
    }
    format.finish(&mut out);
    (String::from_utf8(out).unwrap(), format.omissions())
}

#[test]
fn a_call_stands_where_it_was_entered_among_the_lines_of_other_threads() {
    let records = [
        (1, 0, "> app::long at src/main.rs:1"),
        (2, 1, ": one"),
        (3, 1, "> app::short at src/main.rs:2"),
        (4, 0, "< app::long at src/main.rs:1"),
        (5, 1, ": two"),
        (6, 1, "< app::short at src/main.rs:2"),
    ];
    let records = records.map(|(ticks, at, text)| (ticks, at, text.to_owned()));
    let (text, _) = tree_of(&TreeLayout::default(), records.into_iter());
    let lines: Vec<String> = text.lines().map(|line| line[18..].to_owned()).collect();
    assert_eq!(
        lines,
        [
            "main       3 ns  app::long  (main.rs:1)",
            "net              : one",
            "net              app::short  (main.rs:2) {",
            "net                : two",
            "net        3 ns  } app::short",
        ]
    );
    assert_eq!(times(&text), [1, 2, 3, 5, 6]);
}

/// Returns the records of a call that is open while another thread makes more lines than are held back.
fn one_long_call() -> impl Iterator<Item = (u64, usize, String)> {
    let most = MOST_PLACES as u64;
    let message = |ticks| [(ticks, 1, "> app::g at src/g.rs:1"), (ticks, 1, "< app::g at src/g.rs:1")];
    let begin = [(1, 0, "> app::long at src/main.rs:1")];
    let end = [(most + 100, 0, "< app::long at src/main.rs:1"), (most + 200, 1, ": end")];
    let records = begin.into_iter().chain((2..most + 10).flat_map(message)).chain(end);
    records.map(|(ticks, at, text)| (ticks, at, text.to_owned()))
}

#[test]
fn lines_wait_up_to_a_limit_and_then_a_call_has_a_line_for_its_beginning() {
    let (text, notes) = tree_of(&TreeLayout::default(), one_long_call());
    assert!(text.lines().next().unwrap().ends_with("app::long  (main.rs:1) {"));
    assert!(text.contains("100 us  } app::long\n"), "the call ends");
    assert!(times(&text).is_sorted());
    assert_eq!(notes, [""; 0]);
}

#[test]
fn a_call_that_was_too_short_at_the_limit_is_shown_later_and_reported() {
    let layout = TreeLayout { min_duration: MOST_PLACES as u64 + 50, ..TreeLayout::default() };
    let (text, notes) = tree_of(&layout, one_long_call());
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("app::long  (main.rs:1)"), "{text}");
    assert_eq!(times(&text), [MOST_PLACES as u64 + 100], "the call stands where it was left");
    assert!(
        notes[0]
            .starts_with("1 call is shown below lines that are later than its entry: at most 100,000 lines"),
        "{notes:?}"
    );
}

#[test]
fn calls_of_a_process_that_ended_earlier_have_their_end_in_the_reason() {
    let run = |pid| Run {
        version: 1,
        id: pid,
        root: pid,
        pid,
        exe: b"/app".to_vec(),
        boot: b"b".to_vec(),
        ticks: Ticks(0),
        wall: Wall(0),
        clock: ClockKind::System,
    };
    let origins = [7, 8].map(|tid| Origin { run: Some(run(tid as u32)), ..origin(tid) });
    let mut format = TreeLayout::default().format(&context(Depth::default()));
    let mut out = Vec::new();
    let records = [(1, 0, "> app::f at a.rs:1"), (2, 0, ": in f"), (9, 1, ": later")];
    for (ticks, at, text) in records {
        let line = format!("{ticks:016x}-{:08} {text}\n", at + 7);
        format.record(&origins[at], &RecordText::new(at, line.as_bytes()), &mut out);
    }
    format.finish(&mut out);
    let text = String::from_utf8(out).unwrap();
    let last = text.lines().last().unwrap();
    assert_eq!(
        last.trim_start(),
        "main       1 ns  } app::f  <- still running at the end of the shown records, at 0.000000002"
    );
    assert!(last.starts_with(&" ".repeat(18)), "the column of times is empty: {last}");
}

#[test]
fn a_report_counts_recursion_once_and_includes_running_calls() {
    let report = |layout: ReportLayout| exported(&mut *layout.format(&context(Depth::default())));
    let text = report(ReportLayout { sort: ReportOrder::Calls, ..ReportLayout::default() });
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip(2)
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert!(
        text.starts_with(
            "8 calls of 2 threads, 3 still running at the end, 1 without a leave record, 1 without an"
        ),
        "{text}"
    );
    let fib = ["2", "30 ns", "30 ns", "20 ns", "25 ns", "30 ns", "30 ns", "app::fib", "(main.rs:9)"];
    assert_eq!(rows[0], fib, "{text}");
    let folded = report(ReportLayout { format: ReportForm::Folded, ..ReportLayout::default() });
    let expected = "main;app::main 70\nmain;app::main;app::fib 10\nmain;app::main;app::fib;app::fib 20\n\
                    main;app::main;app::wait 720\nmain;app::main;app::wait;0x1f (of no known module) 10\n\
                    net;app::idle 740\nnet;app::serve 10\nnet;app::serve;app::lost 10\n";
    assert_eq!(folded, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_without_short_calls_is_the_same_if_sources_omit_them(
        threads in prop::collection::vec(steps(), 1..4),
        min_duration in prop_oneof![0..40u64, 0..3_000u64],
    ) {
        is_the_same_without_short_calls(&threads, min_duration);
    }
}

/// Checks that the tree of threads with these steps is the same whether their sources leave out short
/// calls, contain them, or are texts.
fn is_the_same_without_short_calls(threads: &[Vec<(u64, Step)>], min_duration: u64) {
    let directory = tempfile::tempdir().unwrap();
    let raw = |(tid, steps): (u64, &Vec<(u64, Step)>)| (raw_file(tid, steps), tid);
    let raw: Vec<_> = (1..).zip(threads).map(raw).collect();
    let as_text = raw.iter().map(|(bytes, tid)| (text(bytes), *tid)).collect();
    let format = || TreeLayout { min_duration, ..TreeLayout::default() }.format(&context(Depth::default()));
    let files = write(directory.path(), raw);
    let expected = delivered(&files, 0, &format);
    let found = delivered(&files, min_duration, &format);
    assert_eq!(found.0, expected.0);
    assert!(times(&expected.0).is_sorted(), "the times of the lines go back");
    assert!(found.1 <= expected.1);
    let files = write(directory.path(), as_text);
    assert_eq!(delivered(&files, min_duration, &format), expected);
}
