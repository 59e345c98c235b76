//! The subcommands `on` and `off`, which make a running process continue or pause tracing.

use std::thread;
use std::time::{Duration, Instant};

use trace_store::life::{self, Asked};

use crate::command::snapshot::run_of;
use crate::ui::error::Error;
use crate::ui::messages::Messages;

/// The longest time to wait for the process to answer.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// The time between two checks whether the process has answered.
const RECHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Switches tracing of the process `pid` on or off. Returns after the process has obeyed.
///
/// # Errors
/// If the process was not started with tracing, or if it does not answer.
pub(crate) fn switch(pid: u32, on: bool, messages: &mut Messages) -> Result<(), Error> {
    let run = run_of(pid)?;
    let cannot = |error| Error::io("switch tracing on or off by the run's directory", &run.directory, error);
    let begun = Instant::now();
    let words = if on { ["traces", "on"] } else { ["pauses", "off"] };
    let mut asked = life::ask(&run.directory, on).map_err(cannot)?;
    if asked == Asked::Already {
        messages.done(format_args!("tracing in process {pid} is {} already", words[1]));
        return Ok(());
    }
    while asked == Asked::Asked && begun.elapsed() < MAX_WAIT {
        thread::sleep(RECHECK_INTERVAL);
        asked = life::answer(&run.directory, on).map_err(cannot)?;
    }
    match asked {
        Asked::Already => {
            messages.done(format_args!("process {pid} {} from now on", words[0]));
            Ok(())
        }
        Asked::Asked => Err(Error::plain(format!(
            "process {pid} has not answered the request to switch tracing {} within {} s: is it stopped, or is \
             TRACER_FLUSH_INTERVAL long? It will switch when it continues",
            words[1],
            MAX_WAIT.as_secs()
        ))),
        Asked::NotListening => Err(Error::plain(format!(
            "tracing in process {pid} cannot be switched from outside: its tracer is of an earlier version"
        ))),
    }
}
