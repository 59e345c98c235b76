//! Owners of files, and the order in which they count: the caller's own files first, then those of the executable's
//! owner, then those of others.
//!
//! In a directory that several users may write to, any user can create files that name any run at any time. So a file
//! counts only for its owner, and files of different owners are never combined in one run, unless the run itself has
//! recorded that its process became another user's.

use std::collections::BTreeMap;
use std::fs;

use memchr::memmem;
use trace_format::file::Encoding;
use trace_format::line::{Kind, Line};
use trace_format::meta::Meta;
use trace_format::raw::Raw;
use trace_format::record::RecordKind;

use crate::file::lines::{Token, line_at, strip_line_feed};
use crate::file::map::Map;
use crate::find::app::App;
use crate::find::header::Trace;
use crate::os::sys;
use crate::ui::messages::count;

/// The beginning of the payload of a `# credentials` line.
const WORD: &[u8] = b"credentials ";
/// The maximum number of users that messages name.
const MAX_NAMED_USERS: usize = 4;
/// The id of the user root, who has all rights.
const ROOT: u32 = 0;

/// The relation of a user to the caller. The traces of the user with the lowest rank are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// The user is the caller.
    Own,
    /// The user is the owner of the executable.
    Executable,
    /// The user is neither the caller nor the owner of the executable.
    Other,
}

/// The users whose files are shown before those of others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owners {
    /// The effective user id of the caller.
    pub own: u32,
    /// The user id of the executable's owner, if there is an executable.
    pub executable: Option<u32>,
}

impl Owners {
    /// Returns the users whose traces of `app` are shown before those of other users.
    #[must_use]
    pub(crate) fn of(app: &App) -> Owners {
        let executable = app.real_path().filter(|_| !app.is_directory());
        let executable = executable.and_then(|path| fs::metadata(path).ok());
        Owners { own: sys::effective_user(), executable: executable.as_ref().map(sys::owner) }
    }

    /// Returns the rank of an owner of files: the caller comes first, then the executable's owner, then all others.
    #[must_use]
    pub(crate) fn rank(&self, owner: u32) -> Rank {
        match owner {
            owner if owner == self.own => Rank::Own,
            owner if Some(owner) == self.executable => Rank::Executable,
            _ => Rank::Other,
        }
    }

    /// Returns whether a file of the user `recorder` is believed if it says that its process became another user's.
    #[must_use]
    pub(crate) fn may_record(&self, recorder: u32) -> bool {
        recorder == ROOT || self.rank(recorder) != Rank::Other
    }

    /// Decides who owns a run if a file of the user `recorder` says that the run's process became a process of the user
    /// `named`. Returns the user who gets all files of the run, and then the other user. Returns `None` if the file is
    /// not believed: a user who is less near to the caller must not add files of others to a run of their own.
    #[must_use]
    pub(crate) fn together(&self, recorder: u32, named: u32) -> Option<(u32, u32)> {
        let (of_recorder, of_named) = (self.rank(recorder), self.rank(named));
        if recorder == named || (of_recorder >= of_named && recorder != ROOT) {
            return None;
        }
        Some(if of_recorder <= of_named { (recorder, named) } else { (named, recorder) })
    }
}

/// Returns the users that a trace's process became, from the `# credentials` lines of the whole file.
#[must_use]
pub(crate) fn recorded(trace: &Trace) -> Vec<u32> {
    match (&trace.held, &trace.map) {
        (Some(held), _) => recorded_in(held.file()),
        (None, Some(map)) => recorded_in(map),
        (None, None) => Map::open_known(&trace.path).map_or_else(|_| Vec::new(), |map| recorded_in(&map)),
    }
}

/// Returns the users named by `# credentials` lines in the bytes of a file.
#[must_use]
pub(crate) fn recorded_in(bytes: &[u8]) -> Vec<u32> {
    let user = |payload: &[u8]| match Meta::parse(payload) {
        Some(Meta::Credentials { uid }) => Some(uid),
        _ => None,
    };
    if Encoding::of(bytes) == Encoding::Raw {
        let metas = Raw::parse(bytes).into_iter().flat_map(|raw| raw.records(0));
        let metas = metas.filter(|(_, record)| record.kind == RecordKind::Meta);
        return metas.filter_map(|(_, record)| user(record.payload)).collect();
    }
    let line = |at: usize| {
        let start = memchr::memrchr2(b'\n', 0, &bytes[..at]).map_or(0, |feed| feed + 1);
        let Token::Line(line) = line_at(bytes, start) else { return None };
        let line = Line::parse(strip_line_feed(&bytes[start..line.end])).ok()?;
        (line.kind == Kind::Meta).then(|| user(line.payload)).flatten()
    };
    memmem::find_iter(bytes, WORD).filter_map(line).collect()
}

/// Returns a text for the user that states the number of files of each of several users.
#[must_use]
pub(crate) fn of_users(files: &BTreeMap<u32, usize>) -> String {
    let of_user = |(user, files): (&u32, &usize)| format!("{} of user {user}", count(*files as u64, "file"));
    let more = files.len().saturating_sub(MAX_NAMED_USERS);
    let mut parts: Vec<String> = files.iter().take(MAX_NAMED_USERS).map(of_user).collect();
    if more > 0 {
        let rest = files.values().skip(MAX_NAMED_USERS).sum::<usize>() as u64;
        parts.push(format!("{} of {}", count(rest, "file"), count(more as u64, "more user")));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_owners_draw_files_of_others_into_a_run() {
        let owners = Owners { own: 1000, executable: Some(500) };
        assert_eq!(owners.together(1000, 7), Some((1000, 7)));
        assert_eq!(owners.together(500, 7), Some((500, 7)));
        assert_eq!(owners.together(0, 7), Some((0, 7)));
        assert_eq!(owners.together(0, 1000), Some((1000, 0)), "the caller's run stays the caller's");
        for (recorder, named) in [(7, 1000), (7, 500), (7, 0), (7, 8), (500, 1000), (7, 7)] {
            assert_eq!(owners.together(recorder, named), None, "{recorder} becomes {named}");
        }
    }

    #[test]
    fn credentials_are_read_from_metadata_lines_only() {
        let key = "0000000000000001-00000009";
        let text = format!(
            "{key} # run version=1\n{key} : credentials uid=1\n{key} # credentials uid=2\n\
             {key} : x # credentials uid=3\ncredentials uid=4\n{key} # credentials uid=x\n{key} # credentials uid=5\n"
        );
        assert_eq!(recorded_in(text.as_bytes()), [2, 5]);
    }
}
