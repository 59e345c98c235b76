//! Messages between machines put their traces in order, whatever their wall clocks say.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::HashMap;
use std::fs;
#[cfg(feature = "html")]
use std::io::Read;

use crate::support::protobuf::Message;
use crate::support::{Place, Ran, Seeded, header, line, meta, run, sorted};
use trace_format::line::Ticks;
use trace_format::meta::{Meta, Run, SystemClocks};
use trace_format::wall::Wall;

const NS: u64 = 1_000_000_000;
/// The wall time of the true start, in nanoseconds.
const START: u64 = 1_795_187_462 * NS;
const SYNC: [&str; 3] = ["--sync", r"sent (\S+)", r"got \1"];

/// A machine: its clock has `first` ticks at the true start, `rate` ticks a nanosecond, and gains `gain_ppm` millionths.
/// Its wall clock is `ahead` nanoseconds ahead; its system states `error`.
#[derive(Clone, Copy)]
struct Machine {
    boot: &'static str,
    tid: u64,
    first: u64,
    rate: u64,
    gain_ppm: u64,
    ahead: u64,
    error: Option<u64>,
}

const CLIENT: Machine =
    Machine { boot: "one", tid: 8, first: 900_000, rate: 1, gain_ppm: 0, ahead: 0, error: Some(1_000_000) };
const SERVER: Machine =
    Machine { boot: "two", tid: 9, first: 17, rate: 2, gain_ppm: 70, ahead: 7200 * NS, error: None };

impl Machine {
    /// Returns the time of the machine's own steady clock at a true time since the start.
    fn own(&self, t: u64) -> u64 {
        t + t / 1_000_000 * self.gain_ppm
    }

    fn ticks(&self, t: u64) -> u64 {
        self.first + self.own(t) * self.rate
    }

    /// Returns the trace of messages at true times, which ascend.
    fn trace(&self, messages: &[(u64, String)]) -> Vec<u8> {
        let pid = u32::try_from(self.tid).unwrap();
        let wall = |t: u64| Wall(START + self.ahead + self.own(t));
        let run = Run { boot: self.boot.into(), ticks: Ticks(self.first), wall: wall(0), ..run(pid, 0) };
        let mut text = header(&run, self.tid);
        let clock = |t: u64| {
            let system = SystemClocks {
                within: Some(1),
                raw: Some(5 * NS + self.own(t)),
                error: self.error,
                ..SystemClocks::default()
            };
            let ticks = Ticks(self.ticks(t));
            meta(ticks.0, self.tid, &Meta::Clock { ticks, wall: wall(t), system })
        };
        let mut next = 0;
        for (t, message) in messages {
            while next <= *t {
                text.extend(clock(next));
                next += 10 * NS;
            }
            text.extend(line(self.ticks(*t), self.tid, message));
        }
        let last = messages.last().map_or(0, |message| message.0) + 1;
        text.extend(clock(last));
        text
    }
}

/// Returns the messages of both machines: requests of the client and answers of the server, with delays of 100 to
/// 500 us, for 40 seconds.
fn talk(prefix: &str) -> [Vec<(u64, String)>; 2] {
    let (mut client, mut server) = (Vec::new(), Vec::new());
    let random = &mut Seeded::new(7);
    for n in 0..400 {
        let t = NS + n * 100_000_000 + random.below(10_000_000);
        let mut delay = || 100_000 + random.below(20) * random.below(20) * 1000;
        let (at_server, thinks) = (t + delay(), 300_000);
        let back = at_server + thinks + delay();
        client.push((t, format!("{t} {prefix}sent q{n}")));
        server.push((at_server, format!("{at_server} {prefix}got q{n}")));
        server.push((at_server + thinks, format!("{} {prefix}sent a{n}", at_server + thinks)));
        client.push((back, format!("{back} {prefix}got a{n}")));
    }
    [client, server]
}

/// Writes the traces of some machines.
fn written(machines: &[(Machine, Vec<(u64, String)>)]) -> Place {
    let place = Place::new();
    fs::create_dir(place.path("dir")).unwrap();
    for (machine, messages) in machines {
        place.write(format!("dir/app.trace.{}", machine.tid), machine.trace(messages));
    }
    place
}

/// Returns the true times of the merged messages, with the ticks that they have in the merge.
fn times(ran: &Ran) -> Vec<(u64, u64)> {
    let text = String::from_utf8(ran.out.clone()).unwrap();
    let lines = text.lines().filter_map(|line| {
        let (key, message) = line.split_once(" : ")?;
        Some((message.split(' ').next()?.parse().ok()?, u64::from_str_radix(&key[..16], 16).ok()?))
    });
    lines.collect()
}

/// Returns the nanoseconds after `±` behind `boot NAME`.
fn certainty(err: &str, boot: &str) -> f64 {
    let text = err.split(&format!("boot {boot} ±")).nth(1).unwrap_or_else(|| panic!("no ± of {boot}: {err}"));
    let mut words = text.split([' ', ',', '\n']);
    let number: f64 = words.next().unwrap().parse().unwrap();
    let unit = match words.next().unwrap() {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        unit => panic!("{unit}: {err}"),
    };
    number * unit
}

#[test]
fn lines_are_in_the_order_of_their_messages_and_the_error_is_within_the_shown_one() {
    let [client, server] = talk("");
    let place = written(&[(CLIENT, client), (SERVER, server)]);
    let merged = place.merge(["dir", "-o", "-"].iter().chain(&SYNC));
    assert_eq!(merged.status, Some(0), "{}", merged.err);
    let times = times(&merged);
    assert_eq!(times.len(), 1600);
    // No request, answer or their receiving changes places with one of the same exchange.
    for exchange in times.chunks(4) {
        assert!(exchange.is_sorted_by_key(|(truth, _)| *truth), "{exchange:?}");
    }
    // The reference is the first boot, whose ticks are nanoseconds.
    let shown = certainty(&merged.err, "two");
    assert!((50e3..400e3).contains(&shown), "{shown} {}", merged.err);
    let errors = times.iter().map(|(truth, ticks)| (truth + CLIENT.first).abs_diff(*ticks));
    let largest = errors.max().unwrap();
    assert!((largest as f64) < shown * 1.2, "{largest} ns, but ±{shown}");
    assert!(largest > 1000, "delays that differ leave an error");
    // The merge is a sorted trace.
    place.write("merged", &merged.out);
    assert_eq!(sorted(&place, ["merged"]), merged.out);
    // Times of day and selections are those of the first machine.
    let part = place.merge(["dir", "-o", "-", "--since", "20s", "--until", "21s"].iter().chain(&SYNC));
    let part: Vec<u64> = self::times(&part).iter().map(|(truth, _)| *truth).collect();
    assert!(part.iter().all(|truth| (19_999_000_000..21_001_000_000).contains(truth)), "{part:?}");
    assert_eq!(part.len(), 40);
}

#[test]
fn a_machine_without_messages_has_the_certainty_of_its_wall_clock() {
    let [client, server] = talk("");
    let third = Machine {
        boot: "three",
        tid: 10,
        first: 5000,
        rate: 3,
        gain_ppm: 20,
        ahead: 1_500_000,
        error: Some(2_000_000),
    };
    let alone: Vec<(u64, String)> = (1..40).map(|n| (n * NS, format!("{} alone", n * NS))).collect();
    let place = written(&[(CLIENT, client), (SERVER, server), (third, alone)]);
    let merged = place.merge(["dir", "-o", "-"].iter().chain(&SYNC));
    assert_eq!(merged.status, Some(0), "{}", merged.err);
    let shown = certainty(&merged.err, "three");
    assert!((2e6..6e6).contains(&shown), "{}", merged.err);
    for (truth, ticks) in times(&merged) {
        assert!((((truth + CLIENT.first).abs_diff(ticks)) as f64) < shown * 1.2, "{truth} {}", merged.err);
    }
}

#[test]
fn matches_that_contradict_the_others_are_named() {
    let [client, mut server] = talk("");
    // One answer claims to be for another request: it was sent long after it was received.
    for (_, text) in &mut server {
        *text = text
            .replace("got q100", "got q-100")
            .replace("got q300", "got q100")
            .replace("got q-100", "got q300");
    }
    let place = written(&[(CLIENT, client), (SERVER, server)]);
    let merged = place.merge(["dir", "-o", "-"].iter().chain(&SYNC));
    assert_eq!(merged.status, Some(1), "{}", merged.err);
    assert!(merged.err.contains("1 matched message of --sync between the boots"), "{}", merged.err);
    let times = times(&merged);
    assert!(times.chunks(4).all(|exchange| exchange.is_sorted_by_key(|(truth, _)| *truth)));
}

#[test]
fn patterns_that_find_nothing_are_reported() {
    let [client, server] = talk("");
    let place = written(&[(CLIENT, client), (Machine { ahead: 0, ..SERVER }, server)]);
    let merged = place.merge(["dir", "-o", "-", "--sync", "left (.*)", "came (.*)"]);
    assert_eq!(merged.status, Some(1), "{}", merged.err);
    assert!(merged.err.contains("no message of --sync"), "{}", merged.err);
    assert_eq!(times(&merged).len(), 1600);
    for patterns in [["sent", "got"], ["sent (", "got"], ["sent (.)", r"got \2"]] {
        let refused = place.merge(["dir", "-o", "-", "--sync", patterns[0], patterns[1]]);
        assert_eq!(refused.status, Some(2), "{}", refused.err);
        assert!(refused.err.contains("--sync"), "{}", refused.err);
    }
}

/// Returns the machines that `info --json` lists, by boot.
fn machines(place: &Place, sync: &[&str]) -> serde_json::Value {
    let ran = place.merge(["info", "dir", "--all-runs", "--json"].iter().chain(sync));
    assert_ne!(ran.status, Some(2), "{}", ran.err);
    let info: serde_json::Value = serde_json::from_slice(&ran.out).unwrap();
    let machines = info["machines"].as_array().unwrap();
    machines.iter().map(|machine| (machine["boot"].as_str().unwrap().to_owned(), machine.clone())).collect()
}

/// Returns a machine whose wall clock is 1.5 ms ahead and whose system states an error of 2 ms, and its messages, which
/// reach no other machine.
fn lonely() -> (Machine, Vec<(u64, String)>) {
    let (tid, first, rate, gain_ppm, ahead) = (10, 5000, 3, 20, 1_500_000);
    let machine = Machine { boot: "three", tid, first, rate, gain_ppm, ahead, error: Some(2_000_000) };
    (machine, (1..40).map(|n| (n * NS, format!("{} alone", n * NS))).collect())
}

#[test]
fn info_has_the_interval_of_each_machine_and_the_matches_of_each_pair() {
    let [client, mut server] = talk("");
    // One request is received long before it is sent, and another one long after.
    for (_, text) in &mut server {
        *text = text
            .replace("got q100", "got q-100")
            .replace("got q300", "got q100")
            .replace("got q-100", "got q300");
    }
    let place = written(&[(CLIENT, client), (SERVER, server), lonely()]);
    let by_boot = machines(&place, &SYNC);
    let (one, two, three) = (&by_boot["one"], &by_boot["two"], &by_boot["three"]);
    assert_eq!(one["placed_by"], "reference");
    assert_eq!(one["error_median_ns"], serde_json::Value::Null);
    assert_eq!((&two["placed_by"], &three["placed_by"]), (&"limits".into(), &"limits".into()));
    // The server's clock gains 70 millionths during 40 seconds.
    let ahead = two["offset_ns"].as_u64().unwrap();
    let most = two["error_most_ns"].as_u64().unwrap();
    assert!((SERVER.ahead - most..=SERVER.ahead + 2_900_000 + most).contains(&ahead), "{two}");
    let median = two["error_median_ns"].as_u64().unwrap();
    assert!(two["error_least_ns"].as_u64().unwrap() <= median && median <= most, "{two}");
    assert!((50_000..400_000).contains(&median), "{two}");
    let pair = &two["pairs"][0];
    assert_eq!((&pair["boot"], &pair["contradictory"]), (&"one".into(), &1.into()), "{two}");
    assert_eq!(pair["kept"].as_u64().unwrap() + pair["unused"].as_u64().unwrap(), 799, "{two}");
    assert_eq!((&three["matches"], &three["wall_error_ns"]), (&0.into(), &2_000_000.into()));
    assert!((2_000_000..6_000_000).contains(&three["error_median_ns"].as_u64().unwrap()), "{three}");
    let args = ["info", "dir", "--all-runs", "--csv", "--machines"];
    let rows = place.merge(args.iter().chain(&SYNC));
    let rows = String::from_utf8(rows.out).unwrap();
    assert_eq!(rows.lines().count(), 4, "{rows}");
    assert!(rows.starts_with("boot,placed_by,offset_ns,error_least_ns,"), "{rows}");
    let text = place.merge(["info", "dir", "--all-runs"].iter().chain(&SYNC));
    let text = String::from_utf8(text.out).unwrap();
    assert!(text.contains("  one and two: ") && text.contains("1 contradictory"), "{text}");
}

#[test]
fn without_messages_info_has_the_stated_errors_of_the_wall_clocks() {
    let [client, server] = talk("");
    let place = written(&[(CLIENT, client), (Machine { ahead: 0, ..SERVER }, server), lonely()]);
    let by_boot = machines(&place, &[]);
    // The system of the second machine states no error, so nothing is known about its times.
    let certainty = |boot: &str| (by_boot[boot]["placed_by"].clone(), by_boot[boot]["error_most_ns"].clone());
    assert_eq!(certainty("two"), ("wall_clock".into(), serde_json::Value::Null));
    assert_eq!(certainty("three"), ("wall_clock".into(), 3_000_000.into()));
}

/// Returns the nanoseconds of a duration as views write it.
fn nanoseconds(number: &str, unit: &str) -> u64 {
    let unit = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        _ => panic!("{number} {unit}"),
    };
    (number.parse::<f64>().unwrap() * unit) as u64
}

#[test]
fn foreign_times_have_their_error_beside_them_and_undecided_orders_are_marked() {
    let [client, server] = talk("");
    let place = written(&[(CLIENT, client), (SERVER, server)]);
    let shown = place.merge(["show", "dir", "--order"].iter().chain(&SYNC));
    assert_eq!(shown.status, Some(0), "{}", shown.err);
    let text = String::from_utf8(shown.out).unwrap();
    let (mut foreign, mut marked, mut before) = (0, 0, 0);
    for line in text.lines() {
        let is_marked = line.starts_with("~ ");
        let words: Vec<&str> = line.trim_start_matches('~').split_whitespace().collect();
        let at = words.iter().position(|word| matches!(*word, "sent" | "got")).unwrap();
        let truth: u64 = words[at - 1].parse().unwrap();
        // Only the server's times have an error, and the true time is within it.
        let is_server = words[at + 1].starts_with('q') == (words[at] == "got");
        assert_eq!(words[1].starts_with('±'), is_server, "{line}");
        let time = (words[0].parse::<f64>().unwrap() * 1e9).round() as u64;
        let error = if is_server { nanoseconds(&words[1]['±'.len_utf8()..], words[2]) } else { 0 };
        // Times count from the first line, which the client's run writes at the true start. The error has three digits.
        assert!(time.abs_diff(truth) <= error + error / 100 + 2, "{line}");
        foreign += u64::from(is_server);
        marked += u64::from(is_marked);
        assert!(is_marked || before < truth, "an order that is not marked is the true one: {line}");
        before = truth;
    }
    assert_eq!(foreign, 800);
    assert!((1..1600).contains(&marked), "{marked}");
    let counts =
        format!("{} of ", if marked < 1000 { marked.to_string() } else { format!("1,{:03}", marked % 1000) });
    assert!(shown.err.contains(&counts), "{counts} {}", shown.err);
    assert!(shown.err.contains("pairs of neighbouring records from two machines"), "{}", shown.err);
    // Without the option no record is marked.
    let plain = place.merge(["show", "dir"].iter().chain(&SYNC));
    assert!(!String::from_utf8(plain.out).unwrap().contains('~'));
}

#[test]
fn exports_have_the_order_of_the_merge_and_the_errors_of_foreign_times() {
    let [client, server] = talk("");
    let place = written(&[(CLIENT, client), (SERVER, server), lonely()]);
    for select in [&[][..], &["--since", "20s", "--until", "21s"]] {
        let merged = place.merge(["dir", "-o", "-"].iter().chain(&SYNC).chain(select));
        let expected: Vec<u64> = times(&merged).iter().map(|(truth, _)| *truth).collect();
        assert_eq!(expected.len(), if select.is_empty() { 1639 } else { 41 }, "{}", merged.err);
        let truth = |message: &str| truth(message).unwrap();
        let lines = place.merge(["dir", "--format", "jsonl", "-o", "-"].iter().chain(&SYNC).chain(select));
        let lines: Vec<serde_json::Value> = String::from_utf8(lines.out)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let messages = || lines.iter().filter(|line| line["kind"] == "message");
        let exported: Vec<u64> = messages().map(|line| truth(line["message"].as_str().unwrap())).collect();
        assert_eq!(exported, expected);
        for line in messages() {
            let (pid, error) = (line["pid"].as_u64().unwrap(), line.get("error_ns"));
            assert_eq!(error.is_some(), pid != CLIENT.tid, "{line}");
            // The first machine's wall clock is right, and the interval contains the true time.
            let is_at = START + truth(line["message"].as_str().unwrap());
            let error = error.map_or(0, |error| error.as_u64().unwrap());
            assert!(line["ns"].as_u64().unwrap().abs_diff(is_at) <= error + 2, "{line}");
        }
        // The rows of CSV are in the same order.
        let rows = place.merge(["dir", "--format", "csv", "-o", "-"].iter().chain(&SYNC).chain(select));
        let rows = String::from_utf8(rows.out).unwrap();
        let of_message =
            |row: &str| row.split([',', '"']).find_map(|cell| cell.split_once(' ')?.0.parse().ok());
        let rows: Vec<u64> = rows.lines().filter_map(of_message).collect();
        assert_eq!(rows, expected);
    }
}

#[test]
fn csv_and_parquet_have_the_errors_of_foreign_times_that_jsonl_has() {
    let [client, server] = talk("");
    let place = written(&[(CLIENT, client), (Machine { ahead: 0, ..SERVER }, server), lonely()]);
    for sync in [&SYNC[..], &[]] {
        let exported = |format: &str, name: &str| {
            let ran = place.merge(["dir", "--format", format, "-o", name].iter().chain(sync));
            assert!(ran.status < Some(2), "{}", ran.err);
        };
        exported("jsonl", "lines");
        let lines = place.text("lines");
        let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        // In a table, the greatest integer stands for an error that nothing limits.
        let error = |line: &serde_json::Value| line.get("error_ns").map(|ns| ns.as_i64().unwrap_or(i64::MAX));
        let expected: Vec<(u64, Option<i64>)> =
            lines.map(|line| (line["ticks"].as_u64().unwrap(), error(&line))).collect();
        let errors = |is_so: fn(&Option<i64>) -> bool| expected.iter().filter(|row| is_so(&row.1)).count();
        assert!(errors(Option::is_none) > 800 && errors(|ns| ns.is_some_and(|ns| ns < i64::MAX)) > 39);
        // Without messages, nothing is known about the times of the second machine.
        assert_eq!(errors(|ns| *ns == Some(i64::MAX)) > 800, sync.is_empty());
        exported("csv", "rows");
        let mut rows = csv::Reader::from_path(place.path("rows")).unwrap();
        let columns = rows.headers().unwrap().clone();
        let column = |name| columns.iter().position(|column| column == name).unwrap();
        let (ticks, error) = (column("ticks"), column("error_ns"));
        let rows = rows.records().map(|row| {
            let row = row.unwrap();
            (
                row[ticks].parse().unwrap(),
                Some(&row[error]).filter(|ns| !ns.is_empty()).map(|ns| ns.parse().unwrap()),
            )
        });
        assert!(rows.eq(expected.iter().copied()));
        #[cfg(feature = "parquet")]
        {
            exported("parquet", "tables");
            assert_eq!(errors_by_parquet(&place.path("tables/records.parquet")), expected);
            fs::remove_dir_all(place.path("tables")).unwrap();
        }
    }
}

/// Returns the ticks and the errors of the records in a table.
#[cfg(feature = "parquet")]
fn errors_by_parquet(table: &std::path::Path) -> Vec<(u64, Option<i64>)> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    let table = SerializedFileReader::new(fs::File::open(table).unwrap()).unwrap();
    let row = |row: parquet::errors::Result<parquet::record::Row>| {
        let (mut ticks, mut error) = (None, None);
        for (name, field) in row.unwrap().get_column_iter() {
            match (&name[..], field) {
                ("ticks", Field::Long(number)) => ticks = Some(*number as u64),
                ("error_ns", Field::Long(ns)) => error = Some(*ns),
                _ => {}
            }
        }
        (ticks.unwrap(), error)
    };
    table.get_row_iter(None).unwrap().map(row).collect()
}

/// Returns the true time at which a text begins.
fn truth(text: &str) -> Option<u64> {
    text.split(' ').next()?.parse().ok()
}

#[test]
fn perfetto_has_each_message_within_the_error_of_its_true_time() {
    let [client, server] = talk("");
    let place = written(&[(CLIENT, client), (SERVER, server)]);
    let ran = place.merge(["dir", "--format", "perfetto", "-o", "trace"].iter().chain(&SYNC));
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    let most = machines(&place, &SYNC)["two"]["error_most_ns"].as_u64().unwrap();
    let (mut names, mut found) = (HashMap::new(), Vec::new());
    for packet in Message::read(&place.read("trace")).messages(1) {
        let sequence = packet.number(10);
        for name in packet.messages(12).flat_map(|interned| interned.messages(2).collect::<Vec<_>>()) {
            names.insert((sequence, name.number(1).unwrap()), name.text(2).unwrap());
        }
        for event in packet.messages(11).filter(|event| event.number(9) == Some(3)) {
            let interned = event.number(10).map(|id| names[&(sequence, id)].clone());
            let text = interned.or_else(|| event.text(23)).unwrap_or_default();
            found.extend(truth(&text).map(|truth| (packet.number(8).unwrap(), truth)));
        }
    }
    assert_eq!(found.len(), 1600);
    for (ns, truth) in &found {
        assert!(ns.abs_diff(START + truth) <= most + 2, "{ns} {truth} {most}");
    }
    found.sort_unstable();
    let merged = times(&place.merge(["dir", "-o", "-"].iter().chain(&SYNC)));
    let truths = |times: &[(u64, u64)], of: fn(&(u64, u64)) -> u64| times.iter().map(of).collect::<Vec<_>>();
    assert_eq!(truths(&found, |time| time.1), truths(&merged, |time| time.0));
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_and_a_set_of_the_traces_have_the_order_of_the_merge() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    let [client, server] = talk("");
    let place = written(&[(CLIENT, client), (SERVER, server)]);
    let expected = times(&place.merge(["dir", "-o", "-"].iter().chain(&SYNC)));
    let ran = place.merge(["dir", "--format", "parquet", "-o", "tables"].iter().chain(&SYNC));
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    let records = fs::File::open(place.path("tables/records.parquet")).unwrap();
    let records = SerializedFileReader::new(records).unwrap();
    let mut found = Vec::new();
    for row in records.get_row_iter(None).unwrap() {
        let (mut ticks, mut of) = (None, None);
        for (name, field) in row.unwrap().get_column_iter() {
            match (&name[..], field) {
                ("ticks", Field::Long(number)) => ticks = Some(number.cast_unsigned()),
                ("message", Field::Str(text)) => of = truth(text),
                _ => {}
            }
        }
        found.extend(of.zip(ticks));
    }
    assert_eq!(found, expected);
    // Runs are added as their own machines have them, so the option is one of the reader.
    let refused = place.merge(["dataset", "add", "set", "dir"].iter().chain(&SYNC));
    assert_eq!((refused.status, place.path("set").exists()), (Some(2), false), "{}", refused.err);
    for (machine, file) in [("one", "app.trace.8"), ("two", "app.trace.9")] {
        fs::create_dir(place.path(machine)).unwrap();
        fs::copy(place.path("dir").join(file), place.path(machine).join(file)).unwrap();
        let ran = place.merge(["dataset", "add", "--machine", machine, "set", machine]);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
    }
    assert_eq!(times(&place.merge(["set", "-o", "-"].iter().chain(&SYNC))), expected);
}

#[test]
fn the_messages_of_one_machine_prove_nothing() {
    let [client, _] = talk("");
    let place = written(&[(CLIENT, client)]);
    let needs = "--sync has no effect: it needs the traces of two machines";
    for args in [&["dir", "-o", "-"][..], &["info", "dir"]] {
        let ran = place.merge(args.iter().chain(&SYNC));
        assert_eq!((ran.status, ran.err.matches(needs).count()), (Some(0), 1), "{}", ran.err);
        assert!(!place.merge(args).err.contains("--sync"));
    }
}

/// Returns the bytes that stand in base64.
#[cfg(feature = "html")]
fn bytes_of_base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for digit in text.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte)) {
        (bits, count) = (bits << 6 | u32::try_from(digit).unwrap(), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}

#[cfg(feature = "html")]
#[test]
fn the_page_has_the_error_of_each_process_of_another_machine() {
    let [client, server] = talk("");
    let place = written(&[(CLIENT, client), (SERVER, server)]);
    let page = place.merge(["dir", "--format", "html", "-o", "page.html"].iter().chain(&SYNC));
    assert_eq!(page.status, Some(0), "{}", page.err);
    let most = machines(&place, &SYNC)["two"]["error_most_ns"].as_u64().unwrap();
    let page = place.text("page.html");
    let head = page.split("<script>block(").nth(1).unwrap().split('"').nth(1).unwrap();
    let mut facts = String::new();
    flate2::read::DeflateDecoder::new(&bytes_of_base64(head)[..]).read_to_string(&mut facts).unwrap();
    let facts: serde_json::Value = serde_json::from_str(&facts).unwrap();
    let list: Vec<Vec<String>> = serde_json::from_value(facts["processes"].clone()).unwrap();
    let error = |pid: u64| list.iter().find(|process| process[1] == pid.to_string()).unwrap()[2].clone();
    assert_eq!(error(CLIENT.tid), "");
    let (number, unit) = error(SERVER.tid)
        .trim_start_matches('±')
        .split_once(' ')
        .map(|(n, u)| (n.to_owned(), u.to_owned()))
        .unwrap();
    assert!(nanoseconds(&number, &unit).abs_diff(most) <= most / 100, "{number} {unit} {most}");
}
