//! The outputs of merges under default names, which are made of the application's name.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::command::merge::default_path;
use crate::command::open::TEXT_EXTENSION;
use crate::find::app::App;
use crate::os::directory::Kind;
use crate::output::place::Place;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, shown};
use crate::view::export::format::{FORMATS, OutputFormat};
use crate::view::export::html::PAGES;
use crate::view::layout::Destination;

/// The number of bytes at the beginning of a file that identify its format.
const HEAD: u64 = 64 * 1024;

/// Returns the default path of each output that this command may write for `app`, with the output's format; `None`
/// instead of a format stands for merged lines.
fn outputs(app: &App) -> Vec<(PathBuf, Option<&'static OutputFormat>)> {
    let merged = app.merged_path();
    let mut outputs = vec![(merged.with_extension(TEXT_EXTENSION), None)];
    let formats = FORMATS.into_iter().chain([&PAGES]);
    outputs
        .extend(formats.map(|format| (default_path(Destination::Exported(format), &merged), Some(format))));
    outputs.insert(0, (merged, None));
    outputs
}

/// Returns whether an output of this command with a default name for `app` exists.
pub(super) fn any(app: &App) -> bool {
    outputs(app).iter().any(|(path, _)| path.symlink_metadata().is_ok())
}

/// Deletes the outputs of `app` under default names, if they are files or directories of this user in a form that this
/// command writes. Reports other files with such a name, and leaves them. Returns the deleted paths.
pub(super) fn remove(app: &App, messages: &mut Messages) -> Vec<PathBuf> {
    let mut removed = Vec::new();
    for (path, format) in outputs(app) {
        match remove_one(&path, format) {
            Ok(true) => removed.push(path),
            Ok(false) => {}
            Err(Refused::Foreign(why)) => {
                messages.note(format_args!("{} is not deleted: {why}", shown(&path)))
            }
            Err(Refused::Failed(error)) => messages.warn(Error::io("delete", &path, error)),
        }
    }
    removed
}

/// The reason why a file is not deleted.
enum Refused {
    /// The file is not in the form in which this command writes it.
    Foreign(String),
    /// The file cannot be deleted.
    Failed(io::Error),
}

/// Deletes the output at `path`, which has to be in `format` (`None`: merged lines). Returns whether there was an
/// output.
fn remove_one(path: &Path, format: Option<&'static OutputFormat>) -> Result<bool, Refused> {
    let foreign = |error: io::Error| Refused::Foreign(error.to_string());
    let kind = if format.is_some_and(OutputFormat::is_directory) { Kind::Directory } else { Kind::File };
    let Ok(place) = Place::open(path, false) else { return Ok(false) };
    let Some(found) = place.replaceable(kind).map_err(foreign)? else { return Ok(false) };
    let is_ours = match (found.kind, format) {
        (Kind::Directory, _) => place.has_whole_folder(),
        // Only outputs of this command have such a name.
        (_, None) => true,
        (_, Some(format)) => begins(&place, format).map_err(Refused::Failed)?,
    };
    if !is_ours {
        let why = "tracemerge did not write it".to_owned();
        return Err(Refused::Foreign(why));
    }
    place.remove().map_err(Refused::Failed)?;
    Ok(true)
}

fn begins(place: &Place, format: &OutputFormat) -> io::Result<bool> {
    let mut head = Vec::new();
    place.read()?.take(HEAD).read_to_end(&mut head)?;
    Ok(head.is_empty() || (format.begins)(&head))
}
