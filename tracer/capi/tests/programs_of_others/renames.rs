//! Threads of a program in C that rename themselves while they run are shown, and selected, by the names of their time.

use std::collections::BTreeSet;

use crate::compiled::{Program, linking, tracemerge};

/// A line of `show`: the label of the thread, and the message.
fn label_and_message(line: &str) -> (String, String) {
    let (_, rest) = line.trim_start().split_once("  ").unwrap_or_else(|| panic!("{line}"));
    let (label, message) = rest.split_once("  ").unwrap_or_else(|| panic!("{line}"));
    (label.to_owned(), message.trim_start().to_owned())
}

#[test]
fn a_thread_of_c_has_the_name_of_its_time_and_in_a_summary_the_last_one() {
    let program = Program::compile("cc", "renames.c", &linking());
    let traced = program.run(&[]);
    let printed = |words: &[&str]| {
        let output = tracemerge(traced.runtime.path()).args(words).arg(program.in_traces(&traced)).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let lines: Vec<(String, String)> = printed(&["show"]).lines().map(label_and_message).collect();
    // A name that two threads have had is followed by the thread's id.
    let is_label_of = |label: &str, name: &str| {
        let rest = label.strip_prefix(name).and_then(|rest| rest.strip_prefix(' '));
        label == name || rest.is_some_and(|id| id.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let known: Vec<_> =
        lines.iter().filter_map(|(label, said)| Some((label, said.strip_prefix("is ")?))).collect();
    assert_eq!(known.len(), 6, "{lines:?}");
    assert!(known.iter().all(|(label, name)| is_label_of(label, name)), "{lines:?}");

    let labels: BTreeSet<&str> = lines.iter().map(|(label, _)| label.as_str()).collect();
    assert!(labels.len() >= 5, "{labels:?}");
    for label in labels {
        let selected: Vec<_> = printed(&["show", "--thread", label]).lines().map(label_and_message).collect();
        let of_label = |lines: &[(String, String)]| lines.iter().filter(|line| line.0 == label).count();
        assert_eq!(of_label(&selected), of_label(&lines), "{label}: {selected:?}");
        // Both threads were called `reader`, so this name selects both; every other label selects its thread alone.
        let last_names = ["last reader", "last writer"];
        let threads = last_names.iter().filter(|last| selected.iter().any(|(_, said)| said.ends_with(*last)));
        assert_eq!(threads.count(), if label == "reader" { 2 } else { 1 }, "{label}: {selected:?}");
    }

    let summary = printed(&["summary"]);
    let rows: Vec<&str> =
        summary.lines().filter_map(|line| line.split_once('|')).map(|(name, _)| name.trim()).collect();
    assert_eq!(rows, ["last reader", "last writer"], "{summary}");
}
