//! The map of `tracemerge` in ARCHITECTURE.md lists its folders, and each folder uses only the folders above it there.

#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use super::walls::{Walls, assert_environment_is_read_only_in, files, named, source_of};
use std::fs;

fn rooms() -> Walls {
    Walls::read("tracemerge", "| room | what is in it |")
}

#[test]
fn the_map_lists_each_folder() {
    rooms().assert_each_part_is_listed();
    rooms().assert_all_parts_are_folders();
}

#[test]
fn only_the_command_line_uses_its_parser() {
    // Views and values have the definitions of their options; the list of views passes these on.
    const DEFINITIONS: [&str; 3] =
        ["use clap::Args;", "use clap::ValueEnum;", "use clap::{Args, ValueEnum};"];
    let source = source_of("tracemerge");
    let code = files(&source);
    assert!(!code.is_empty());
    let parsers = [source.join("cli"), source.join("view/layout.rs")];
    for path in code.iter().filter(|path| !parsers.iter().any(|parser| path.starts_with(parser))) {
        let code = fs::read_to_string(path).unwrap();
        let names_it = |line: &&str| {
            line.contains("clap::") && !line.trim_start().starts_with("//") && !DEFINITIONS.contains(line)
        };
        assert_eq!(code.lines().find(names_it), None, "{}", path.display());
    }
}

#[test]
fn a_command_folder_uses_only_those_above_it() {
    rooms().assert_parts_use_only_those_above();
}

#[test]
fn names_after_crate_are_found() {
    let code =
        "use crate::a::b;\nuse crate::{c, d::e};\n[`crate::f`]\n#[cfg(test)]\nmod tests {\n use crate::g;";
    assert_eq!(named(code).into_iter().collect::<Vec<_>>(), ["a", "c", "d", "f"]);
}

#[test]
fn the_environment_is_read_in_one_place() {
    assert_environment_is_read_only_in(&source_of("tracemerge"), "os/environment.rs");
}
