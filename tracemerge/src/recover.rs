//! Stage *recover*: what dead runs of the application left in their rings goes into their files first.

use tracer::recovery::{self, Recovered};

use crate::discover::App;
use crate::messages::{Messages, count};

/// Recovers the dead runs of `app` and says what was found. What could not be done is for the next stage to tell.
pub fn recover(app: &App, messages: &Messages) -> Vec<Recovered> {
    let runs = recovery::recover(&recovery::runtime_directories(), |manifest| app.is_of(manifest));
    runs.iter().for_each(|run| tell(run, messages));
    runs
}

fn tell(run: &Recovered, messages: &Messages) {
    for thread in run.threads.iter().filter(|thread| thread.records > 0) {
        messages.note(format_args!(
            "recovered {} of thread {} ({:?}), process {} was killed",
            count(thread.records, "record"),
            thread.tid,
            String::from_utf8_lossy(&thread.name),
            run.run.pid,
        ));
    }
}
