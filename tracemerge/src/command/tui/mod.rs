//! The subcommand `tui`: the traces in the terminal.
//!
//! | file | what is in it |
//! |---|---|
//! | `traces` | the source of lines: merges only the period that is shown |
//! | `window` | the loaded lines around the shown position |
//! | `lines` | the lines on the screen and the selected line; what moves them, and the search |
//! | `background` | views of all selected records, made by a background thread |
//! | `pane` | an open view of this kind as rows, which can be folded |
//! | `keys` | what keys and the mouse mean |
//! | `state` | the state of the whole program, and what commands do to it |
//! | `draw` | the drawing |
//!
//! No index is made, and the first screen does not wait for a merge of everything. A *place* is a position in the
//! traces: a boot of the machine, and ticks in that boot. The lines around a place come from a merge of a *part*: a
//! period of ticks for which the sources have about a mebibyte. The ends of the period are found by a search over
//! ticks, because each source can tell how many of its bytes come before given ticks: a text by a search for the line
//! with these ticks, a raw file by the index of its blocks. Parts border on each other, so lines with the same ticks
//! are in one part. Parts are merged and written by the code of `show`, with the same plan, names, clocks and
//! selection; the window keeps as many parts as fit into its memory. Filters are those of the other views. If a filter
//! selects few records, part after part is read until the screen is full, and keys are answered between the parts. A
//! search reads in the same way; it compares lines as they are shown.
//!
//! Views of all records (lanes, calls, spans) are those of the subcommands, made in the background by another merge.
//!
//! The limits of this design: lines are numbered only if all are loaded (otherwise the position is a percentage of the
//! bytes), calls that began before a part do not indent its lines, and in large traces a thread has its last name in
//! all lines.

#[cfg(feature = "tui")]
mod background;
#[cfg(feature = "tui")]
mod draw;
#[cfg(feature = "tui")]
mod keys;
#[cfg(feature = "tui")]
mod lines;
#[cfg(feature = "tui")]
mod pane;
#[cfg(feature = "tui")]
mod state;
#[cfg(all(test, feature = "tui"))]
mod tests;
#[cfg(feature = "tui")]
mod traces;
#[cfg(feature = "tui")]
mod window;

use crate::command::merge::Job;
use crate::ui::error::Error;
use crate::ui::messages::Messages;

/// Returns whether `tracemerge` can show traces in the terminal now: it was built with the terminal view, and the
/// terminal can be used.
#[must_use]
pub(crate) fn can_be_shown() -> bool {
    #[cfg(feature = "tui")]
    return crate::ui::screen::can_be_taken();
    #[cfg(not(feature = "tui"))]
    false
}

/// Returns the error which says that `tracemerge` was built without the terminal view.
#[cfg(not(feature = "tui"))]
pub(crate) fn tui(_job: &Job, _follow: bool, _messages: &mut Messages) -> Result<(), Error> {
    Err(Error::plain(
        "this tracemerge was built without tui, but tracemerge show prints the records; to build it with tui, run \
         in a checkout: cargo install --path tracemerge --features tui",
    ))
}

#[cfg(feature = "tui")]
pub(crate) use self::shown::tui;

#[cfg(feature = "tui")]
mod shown {
    use std::io;
    use std::path::Path;
    use std::time::Duration;

    use super::draw::draw;
    use super::state::Tui;
    use super::traces::Traces;
    use super::{Error, Job, Messages, can_be_shown};
    use crate::ui::screen::Screen;
    use crate::view::select::Amount;

    /// The time for which the program waits for a key if it has no other work.
    const WAIT: Duration = Duration::from_millis(100);

    /// Shows the traces of a job in the terminal, until the user ends it.
    ///
    /// # Errors
    /// There are no traces, or there is no terminal.
    pub(crate) fn tui(job: &Job, follow: bool, messages: &mut Messages) -> Result<(), Error> {
        let Job { apps, request, choice } = *job;
        if !can_be_shown() {
            return Err(Error::plain(
                "standard input and standard output must be a terminal; tracemerge show prints the records",
            ));
        }
        if request.output.is_some() || request.view.selection.amount != Amount::All {
            return Err(Error::plain("-o, --head and --last have no effect in the terminal view"));
        }
        let traces = Traces::open(apps, choice, request, messages)?;
        let tui = Tui::new(traces, request.view.color.is_now(true), follow);
        run(tui).map_err(|error| Error::io("use", Path::new("the terminal"), error))
    }

    fn run(mut tui: Tui) -> io::Result<()> {
        let mut screen = Screen::take()?;
        while !tui.has_ended {
            screen.check()?;
            tui.resize(screen.size()?);
            tui.work();
            if std::mem::take(&mut tui.is_redrawn) {
                screen.forget()?;
            }
            if let Some(text) = tui.copied.take() {
                screen.copy(&text)?;
            }
            // A terminal that shows nothing new gets no bytes.
            if std::mem::take(&mut tui.is_changed) {
                screen.draw(|frame| draw(frame, &tui))?;
            }
            let mut event = screen.next_event(if tui.is_busy() { Duration::ZERO } else { WAIT })?;
            while let Some(of) = event {
                tui.take(&of);
                event = screen.next_event(Duration::ZERO)?;
            }
        }
        Ok(())
    }
}
