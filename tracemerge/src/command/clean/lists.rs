//! The cleanup of the lists of trace directories, which name the directories into which an application's runs have put
//! their files.

use std::io::{self, Write};
use std::path::Path;

use trace_format::places;
use trace_store::recovery::path_from_bytes;

use crate::find::app::App;
use crate::find::named_places::{is_of, lists, read};
use crate::os::directory::Kind;
use crate::output::place::Place;
use crate::ui::error::Error;

/// Removes the entries of `app` from the lists of trace directories, except entries with a directory for which `keep`
/// returns true. Deletes a list of which no entry remains. Leaves lists of other users as they are. Returns the errors.
pub(super) fn forget(app: &App, keep: impl Fn(&Path) -> bool) -> Vec<Error> {
    let lists = lists(app).into_iter();
    lists
        .filter_map(|list| {
            Some(Error::io("remove the application from the list", &list, shorten(&list, app, &keep).err()?))
        })
        .collect()
}

fn shorten(list: &Path, app: &App, keep: impl Fn(&Path) -> bool) -> io::Result<()> {
    let Some(bytes) = read(list, app) else { return Ok(()) };
    let place = Place::open(list, false)?;
    if !matches!(place.replaceable(Kind::File), Ok(Some(_))) {
        return Ok(());
    }
    let before = places::parse(&bytes);
    let is_kept = |known: &&places::Place| !is_of(known, app) || keep(&path_from_bytes(&known.directory));
    let kept: Vec<u8> = before.iter().filter(is_kept).flat_map(places::Place::write).collect();
    if kept.is_empty() {
        return place.remove();
    }
    if before.iter().all(|known| is_kept(&known)) {
        return Ok(());
    }
    let mut file = place.begin_file()?;
    file.file().write_all(&kept)?;
    place.finish_file(file)
}
