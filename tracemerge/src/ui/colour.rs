//! Colours on a terminal: when they are used, and which.

use std::env;
use std::io::{self, IsTerminal};

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;

/// ColourMode output is in colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
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
    /// Whether that is now. `to_terminal` says that the output is shown on a terminal, by a pager or without.
    #[must_use]
    pub fn is_now(self, to_terminal: bool) -> bool {
        match self {
            ColourMode::Always => true,
            ColourMode::Never => false,
            // https://no-color.org: any value but the empty one.
            ColourMode::Auto => {
                to_terminal
                    && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                    && env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        }
    }
}

/// Whether standard output is a terminal.
#[must_use]
pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// The styles of a line's parts. A plain one writes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Palette {
    /// The time.
    pub time: Style,
    /// A `#` line.
    pub meta: Style,
    /// A `#` line that says that something is missing.
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
    /// The colours.
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

    /// The style of a thread's id; threads one after the other differ.
    #[must_use]
    pub fn thread(&self, tid: u64) -> Style {
        let place = tid.checked_rem(self.threads.len() as u64).and_then(|n| usize::try_from(n).ok());
        let colour = place.and_then(|n| self.threads.get(n));
        Style::new().fg_color(colour.map(|&colour| colour.into()))
    }
}
