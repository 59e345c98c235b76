//! The map of the store in ARCHITECTURE.md lists its modules, and each module uses only the modules above it there.

use super::walls::{Walls, assert_environment_is_read_only_in, source_of};

fn walls() -> Walls {
    Walls::read("tracer/store", "| module | what is in it |")
}

#[test]
fn the_map_lists_each_module() {
    walls().assert_each_part_is_listed();
}

#[test]
fn a_module_uses_only_those_above_it() {
    walls().assert_parts_use_only_those_above();
}

#[test]
fn the_environment_is_read_in_one_place() {
    assert_environment_is_read_only_in(&source_of("tracer/store"), "variables.rs");
}
