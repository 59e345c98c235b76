//! Stage *recover*: what dead runs of the application left in their rings goes into their files first.

use std::fs;
use std::path::Path;

use trace_format::manifest::Manifest;
use tracer::recovery::{self, Recovered};

use crate::discover::App;
use crate::messages::{Messages, count};

/// Recovers the dead runs of `app` and says what was found.
pub fn recover(app: &App, messages: &mut Messages) {
    let beside = directory_of(app);
    let wanted = |manifest: &Manifest| {
        app.exe().is_some_and(|exe| manifest.run.exe == exe)
            || (manifest.name == app.name().as_encoded_bytes()
                && beside.as_ref() == Some(&manifest.directory))
    };
    for run in recovery::recover(&recovery::runtime_directories(), wanted, || ()) {
        tell(&run, messages);
    }
}

/// Where the application is, as a manifest has it.
fn directory_of(app: &App) -> Option<Vec<u8>> {
    let parent = app.given.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::canonicalize(parent).ok().map(|directory| directory.into_os_string().into_encoded_bytes())
}

fn tell(run: &Recovered, messages: &mut Messages) {
    for thread in run.threads.iter().filter(|thread| thread.records > 0) {
        messages.note(format_args!(
            "recovered {} of thread {} ({:?}), process {} was killed",
            count(thread.records, "record"),
            thread.tid,
            String::from_utf8_lossy(&thread.name),
            run.run.pid,
        ));
    }
    for error in &run.errors {
        messages.warn(format_args!("{error}; what is in there is not in the merged file"));
    }
}
