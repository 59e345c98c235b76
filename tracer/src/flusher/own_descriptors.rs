//! The flusher's table of open files: its own, or the program's (`TRACER_DESCRIPTORS`).

use std::io;

use trace_store::descriptor;

use crate::shared::run::Run;
use crate::user::teller;

/// Leaves the host's descriptors to the host: what this thread opens from here on, nobody else can close.
/// This is called before anything is opened.
pub(super) fn take_own(run: &'static Run) {
    if !run.config.own_descriptors {
        return;
    }
    let taken = run.teller.start().and_then(|()| descriptor::take_own().inspect_err(|_| run.teller.end()));
    match taken {
        Ok(()) => run.teller.speak_for_this_thread(),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
        Err(error) => teller::say(format_args!(
            "the flusher shares the program's descriptors ({error}); a program that closes those that it does not \
             know may cost records; TRACER_DESCRIPTORS=shared silences this"
        )),
    }
}
