//! Tests of the text about spans against handwritten texts.

use std::sync::{Arc, Mutex};

use trace_format::line::Ticks;
use trace_format::meta::{ClockKind, Run};
use trace_format::wall::Wall;

use super::*;
use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::symbols::Settings;
use crate::time::anchor::Anchor;
use crate::time::clocks::TickClock;
use crate::view::function_names::FunctionNames;
use crate::view::thread_labels::Label;
use crate::view::thread_states::{Off, ThreadStates};
use crate::view::threads::Threads;

/// Returns the text for these lines: ticks in nanoseconds, the id of the thread, and the rest of the line.
fn shown(layout: SpansLayout, lines: &[(u64, u64, &str)]) -> String {
    shown_with(layout, lines, ThreadStates::default())
}

fn run() -> Run {
    let (exe, boot) = (b"app".to_vec(), Vec::new());
    let (version, clock) = (trace_format::VERSION, ClockKind::System);
    Run { version, id: 1, root: 1, pid: 1, exe, boot, ticks: Ticks(0), wall: Wall(0), clock }
}

/// Returns the text for these lines with states of threads.
fn shown_with(layout: SpansLayout, lines: &[(u64, u64, &str)], states: ThreadStates) -> String {
    let clock = Arc::new(TickClock::of(ClockKind::System, [Anchor::new(Ticks(0), Wall(0))]));
    let origins = [1, 2, 3].map(|tid| Origin {
        run: Some(run()),
        tid,
        name: Vec::new(),
        clock: clock.clone(),
        is_shown: true,
        is_log: false,
        has_sites: false,
        waited: None,
        foreign: None,
    });
    let names = Arc::new(Mutex::new(FunctionNames::new(Settings::default())));
    let labels = ["a", "b", "c"].map(|label| Label::from(label.to_owned())).to_vec();
    let threads = Threads::new(names, labels).with_states(Arc::new(states));
    let format = SpansFormat::new(layout, 0);
    let (mut format, mut out) = (EventExport::new(format, Depth::All, threads, Arc::default()), Vec::new());
    format.begin(&origins, &mut out);
    for (ticks, tid, text) in lines {
        let line = format!("{ticks:016x}-{tid:08} {text}\n");
        let number = *tid as usize - 1;
        format.record(&origins[number], &RecordText::new(number, line.as_bytes()), &mut out);
    }
    format.finish(&mut out);
    String::from_utf8(out).unwrap()
}

/// Two requests. The second one waits for something that the first one holds while it sleeps. The first one is opened
/// by a span that does not end.
const REQUESTS: [(u64, u64, &str); 20] = [
    (500, 1, ": INFO app: span=1 server new"),
    (600, 1, "> span=1 server at src/main.rs:3"),
    (1_000, 1, r#": INFO app: span=12 request{path="/slow"} new parent=1"#),
    (2_000, 1, "> span=12 request at src/main.rs:9"),
    (5_000, 1, "< span=12 request at src/main.rs:9"),
    (6_000, 2, r#": INFO app: span=13 request{path="/quick"} new"#),
    (6_500, 2, "> span=13 request at src/main.rs:9"),
    (7_500, 2, "< span=13 request at src/main.rs:9"),
    (10_000, 1, ": INFO app: span=12 request{status=200}"),
    (20_000, 2, "> span=12 request at src/main.rs:9"),
    (24_000, 2, "< span=12 request at src/main.rs:9"),
    (24_500, 2, ": INFO app: span=12 request closed"),
    (25_000, 3, "> span=13 request at src/main.rs:9"),
    (25_100, 3, r#"! lock wait id=4 for=lock made="src/m.rs:1" at="src/a.rs:7" holder=1 since="src/b.rs:3""#),
    (25_900, 3, "! lock got id=4 ns=800"),
    (26_000, 3, "< span=13 request at src/main.rs:9"),
    (26_500, 3, ": INFO app: span=13 request closed"),
    (27_000, 3, "> span=20 load at src/db.rs:5"),
    (28_000, 3, "< span=20 cancelled load at src/db.rs:5"),
    (30_000, 3, ": the last record"),
];

#[test]
fn spans_are_counted_by_name_and_by_what_opened_them() {
    let layout = SpansLayout { form: RowForm { json: true, csv: false }, ..SpansLayout::default() };
    let json: serde_json::Value = serde_json::from_str(&shown(layout, &REQUESTS)).unwrap();
    assert_eq!((&json["spans"], &json["cancelled"], &json["open"]), (&4.into(), &1.into(), &1.into()));
    let rows = json["names"].as_array().unwrap();
    let row = |name: &str, opened_by: Option<&str>| {
        let is_row = |row: &&serde_json::Value| row["name"] == name && row["opened_by"].as_str() == opened_by;
        let row = rows.iter().find(is_row).unwrap();
        ["spans", "wall_max_ns", "busy_max_ns", "idle_max_ns", "polls"].map(|key| row[key].as_u64().unwrap())
    };
    assert_eq!(row("request", Some("server")), [1, 23_500, 7_000, 16_500, 2]);
    assert_eq!(row("request", None), [1, 20_500, 2_000, 18_500, 2]);
    // It has not ended: it is busy until the last record.
    assert_eq!(row("server", None), [1, 29_500, 29_400, 100, 1]);
    assert_eq!(row("load", None), [1, 1_000, 1_000, 0, 1]);
}

#[test]
fn the_slowest_spans_are_listed_with_their_fields() {
    let layout = SpansLayout { slow: Some(2), ..SpansLayout::default() };
    let expected = "\
4 spans, 1 cancelled, 1 not ended
   wall     busy     idle  polls  span                                           opened by
29.5 us  29.4 us   100 ns      1  server #1  has not ended
23.5 us  7.00 us  16.5 us      2  request #12  {path=\"/slow\" status=200}  server #1
";
    let text = shown(layout, &REQUESTS);
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(squeezed(&text), squeezed(expected), "{text}");
}

#[test]
fn the_steps_of_a_span_show_what_it_waited_for() {
    let layout = SpansLayout { id: Some(13), ..SpansLayout::default() };
    let expected = "\
request #13: 20.5 us, busy 2.00 us in 2 polls, idle 18.5 us
     0.000006000             begins
     0.000006000             path=\"/quick\"
     0.000006000     500 ns  idle; meanwhile busy: server #1 500 ns
     0.000006500    1.00 us  busy on b
     0.000007500    17.5 us  idle; the span was resumed 1.00 us after a thread left request #12; meanwhile busy: server #1 17.5 us, request #12 4.00 us
     0.000025100     800 ns    waited for lock 4 at src/a.rs:7, behind a in server #1
     0.000025000    1.00 us  busy on c
     0.000026500             is closed
the longest idle time, and what the spans waited for, as far as the records say:
     0.000007500    17.5 us  request #13 idle, until 1.00 us after a thread left request #12
     0.000005000    15.0 us  request #12 idle; no span was left shortly before its end
";
    assert_eq!(shown(layout, &REQUESTS), expected);
    let none = shown(SpansLayout { id: Some(99), ..SpansLayout::default() }, &REQUESTS);
    assert!(none.starts_with("no span has the number 99"), "{none}");
}

/// Returns the lines after the steps of a span, with the line feed before them: the chain of spans that it waited for.
fn chain(id: u64, lines: &[(u64, u64, &str)]) -> String {
    let text = shown(SpansLayout { id: Some(id), ..SpansLayout::default() }, lines);
    text.split_once("the records say:").map_or_else(String::new, |(_, chain)| chain.to_owned())
}

#[test]
fn a_chain_of_requests_ends_at_the_one_that_waited_for_no_other() {
    // Each request contains another span, and each request waits until the request before it has ended.
    let lines = [
        (1_000, 1, "> span=1 first at a.rs:1"),
        (1_100, 1, "> span=11 hold at a.rs:2"),
        (1_200, 1, "< span=11 hold at a.rs:2"),
        (1_300, 1, "< span=1 first at a.rs:1"),
        (2_000, 1, "> span=2 second at a.rs:1"),
        (2_100, 1, "> span=12 hold at a.rs:2"),
        (2_200, 1, "< span=12 hold at a.rs:2"),
        (2_300, 1, "< span=2 second at a.rs:1"),
        (3_000, 2, "> span=3 third at a.rs:1"),
        (3_100, 2, "< span=3 third at a.rs:1"),
        (50_000, 1, "> span=1 first at a.rs:1"),
        (50_100, 1, "> span=11 hold at a.rs:2"),
        (50_200, 1, "< span=11 ended hold at a.rs:2"),
        (50_300, 1, "< span=1 ended first at a.rs:1"),
        (51_000, 2, "> span=2 second at a.rs:1"),
        (51_100, 2, "> span=12 hold at a.rs:2"),
        (60_000, 2, "< span=12 ended hold at a.rs:2"),
        (60_100, 2, "< span=2 ended second at a.rs:1"),
        (61_000, 1, "> span=3 third at a.rs:1"),
        (62_000, 1, "< span=3 ended third at a.rs:1"),
    ];
    let behind_second = "
     0.000002300    48.7 us  second #2 idle, until 700 ns after a thread left first #1
     0.000001300    48.7 us  first #1 idle; no span was left shortly before its end
";
    let third = "\n     0.000003100    57.9 us  third #3 idle, until 900 ns after a thread left second #2";
    assert_eq!(chain(3, &lines), format!("{third}{behind_second}"));
    assert_eq!(chain(2, &lines), behind_second);
    // The span inside the second request waited for the first request, as the second request did, and not for the
    // second request, which is left after it.
    let hold = "\n     0.000002200    48.9 us  hold #12 idle, until 800 ns after a thread left first #1\n";
    let first = "     0.000001300    48.7 us  first #1 idle; no span was left shortly before its end\n";
    assert_eq!(chain(12, &lines), format!("{hold}{first}"));
    // While the first request was idle, no span was left shortly before it was resumed.
    assert_eq!(chain(1, &lines), "");
}

#[test]
fn a_chain_ends_at_a_span_that_was_busy() {
    let lines = [
        (1_000, 1, "> span=1 first at a.rs:1"),
        (2_000, 2, "> span=2 second at a.rs:1"),
        (3_000, 2, "< span=2 second at a.rs:1"),
        (9_000, 1, "< span=1 ended first at a.rs:1"),
        (9_500, 2, "> span=2 second at a.rs:1"),
        (9_900, 2, "< span=2 ended second at a.rs:1"),
    ];
    let expected = "
     0.000003000    6.50 us  second #2 idle, until 500 ns after a thread left first #1
                             first #1 was not idle in that time
";
    assert_eq!(chain(2, &lines), expected);
}

#[test]
fn a_span_that_is_idle_at_the_end_has_no_chain_of_a_shorter_wait() {
    let lines = [
        (1_000, 1, "> span=1 first at a.rs:1"),
        (2_000, 2, "> span=2 second at a.rs:1"),
        (3_000, 2, "< span=2 second at a.rs:1"),
        (9_000, 1, "< span=1 ended first at a.rs:1"),
        (9_500, 2, "> span=2 second at a.rs:1"),
        (9_900, 2, "< span=2 second at a.rs:1"),
        (50_000, 1, ": the last record"),
    ];
    assert_eq!(chain(2, &lines), "");
}

#[test]
fn a_long_chain_of_requests_is_shown_in_part() {
    // Each request becomes idle at 10 ns times its number, and is resumed after the one before it.
    let requests = 1_000;
    let enter: Vec<String> = (1..=requests).map(|id| format!("> span={id} request at a.rs:1")).collect();
    let leave: Vec<String> = (1..=requests).map(|id| format!("< span={id} request at a.rs:1")).collect();
    let end: Vec<String> = (1..=requests).map(|id| format!("< span={id} ended request at a.rs:1")).collect();
    let mut lines = Vec::new();
    for at in 0..requests {
        lines.push((10 * at as u64, 1, enter[at].as_str()));
        lines.push((10 * at as u64 + 1, 1, leave[at].as_str()));
    }
    for at in 0..requests {
        lines.push((100_000 + 100 * at as u64, 1, enter[at].as_str()));
        lines.push((100_010 + 100 * at as u64, 1, end[at].as_str()));
    }
    for last in [1_000, 999, 500, 70, 64, 63, 40] {
        let chain = chain(last, &lines);
        let spans: Vec<u64> = chain
            .lines()
            .filter_map(|line| line.split_once('#')?.1.split_whitespace().next()?.parse().ok())
            .collect();
        assert_eq!(spans, (last - 15..=last).rev().collect::<Vec<u64>>(), "{chain}");
        assert!(chain.ends_with("… and more\n"), "{chain}");
    }
    // The first request is idle until the beginning of the second half, and no span was left shortly before that.
    assert_eq!(chain(5, &lines).trim_start().lines().count(), 5);
}

#[test]
fn a_trace_without_spans_says_how_to_record_them() {
    let text = shown(SpansLayout::default(), &[(1_000, 1, "> work at src/main.rs:3"), (2_000, 1, ": text")]);
    assert!(text.starts_with("no spans: "), "{text}");
}

#[test]
fn spans_that_are_left_in_another_order_have_their_own_times() {
    let lines = [
        (1_000, 1, "> span=1 outer at src/main.rs:3"),
        (2_000, 1, "> span=2 inner at src/main.rs:4"),
        (5_000, 1, "< span=1 ended outer at src/main.rs:3"),
        (9_000, 1, "< span=2 ended inner at src/main.rs:4"),
    ];
    let layout =
        SpansLayout { slow: Some(9), form: RowForm { json: true, csv: false }, ..SpansLayout::default() };
    let json: serde_json::Value = serde_json::from_str(&shown(layout, &lines)).unwrap();
    let rows = json["slowest"].as_array().unwrap().iter();
    let times: Vec<_> =
        rows.map(|row| (row["name"].as_str().unwrap(), row["busy_ns"].as_u64().unwrap())).collect();
    assert_eq!(times, [("inner", 7_000), ("outer", 4_000)]);
}

#[test]
fn busy_and_idle_times_leave_out_waits_for_the_tracer() {
    let lines = [
        (1_000, 1, ": INFO app: span=12 request new"),
        (2_000, 1, "> span=12 request at src/main.rs:9"),
        (6_000, 1, "# wait begin=3000 end=5500 ns=2500 for=room"),
        (7_000, 1, "< span=12 request at src/main.rs:9"),
        // A wait of another thread, and another span with a wait, while the span is idle.
        (7_000, 2, "> span=13 load at src/db.rs:5"),
        (7_900, 2, "# wait begin=7100 end=7800 ns=700 for=room"),
        (8_000, 2, "< span=13 load at src/db.rs:5"),
        (9_000, 1, "> span=12 request at src/main.rs:9"),
        (9_500, 1, "< span=12 request at src/main.rs:9"),
        (10_000, 1, ": INFO app: span=12 request closed"),
    ];
    let layout = SpansLayout { form: RowForm { json: true, csv: false }, ..SpansLayout::default() };
    let json: serde_json::Value = serde_json::from_str(&shown(layout, &lines)).unwrap();
    let rows = json["names"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == "request").unwrap();
    let times = ["wall_max_ns", "busy_max_ns", "idle_max_ns"].map(|key| row[key].as_u64().unwrap());
    // The thread is in the span from 2,000 to 7,000, with a wait of 2,500, and from 9,000 to 9,500.
    assert_eq!(times, [9_000, 3_000, 3_500]);
    let text = shown(SpansLayout { id: Some(12), ..SpansLayout::default() }, &lines);
    let first = "request #12: 9.00 us, busy 3.00 us in 2 polls, idle 3.50 us\n";
    assert!(text.starts_with(first) && text.contains("2.50 us  busy on a\n"), "{text}");
    assert!(text.contains("; meanwhile busy: load #13 300 ns\n"), "{text}");
}

#[test]
fn busy_times_are_divided_by_the_states_of_the_threads() {
    let lines = [
        (1_000, 1, ": INFO app: span=12 request new"),
        (2_000, 1, "> span=12 request at src/main.rs:9"),
        (6_000, 1, "< span=12 request at src/main.rs:9"),
        (9_000, 2, "> span=12 request at src/main.rs:9"),
        (9_500, 2, "< span=12 request at src/main.rs:9"),
        (10_000, 2, ": INFO app: span=12 request closed"),
        (11_000, 1, "> span=13 load at src/db.rs:5"),
        (12_000, 1, ": the last record"),
    ];
    // Thread 1 waits from before its poll until 2,700, and is preempted in its poll from 5,000 to 5,400. It waits
    // again while it is in the span that does not end.
    let first =
        [(1_500, 2_700, Off::Waiting), (5_000, 5_400, Off::Preempted), (11_200, 20_000, Off::Waiting)];
    let states = || ThreadStates::made(&run(), &[(1, &first), (2, &[])]);
    let layout =
        SpansLayout { slow: Some(9), form: RowForm { json: true, csv: false }, ..SpansLayout::default() };
    let json: serde_json::Value = serde_json::from_str(&shown_with(layout, &lines, states())).unwrap();
    let rows = json["slowest"].as_array().unwrap();
    let row = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name).unwrap();
        ["busy_ns", "cpu_ns", "waiting_ns", "preempted_ns"].map(|key| row[key].as_u64().unwrap())
    };
    assert_eq!(row("request"), [4_500, 3_400, 700, 400]);
    assert_eq!(row("load"), [1_000, 200, 800, 0]);
    let names = shown_with(SpansLayout::default(), &lines, states());
    let heading = names.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(heading.contains("max cpu waiting preempted idle p50"), "{names}");
    let steps = shown_with(SpansLayout { id: Some(12), ..SpansLayout::default() }, &lines, states());
    let head = "request #12: 9.00 us, busy 4.50 us (cpu 3.40 us, waiting 700 ns, preempted 400 ns) in 2 polls, idle 4.50 us";
    assert_eq!(steps.lines().next(), Some(head));
    assert!(steps.contains("4.00 us  busy on a  [waiting 700 ns, preempted 400 ns]\n"), "{steps}");
    assert!(steps.contains("500 ns  busy on b\n"), "{steps}");
    assert!(steps.ends_with("times off the processor are those of the kernel, \u{b1}0 ns\n"), "{steps}");
    // If nothing is known of the threads, the output is the same as without states.
    let without = shown(SpansLayout::default(), &lines);
    assert!(!without.contains("cpu") && !without.contains("processor"), "{without}");
}
