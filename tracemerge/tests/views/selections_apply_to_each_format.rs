//! A selection of threads, times and messages selects the same records for every format, as each output shows.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::support::protobuf::Message;
use crate::support::{Everything, Expected, everything, ran};
use serde_json::Value;

/// The numbers of selected records in an output; `None` if its format does not show them.
#[derive(Debug, Default)]
struct Found {
    records: Option<usize>,
    messages: Option<usize>,
    enterings: Option<usize>,
}

/// Counts the records in an output.
fn found(all: &Everything, format: &str, output: &str, has_babeltrace: bool) -> Found {
    let read = || all.place.read(output);
    let text = || all.place.text(output);
    let is_message = |event: &Value| event["ph"] == "i" && event["cat"] != "tracer";
    let some = |records, messages, enterings| Found {
        records: Some(records),
        messages: Some(messages),
        enterings: Some(enterings),
    };
    match format {
        "jsonl" => {
            let text = text();
            let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let of = |kind: &str| rows.iter().filter(|row| row["kind"] == kind).count();
            some(rows.len(), of("message"), of("enter"))
        }
        "csv" => {
            let bytes = read();
            let mut reader = csv::Reader::from_reader(&bytes[..]);
            let kind = reader.headers().unwrap().iter().position(|column| column == "kind").unwrap();
            let kinds: Vec<String> = reader.records().map(|row| row.unwrap()[kind].to_owned()).collect();
            let of = |wanted: &str| kinds.iter().filter(|kind| *kind == wanted).count();
            some(kinds.len(), of("message"), of("enter"))
        }
        "perfetto" => {
            let bytes = read();
            // Slices on the default tracks of their sequences are calls: stalls name their tracks.
            let is_entering = |event: &Message<'_>| event.number(9) == Some(1) && event.number(11).is_none();
            let packets = Message::read(&bytes);
            let enterings =
                packets.messages(1).filter(|packet| packet.messages(11).any(|event| is_entering(&event)));
            Found { enterings: Some(enterings.count()), ..Found::default() }
        }
        "chrome" => {
            let read: Value = serde_json::from_slice(&read()).unwrap();
            let events = read["traceEvents"].as_array().unwrap();
            let enterings = events.iter().filter(|event| event["ph"] == "B").count();
            let messages = events.iter().filter(|event| is_message(event)).count();
            Found { records: None, messages: Some(messages), enterings: Some(enterings) }
        }
        "speedscope" => {
            let enterings = text().matches("\"type\":\"O\"").count();
            Found { enterings: Some(enterings), ..Found::default() }
        }
        "uftrace" => {
            let (folder, mut enterings) = (all.place.path(output), 0);
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let name = entry.file_name().into_string().unwrap();
                if name.ends_with(".dat") && name != "extern.dat" {
                    let bytes = std::fs::read(entry.path()).unwrap();
                    // The lowest bits of the second word distinguish an enter record from the others.
                    enterings += bytes.chunks_exact(16).filter(|record| record[8] & 3 == 0).count();
                }
            }
            Found { enterings: Some(enterings), ..Found::default() }
        }
        "ctf" if has_babeltrace => {
            let read = ran(all.place.program("babeltrace2").args(["--names=none", "--color=never", output]));
            assert_eq!(read.status, Some(0), "{}", read.err);
            let lines = String::from_utf8(read.out).unwrap();
            let enterings =
                lines.lines().filter(|line| line.contains(" enter: ") || line.contains(" enter span: "));
            Found { records: Some(lines.lines().count()), enterings: Some(enterings.count()), messages: None }
        }
        _ => Found::default(),
    }
}

#[test]
fn threads_and_times_are_selected_for_each_format() {
    let has_babeltrace = !crate::support::programs::installed_programs(["babeltrace2"]).is_empty();
    let all = everything(20_000);
    let (first, last) = {
        let ticks = || all.records.iter().map(|record| record.ticks);
        (ticks().min().unwrap(), ticks().max().unwrap())
    };
    let middle = first + (last - first) / 2;
    let at = format!("@{middle}");
    type IsOne = Box<dyn Fn(&Expected) -> bool>;
    let selections: [(&[&str], IsOne); 4] = [
        (&["--thread", "51"], Box::new(|of| of.tid == 51)),
        (&["--since", &at], Box::new(move |of| of.ticks >= middle)),
        (&["--until", &at], Box::new(move |of| of.ticks < middle)),
        (&["--thread", "52", "--since", &at], Box::new(move |of| of.tid == 52 && of.ticks >= middle)),
    ];
    let of_features = [
        ("flamegraph", cfg!(feature = "flamegraph")),
        ("html", cfg!(feature = "html")),
        ("parquet", cfg!(feature = "parquet")),
    ];
    let of_features = of_features.into_iter().filter_map(|(name, is_there)| is_there.then_some(name));
    let formats = ["jsonl", "csv", "perfetto", "chrome", "folded", "speedscope", "uftrace", "ctf"];
    for format in formats.into_iter().chain(of_features) {
        for (selection, is_one) in &selections {
            let selected: Vec<&Expected> = all.records.iter().filter(|of| is_one(of)).collect();
            let of = |kind: &str| selected.iter().filter(|record| record.kind == kind).count();
            let args = [&["--format", format, "--all-runs", "app", "-o", "out"], *selection].concat();
            let ran = all.place.merge(&args);
            assert!(ran.status.is_some_and(|status| status < 2), "{args:?}: {}", ran.err);
            let found = found(&all, format, "out", has_babeltrace);
            let about = format!("{args:?}: {found:?}");
            assert!(of("message") > 100 && of("enter") > 100, "there is something to select");
            assert!(
                found.records.is_none_or(|records| records == selected.len()),
                "{about} {}",
                selected.len()
            );
            assert!(
                found.messages.is_none_or(|messages| messages == of("message")),
                "{about} {}",
                of("message")
            );
            assert!(
                found.enterings.is_none_or(|enterings| enterings == of("enter")),
                "{about} {}",
                of("enter")
            );
            if let "folded" | "flamegraph" = format {
                let report = [&["report", "--format", "folded", "--all-runs", "app"], *selection].concat();
                let report = String::from_utf8(all.place.merge(&report).out).unwrap();
                let total: u64 =
                    report.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
                assert!(total > 0);
                let text = all.place.text("out");
                match format {
                    "folded" => assert_eq!(text, report, "{about}"),
                    _ => {
                        let (_, behind) = text.split_once("<title>all (").unwrap();
                        let ns = behind.split_once(" ns").unwrap().0.replace(',', "");
                        assert_eq!(ns.parse::<u64>().unwrap(), total, "{about}");
                    }
                }
            }
            #[cfg(feature = "parquet")]
            if format == "parquet" {
                use parquet::file::reader::{FileReader, SerializedFileReader};
                let file = std::fs::File::open(all.place.path("out/records.parquet")).unwrap();
                let rows = SerializedFileReader::new(file).unwrap().metadata().file_metadata().num_rows();
                assert_eq!(rows as usize, selected.len(), "{about}");
            }
            // Files and directories do not replace each other.
            let out = all.place.path("out");
            if out.is_dir() {
                std::fs::remove_dir_all(out).unwrap()
            } else {
                std::fs::remove_file(out).unwrap()
            }
        }
    }
}

#[test]
fn levels_targets_modules_and_texts_are_selected_for_lines() {
    let all = everything(5_000);
    let site = |of: &Expected| of.site.filter(|_| of.kind == "message").map(|id| &all.sites[id as usize - 1]);
    let count = |is_one: &dyn Fn(&Expected) -> bool| all.records.iter().filter(|of| is_one(of)).count();
    let text = |of: &Expected| of.text.clone().filter(|_| of.kind == "message");
    let level = |of: &Expected| site(of).map(|site| site.level as usize).filter(|level| *level > 0);
    let (error, info) =
        (trace_format::sites::Level::Error as usize, trace_format::sites::Level::Info as usize);
    let lines = |args: &[&str]| {
        let ran = all.place.merge([&["--format", "jsonl", "--all-runs", "app", "-o", "-"], args].concat());
        assert!(ran.status.is_some_and(|status| status < 2), "{args:?}: {}", ran.err);
        let out = String::from_utf8(ran.out).unwrap();
        let rows: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        rows.iter().filter(|row| row["kind"] == "message").count()
    };
    let is_sent = |of: &Expected| text(of).is_some_and(|text| text.starts_with("sent "));
    for (args, expected) in [
        (&["--level", "error"][..], count(&|of| level(of) == Some(error))),
        (&["--level", "info"], count(&|of| level(of).is_some_and(|level| (error..=info).contains(&level)))),
        (&["--target", "wire,\"2\""], count(&|of| site(of).is_some_and(|site| !site.target.is_empty()))),
        (&["--module", "app::net"], count(&|of| site(of).is_some())),
        (&["--grep", "^sent ", "--invert"], count(&|of| text(of).is_some() && !is_sent(of))),
    ] {
        assert!(expected > 100, "{args:?}: there is something to select");
        assert_eq!(lines(args), expected, "{args:?}");
    }
}
