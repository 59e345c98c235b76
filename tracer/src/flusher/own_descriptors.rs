//! The flusher's table of open files: its own, or the program's (`TRACER_DESCRIPTORS`).

use std::io;

use trace_store::descriptor;

use crate::shared::run::Run;
use crate::user::relay;

/// Gives the calling thread, the flusher, its own table of file descriptors, unless the settings say `shared`. No other
/// thread can then close the files that the flusher opens. Must be called before the flusher opens a file.
pub(super) fn take_own(run: &'static Run) {
    if !run.config.own_descriptors {
        return;
    }
    let taken = run.relay.start().and_then(|()| descriptor::take_own().inspect_err(|_| run.relay.end()));
    match taken {
        Ok(()) => run.relay.relay_for_this_thread(),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
        Err(error) => relay::say(format_args!(
            "the tracer cannot have file descriptors of its own ({error}); records are lost if the program closes \
             descriptors that it has not opened; TRACER_DESCRIPTORS=shared silences this"
        )),
    }
}
