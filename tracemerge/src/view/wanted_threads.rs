//! The wanted threads and processes, as the user names them.

use std::convert::Infallible;
use std::str::FromStr;

use globset::{Glob, GlobMatcher};

use crate::view::request::View;
use crate::view::thread_labels::Label;

/// A thread, as a user may name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedThread<'a> {
    /// The id of the thread's process, if it is known.
    pub pid: Option<u32>,
    /// The id of the thread.
    pub tid: u64,
    /// The names that the thread has had, in the operating system and in views.
    pub names: &'a [Vec<u8>],
    /// The label that views show for the thread.
    pub label: &'a Label,
}

impl View {
    /// Returns whether each thread that the user has named is among `threads`.
    #[must_use]
    pub(crate) fn has_each_of(&self, threads: &[NamedThread<'_>]) -> bool {
        let is_one = |wanted: &ThreadSelector, thread| wanted.is_label(thread) || wanted.is(thread);
        self.thread.iter().all(|wanted| threads.iter().any(|thread| is_one(wanted, thread)))
    }

    /// Returns for each thread whether it is shown.
    #[must_use]
    pub(crate) fn wants(&self, threads: &[NamedThread<'_>]) -> Vec<bool> {
        // A label selects only its own thread, even if it also is a pattern that matches other names.
        let is_label = |wanted: &ThreadSelector| threads.iter().any(|thread| wanted.is_label(thread));
        let are_labels: Vec<bool> = self.thread.iter().map(is_label).collect();
        let is_one = |thread: &NamedThread<'_>| {
            let of_selector = |(wanted, is_label): (&ThreadSelector, &bool)| {
                if *is_label { wanted.is_label(thread) } else { wanted.is(thread) }
            };
            self.thread.is_empty() || self.thread.iter().zip(&are_labels).any(of_selector)
        };
        let is_of_process = |thread: &NamedThread<'_>| {
            self.process.is_empty() || thread.pid.is_some_and(|pid| self.process.contains(&pid))
        };
        threads.iter().map(|thread| is_of_process(thread) && is_one(thread)).collect()
    }
}

/// One or several wanted threads, given by a text of the user.
#[derive(Clone, Debug)]
pub(crate) struct ThreadSelector {
    text: String,
    /// The wanted thread's id, if the user's text is a number.
    id: Option<u64>,
    /// The user's text as a pattern for names, or the reason why it is no valid pattern.
    pattern: Result<GlobMatcher, String>,
}

impl FromStr for ThreadSelector {
    type Err = Infallible;

    /// Makes a selector from the user's text, which is a thread id, a label, or a pattern for thread names. Which of
    /// the three it is depends on the threads in the traces.
    fn from_str(text: &str) -> Result<ThreadSelector, Infallible> {
        let pattern = Glob::new(text).map(|glob| glob.compile_matcher()).map_err(|error| error.to_string());
        Ok(ThreadSelector { text: text.to_owned(), id: text.parse().ok(), pattern })
    }
}

impl ThreadSelector {
    /// Returns the wanted thread's id, if the user's text is a number.
    #[must_use]
    pub(crate) fn id(&self) -> Option<u64> {
        self.id
    }

    /// Returns the reason why the user's text is no valid pattern, so that it can only be a label; `None` if it is a
    /// valid pattern.
    #[must_use]
    pub(crate) fn no_pattern(&self) -> Option<&str> {
        self.pattern.as_ref().err().map(String::as_str)
    }

    fn is_label(&self, thread: &NamedThread<'_>) -> bool {
        self.text == thread.label.full()
    }

    /// Returns whether the text selects a thread by its id, by its label within the process, by one of its names or by
    /// a pattern. Must not be called if the text is the full label of any thread.
    fn is(&self, thread: &NamedThread<'_>) -> bool {
        if self.id.is_some() {
            return self.id == Some(thread.tid);
        }
        let fits = |glob: &GlobMatcher, name: &[u8]| glob.is_match(&*String::from_utf8_lossy(name));
        let has_name = |glob: &GlobMatcher| thread.names.iter().any(|name| fits(glob, name));
        // Views show the process before an earlier name, too.
        let own = self.text.strip_prefix(thread.label.process_prefix());
        let is_name = own.is_some_and(|own| thread.names.iter().any(|name| name == own.as_bytes()));
        self.text == thread.label.within_process() || is_name || self.pattern.as_ref().is_ok_and(has_name)
    }
}
