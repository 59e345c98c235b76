//! The packets for Perfetto, read by a small reader of protocol buffers that shares nothing with their writer: each
//! call is a slice from its entering to its end, and each message is an instant with its values.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::{BTreeMap, HashMap};

use crate::support::protobuf::{Field, Message};
use crate::support::{Call, everything};
use serde_json::{Value, json};

/// The state of a sequence: its interned texts, by field and number, and its track.
#[derive(Default)]
struct Sequence {
    interned: HashMap<(u64, u64), String>,
    track: u64,
}

#[test]
fn each_call_is_a_slice_and_each_message_an_instant_with_its_values() {
    let all = everything(100_000);
    let ran = all.place.merge(["--format", "perfetto", "--all-runs", "app"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    let unmatched = format!("{} leave records without an enter record", all.unmatched);
    assert!(ran.err.contains(&unmatched), "{}", ran.err);
    let bytes = all.place.read("app.perfetto-trace");

    let mut sequences: HashMap<u64, Sequence> = HashMap::new();
    let (mut pids, mut tids): (HashMap<u64, u32>, HashMap<u64, (u32, u64)>) = Default::default();
    let mut open: HashMap<u64, Vec<(u64, String)>> = HashMap::new();
    let mut calls: Vec<Call> = Vec::new();
    let mut messages: BTreeMap<String, u64> = BTreeMap::new();
    let (mut lost, mut stalls) = (0, Vec::new());
    let (mut clock, mut cut_off, mut stacks) = (None, 0, Vec::new());
    let mut of_sequence: HashMap<u64, u64> = HashMap::new();
    let (mut of_spans, mut busy): (HashMap<u64, u64>, u64) = (HashMap::new(), 0);
    for packet in Message::read(&bytes).messages(1) {
        let number = packet.number(10).unwrap();
        let sequence = sequences.entry(number).or_default();
        if let Some(snapshot) = packet.messages(6).next() {
            let of: Vec<_> = snapshot.messages(1).map(|clock| (clock.number(1), clock.number(2))).collect();
            clock = Some((of[0].1.unwrap(), of[1].1.unwrap()));
            assert_eq!((of[0].0, of[1].0), (Some(6), Some(1)), "boot time, and the time of day");
        }
        for defaults in packet.messages(59) {
            assert_eq!(packet.number(13), Some(1), "the state is cleared first");
            sequence.track = defaults.messages(11).next().unwrap().number(11).unwrap();
        }
        for track in packet.messages(60) {
            let uuid = track.number(1).unwrap();
            for process in track.messages(3) {
                pids.insert(uuid, process.number(1).unwrap() as u32);
                assert_eq!(process.text(6).unwrap(), "odd; \"app\"");
            }
            for thread in track.messages(4) {
                let pid = thread.number(1).unwrap() as u32;
                assert_eq!(pids[&track.number(5).unwrap()], pid, "a thread is below its process");
                tids.insert(uuid, (pid, thread.number(2).unwrap()));
            }
        }
        for interned in packet.messages(12) {
            for field in 1..=4 {
                for entry in interned.messages(field) {
                    let key = (field, entry.number(1).unwrap());
                    assert!(sequence.interned.insert(key, entry.text(2).unwrap()).is_none(), "told once");
                }
            }
        }
        let Some(event) = packet.messages(11).next() else { continue };
        assert_eq!(packet.number(13), Some(2), "names are needed");
        let ns = packet.number(8).unwrap();
        let track = event.number(11).unwrap_or(sequence.track);
        let name = event.number(10).map(|id| sequence.interned[&(2, id)].clone()).or_else(|| event.text(23));
        let values: serde_json::Map<String, Value> = event
            .messages(4)
            .map(|annotation| {
                let name = sequence.interned[&(3, annotation.number(1).unwrap())].clone();
                let value = match annotation.0.iter().find(|(field, _)| *field > 1).unwrap() {
                    (2, Field::Number(number)) => json!(*number != 0),
                    (3, Field::Number(number)) => json!(number),
                    (4, Field::Number(number)) => json!(*number as i64),
                    (5, Field::Number(bits)) => json!(f64::from_bits(*bits)),
                    (6, Field::Bytes(text)) => json!(std::str::from_utf8(text).unwrap()),
                    other => panic!("{other:?}"),
                };
                (name, value)
            })
            .collect();
        let categories: Vec<&str> = event
            .all(3)
            .map(|id| if let Field::Number(id) = id { &sequence.interned[&(1, id)][..] } else { "" })
            .collect();
        if tids.contains_key(&track) {
            assert_eq!(*of_sequence.entry(number).or_insert(track), track, "a sequence is of one thread");
        }
        match (event.number(9).unwrap(), tids.get(&track)) {
            (1, Some(_)) => {
                assert_eq!(categories, ["function"]);
                open.entry(track).or_default().push((ns, name.unwrap()));
            }
            (2, Some((pid, tid))) => {
                let of_thread = open.get_mut(&track).unwrap();
                let (entered, function) = of_thread.pop().expect("a slice is open");
                let (pid, tid, depth) = (*pid, *tid, of_thread.len());
                cut_off += u64::from(values.get("cut off") == Some(&json!(true)));
                calls.push(Call { pid, tid, entered, left: ns, depth, function });
            }
            (1, None) if categories == ["span"] => {
                *of_spans.entry(track).or_default() += 1;
                busy += u64::from(name.as_deref() == Some("busy"));
            }
            (2, None) if of_spans.contains_key(&track) => {
                let open = of_spans.get_mut(&track).unwrap();
                *open = open.checked_sub(1).expect("a slice of the span is open");
            }
            (1 | 2, None) => stalls.push(ns),
            (3, Some((pid, tid))) if categories != ["tracer"] => {
                *messages.entry(json!([ns, pid, tid, name, values]).to_string()).or_default() += 1;
            }
            (3, Some(_)) if name.as_deref() == Some("lost") => lost += values["records"].as_u64().unwrap(),
            (3, Some((_, tid))) if name.as_deref() == Some("call stack") => {
                stacks.push((ns, *tid, values["stack"].as_str().unwrap().to_owned()));
            }
            (3, Some(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "each slice ends");
    assert!(of_spans.values().all(|open| *open == 0), "each slice of a span ends");
    assert_eq!(busy, all.polls, "no two threads are in one span at a time");
    assert_eq!(clock.map(|(trace, wall)| trace == wall), Some(true));
    assert_eq!(lost, all.lost);
    let mut tracks: Vec<_> = of_sequence.into_values().collect();
    tracks.sort_unstable();
    tracks.dedup();
    assert_eq!(tracks.len(), tids.len(), "each thread has a sequence of its own");
    assert_eq!(cut_off, all.unseen + all.still_open);
    let of_panics = all.records.iter().filter(|record| record.kind == "stack");
    let mut of_panics: Vec<_> =
        of_panics.map(|record| (record.ns(), record.tid, record.text.clone().unwrap())).collect();
    of_panics.sort();
    stacks.sort();
    assert!(!stacks.is_empty() && stacks == of_panics, "{stacks:?}");
    assert_eq!(stalls.len() as u64, 2 * all.stalls);
    assert!(stalls.chunks(2).all(|stall| stall[0] <= stall[1]), "a stall ends after its beginning");

    let ns = |ticks: u64| crate::support::WALL + (ticks - crate::support::FIRST) * crate::support::TICK_NS;
    let mut expected: Vec<Call> = all.calls.clone();
    expected.iter_mut().for_each(|call| (call.entered, call.left) = (ns(call.entered), ns(call.left)));
    expected.sort();
    calls.sort();
    assert_eq!(calls.len(), expected.len());
    for (found, expected) in calls.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    let mut wanted: BTreeMap<String, u64> = BTreeMap::new();
    for record in all.records.iter().filter(|record| record.kind == "message") {
        let template = record.site.map(|id| &all.sites[id as usize - 1].template).cloned();
        let values = match (&record.values, &template) {
            (Some(values), _) => values.clone(),
            (None, Some(_)) => json!({"message": record.text}),
            (None, None) => json!({}),
        };
        let name = template.or_else(|| record.text.clone());
        let row = json!([record.ns(), record.pid, record.tid, name, values]).to_string();
        *wanted.entry(row).or_default() += 1;
    }
    for (found, expected) in messages.iter().zip(&wanted) {
        assert_eq!(found, expected);
    }
    assert_eq!(messages.len(), wanted.len());
}
