//! uftrace's own views show the contents of a trace with everything in it, call for call.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::BTreeMap;

use crate::support::{Call, Everything, Place, everything, ran, rows_of_report, shows};

/// Returns the output of uftrace for the directory `app.uftrace`.
fn uftrace(place: &Place, args: &[&str]) -> String {
    let mut command = place.program("uftrace");
    let ran = ran(command.args(args).args(["--no-pager", "--color=no", "-d", "app.uftrace"]));
    assert_eq!((ran.status, &ran.err[..]), (Some(0), ""), "{args:?}");
    String::from_utf8(ran.out).unwrap()
}

/// Returns the calls, with the times of the wall clock.
fn calls(all: &Everything) -> Vec<Call> {
    let ns = |ticks: u64| crate::support::WALL + (ticks - crate::support::FIRST) * crate::support::TICK_NS;
    let mut calls = all.calls.clone();
    calls.iter_mut().for_each(|call| (call.entered, call.left) = (ns(call.entered), ns(call.left)));
    calls.sort();
    calls
}

#[test]
fn uftrace_counts_and_replays_each_call_and_counts_each_path() {
    if crate::support::programs::lacks(&["uftrace"]) {
        return;
    }
    let all = everything(100_000);
    let ran = all.place.merge(["--format", "uftrace", "--all-runs", "app"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);

    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    all.calls.iter().for_each(|call| *expected.entry(call.function.clone()).or_default() += 1);
    let own = rows_of_report(&all.place.merge(["report", "--all-runs", "app"]).out);
    let report = uftrace(&all.place, &["report", "-f", "total,self,call"]);
    let mut counted: BTreeMap<String, u64> = BTreeMap::new();
    for row in report.lines().skip(2) {
        let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let [total, of_itself, calls, name] = cells[..] else { panic!("{row}") };
        counted.insert(name.to_owned(), calls.parse().unwrap());
        // Compare the time of the calls, with calls inside of another call of the function counted once, and the time
        // without the calls inside.
        let known = all.times[name];
        assert!(shows(total, known.total) && shows(of_itself, known.own), "{row}: {known:?}");
        let our = own.iter().find(|our| our.function == name).unwrap();
        assert!(shows(&our.times[0], known.total) && shows(&our.times[1], known.own), "{our:?}: {known:?}");
    }
    assert_eq!(counted, expected);

    let pids: BTreeMap<u64, u32> = all.calls.iter().map(|call| (call.tid, call.pid)).collect();
    let (mut open, mut found) = (BTreeMap::<u64, Vec<(u64, String)>>::new(), Vec::new());
    let texts = all.place.text("app.uftrace/extern.dat");
    let texts: Vec<(u64, &str)> = texts
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(time, text)| (time.replace('.', "").parse().unwrap(), text))
        .collect();
    let mut shown = 0;
    for line in uftrace(&all.place, &["replay", "--no-merge", "-f", "time,tid"]).lines() {
        let Some((at, what)) = line.split_once(" | ").filter(|_| line.starts_with(" [")) else { continue };
        let (tid, time) = at.trim_start_matches([' ', '[']).split_once(']').unwrap();
        let (tid, time): (u64, u64) = (tid.parse().unwrap(), time.trim().replace('.', "").parse().unwrap());
        let calls = open.entry(tid).or_default();
        let (indent, what) = (what.len() - what.trim_start().len(), what.trim_start());
        if let Some(name) = what.strip_suffix("() {") {
            assert_eq!(indent, 2 * calls.len());
            calls.push((time, name.to_owned()));
        } else if let Some(name) = what.strip_prefix("} /* ").and_then(|rest| rest.strip_suffix(" */")) {
            let (entered, function) = calls.pop().unwrap();
            assert_eq!(name, function);
            found.push(Call { pid: pids[&tid], tid, entered, left: time, depth: calls.len(), function });
        } else {
            let text = what.strip_prefix("/* external-data: ").and_then(|text| text.strip_suffix(" */"));
            let text = text.unwrap_or_else(|| panic!("{line}"));
            let from = texts.partition_point(|(at, _)| *at < time);
            let here = texts[from..].iter().take_while(|(at, _)| *at == time);
            assert!(here.into_iter().any(|(_, known)| known.trim_end() == text.trim_end()), "{line}");
            shown += 1;
        }
    }
    found.sort();
    let expected = calls(&all);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    // The replay of uftrace skips a few texts.
    assert!(shown > texts.len() * 9 / 10, "{shown} of {}", texts.len());

    // uftrace would mistake a text before the first call for a call without a name.
    let first = all.records.iter().filter(|record| record.kind == "enter").map(|record| record.ns()).min();
    let mut told: BTreeMap<(u64, String), i64> = BTreeMap::new();
    let of = |kind: &'static str| {
        all.records.iter().filter(move |record| record.kind == kind && Some(record.ns()) > first)
    };
    for message in of("message").chain(of("stack")) {
        let mut text = if message.kind == "stack" { b"^ ".to_vec() } else { Vec::new() };
        let context = trace_format::escape::EscapeContext::Line;
        trace_format::escape::escape_into(&mut text, message.text.as_ref().unwrap().as_bytes(), context);
        let text = format!("{}] {}", message.tid, String::from_utf8(text).unwrap());
        *told.entry((message.ns(), text)).or_default() += 1;
    }
    let mut lost = 0;
    for (time, text) in texts.iter().filter(|(time, _)| Some(*time) > first) {
        let (label, text) = text.strip_prefix('[').unwrap().split_once("] ").unwrap();
        lost += u64::from(text.starts_with("# lost records="));
        if !text.starts_with('#') {
            let tid = label.split_once(' ').unwrap().0;
            *told.entry((*time, format!("{tid}] {text}"))).or_default() -= 1;
        }
    }
    let odd: Vec<_> = told.iter().filter(|(_, left)| **left != 0).collect();
    assert!(odd.is_empty(), "{odd:?}");
    assert_eq!(lost, of("lost").count() as u64);

    graph_counts_each_path(&all);
}

/// Compares the graph of the directory that was written with the paths of calls.
fn graph_counts_each_path(all: &Everything) {
    let graph = uftrace(&all.place, &["graph"]);
    let mut found: BTreeMap<Vec<&str>, u64> = BTreeMap::new();
    // The path of the line before, with the columns of its functions; the session is the outermost one.
    let mut path: Vec<(usize, &str)> = Vec::new();
    for line in graph.lines() {
        if line.starts_with("# Function Call Graph for ") {
            path.clear();
        }
        let Some((_, tree)) = line.split_once(" : ").filter(|_| !line.starts_with('#')) else { continue };
        let Some((bars, behind)) = tree.split_once('(') else { continue };
        let (calls, name) = behind.split_once(") ").unwrap();
        let column = bars.len();
        if bars.ends_with("+-") {
            path.truncate(path.partition_point(|(of, _)| *of < column));
        } else {
            // The only function inside of the one in the line before stands below it.
            assert!(path.last().is_none_or(|(of, _)| *of == column), "{line}");
        }
        path.push((column, name));
        if path.len() > 1 {
            let names = path[1..].iter().map(|(_, name)| *name).collect();
            *found.entry(names).or_default() += calls.parse::<u64>().unwrap();
        }
    }
    // The test does not know the order of the sessions' graphs, so it counts all of them together.
    let mut expected: BTreeMap<Vec<&str>, u64> = BTreeMap::new();
    all.paths.iter().for_each(|((_, path), calls)| *expected.entry(path.clone()).or_default() += calls);
    assert!(expected.keys().any(|path| path.len() > 10), "paths are long");
    for (path, calls) in &expected {
        assert_eq!(found.get(path), Some(calls), "{path:?}");
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn uftraces_terminal_view_opens_and_closes() {
    if crate::support::programs::lacks(&["uftrace", "script"]) {
        return;
    }
    use std::io::{Read, Write};
    use std::process::Stdio;
    let all = everything(2_000);
    let ran = all.place.merge(["--format", "uftrace", "--all-runs", "app"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    // `script` gives uftrace a terminal.
    let mut command = all.place.program("script");
    command.args(["-qec", "uftrace tui -d app.uftrace", "/dev/null"]).env("TERM", "xterm");
    let mut view = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut screen) = (view.stdin.take().unwrap(), view.stdout.take().unwrap());
    let (mut shown, mut some) = (Vec::new(), [0; 4096]);
    // The keys lead from the list of its views to the report, and from there to the end.
    for (wanted, key) in [("Report functions", b"R"), ("app::leaf", b"q")] {
        while !String::from_utf8_lossy(&shown).contains(wanted) {
            let length = screen.read(&mut some).unwrap();
            assert!(length > 0, "it ends before it shows {wanted}: {}", String::from_utf8_lossy(&shown));
            shown.extend_from_slice(&some[..length]);
        }
        keys.write_all(key).unwrap();
    }
    screen.read_to_end(&mut shown).unwrap();
    assert_eq!(view.wait().unwrap().code(), Some(0), "{}", String::from_utf8_lossy(&shown));
}

#[test]
fn the_directory_replaces_its_predecessor_and_nothing_else() {
    use std::os::unix::fs::PermissionsExt;
    let all = everything(400);
    let place = &all.place;
    let write = |output: &[&str]| {
        let ran = place.merge([&["--format", "uftrace", "--all-runs", "app"], output].concat());
        (ran.status, ran.err)
    };
    let before = place.names();
    assert_eq!(write(&[]).0, Some(1));
    let first = place.read("app.uftrace/task.txt");
    let mode = std::fs::metadata(place.path("app.uftrace")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "as private as a merged file");
    assert_eq!(write(&[]).0, Some(1));
    assert_eq!(place.read("app.uftrace/task.txt"), first);
    std::os::unix::fs::symlink("app.uftrace", place.path("link")).unwrap();
    assert_eq!(write(&["-o", "link"]).0, Some(1));
    assert!(place.path("link").is_symlink() && place.path("app.uftrace").is_dir());
    std::fs::remove_file(place.path("link")).unwrap();

    for (output, told) in [
        (
            "-",
            "uftrace is a directory, which cannot be written to standard output: name a directory with -o DIR",
        ),
        ("tmp", "it is a directory with files that no merge has written"),
        ("app.trace.5", "it is not a directory, but uftrace needs one"),
        ("no/such/place", "cannot write 'no/such/place': No such file or directory; -o DIR writes elsewhere"),
    ] {
        let (status, err) = write(&["-o", output]);
        assert!(status == Some(2) && err.contains(told), "{output}: {err}");
    }
    place.write("app.uftrace/notes", "mine");
    assert_eq!(write(&[]).0, Some(2));
    assert_eq!(place.text("app.uftrace/notes"), "mine");
    std::fs::remove_dir_all(place.path("app.uftrace")).unwrap();
    assert_eq!(place.names(), before, "nothing else is left behind");

    // The next merge deletes the unfinished output of a killed one.
    std::fs::create_dir(place.path(".tracemerge-abc123")).unwrap();
    place.write(".tracemerge-abc123/.tracemerge", "");
    assert_eq!(write(&[]).0, Some(1));
    assert!(!place.path(".tracemerge-abc123").exists());
}

#[test]
fn a_full_disk_leaves_no_directory() {
    let all = everything(100_000);
    let mut shell = all.place.program("sh");
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" --format uftrace --all-runs app";
    let ran = ran(shell.args(["-c", script, env!("CARGO_BIN_EXE_tracemerge")]));
    assert_eq!(ran.status, Some(2), "{}", ran.err);
    assert!(ran.err.contains("cannot write 'app.uftrace': File too large; -o DIR"), "{}", ran.err);
    assert!(all.place.names().iter().all(|name| name.starts_with("app.trace.")), "{:?}", all.place.names());
}
