//! A bar on a terminal's stderr while long work is done.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::target::Target;

/// Shorter work shows none.
const PATIENCE: Duration = Duration::from_millis(700);
/// So many bytes are counted before the clock is looked at.
const STEP: u64 = 1 << 20;

/// A progress bar on stderr.
#[derive(Debug)]
pub struct MergeProgress {
    bar: ProgressBar,
    began: Instant,
    shown: bool,
    done: u64,
    /// How much is done when the bar is told.
    next: u64,
}

impl MergeProgress {
    /// Whether anybody would see it, and it would be in nobody's way: the reader of a pipe may have the same terminal.
    #[must_use]
    pub fn is_wanted(target: &Target) -> bool {
        !matches!(target, Target::Stdout) && io::stderr().is_terminal()
    }

    /// The work is to go over `bytes`.
    #[must_use]
    pub fn new(bytes: u64) -> MergeProgress {
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::hidden());
        let template = "tracemerge: {percent:>3} % [{bar:30}] {bytes} of {total_bytes}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        MergeProgress { bar, began: Instant::now(), shown: false, done: 0, next: STEP }
    }

    /// Adds bytes that are done.
    #[inline]
    pub fn add(&mut self, bytes: usize) {
        self.done += bytes as u64;
        if self.done >= self.next {
            self.tell();
        }
    }

    #[cold]
    fn tell(&mut self) {
        self.next = self.done + STEP;
        if !self.shown && self.began.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.shown = true;
        }
        self.bar.set_position(self.done);
    }
}

impl Drop for MergeProgress {
    fn drop(&mut self) {
        // Nothing of it stays on the screen.
        self.bar.finish_and_clear();
    }
}
