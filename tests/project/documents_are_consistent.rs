//! The documents: the README stays short, links between documents have targets, the index of decisions is complete.
//! No file names the host of a package registry: each machine configures the source of packages itself.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn documents() -> Vec<PathBuf> {
    let markdown = |directory: PathBuf| {
        let entries =
            fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect::<Vec<_>>()
    };
    ["", "docs", "docs/decisions"].map(|folder| markdown(root().join(folder))).concat()
}

/// Returns the text without blocks of code.
fn prose(text: &str) -> String {
    let parts = text.split("```").step_by(2);
    parts.collect()
}

/// Returns the targets of the links in a text.
fn links(text: &str) -> Vec<String> {
    let behind = text.split("](").skip(1);
    behind.filter_map(|rest| rest.split_once(')').map(|(target, _)| target.to_owned())).collect()
}

/// Returns the name that a heading has in links: its letters, digits and hyphens in lower case, with hyphens
/// for spaces.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).collect()
}

#[test]
fn the_readme_has_150_lines_at_most() {
    let readme = fs::read_to_string(root().join("README.md")).expect("the README");
    assert!(readme.lines().count() <= 150, "{} lines", readme.lines().count());
}

#[test]
fn links_between_documents_have_targets() {
    let mut wrong = Vec::new();
    for document in documents() {
        let text = prose(&fs::read_to_string(&document).expect("a text"));
        for link in links(&text).into_iter().filter(|link| !link.contains("://")) {
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = match path {
                "" => document.clone(),
                path => document.parent().expect("a directory").join(path),
            };
            let leads = target.exists()
                && (heading.is_empty()
                    || anchors(&prose(&fs::read_to_string(&target).expect("a text")))
                        .contains(&heading.to_owned()));
            if !leads {
                wrong.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_index_lists_each_decision_with_its_date() {
    let index = fs::read_to_string(root().join("docs/decisions.md")).expect("the decisions");
    let rows: Vec<&str> = index.lines().filter(|line| line.contains("](decisions/")).collect();
    assert!(rows.is_sorted_by_key(|row| row.split(" | ").next()), "the newest decisions come last");
    let mut expected = Vec::new();
    for page in documents()
        .into_iter()
        .filter(|path| path.parent().is_some_and(|folder| folder.ends_with("decisions")))
    {
        let text = fs::read_to_string(&page).expect("a text");
        let mut lines = text.lines();
        let title = lines.next().and_then(|line| line.strip_prefix("# ")).expect("a title");
        let state = lines.nth(1).and_then(|line| line.strip_prefix("Decided on ")).expect("a date");
        let (date, state) = state.split_once(". ").expect("a state");
        assert!(state == "In force." || state.starts_with("Superseded by "), "{}: {state}", page.display());
        let name = page.file_name().and_then(|name| name.to_str()).expect("UTF-8");
        expected.push(format!("| {date} | [{title}](decisions/{name}) |"));
    }
    let mut found: Vec<String> = rows.into_iter().map(str::to_owned).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

/// Files that name sources of packages, and directories of files that were built or downloaded.
const NOT_SEARCHED: [&str; 5] = ["Cargo.lock", "deny.toml", "target", ".git", "cache"];

/// Returns the files of the repository that are searched for hosts.
fn searched(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry"));
    let own = entries.filter(|entry| !NOT_SEARCHED.iter().any(|name| entry.file_name() == *name));
    own.flat_map(|entry| match entry.file_type().expect("a type") {
        kind if kind.is_dir() => searched(&entry.path()),
        kind if kind.is_file() => vec![entry.path()],
        _ => vec![],
    })
    .collect()
}

#[test]
fn no_file_names_the_host_of_a_package_registry() {
    // This file does not name them either, so each name is put together.
    let hosts =
        [("crates", "io"), ("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com")];
    let hosts = hosts.into_iter().chain([("debian", "org"), ("ubuntu", "com")]);
    let hosts: Vec<String> = hosts.map(|(name, domain)| format!("{name}.{domain}")).collect();
    let files = searched(root());
    assert!(files.iter().any(|file| file.ends_with(".ci/install")), "the scripts are among them");
    let names_one = |file: &&PathBuf| {
        let text = fs::read(file).expect("a file");
        let text = String::from_utf8_lossy(&text).to_lowercase();
        hosts.iter().any(|host| text.contains(host))
    };
    let wrong: Vec<_> = files.iter().filter(names_one).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_promise_of_security_names_tests_that_exist() {
    let files = ["tests", "tracemerge/tests"].map(|directory| searched(&root().join(directory))).concat();
    // A module's file, or its folder.
    let module = |file: &PathBuf| {
        if file.ends_with("mod.rs") { file.parent().map(PathBuf::from) } else { Some(file.clone()) }
    };
    let stems: Vec<String> = files
        .iter()
        .filter_map(|file| Some(module(file)?.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    let code: String = files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
    let text = fs::read_to_string(root().join("SECURITY.md")).expect("the promises");
    let promises = text.lines().filter_map(|line| line.strip_suffix(" |")?.rsplit_once("| "));
    let promises: Vec<(&str, &str)> = promises.filter(|(_, tests)| tests.starts_with('`')).collect();
    assert!(promises.len() > 8, "{promises:?}");
    for (promise, tests) in promises {
        for test in tests.split(", ").map(|test| test.trim_matches('`')) {
            let exists = stems.iter().any(|stem| stem == test) || code.contains(&format!("fn {test}()"));
            assert!(exists, "{promise}: there is no test {test:?}");
        }
    }
}
