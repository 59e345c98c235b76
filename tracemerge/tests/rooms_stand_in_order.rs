//! The map of `tracemerge` in ARCHITECTURE.md is the list of its folders, and each uses those above it there only.

#[path = "../../tests/support/walls.rs"]
mod walls;

use walls::{Walls, named};

fn rooms() -> Walls {
    Walls::read(env!("CARGO_MANIFEST_DIR"), "..", "| room | what is in it |")
}

#[test]
fn the_map_names_each_folder() {
    rooms().name_each_part();
    rooms().leave_nothing_loose();
}

#[test]
fn a_room_uses_only_those_above_it() {
    rooms().are_passed_downwards_only();
}

#[test]
fn names_behind_crate_are_found() {
    let code =
        "use crate::a::b;\nuse crate::{c, d::e};\n[`crate::f`]\n#[cfg(test)]\nmod tests {\n use crate::g;";
    assert_eq!(named(code).into_iter().collect::<Vec<_>>(), ["a", "c", "d", "f"]);
}
