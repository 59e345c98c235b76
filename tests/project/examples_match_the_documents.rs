//! The examples work as described, and their traces match the README and `docs/guide.md`.
//!
//! Cargo builds examples for `cargo test`, but not for `cargo test --test ...`. In that case, run `cargo build
//! --examples` first.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use support::{Scenario, Traced, tracemerge};
use tempfile::TempDir;
use trace_format::escape::unescape;
use trace_format::line::{Kind, Line};

/// Returns the path of the example's executable: `target/<profile>/deps/<this test>` stands beside
/// `target/<profile>/examples/`.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test");
    let profile = test.parent().and_then(Path::parent).expect("the directory of the profile");
    let path = profile.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    assert!(path.is_file(), "{} is missing: cargo build --examples", path.display());
    path
}

/// A message in the merged trace.
#[derive(Debug)]
struct MergedMessage {
    thread: String,
    text: String,
}

/// Merges the trace; returns its messages in the order of the merged file.
fn merged(traced: &Traced, name: &str) -> Vec<MergedMessage> {
    traced.assert_whole();
    // If there is an executable of that name, only the files beside it are merged.
    let app = traced.directory.path().join(name);
    fs::write(&app, "").expect("a file");
    assert_eq!(tracemerge(&["-q".as_ref(), app.as_ref()]), 0, "a complete merge");
    let bytes = fs::read(app.with_extension("trace.merge")).expect("the merged file");
    let of_thread = |f: &support::ThreadTrace| f.messages.first().map(|(key, _)| (key.tid, f.name.clone()));
    let threads: HashMap<u64, String> = traced.files.values().filter_map(of_thread).collect();
    let lines = bytes.split(|&b| b == b'\n').filter(|line| !line.is_empty());
    let lines = lines.map(|line| Line::parse(line).expect("a line of a trace"));
    let message = |line: Line<'_>| MergedMessage {
        thread: threads[&line.key.tid].clone(),
        text: String::from_utf8(unescape(line.payload)).expect("UTF-8"),
    };
    lines.filter(|line| line.kind == Kind::Message).map(message).collect()
}

/// Returns the lines of the tree of calls in a trace that [`merged`] has merged.
fn tree(traced: &Traced, name: &str) -> Vec<String> {
    let (app, tree) = (traced.directory.path().join(name), traced.runtime.path().join("tree"));
    let args = ["tree".as_ref(), "-q".as_ref(), "-o".as_ref(), tree.as_ref(), app.as_ref()];
    assert_eq!(tracemerge(&args), 0, "a complete tree");
    // A thread waits for the tracer in one run and not in another.
    let lines = fs::read_to_string(tree).expect("the tree");
    lines.lines().filter(|line| !line.contains("the tracer made ")).map(str::to_owned).collect()
}

/// Returns the blocks of lines, in a document of the repository, that show the output of this command.
fn shown_output_of(document: &str, command: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let text = fs::read_to_string(path).expect("a document");
    let after = text.lines().skip_while(|line| *line != format!("$ {command}")).skip(1);
    let shown: Vec<String> = after.take_while(|line| *line != "```").map(str::to_owned).collect();
    assert!(!shown.is_empty(), "{document} does not show {command:?}");
    shown
}

/// Returns a line of a tree without numbers, units of time and spaces: braces show the nesting. Names of functions
/// and their places stay.
fn without_numbers(line: &str) -> String {
    let is_number = |word: &&str| word.trim_end_matches(':').parse::<f64>().is_ok();
    let is_unit = |word: &&str| ["ns", "us", "ms", "s", "µs"].contains(word);
    let words = line.split_whitespace().filter(|word| !is_number(word) && !is_unit(word));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the lines of a tree by thread, as [`without_numbers`] makes them.
fn shape(lines: &[String]) -> HashMap<String, Vec<String>> {
    let mut threads: HashMap<String, Vec<String>> = HashMap::new();
    for line in lines {
        let line = without_numbers(line);
        let (thread, rest) = line.split_once(' ').expect("a thread");
        threads.entry(thread.to_owned()).or_default().push(rest.to_owned());
    }
    threads
}

/// Returns the part of a thread's tree that begins with the call that contains its last message.
fn last_call(tree: &[String], thread: &str, function: &str) -> Vec<String> {
    let lines = shape(tree).remove(thread).unwrap_or_else(|| panic!("no thread {thread}"));
    let begin = lines.iter().rposition(|line| line.starts_with(function)).expect("a call");
    lines[begin..].to_vec()
}

/// Returns the index of the only record with this text.
fn only(records: &[MergedMessage], text: &str) -> usize {
    let mut found = records.iter().enumerate().filter(|(_, r)| r.text == text).map(|(at, _)| at);
    let at = found.next().unwrap_or_else(|| panic!("no record {text:?}"));
    assert_eq!(found.next(), None, "a second record {text:?}");
    at
}

/// Returns the index of the only record that begins with this text.
fn index_of_only_start(records: &[MergedMessage], start: &str) -> usize {
    let mut found = records.iter().enumerate().filter(|(_, r)| r.text.starts_with(start)).map(|(at, _)| at);
    let at = found.next().unwrap_or_else(|| panic!("no record {start:?}"));
    assert_eq!(found.next(), None, "a second record {start:?}");
    at
}

/// Makes text files; also returns the paths of a file that is not text and of a missing one. The file below
/// `target` must not be counted.
fn texts() -> (TempDir, Vec<(PathBuf, String)>, Vec<PathBuf>) {
    let directory = TempDir::new().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    fs::create_dir_all(path("target")).expect("a directory");
    fs::create_dir_all(path("sub")).expect("a directory");
    fs::write(path("target/skipped.rs"), "not to be counted").expect("a file");
    let text = |n: usize| format!("The number_{n} of: {}\n(end)", "so many words,\n".repeat(n * n));
    let texts: Vec<_> = (0..40).map(|n| (path(&format!("sub/{n}.md")), text(n))).collect();
    for (path, text) in &texts {
        fs::write(path, text).expect("a file");
    }
    fs::write(path("binary.rs"), b"not \xff UTF-8").expect("a file");
    let unreadable = vec![path("binary.rs"), path("missing.txt")];
    (directory, texts, unreadable)
}

/// Counts words of ASCII, byte by byte.
fn count_words(text: &str) -> usize {
    let in_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let begins = |pair: &[u8]| !in_word(pair[0]) && in_word(pair[1]);
    [b" ", text.as_bytes()].concat().windows(2).filter(|pair| begins(pair)).count()
}

#[test]
fn word_count_counts_every_file_once() {
    let (directory, texts, unreadable) = texts();
    let args = [directory.path().to_path_buf(), unreadable[1].clone()].map(|p| p.display().to_string());
    let scenario = Scenario::new(example("word_count"), &["--threads", "3", &args[0], &args[1]]);
    let traced = scenario.run().succeeded();

    let bytes: usize = texts.iter().map(|(_, text)| text.len()).sum();
    let words: usize = texts.iter().map(|(_, text)| count_words(text)).sum();
    let stdout = traced.stdout();
    let totals = format!("{} files, {bytes} bytes, {words} words, 2 unreadable", texts.len());
    assert_eq!(stdout.lines().last(), Some(totals.as_str()));
    let so: usize = (0..40).map(|n| n * n).sum();
    assert!(stdout.contains(&format!("{so:8} so\n")) && stdout.contains("      40 the\n"), "{stdout}");
    assert_eq!(traced.stderr().lines().count(), 2, "{}", traced.stderr());

    let records = merged(&traced, "word_count");
    let end = index_of_only_start(&records, "counts merged: ");
    for (path, text) in &texts {
        let taken = only(&records, &format!("taken {}", path.display()));
        let (bytes, words) = (text.len(), count_words(text));
        let done = index_of_only_start(
            &records,
            &format!("done {}: {bytes} bytes, {words} words, ", path.display()),
        );
        assert!(taken < done && done < end, "{taken} {done} {end}");
        assert_eq!(records[taken].thread, records[done].thread);
    }
    for path in &unreadable {
        let taken = only(&records, &format!("taken {}", path.display()));
        assert!(taken < index_of_only_start(&records, &format!("unreadable {}: ", path.display())));
    }
    assert_eq!(records.iter().filter(|r| r.text.starts_with("taken ")).count(), texts.len() + 2);
}

/// Returns the bug hunt without the records of its locks.
fn bug_hunt(args: &[&str]) -> Scenario {
    Scenario::new(example("bug_hunt"), args).env("TRACER_FILTER", "tracer::sync=off")
}

#[test]
fn bug_hunt_hangs_and_locks_names_the_lost_notification() {
    let traced = Scenario::new(example("bug_hunt"), &[]).run();
    let (app, told) = (traced.directory.path().join("bug_hunt"), traced.runtime.path().join("told"));
    fs::write(&app, "").expect("a file");
    let args = ["locks".as_ref(), "-q".as_ref(), "-o".as_ref(), told.as_ref(), app.as_ref()];
    assert_eq!(tracemerge(&args), 0, "all is told");
    let told = fs::read_to_string(told).expect("what is told");
    let (head, open) = told.split_once("\nwaits that have not ended\n").expect("waits");
    assert!(head.ends_with("; 2 waits have not ended\n"), "{told}");
    let open: Vec<&str> = open.lines().take_while(|line| !line.is_empty()).collect();
    let of = |thread: &str| {
        let at = open.iter().position(|line| line.starts_with(&format!("  {thread}: "))).expect("the thread");
        (without_numbers(open[at]), without_numbers(open[at + 1]))
    };
    // Both wait for a condition. The worker's condition was notified when no thread waited.
    let (worker, lost) = of("worker");
    assert!(worker.starts_with("worker: for condition "), "{told}");
    assert!(lost.contains("(producer at ") && lost.contains("found nobody waiting: it is lost"), "{told}");
    let (producer, last) = of("producer");
    assert!(producer.starts_with("producer: for condition ") && last.contains("(worker at "), "{told}");
    // The guide shows the first lines, of another run.
    let shown =
        shown_output_of("docs/guide.md", "tracemerge locks target/release/examples/bug_hunt | head -n 7");
    assert!(shown[0].ends_with("; 2 waits have not ended") && shown.len() == 7, "{shown:#?}");
    let shown = without_numbers(&shown.join(" "));
    for words in ["producer: for condition", "worker: for condition", "found nobody waiting: it is lost"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

#[test]
fn a_mailbox_hangs_and_two_commands_tell_why() {
    let traced = Scenario::new(example("mailbox"), &[]).run();
    assert!(traced.stderr().contains("mailbox: hung after "), "{}", traced.said());
    let (app, told) = (traced.directory.path().join("mailbox"), traced.runtime.path().join("told"));
    fs::write(&app, "").expect("a file");
    let args = ["locks".as_ref(), "-q".as_ref(), "-o".as_ref(), told.as_ref(), app.as_ref()];
    assert_eq!(tracemerge(&args), 0, "all is told");
    let told = fs::read_to_string(told).expect("what is told");
    let wait_of = |lines: &[String]| {
        let mut lines = lines.iter().skip_while(|line| *line != "waits that have not ended");
        without_numbers(lines.nth(1).expect("a wait"))
    };
    let lines: Vec<String> = told.lines().map(str::to_owned).collect();
    // The reader waits, and nobody heard the last ring.
    assert!(wait_of(&lines).starts_with("reader: for condition "), "{told}");
    assert!(lines.iter().any(|line| line.contains("found nobody waiting: it is lost")), "{told}");
    // The guide shows the same lines, of another run.
    let shown =
        shown_output_of("docs/guide.md", "tracemerge locks target/release/examples/mailbox | head -n 5");
    assert_eq!(wait_of(&shown), wait_of(&lines), "{told}");
    assert!(shown[4].contains("(postman at ") && shown[4].contains("found nobody waiting: it is lost"));
}

#[test]
fn bug_hunt_hangs_and_the_trace_shows_the_lost_notification() {
    let traced = bug_hunt(&[]).run();
    assert_eq!(traced.output.status.code(), Some(1), "{}", traced.said());
    assert!(traced.stderr().contains("hung after"), "{}", traced.stderr());

    let records = merged(&traced, "bug_hunt");
    let of = |thread: &str, from: usize| {
        let all = records.iter().enumerate().rev().filter(|(_, r)| r.thread == thread);
        let (at, record) = all.map(|(at, r)| (at, r.text.as_str())).nth(from).expect("a record");
        (at, record)
    };
    // In the end, the worker looked, saw nothing, and waits, although something is queued by then.
    let (looked, look) = of("worker", 2);
    let (_, nothing) = of("worker", 1);
    let (waits, wait) = of("worker", 0);
    assert_eq!((look, nothing), ("take: look", "take: nothing queued, lock and wait"));
    let queued = wait.strip_prefix("take: ").and_then(|w| w.strip_suffix(" queued, wait for the producer"));
    assert!(queued.is_some_and(|n| n != "0"), "{wait}");
    // The last notification came in between.
    let notified = records.iter().rposition(|r| r.text.ends_with(": notify the worker")).expect("a record");
    assert!(looked < notified && notified < waits, "{looked} {notified} {waits}");
    // And the producer's last act was to wait for the worker.
    assert!(of("producer", 0).1.ends_with(": 4 queued, wait for room"), "{:?}", of("producer", 0));
    assert!(records.last().is_some_and(|r| r.text.starts_with("hung: ")));
}

#[test]
fn bug_hunt_hangs_and_the_tree_shows_the_calls_of_both_threads() {
    const OPEN: &str = "<- still running when the process ended";
    let traced = bug_hunt(&[]).run();
    let records = merged(&traced, "bug_hunt");
    let last = |thread: &str| {
        without_numbers(&records.iter().rfind(|record| record.thread == thread).expect("a record").text)
    };
    let tree = tree(&traced, "bug_hunt");
    let takes = last_call(&tree, "worker", "bug_hunt::Queue::take ");
    let puts = last_call(&tree, "producer", "bug_hunt::Queue::put ");
    let wait = last("worker");
    let expected = [
        takes[0].as_str(),
        ": take: look",
        ": take: nothing queued, lock and wait",
        &format!(": {wait}"),
        &format!("}} bug_hunt::Queue::take {OPEN}"),
        &format!("}} bug_hunt::consume {OPEN}"),
    ];
    assert_eq!(takes, expected);
    let expected = [
        puts[0].as_str(),
        &format!(": {}", last("producer")),
        &format!("}} bug_hunt::Queue::put {OPEN}"),
        &format!("}} bug_hunt::produce {OPEN}"),
    ];
    assert_eq!(puts, expected);
    assert_eq!(tree.iter().filter(|line| line.ends_with(OPEN)).count(), 4);

    // The guide shows these very lines.
    let shown =
        shown_output_of("docs/guide.md", "tracemerge tree target/release/examples/bug_hunt | tail -n 24");
    assert_eq!(shown.len(), 24);
    assert_eq!(last_call(&shown, "worker", "bug_hunt::Queue::take "), takes);
    assert_eq!(last_call(&shown, "producer", "bug_hunt::Queue::put "), puts);
}

#[test]
fn the_tree_of_word_count_matches_the_readme() {
    let mut scenario = Scenario::new(example("word_count"), &["--threads", "1", "README.md"]);
    scenario.command().current_dir(env!("CARGO_MANIFEST_DIR"));
    let traced = scenario.run().succeeded();
    traced.assert_whole();
    fs::write(traced.directory.path().join("word_count"), "").expect("a file");
    let shown = shown_output_of("README.md", "tracemerge tree target/release/examples/word_count");
    assert_eq!(shape(&tree(&traced, "word_count")), shape(&shown));
}

#[test]
fn bug_hunt_fixed_never_waits_in_vain() {
    let traced = bug_hunt(&["--fixed"]).run().succeeded();
    let done = traced.stdout().split_once(" jobs done").and_then(|(n, _)| n.parse::<u64>().ok());
    let jobs = done.unwrap_or_else(|| panic!("{}", traced.stdout()));
    let records = merged(&traced, "bug_hunt");
    let (mut put, mut taken) = (0, 0);
    for record in &records {
        let text = record.text.as_str();
        let Some(said) = text.split_once(": ") else {
            assert!(text.ends_with(" starts"), "{text}");
            continue;
        };
        match said {
            (_, "notify the worker" | "notified") => {}
            ("take", wait) => assert_eq!(wait, "0 queued, wait for the producer"),
            (_, "4 queued, wait for room") => assert_eq!(put - taken, 4),
            (who, queued) => {
                let number = who.rsplit_once(' ').and_then(|(_, n)| n.parse::<u64>().ok());
                let counter = if who.starts_with("put") { &mut put } else { &mut taken };
                *counter += 1;
                assert_eq!(number, Some(*counter), "{text}");
                assert_eq!(queued, format!("{} queued", put - taken), "{text}");
            }
        }
    }
    assert_eq!((put, taken), (jobs, jobs));
}

#[test]
fn echo_server_shows_each_request_on_both_sides_in_causal_order() {
    let traced = Scenario::new(example("echo_server"), &[]).run().succeeded();
    assert!(traced.stdout().starts_with("200 replies, "), "{}", traced.stdout());
    let records = merged(&traced, "echo_server");
    for (client, number) in (1..=4).flat_map(|client| (1..=50).map(move |number| (client, number))) {
        let at = |what: &str| index_of_only_start(&records, &format!("request {client}.{number}: {what}, "));
        let places = ["sent", "received", "replied", "answered"].map(at);
        assert!(places.is_sorted(), "request {client}.{number}: {places:?}");
        let threads = places.map(|at| records[at].thread.as_str());
        let ours = format!("client {client}");
        assert_eq!((threads[0], threads[3]), (ours.as_str(), ours.as_str()));
        assert!(threads[1] == threads[2] && threads[1].starts_with("from "), "{threads:?}");
    }
    let of = |start: &str, end: &str| {
        records.iter().filter(|r| r.text.starts_with(start) && r.text.ends_with(end)).count()
    };
    assert_eq!((of("connection from ", " accepted"), of("connection from ", " closed")), (4, 4));
}
