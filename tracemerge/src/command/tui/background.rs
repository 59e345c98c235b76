//! Views of all selected records. It takes a while to make such a view, so a background thread does it, with the code
//! of the view's subcommand.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use serde::Deserialize;

use crate::command::merge::{Job, text_of};
use crate::find::app::App;
use crate::find::choose::Choice;
use crate::ui::error::Error;
use crate::view::layout::VIEWS;
use crate::view::request::Request;

/// A view that a background thread is making.
#[derive(Debug)]
pub(super) struct Making(Receiver<Result<Vec<u8>, Error>>);

impl Making {
    /// Begins to make, in a background thread, the view called `name` of the records that the request selects.
    /// `options` are those of the view's subcommand.
    pub(super) fn begin(
        (apps, choice, mut request): (Vec<App>, Choice, Request),
        name: &str,
        options: &[&str],
    ) -> Making {
        let (sender, receiver) = channel();
        let view = VIEWS.iter().find(|view| view.name == name);
        match view.map(|view| view.with_options(options)) {
            Some(Ok(layout)) => {
                request.view.time = layout.default_time();
                request.layout = layout;
                // Nobody waits for the thread: the end of the process ends it.
                thread::spawn(move || sender.send(text_of(&Job { apps: &apps, request: &request, choice })));
            }
            _ => {
                let text = format!("there is no view '{name}' with these options: please report this defect");
                let _ = sender.send(Err(Error::plain(text)));
            }
        }
        Making(receiver)
    }

    /// Returns the text of the view, or the error; `None` if the view is not complete yet.
    pub(super) fn made(&self) -> Option<Result<Vec<u8>, Error>> {
        match self.0.try_recv() {
            Ok(made) => Some(made),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(Error::plain(
                "the view could not be made, because its thread ended early: please report this defect",
            ))),
        }
    }
}

/// The part of the output of `summary --json` that the overview and the list of open calls need.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Summary {
    pub threads: Vec<Lane>,
    pub open_calls: Vec<OpenCall>,
    pub open_waits: Vec<OpenWait>,
}

/// A lane: a row of the screen that shows the activity of one thread over time.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Lane {
    pub thread: String,
    pub lane: String,
}

/// A call that has not ended: its thread, its function, and its duration so far in nanoseconds.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct OpenCall {
    pub thread: String,
    pub function: String,
    pub ns: u64,
}

/// A wait that has not ended: its thread, what the thread waits for, and the duration so far in nanoseconds.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct OpenWait {
    pub thread: String,
    pub what: String,
    pub ns: u64,
}

impl Summary {
    /// Parses the output of `summary --json`; returns `None` if it is not valid.
    pub(super) fn of(json: &[u8]) -> Option<Summary> {
        serde_json::from_slice(json).ok()
    }
}
