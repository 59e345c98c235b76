//! The map of `tracemerge` in ARCHITECTURE.md is the list of its folders, and each folder uses only those
//! above it there.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Returns the rooms, in the order of the map.
fn map() -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../ARCHITECTURE.md")).unwrap();
    let table = text.split("| room | what is in it |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('`').nth(1).unwrap().trim_end_matches('/').to_owned()).collect()
}

/// Returns all files with Rust code in a directory and below it.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Returns the rooms that some code names behind `crate::`, alone or in a list. Test code is left out,
/// because it may use every room.
fn named(code: &str) -> BTreeSet<&str> {
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut rooms = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let list = rest.strip_prefix('{').map(|list| &list[..list.find('}').unwrap_or(0)]);
        for item in list.map_or(vec![rest], |list| list.split(',').map(str::trim).collect()) {
            let end = item.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(item.len());
            rooms.insert(&item[..end]);
        }
    }
    rooms
}

#[test]
fn the_map_names_each_folder() {
    let mut mapped = map();
    mapped.sort();
    let folders = fs::read_dir(source()).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<String> = folders
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    folders.sort();
    assert_eq!(mapped, folders);
    let loose: Vec<PathBuf> = fs::read_dir(source())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && !path.ends_with("lib.rs") && !path.ends_with("main.rs"))
        .collect();
    assert!(loose.is_empty(), "in no room: {loose:?}");
}

#[test]
fn a_room_uses_only_those_above_it() {
    let map = map();
    let mut wrong = Vec::new();
    for (level, room) in map.iter().enumerate() {
        for file in files(&source().join(room)) {
            let code = fs::read_to_string(&file).unwrap();
            let is_test = file.file_stem().is_some_and(|stem| stem == "tests");
            let used = named(&code).into_iter().filter(|_| !is_test);
            let below =
                used.filter(|used| map.iter().position(|room| room == used).is_some_and(|at| at > level));
            wrong.extend(below.map(|below| format!("{} uses {below}", file.display())));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn names_behind_crate_are_found() {
    let code =
        "use crate::a::b;\nuse crate::{c, d::e};\n[`crate::f`]\n#[cfg(test)]\nmod tests {\n use crate::g;";
    assert_eq!(named(code).into_iter().collect::<Vec<_>>(), ["a", "c", "d", "f"]);
}
