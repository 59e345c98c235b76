//! The map of the store in ARCHITECTURE.md is the list of its modules, and each uses those above it there only.

#[path = "../../../tests/support/walls.rs"]
#[allow(dead_code, reason = "other crates check more")]
mod walls;

use std::path::Path;

use walls::{Walls, reads_the_environment_only_in};

fn walls() -> Walls {
    Walls::read(env!("CARGO_MANIFEST_DIR"), "../..", "| module | what is in it |")
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
    reads_the_environment_only_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "variables.rs");
}
