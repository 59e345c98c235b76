//! The map of the store in ARCHITECTURE.md lists its modules, and each module uses only those above it there.

use super::walls::{Walls, reads_the_environment_only_in, source_of};

fn walls() -> Walls {
    Walls::read("tracer/store", "| module | what is in it |")
}

#[test]
fn the_map_names_each_module() {
    walls().name_each_part();
}

#[test]
fn a_module_uses_only_those_above_it() {
    walls().are_passed_downwards_only();
}

#[test]
fn the_environment_is_read_in_one_place() {
    reads_the_environment_only_in(&source_of("tracer/store"), "variables.rs");
}
