//! The progress bar that a merge shows on a terminal's stderr while it works for long.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::target::Target;
use crate::ui::console::Stream;

/// The time after which a bar is shown. Shorter work shows none.
const SHOW_AFTER: Duration = Duration::from_millis(700);
/// The number of bytes that are counted before the bar is updated.
const STEP: u64 = 1 << 20;

/// A progress bar on stderr.
#[derive(Debug)]
pub(crate) struct MergeProgress {
    bar: ProgressBar,
    began: Instant,
    shown: bool,
    done: u64,
    /// The number of bytes at which the bar is updated next.
    next: u64,
}

impl MergeProgress {
    /// Returns whether a user would see a bar, and the bar would disturb no other output. The reader of a pipe may
    /// use the same terminal, so output to a pipe has no bar.
    #[must_use]
    pub(crate) fn is_wanted(target: &Target) -> bool {
        !matches!(target, Target::Stdout) && Stream::Error.is_terminal()
    }

    /// Makes a bar, hidden at first, for work on this number of `bytes`.
    #[must_use]
    pub(crate) fn new(bytes: u64) -> MergeProgress {
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::hidden());
        let template = "tracemerge: {percent:>3} % [{bar:30}] {bytes} of {total_bytes}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        MergeProgress { bar, began: Instant::now(), shown: false, done: 0, next: STEP }
    }

    /// Adds a number of `bytes` that are done.
    #[inline]
    pub(crate) fn add(&mut self, bytes: usize) {
        self.done += bytes as u64;
        if self.done >= self.next {
            self.update();
        }
    }

    #[cold]
    fn update(&mut self) {
        self.next = self.done + STEP;
        if !self.shown && self.began.elapsed() > SHOW_AFTER {
            self.bar.set_draw_target(Stream::Error.draw_target());
            self.shown = true;
        }
        self.bar.set_position(self.done);
    }
}

impl Drop for MergeProgress {
    fn drop(&mut self) {
        // Without this, the bar would stay on the screen.
        self.bar.finish_and_clear();
    }
}
