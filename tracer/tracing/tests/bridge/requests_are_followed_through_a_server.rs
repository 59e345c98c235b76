//! The example `http_server`: `tracemerge tree` shows which request has the lock and which requests wait for it, even
//! if a request moves between threads, as in `docs/guide.md`.

#![allow(clippy::expect_used, reason = "a failure in a test fails it")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use support::{Scenario, tracemerge};

/// The maximum number of runs of the server, until its threads have shown the behaviour that occurs only now and
/// then.
const RUNS: u32 = 50;

/// The lines of a tree about one request, in order: the thread, and the text.
type Story = Vec<(String, String)>;

/// Returns the example's executable: `target/<profile>/deps/<this test>` stands beside `target/<profile>/examples/`.
fn server() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test");
    let profile = test.parent().and_then(Path::parent).expect("the directory of the profile");
    profile.join("examples").join(format!("http_server{}", std::env::consts::EXE_SUFFIX))
}

/// Runs the server with its clients; returns the lines of the tree of its trace.
fn tree() -> Vec<String> {
    let traced = Scenario::new(server(), &[]).env("TRACER_FORMAT", "raw").run().succeeded();
    traced.assert_whole();
    assert!(traced.stdout().starts_with("200 answers"), "{}", traced.stdout());
    // With an executable of that name, only the files beside it are merged.
    let (app, tree) = (traced.directory.path().join("http_server"), traced.runtime.path().join("tree"));
    std::fs::write(&app, "").expect("a file");
    let args = ["tree".as_ref(), "-q".as_ref(), "-o".as_ref(), tree.as_ref(), app.as_ref()];
    assert_eq!(tracemerge(&args), 0, "a complete tree");
    // The tracer's own waits, and the line with their sum, belong to no request.
    let lines = std::fs::read_to_string(tree).expect("the tree");
    lines.lines().filter(|line| !line.contains("the tracer made ")).map(str::to_owned).collect()
}

/// Returns the number after this word in a text.
fn number_behind(text: &str, word: &str) -> Option<u64> {
    let (_, behind) = text.split_once(word)?;
    behind.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// Passes each line of a tree that belongs to a request to `tell`: the request, the thread, and the text of the line,
/// without the time that a call took.
fn each_of_request(tree: &[String], mut tell: impl FnMut(u64, &str, &str)) {
    let mut open: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in tree {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_time, _name, thread, said @ ..] = &words[..] else { panic!("{line}") };
        let took = said.len() > 2 && said[0].parse::<f64>().is_ok();
        let said = said[if took { 2 } else { 0 }..].join(" ");
        let open = open.entry((*thread).to_owned()).or_default();
        let request = if let Some(request) = number_behind(&said, "request #") {
            open.extend(said.ends_with('{').then_some(request));
            Some(request)
        } else if said.starts_with('}') {
            Some(open.pop().expect("a request is open"))
        } else {
            // The messages about the request itself are outside it.
            number_behind(&said, "span=").or(open.last().copied())
        };
        tell(request.unwrap_or_else(|| panic!("of no request: {line}")), thread, &said);
    }
}

/// Returns the stories of all requests of a tree.
fn stories(tree: &[String]) -> BTreeMap<u64, Story> {
    let mut stories: BTreeMap<u64, Story> = BTreeMap::new();
    let tell = |request: u64, thread: &str, said: &str| {
        stories.entry(request).or_default().push((thread.to_owned(), said.to_owned()));
    };
    each_of_request(tree, tell);
    stories
}

/// Returns the number of threads on which a story has lines with any of these texts.
fn threads(story: &Story, texts: &[&str]) -> usize {
    let with_text = story.iter().filter(|(_, said)| texts.iter().any(|text| said.contains(text)));
    with_text.map(|(thread, _)| thread).collect::<BTreeSet<_>>().len()
}

/// Returns a story without the parts that differ between requests: numbers, and the ids of threads, but it still
/// shows the changes of threads.
fn shape(story: &Story) -> Vec<(usize, String)> {
    let mut seen = Vec::new();
    let mut number_of = |thread: &String| {
        seen.iter().position(|known| known == thread).unwrap_or_else(|| {
            seen.push(thread.clone());
            seen.len() - 1
        })
    };
    let without_numbers = |said: &String| {
        let parts = said.split(|letter: char| letter.is_ascii_digit()).filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join("0")
    };
    story.iter().map(|(thread, said)| (number_of(thread), without_numbers(said))).collect()
}

#[test]
fn a_tree_shows_which_request_holds_the_lock_even_across_threads() {
    for _ in 0..RUNS {
        let tree = tree();
        let (mut holder, mut took) = (None, 0);
        each_of_request(&tree, |request, _, said| {
            if said.contains("has the store") {
                assert_eq!(holder.replace(request), None, "who has the lock is alone: {request} {said}");
                assert_eq!(said, format!(": INFO http_server: has the store count={took}"));
                took += 1;
            } else if said.contains("gives the store back") {
                assert_eq!(holder.take(), Some(request), "who has the lock gives it back: {said}");
            }
        });
        assert_eq!((took, holder), (200, None));
        let stories = stories(&tree);
        assert_eq!(stories.len(), 200, "a span for each request");
        for (request, story) in &stories {
            let told = |text: &str| story.iter().filter(|(_, said)| said.contains(text)).count();
            let once = [
                "} new",
                "asks for the store",
                "has the store",
                "gives the store back",
                "answers",
                " closed",
            ];
            assert_eq!(once.map(told), [1; 6], "request {request}: {story:#?}");
        }
        if stories.values().any(|story| threads(story, &["has the store", "gives the store back"]) > 1) {
            return;
        }
    }
    panic!("in {RUNS} runs no request has moved while it had the lock");
}

#[test]
fn the_guide_shows_requests_as_the_tree_does() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let command = "$ tracemerge tree target/debug/examples/http_server";
    let shown = guide.lines().skip_while(|line| *line != command).skip(1).take_while(|line| *line != "```");
    let shown: Vec<String> = shown.filter(|line| *line != "...").map(str::to_owned).collect();
    let shown = stories(&shown);
    let [holder, waiting] = &shown.values().collect::<Vec<_>>()[..] else {
        panic!("two requests: {shown:#?}")
    };
    assert!(threads(holder, &["has the store", "gives the store back"]) == 2, "{holder:#?}");
    assert!(threads(waiting, &["asks for the store", "has the store"]) == 2, "{waiting:#?}");

    let wanted = [shape(holder), shape(waiting)];
    let mut found = [false; 2];
    for _ in 0..RUNS {
        let run: Vec<_> = stories(&tree()).values().map(shape).collect();
        for (found, wanted) in found.iter_mut().zip(&wanted) {
            *found |= run.contains(wanted);
        }
        if found == [true; 2] {
            return;
        }
    }
    panic!("in {RUNS} runs there was not each of {wanted:#?}: {found:?}");
}
