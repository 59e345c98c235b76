//! The list of places: a file beside an executable that names the directories of its runs' trace files.
//!
//! A run that writes its files beside its executable does not need the list. Any other run adds a line to this list
//! before it gives its first file in a directory its name. So a reader finds the executable's traces without knowing
//! their directories, and knows which run is the newest even if it cannot read that run's files.
//!
//! ```text
//! place id=9f0c23d1 pid=800 wall=2026-11-20T15:11:02.123456789Z exe="/srv/app" dir="/var/traces"
//! ```
//!
//! Values have the form of [`meta`](mod@crate::meta). A run only appends lines, each with one write; a list that has
//! become too long loses its older half. A reader skips lines of another form.

use crate::meta::{PayloadWriter, split};
use crate::wall::Wall;

/// The text that follows the executable's name in the name of a list of places.
pub const SUFFIX: &str = ".trace.places";

/// The length in bytes beyond which a list of places loses its older half.
pub const MAX_LIST_BYTES: usize = 64 * 1024;

/// A run that has made trace files in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The run's random id.
    pub id: u32,
    /// The process id of the run.
    pub pid: u32,
    /// The time when the run began.
    pub wall: Wall,
    /// The executable's path, as bytes.
    pub exe: Vec<u8>,
    /// The directory's path, as bytes.
    pub directory: Vec<u8>,
}

impl Place {
    /// Returns the line of this place in a list, with its line feed.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut fields = PayloadWriter::new(&mut out, "place");
        fields.bare("id", &format!("{:08x}", self.id)).number("pid", u64::from(self.pid));
        fields.bare("wall", &self.wall.to_string()).quoted("exe", &self.exe).quoted("dir", &self.directory);
        out.push(b'\n');
        out
    }

    fn parse(line: &[u8]) -> Option<Place> {
        let (word, fields) = split(line)?;
        (word == b"place").then_some(())?;
        Some(Place {
            id: fields.hex("id")?,
            pid: fields.number("pid")?.try_into().ok()?,
            wall: Wall::parse(fields.bare("wall")?)?,
            exe: fields.string("exe")?,
            directory: fields.string("dir")?,
        })
    }
}

/// Returns the places in a list, in the order of its lines. Ignores a last line without a line feed, which may be
/// truncated.
#[must_use]
pub fn parse(list: &[u8]) -> Vec<Place> {
    let whole = list.iter().rposition(|&b| b == b'\n').map_or(&[][..], |end| &list[..end]);
    whole.split(|&b| b == b'\n').filter_map(Place::parse).collect()
}

/// Returns the newer half of a list of places that has become too long, from the beginning of a line on.
#[must_use]
pub fn newer_half(list: &[u8]) -> &[u8] {
    let half = &list[list.len() / 2..];
    half.iter().position(|&b| b == b'\n').map_or(&[], |feed| &half[feed + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_place() -> impl Strategy<Value = Place> {
        any::<(u32, u32, u64, Vec<u8>, Vec<u8>)>().prop_map(|(id, pid, wall, exe, directory)| Place {
            id,
            pid,
            wall: Wall(wall),
            exe,
            directory,
        })
    }

    proptest! {
        #[test]
        fn a_list_parses_back_and_a_truncated_one_gives_whole_places(
            places in prop::collection::vec(any_place(), 0..4), cut: usize
        ) {
            let list: Vec<u8> = places.iter().flat_map(Place::write).collect();
            prop_assert_eq!(&parse(&list)[..], &places[..]);
            let fewer = parse(&list[..cut % (list.len() + 1)]);
            prop_assert_eq!(&fewer[..], &places[..fewer.len()]);
            let newer = parse(newer_half(&list));
            prop_assert_eq!(&newer[..], &places[places.len() - newer.len()..]);
        }

        #[test]
        fn any_bytes_are_parsed_without_panic(bytes: Vec<u8>) {
            let _ = parse(&[b"place ", &bytes[..], b"\n"].concat());
        }
    }
}
