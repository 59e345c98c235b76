//! The directories that runs of an application have named for their trace files, because these are not beside the
//! executable.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use trace_format::name::stem;
use trace_format::places::{self, MAX_LIST_BYTES, Place, SUFFIX};
use trace_store::recovery::{path_from_bytes, runtime_directories};
use trace_store::sys::{open_file_of_user_to_read, private_directory_of};

use crate::find::app::App;
use crate::os::sys;

/// The maximum number of directories that are searched. If there are more, those of the newest runs are searched.
const MAX_SEARCHED_PLACES: usize = 64;

/// The directories that runs have named for their trace files, in the order in which the runs began.
#[derive(Debug, Default)]
pub(crate) struct Places(Vec<Place>);

impl Places {
    /// Reads the lists of directories into which runs of `app` have put trace files. One list is beside the executable,
    /// and each directory for rings may have another one.
    #[must_use]
    pub(crate) fn of(app: &App) -> Places {
        let mut all = Vec::new();
        for list in lists(app) {
            let Some(bytes) = read(&list, app) else { continue };
            all.extend(places::parse(&bytes).into_iter().filter(|place| is_of(place, app)));
        }
        all.sort_by_key(|place| place.wall);
        Places(all)
    }

    /// Reads the lists of other users, until the time `until`: the directories into which their runs of `app` have put
    /// trace files. Only root can read them. Each list is in a directory of its user, who may have written anything
    /// into it, so the lists are used only if no traces were found.
    #[must_use]
    pub(crate) fn of_other_users(app: &App, until: Instant) -> Places {
        let mut all = Vec::new();
        for list in lists(app).into_iter().take_while(|_| Instant::now() < until) {
            let owner = list.parent().and_then(private_directory_of);
            let bytes = owner.and_then(|owner| read_of(&list, owner));
            all.extend(
                places::parse(&bytes.unwrap_or_default()).into_iter().filter(|place| is_of(place, app)),
            );
        }
        all.sort_by_key(|place| place.wall);
        Places(all)
    }

    /// Returns the directories, beginning with that of the newest run.
    #[must_use]
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        let mut directories = Vec::new();
        for place in self.0.iter().rev() {
            let directory = path_from_bytes(&place.directory);
            if !directories.contains(&directory) {
                directories.push(directory);
            }
        }
        directories.truncate(MAX_SEARCHED_PLACES);
        directories
    }

    /// Returns the directory that the newest run has named; `None` if no run has named a directory.
    #[must_use]
    pub(crate) fn newest(&self) -> Option<&Place> {
        self.0.last()
    }
}

/// Returns whether the run that has named this directory is a run of `app`.
#[must_use]
pub(crate) fn is_of(place: &Place, app: &App) -> bool {
    app.named_exe().is_none_or(|exe| place.exe == exe.as_os_str().as_encoded_bytes())
}

/// Returns the paths of the lists in which runs of `app` have named directories, see [`Places::of`].
#[must_use]
pub(crate) fn lists(app: &App) -> Vec<PathBuf> {
    let beside = app.named_exe().filter(|_| !app.is_directory()).and_then(|real| {
        let mut name = stem(real.file_name()?.as_encoded_bytes()).into_owned();
        name.extend_from_slice(SUFFIX.as_bytes());
        Some(real.with_file_name(path_from_bytes(&name)))
    });
    let name = beside.as_deref().and_then(Path::file_name);
    let of_rings = name.map(|name| runtime_directories().into_iter().map(move |place| place.join(name)));
    beside.iter().cloned().chain(of_rings.into_iter().flatten()).collect()
}

/// Reads a list if its owner is the caller, the executable's owner or root. A list of another user may be forged.
#[must_use]
pub(crate) fn read(list: &Path, app: &App) -> Option<Vec<u8>> {
    let found = std::fs::symlink_metadata(list).ok()?;
    let exe = app.real_path().and_then(|real| std::fs::metadata(real).ok());
    let believed = [Some(0), Some(sys::effective_user()), exe.as_ref().map(sys::owner)];
    let owner = sys::owner(&found);
    if believed.contains(&Some(owner)) { read_of(list, owner) } else { None }
}

/// Reads a list if it belongs to the user `owner`.
fn read_of(list: &Path, owner: u32) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    // A run may have appended to the list while another one shortened it.
    let file = open_file_of_user_to_read(list, owner).ok()?;
    file.take(4 * MAX_LIST_BYTES as u64).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
