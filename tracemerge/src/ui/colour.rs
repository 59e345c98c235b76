//! Colours on a terminal: when they are used, and which.

use std::io::{self, IsTerminal};

use anstyle::{AnsiColor, Style};

use crate::os::environment::forbids_colours;
use crate::os::sys::shows_colours;

/// When output is in colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourMode {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl ColourMode {
    /// Returns whether output is in colours now. `to_terminal` says that it is shown on a terminal, by a
    /// pager or without.
    #[must_use]
    pub fn is_now(self, to_terminal: bool) -> bool {
        match self {
            ColourMode::Always => true,
            ColourMode::Never => false,
            ColourMode::Auto => to_terminal && !forbids_colours() && shows_colours(),
        }
    }
}

/// Returns whether standard output is a terminal.
#[must_use]
pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// The styles of a line's parts. A plain style writes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Palette {
    /// The style of the time.
    pub time: Style,
    /// The style of a `#` line.
    pub meta: Style,
    /// The style of a `#` line that says that something is missing.
    pub warning: Style,
    /// The style of what `--grep` has found.
    pub found: Style,
    threads: &'static [AnsiColor],
}

const THREADS: [AnsiColor; 10] = [
    AnsiColor::Cyan,
    AnsiColor::Green,
    AnsiColor::Yellow,
    AnsiColor::Magenta,
    AnsiColor::Blue,
    AnsiColor::BrightCyan,
    AnsiColor::BrightGreen,
    AnsiColor::BrightYellow,
    AnsiColor::BrightMagenta,
    AnsiColor::BrightBlue,
];

impl Palette {
    /// Returns the palette for a terminal with colours.
    #[must_use]
    pub fn colours() -> Palette {
        let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
        Palette {
            time: Style::new().dimmed(),
            meta: Style::new().dimmed(),
            warning: colour(AnsiColor::Red),
            found: colour(AnsiColor::Red).bold(),
            threads: &THREADS,
        }
    }

    /// Returns the style of a thread's id; consecutive ids have different styles.
    #[must_use]
    pub fn thread(&self, tid: u64) -> Style {
        let place = tid.checked_rem(self.threads.len() as u64).and_then(|n| usize::try_from(n).ok());
        let colour = place.and_then(|n| self.threads.get(n));
        Style::new().fg_color(colour.map(|&colour| colour.into()))
    }
}
