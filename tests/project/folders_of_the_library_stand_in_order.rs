//! The map of the library in ARCHITECTURE.md lists its folders, and each folder uses only those above it there.

use super::walls::{Walls, named, reads_the_environment_only_in, source_of};

fn walls() -> Walls {
    Walls::read("tracer", "| folder | what is in it | runs on |")
}

#[test]
fn the_map_names_each_folder() {
    walls().name_each_part();
    walls().leave_nothing_loose();
}

#[test]
fn a_folder_uses_only_those_above_it() {
    walls().are_passed_downwards_only();
}

#[test]
fn names_behind_crate_are_found() {
    let code = "#[cfg(all(test, unix))]\nmod tests;\nuse crate::a::b;\nfn f() { crate::c::d() }\nmod tests {\n use crate::e;";
    assert_eq!(named(code).into_iter().collect::<Vec<_>>(), ["a", "c"]);
}

#[test]
fn the_environment_is_read_in_one_place() {
    reads_the_environment_only_in(&source_of("tracer"), "(none)");
}
