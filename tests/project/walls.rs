//! The check that each part (a folder or a module) of a crate uses only the parts above it in a table of
//! ARCHITECTURE.md.
//!
//! Each crate that has such a table has a test that checks it with this module.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A crate's parts: folders, and files beside the crate's root.
pub struct Walls {
    source: PathBuf,
    /// The names in each row of the table, from the top.
    rows: Vec<Vec<String>>,
}

impl Walls {
    /// Reads the table that begins with the line `heading`. `package` is the directory of the crate in the
    /// repository.
    pub fn read(package: &str, heading: &str) -> Walls {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md")).unwrap();
        let table = text.split(heading).nth(1).unwrap();
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let rows = rows.map(|row| {
            let cell = row.split('|').nth(1).unwrap();
            let names = cell.split('`').skip(1).step_by(2);
            names.map(|name| name.trim_end_matches('/').trim_end_matches(".rs").to_owned()).collect()
        });
        Walls { source: source_of(package), rows: rows.collect() }
    }

    /// Checks that the table names each existing part, and no other.
    pub fn assert_each_part_is_listed(&self) {
        let mut mapped: Vec<String> = self.rows.concat();
        mapped.sort();
        let entries = fs::read_dir(&self.source).unwrap().map(|entry| entry.unwrap().path());
        let parts = entries.filter(|path| !path.ends_with("lib.rs") && !path.ends_with("main.rs"));
        let parts: BTreeSet<String> =
            parts.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
        assert_eq!(mapped, parts.into_iter().collect::<Vec<_>>());
    }

    /// Checks that all parts are folders.
    pub fn assert_all_parts_are_folders(&self) {
        let entries = fs::read_dir(&self.source).unwrap().map(|entry| entry.unwrap().path());
        let loose: Vec<PathBuf> = entries
            .filter(|path| path.is_file() && !path.ends_with("lib.rs") && !path.ends_with("main.rs"))
            .collect();
        assert!(loose.is_empty(), "in no folder: {loose:?}");
    }

    /// Checks that each part uses only itself and those in the rows above it. Tests may use everything.
    pub fn assert_parts_use_only_those_above(&self) {
        let level = |name: &str| self.rows.iter().position(|row| row.iter().any(|part| part == name));
        let mut wrong = Vec::new();
        for file in files(&self.source) {
            let part = file.strip_prefix(&self.source).unwrap().iter().next().unwrap();
            let part = Path::new(part).file_stem().unwrap().to_string_lossy().into_owned();
            let Some(own) = level(&part).filter(|_| !is_test(&file)) else { continue };
            let code = fs::read_to_string(&file).unwrap();
            let used = named(&code).into_iter().filter(|used| *used != part);
            let below = used.filter(|used| level(used).is_some_and(|at| at >= own));
            wrong.extend(below.map(|below| format!("{} uses {below}", file.display())));
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// Returns the directory of a crate's code.
pub fn source_of(package: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(package).join("src")
}

/// Checks that no file of `source` except `allowed` reads the environment of the process.
pub fn assert_environment_is_read_only_in(source: &Path, allowed: &str) {
    let code = files(source);
    assert!(!code.is_empty());
    for path in code.iter().filter(|path| !path.ends_with(allowed) && !is_test(path)) {
        let code = fs::read_to_string(path).unwrap();
        let code = code.split("\nmod tests {").next().unwrap();
        assert!(!code.contains("env::var"), "{} reads the environment", path.display());
    }
}

/// Returns whether a file contains only tests.
fn is_test(file: &Path) -> bool {
    file.iter().any(|part| part == "tests")
        || file.file_stem().is_some_and(|s| s.to_string_lossy().ends_with("tests"))
}

/// Returns all files with Rust code in a directory and below it.
pub fn files(directory: &Path) -> Vec<PathBuf> {
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

/// Returns the parts that some code names after `crate::`, also in a list. Tests at its end may use everything.
pub fn named(code: &str) -> BTreeSet<&str> {
    let code = code.split("\nmod tests {").next().unwrap();
    let mut parts = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let list = rest.strip_prefix('{').map(|list| &list[..list.find('}').unwrap_or(0)]);
        for item in list.map_or(vec![rest], |list| list.split(',').map(str::trim).collect()) {
            let end = item.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(item.len());
            parts.insert(&item[..end]);
        }
    }
    parts
}
