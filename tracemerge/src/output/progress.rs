//! A bar on a terminal's stderr while long work is done.

use std::io::{self, IoSlice, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::sink::Sink;
use crate::output::target::Target;

/// Shorter work shows none.
const PATIENCE: Duration = Duration::from_millis(700);
/// So many bytes are counted before the clock is looked at.
const STEP: u64 = 1 << 20;

/// A progress bar on stderr.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    began: Instant,
    shown: bool,
    done: u64,
    /// How much is done when the bar is told.
    next: u64,
}

impl Progress {
    /// Whether anybody would see it, and it would be in nobody's way: the reader of a pipe may have the same terminal.
    #[must_use]
    pub fn is_wanted(target: &Target) -> bool {
        !matches!(target, Target::Stdout) && io::stderr().is_terminal()
    }

    /// The work is to go over `bytes`.
    #[must_use]
    pub fn new(bytes: u64) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::hidden());
        let template = "tracemerge: {percent:>3} % [{bar:30}] {bytes} of {total_bytes}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress { bar, began: Instant::now(), shown: false, done: 0, next: STEP }
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

impl Drop for Progress {
    fn drop(&mut self) {
        // Nothing of it stays on the screen.
        self.bar.finish_and_clear();
    }
}

/// Bytes on their way to `out`, counted.
#[derive(Debug)]
pub struct Metered<'a, W> {
    /// The writer that takes the bytes.
    pub out: &'a mut W,
    /// The progress bar, if there is one.
    pub progress: Option<Progress>,
}

impl<W> Metered<'_, W> {
    fn count(&mut self, written: usize) {
        if let Some(progress) = &mut self.progress {
            progress.add(written);
        }
    }
}

impl<W: Write> Write for Metered<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.count(written);
        Ok(written)
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.count(bytes.len());
        Ok(())
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let written = self.out.write_vectored(parts)?;
        self.count(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Lines on their way to `sink`, counted.
#[derive(Debug)]
pub struct Counted<'a, S> {
    /// The sink that takes the lines.
    pub sink: &'a mut S,
    /// The progress bar, if there is one.
    pub progress: Option<&'a mut Progress>,
}

impl<S: Sink> Sink for Counted<'_, S> {
    #[inline]
    fn lines(&mut self, source: usize, lines: &[u8]) -> io::Result<()> {
        if let Some(progress) = &mut self.progress {
            progress.add(lines.len());
        }
        self.sink.lines(source, lines)
    }
}
