//! The manifest of an invented run. The tests of several crates include this file through symbolic links, so that
//! it is in each published package.

use std::path::Path;

use trace_format::file::Encoding;
use trace_format::line::Ticks;
use trace_format::manifest::{Directory, Manifest};
use trace_format::meta::{ClockKind, Run};
use trace_format::wall::Wall;

/// Returns the manifest of run 1 of process 1, whose text files are in `directory`.
pub fn manifest(directory: &Path) -> Manifest {
    let run = Run {
        version: 1,
        id: 1,
        root: 1,
        pid: 1,
        exe: b"/app".to_vec(),
        boot: b"boot".to_vec(),
        ticks: Ticks(1),
        wall: Wall(1),
        clock: ClockKind::Ordered,
    };
    let path = directory.as_os_str().as_encoded_bytes().to_vec();
    let directories = vec![Directory { path, identity: None }];
    Manifest { run, directories, name: b"app".to_vec(), encoding: Encoding::Text }
}
