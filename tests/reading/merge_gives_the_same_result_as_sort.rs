//! `tracemerge` and `sort` merge the files of a really traced program with the same result.

use std::path::PathBuf;
use support::{APP, Scenario, names, tracemerge};

#[test]
fn the_merge_of_a_traced_program_equals_sorted_files() {
    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["many", "20000"]).run().succeeded();
    traced.assert_whole();
    assert_eq!(traced.messages().len(), 8 * 20_000);
    let directory = traced.directory.path();
    let app = directory.join(APP);
    let merged = directory.join(format!("{APP}.trace.merge"));
    assert_eq!(tracemerge(&["-q".as_ref(), app.as_ref()]), 0);
    // There is one run, so the order of ties is that of the thread ids.
    let mut files: Vec<_> = names(directory).into_iter().filter(|p| *p != merged).collect();
    files.sort_by_key(|p| p.extension().and_then(|e| e.to_str()?.parse::<u64>().ok()));
    let sorted = sorted(&files);
    let ours = std::fs::read(&merged).expect("the merged file");
    assert!(ours == sorted, "{} bytes, sort has {}", ours.len(), sorted.len());
}

/// Returns the files' lines as `sort` merges them.
#[cfg(unix)]
fn sorted(files: &[PathBuf]) -> Vec<u8> {
    let mut sort = std::process::Command::new("sort");
    let sort = sort.args(["-m", "-s", "-k1.1,1.16"]).args(files).env("LC_ALL", "C").output();
    sort.expect("sort can be run").stdout
}

/// Returns the files' lines as a stable sort by the key's first part orders them, because this system has no such
/// `sort`.
#[cfg(not(unix))]
fn sorted(files: &[PathBuf]) -> Vec<u8> {
    let bytes: Vec<Vec<u8>> = files.iter().map(|path| std::fs::read(path).expect("a file")).collect();
    let mut lines: Vec<&[u8]> = bytes.iter().flat_map(|file| file.split_inclusive(|b| *b == b'\n')).collect();
    lines.sort_by_key(|line| &line[..16]);
    lines.concat()
}
