//! A text on a terminal that is redrawn in its place while its content changes.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::ui::console::Stream;

/// The least time between two drawings of the text.
const PAUSE: Duration = Duration::from_secs(1);

/// A text at the end of standard output, which is a terminal. The text disappears when this value is dropped.
#[derive(Debug)]
pub(crate) struct Redrawn {
    /// A bar of `indicatif` that consists only of its message, which may have several lines. Lines that do not fit on
    /// the terminal are left out.
    bar: ProgressBar,
    drawn: Option<Instant>,
}

impl Default for Redrawn {
    fn default() -> Redrawn {
        let bar = ProgressBar::with_draw_target(None, Stream::Output.draw_target());
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Redrawn { bar, drawn: None }
    }
}

impl Redrawn {
    /// Returns whether so much time has passed since the last drawing that the text is to be drawn again.
    #[must_use]
    pub(crate) fn is_due(&self) -> bool {
        self.drawn.is_none_or(|drawn| drawn.elapsed() >= PAUSE)
    }

    /// Draws `text` in place of the text that was drawn before.
    pub(crate) fn draw(&mut self, text: String) {
        self.bar.set_message(text);
        self.bar.tick();
        self.drawn = Some(Instant::now());
    }
}

impl Drop for Redrawn {
    fn drop(&mut self) {
        // Without this, the text would stay on the screen.
        self.bar.finish_and_clear();
    }
}
