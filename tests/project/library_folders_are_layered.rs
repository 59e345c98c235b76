//! The map of the library in ARCHITECTURE.md lists its folders, and each folder uses only the folders above it there.

use super::walls::{Walls, assert_environment_is_read_only_in, named, source_of};

fn walls() -> Walls {
    Walls::read("tracer", "| folder | what is in it | runs on |")
}

#[test]
fn the_map_lists_each_folder() {
    walls().assert_each_part_is_listed();
    walls().assert_all_parts_are_folders();
}

#[test]
fn a_folder_uses_only_those_above_it() {
    walls().assert_parts_use_only_those_above();
}

#[test]
fn names_after_crate_are_found() {
    let code = "#[cfg(all(test, unix))]\nmod tests;\nuse crate::a::b;\nfn f() { crate::c::d() }\nmod tests {\n use crate::e;";
    assert_eq!(named(code).into_iter().collect::<Vec<_>>(), ["a", "c"]);
}

#[test]
fn the_environment_is_read_in_one_place() {
    assert_environment_is_read_only_in(&source_of("tracer"), "(none)");
}
