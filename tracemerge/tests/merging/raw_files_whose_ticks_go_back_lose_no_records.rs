//! Every message of a non-monotonic raw file is merged, in order, and the view of a period is a part of that merge.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::support::{Place, raw_file, run};
use trace_format::meta::Meta;

fn ticks(line: &str) -> u64 {
    u64::from_str_radix(&line[..16], 16).unwrap()
}

fn place(ticks: &[u64]) -> Place {
    let place = Place::new();
    let messages = ticks.iter().enumerate().map(|(n, ticks)| (*ticks, format!("message {n}")));
    place.write("app.trace.9", raw_file(9, &[(1, &Meta::Run(run(5, 1)))], messages));
    place
}

#[test]
fn every_message_is_merged() {
    let sound: Vec<u64> = (1000..101_000).collect();
    let last_is_early = [&sound[..], &[5]].concat();
    let last_block_is_early = [&sound[..], &sound[..20_000]].concat();
    let set_back = [&sound[..], &sound[..]].concat();
    let one_is_late = [&sound[..50_000], &[u64::MAX], &sound[50_000..]].concat();
    for (what, ticks_of) in [
        ("sound", sound.clone()),
        ("its last record is early", last_is_early),
        ("its end is early", last_block_is_early),
        ("its clock was set back", set_back),
        ("one record is late", one_is_late),
    ] {
        let place = place(&ticks_of);
        for output in ["-", "whole"] {
            let ran = place.merge(["app", "-o", output]);
            let text = if output == "-" { ran.out } else { place.read("whole") };
            let text = String::from_utf8(text).unwrap();
            let merged = text.lines().filter(|line| &line[26..27] == ":").count();
            assert_eq!(merged, ticks_of.len(), "{what}, {output}: {}", ran.err);
            assert!(text.lines().map(ticks).is_sorted(), "{what}");
        }
    }
}
