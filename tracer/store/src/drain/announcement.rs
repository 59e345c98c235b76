//! Says beside the executable where its trace files are, if they are elsewhere.

use std::ffi::OsStr;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use trace_format::meta::Run;
use trace_format::places::{LONGEST, Place, SUFFIX, newer_half};

use crate::sys;

/// The announcement of a run's directories.
#[derive(Debug)]
pub struct Announcement {
    /// The lists, in the order in which they are tried: one that takes the line is enough.
    lists: Vec<PathBuf>,
    /// The executable's own directory, of which nothing is to be said: whoever looks for its traces looks
    /// there.
    beside: PathBuf,
    place: Place,
    /// The directories that were announced.
    done: Vec<PathBuf>,
}

impl Announcement {
    /// Makes the announcement of a run: beside its executable or, where that cannot be, where the rings are.
    /// `name` is what its trace files' names begin with.
    pub fn new(run: &Run, name: &OsStr, runtime: PathBuf) -> Option<Announcement> {
        let beside = sys::path_from_bytes(&run.exe).parent()?.to_path_buf();
        let mut name = name.to_os_string();
        name.push(SUFFIX);
        let lists = vec![beside.join(&name), runtime.join(&name)];
        let place =
            Place { id: run.id, pid: run.pid, wall: run.wall, exe: run.exe.clone(), directory: Vec::new() };
        Some(Announcement { lists, beside, place, done: Vec::new() })
    }

    /// Says that there will be files in `directory`. Where nobody takes it, the files are found by those who
    /// know where they are.
    pub fn announce(&mut self, directory: &Path) {
        if directory == self.beside || self.done.iter().any(|done| done == directory) {
            return;
        }
        self.done.push(directory.to_path_buf());
        self.place.directory = directory.as_os_str().as_encoded_bytes().to_vec();
        let line = self.place.write();
        let _ = self.lists.iter().any(|list| append(list, &line).is_some());
    }
}

/// Appends a line to a list of this user's, which is made if need be.
fn append(list: &Path, line: &[u8]) -> Option<()> {
    let mut file = sys::open_to_append(list).ok()?;
    if file.metadata().is_ok_and(|found| found.len() > LONGEST as u64) {
        let _ = shorten(list);
    }
    file.write_all(line).ok()
}

/// Drops the older half of a list that has become too long. What another run appends meanwhile may go with
/// it.
fn shorten(list: &Path) -> io::Result<()> {
    let mut file = sys::open_own_file(list)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let newer = newer_half(&bytes);
    file.rewind()?;
    file.write_all(newer)?;
    file.set_len(newer.len() as u64)
}
