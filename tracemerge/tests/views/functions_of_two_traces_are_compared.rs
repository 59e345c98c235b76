//! `tracemerge diff` compares the functions of two traces: their calls and times are those of `tracemerge report`, the
//! noise is that of hand-made times, and `--fail-over` fails only for slowdowns beyond the noise.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::comparisons_agree_in_text_and_json::{assert_cells, csv_rows};
use crate::support::{Place, Ran, header, line, meta, run};
use serde_json::{Value, json};
use trace_format::line::Ticks;
use trace_format::meta::{ClockKind, Meta, Run};
use trace_format::wait::{Wait, WaitCause};

/// A thread that records calls. A tick is a nanosecond.
struct Thread {
    text: Vec<u8>,
    now: u64,
    /// The line of the source in which each function begins.
    at: u32,
}

impl Thread {
    fn new(at: u32) -> Thread {
        let run = Run { clock: ClockKind::System, ..run(5, 1) };
        Thread { text: header(&run, 5), now: 1_000, at }
    }

    fn record(&mut self, mark: char, function: &str) {
        let (now, at) = (self.now, self.at);
        self.text.extend(format!("{now:016x}-00000005 {mark} app::{function} at src/main.rs:{at}\n").bytes());
    }

    /// Calls a function once for each of the times that a call takes.
    fn call(mut self, function: &str, times: impl IntoIterator<Item = u64>) -> Thread {
        for time in times {
            self.now += 10;
            self.record('>', function);
            self.now += time;
            self.record('<', function);
        }
        self
    }

    fn message(mut self, after: u64, text: &str) -> Thread {
        self.now += after;
        self.text.extend(line(self.now, 5, text));
        self
    }

    fn write(&self, place: &Place, directory: &str) {
        std::fs::create_dir_all(place.path(directory)).unwrap();
        place.write(format!("{directory}/app.trace.5"), &self.text);
    }
}

/// Makes two traces whose functions differ in all ways.
fn traces() -> Place {
    let place = Place::new();
    let mut a = Thread::new(7);
    a.record('>', "main");
    let mut a = a
        .call("slower", [1_000; 10])
        .call("noisy", (0..10).map(|n| 100 + 10 * n))
        .call("faster", [240; 7])
        .call("rare", [100; 3])
        .call("old", [50; 2]);
    a.record('<', "main");
    a.write(&place, "a");
    let mut b = Thread::new(9);
    b.record('>', "main");
    let mut b = b
        .call("slower", [2_000; 10])
        .call("noisy", (0..10).map(|n| 120 + 10 * n))
        .call("faster", [60; 7])
        .call("rare", [200; 3])
        .call("new", [70]);
    b.record('<', "main");
    b.write(&place, "b");
    place
}

fn json_of(place: &Place, args: &[&str]) -> Value {
    let ran = place.merge(["diff", "--json"].iter().chain(args));
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    serde_json::from_slice(&ran.out).unwrap()
}

fn text_of(ran: Ran) -> String {
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    String::from_utf8(ran.out).unwrap()
}

#[test]
fn functions_are_compared_by_name_and_those_beyond_the_noise_come_first() {
    let place = traces();
    // The second and the ninth of the ten sorted times of `noisy` are 110 and 180, 30 and 40 from the median.
    let expected = "\
A  'a'
B  'b'

calls A   B   self A        B  median A   noise        B   noise   change  beyond noise  function
      7   7  1.68 us   420 ns    240 ns   0.0 %    60 ns   0.0 %  -75.0 %  yes           app::faster
     10  10  10.0 us  20.0 us   1.00 us   0.0 %  2.00 us   0.0 %   +100 %  yes           app::slower
      2   0   100 ns        -     50 ns       -        -       -        -  only in A     app::old
      0   1        -    70 ns         -       -    70 ns       -        -  only in B     app::new
      3   3   300 ns   600 ns    100 ns       -   200 ns       -   +100 %  -             app::rare
      1   1   320 ns   310 ns   13.9 us       -  23.1 us       -  +66.4 %  -             app::main
     10  10  1.45 us  1.65 us    140 ns  28.6 %   160 ns  25.0 %  +14.3 %  no            app::noisy
     33  32  13.9 us  23.1 us                                                            all functions
";
    let shown = text_of(place.merge(["diff", "a", "b"]));
    assert_eq!(shown, expected);
    let shown = text_of(place.merge(["diff", "a", "b", "--rows", "2"]));
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 3 + 1 + 2 + 2, "{shown}");
    assert_eq!(lines[7], "and 5 more functions; --rows shows more");
}

#[test]
fn the_calls_of_functions_in_json_are_those_of_the_report() {
    let place = traces();
    let json = json_of(&place, &["a", "b", "--rows", "all"]);
    let calls = &json["calls"];
    assert_eq!(
        (&json["version"], &json["messages"], &calls["functions"]),
        (&json!(3), &json!([]), &json!(7))
    );
    for side in ["a", "b"] {
        let report = place.merge(["report", "--json", side]);
        let report: Value = serde_json::from_slice(&report.out).unwrap();
        let rows = report["functions"].as_array().unwrap();
        for row in rows {
            let mut compared = calls["rows"].as_array().unwrap().iter();
            let compared = &compared.find(|compared| compared["function"] == row["function"]).unwrap()[side];
            for field in ["calls", "total_ns", "self_ns"] {
                assert_eq!(compared[field], row[field], "{side}: {row}");
            }
        }
        assert_eq!(calls[side]["calls"], report["calls"]);
    }
    let row = |name: &str| {
        let mut rows = calls["rows"].as_array().unwrap().iter();
        rows.find(|row| row["function"] == name).unwrap().clone()
    };
    let expected = json!({
        "function": "app::slower",
        "change_percent": 100.0,
        "significant": true,
        "a": { "calls": 10, "total_ns": 10_000, "self_ns": 10_000, "median_ns": 1_000, "low_ns": 1_000, "high_ns": 1_000 },
        "b": { "calls": 10, "total_ns": 20_000, "self_ns": 20_000, "median_ns": 2_000, "low_ns": 2_000, "high_ns": 2_000 },
    });
    assert_eq!(row("app::slower"), expected);
    let csv = csv_rows(&place, &["a", "b", "--rows", "all"]);
    for (cells, row) in csv["function"].iter().zip(calls["rows"].as_array().unwrap()) {
        let (a, b) = (&row["a"], &row["b"]);
        assert_cells(
            cells,
            &[
                ("name", &row["function"]),
                ("a_count", &a["calls"]),
                ("b_count", &b["calls"]),
                ("a_self_ns", &a["self_ns"]),
                ("b_self_ns", &b["self_ns"]),
                ("a_median_ns", &a["median_ns"]),
                ("b_median_ns", &b["median_ns"]),
                ("change_percent", &row["change_percent"]),
                ("significant", &row["significant"]),
            ],
        );
    }
    assert_eq!(csv["function"].len(), 7);
    let noisy = row("app::noisy");
    assert_eq!(
        (&noisy["significant"], &noisy["a"]["low_ns"], &noisy["a"]["high_ns"]),
        (&json!(false), &json!(110), &json!(180))
    );
    assert_eq!(
        (&row("app::new")["a"]["calls"], &row("app::new")["change_percent"]),
        (&json!(0), &Value::Null)
    );
}

#[test]
fn a_merged_file_has_the_same_functions_as_its_parts() {
    let place = traces();
    // Another thread calls one of the functions at the same time.
    let text = Thread::new(7).call("slower", [500; 20]).text;
    let text = String::from_utf8(text).unwrap().replace("-00000005 ", "-00000006 ");
    place.write("a/app.trace.6", text);
    assert_eq!(place.merge(["-q", "-o", "merged", "a"]).status, Some(0));
    let [parts, merged] = ["a", "merged"].map(|a| json_of(&place, &[a, "b"])["calls"].clone());
    assert_eq!(parts, merged);
    assert_eq!(parts["a"]["calls"], 53);
}

#[test]
fn waits_for_the_tracer_and_calls_without_an_end_count_as_in_the_report() {
    let place = Place::new();
    Thread::new(7).call("work", [1_024; 6]).write(&place, "a");
    let mut b = Thread::new(7);
    for _ in 0..6 {
        // The tracer makes the thread wait for two thirds of the call.
        let (begin, end) = (Ticks(b.now + 200), Ticks(b.now + 2_248));
        let wait = Wait { begin, end, ns: 2_048, what: WaitCause::Room };
        b.record('>', "work");
        b.now += 3_072;
        b.text.extend(meta(b.now, 5, &Meta::Wait(wait)));
        b.record('<', "work");
    }
    b.record('>', "open");
    b.message(5_000, "the last sign of life").write(&place, "b");
    let ran = place.merge(["diff", "--json", "--fail-over", "1%", "a", "b"]);
    assert_eq!((ran.status, ran.err.as_str()), (Some(0), ""));
    let json: Value = serde_json::from_slice(&ran.out).unwrap();
    let calls = &json["calls"];
    assert_eq!(
        (&calls["b"]["waited_ns"], &calls["rows"][0]["b"]["self_ns"]),
        (&json!(6 * 2_048), &json!(5_000))
    );
    assert_eq!(calls["rows"][1]["b"]["median_ns"], 1_024, "{calls:#}");
    assert_eq!(json["fail_over"], json!({ "limit_percent": 1.0, "compared": 1, "slower": 0, "worst": null }));
    let ran = place.merge(["diff", "a", "b"]);
    let shown = String::from_utf8(ran.out).unwrap();
    let told = "B: the times leave out 12.3 us in which the tracer made threads wait\n";
    assert!(shown.ends_with(told), "{shown}");
}

#[test]
fn fail_over_fails_only_for_slowdowns_beyond_the_limit_and_the_noise() {
    let place = traces();
    for limit in ["10%", "10", "0.5%", "99.9"] {
        let ran = place.merge(["diff", "-q", "--fail-over", limit, "a", "b"]);
        let expected = format!(
            "tracemerge: the function 'app::slower' became slower by 100.0 %, which is more than {} % and more than the \
             noise: the median of a call is 1.00 us in A and 2.00 us in B\n",
            limit.trim_end_matches('%')
        );
        assert_eq!((ran.status, &ran.out[..], ran.err.as_str()), (Some(1), &b""[..], expected.as_str()));
    }
    // `rare` became slower, too, but was called three times only; in the other direction, another function did.
    assert_eq!(place.merge(["diff", "-q", "--fail-over", "100%", "a", "b"]).status, Some(0));
    let ran = place.merge(["diff", "--json", "--fail-over", "100%", "b", "a"]);
    let json: Value = serde_json::from_slice(&ran.out).unwrap();
    let worst = json!({ "kind": "function", "name": "app::faster", "change_percent": 300.0, "a_median_ns": 60, "b_median_ns": 240 });
    assert_eq!((ran.status, &json["fail_over"]["worst"]), (Some(1), &worst));
    for nonsense in ["slow", "-10%", "10%%", "inf", ""] {
        let ran = place.merge(["diff", "--fail-over", nonsense, "a", "b"]);
        assert_eq!(ran.status, Some(2), "{nonsense}: {}", ran.err);
    }
    let ran = place.merge(["diff", "--fail-over", "fast", "a", "b"]);
    assert!(ran.err.contains("expected a percentage, such as 10%, 10 or 0.5%"), "{}", ran.err);
}

#[test]
fn fail_over_compares_messages_by_time_and_not_by_number() {
    let place = Place::new();
    let trace = |answers: usize, after: u64| {
        (0..answers).fold(Thread::new(7), |thread, _| thread.message(500, "asked").message(after, "answered"))
    };
    trace(10, 100).write(&place, "a");
    trace(10, 150).write(&place, "b");
    trace(12, 100).write(&place, "longer");
    trace(4, 900).write(&place, "short");
    let ran = place.merge(["diff", "-q", "--fail-over", "20%", "a", "b"]);
    let expected = "tracemerge: the message 'answered' became slower by 50.0 %, which is more than 20 % and more than the \
                    noise: the median of the time since the message before is 100 ns in A and 150 ns in B\n";
    assert_eq!((ran.status, ran.err.as_str()), (Some(1), expected));
    for (b, limit, status) in [("b", "60%", 0), ("longer", "1%", 0), ("short", "1%", 2)] {
        let ran = place.merge(["diff", "-q", "--fail-over", limit, "a", b]);
        assert_eq!(ran.status, Some(status), "{b}: {}", ran.err);
    }
    let ran = place.merge(["diff", "-q", "--fail-over", "1%", "a", "short"]);
    assert!(ran.err.contains("--fail-over has nothing to compare"), "{}", ran.err);
    assert_eq!(place.merge(["diff", "-q", "a", "longer"]).status, Some(1));
}

#[test]
fn calls_that_only_one_trace_has_are_not_compared() {
    let place = Place::new();
    Thread::new(7).call("work", [1_024; 6]).message(10, "done").write(&place, "a");
    Thread::new(7).message(10, "done").write(&place, "b");
    let ran = place.merge(["diff", "a", "b"]);
    assert_eq!(ran.err, "tracemerge: only A has calls of functions; these are not compared\n");
    let text = String::from_utf8(ran.out).unwrap();
    assert_eq!((ran.status, text.contains("app::work")), (Some(0), false), "{text}");
}
