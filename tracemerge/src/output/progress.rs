//! The progress bar that a merge shows on standard error, if that is a terminal, while it works for long.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::target::Target;
use crate::ui::console::Stream;

/// The time after which a bar is shown. A merge that takes less time shows none.
const SHOW_AFTER: Duration = Duration::from_millis(700);
/// The number of merged bytes between two updates of the bar.
const STEP: u64 = 1 << 20;

/// A progress bar of a merge on standard error.
#[derive(Debug)]
pub(crate) struct MergeProgress {
    bar: ProgressBar,
    began: Instant,
    shown: bool,
    done: u64,
    /// The number of merged bytes at which the bar is updated next.
    next: u64,
}

impl MergeProgress {
    /// Returns whether a bar would be seen and would disturb no other output, if the merge writes to `target`. A bar
    /// would disturb output to a pipe, because the pipe's reader may use the same terminal.
    #[must_use]
    pub(crate) fn is_wanted(target: &Target) -> bool {
        !matches!(target, Target::Stdout) && Stream::Error.is_terminal()
    }

    /// Makes a bar for work on this number of `bytes`. The bar is hidden at first.
    #[must_use]
    pub(crate) fn new(bytes: u64) -> MergeProgress {
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::hidden());
        let template = "tracemerge: {percent:>3} % [{bar:30}] {bytes} of {total_bytes}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        MergeProgress { bar, began: Instant::now(), shown: false, done: 0, next: STEP }
    }

    /// Adds `bytes` to the number of merged bytes.
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
