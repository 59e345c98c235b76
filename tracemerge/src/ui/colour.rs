//! Colours on a terminal: the conditions for them, and the palette.

use anstyle::{AnsiColor, Color, Style};
use clap::ValueEnum;

use crate::os::environment::forbids_colours;
use crate::os::sys::shows_colours;

/// The condition for output in colours. The comments of the variants are the help.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColourMode {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl ColourMode {
    /// Returns whether output is written in colours. `to_terminal` states whether the output is shown on a terminal,
    /// with or without a pager.
    #[must_use]
    pub(crate) fn is_now(self, to_terminal: bool) -> bool {
        match self {
            ColourMode::Always => true,
            ColourMode::Never => false,
            ColourMode::Auto => to_terminal && !forbids_colours() && shows_colours(),
        }
    }
}

/// The styles of the parts of a line. A plain style adds nothing to the output.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Palette {
    /// The style of a line's time.
    pub time: Style,
    /// The style of a `#` line.
    pub meta: Style,
    /// The style of a `#` line that says that something is missing.
    pub warning: Style,
    /// The style of the text that matches the pattern of `--grep`.
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

/// All styles. A style mark inside text names a style by its index here; see [`crate::ui::escaping`].
const STYLES: [Style; 4 + THREADS.len()] = {
    let mut styles = [Style::new(); 4 + THREADS.len()];
    styles[1] = Style::new().dimmed();
    styles[2] = of_colour(AnsiColor::Red);
    styles[3] = of_colour(AnsiColor::Red).bold();
    let mut at = 0;
    while at < THREADS.len() {
        styles[4 + at] = of_colour(THREADS[at]);
        at += 1;
    }
    styles
};

const fn of_colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(Color::Ansi(colour)))
}

/// Returns the style with the index `number` in `STYLES`; `None` if there is none. Number 0 is the plain style, which
/// ends any other style.
#[must_use]
pub(crate) fn style_of(number: u8) -> Option<Style> {
    STYLES.get(usize::from(number)).copied()
}

/// Returns the index of a style in `STYLES`; 0, the plain style, if the style is not there.
#[must_use]
pub(crate) fn number_of(style: Style) -> u8 {
    let number = STYLES.iter().position(|known| *known == style);
    number.and_then(|number| u8::try_from(number).ok()).unwrap_or(0)
}

impl Palette {
    /// Returns the palette for a terminal with colours.
    #[must_use]
    pub(crate) fn colours() -> Palette {
        Palette { time: STYLES[1], meta: STYLES[1], warning: STYLES[2], found: STYLES[3], threads: &THREADS }
    }

    /// Returns the style for text about the thread with the id `tid`; consecutive ids have different styles.
    #[must_use]
    pub(crate) fn thread(&self, tid: u64) -> Style {
        let place = tid.checked_rem(self.threads.len() as u64).and_then(|n| usize::try_from(n).ok());
        let colour = place.and_then(|n| self.threads.get(n));
        colour.map_or(Style::new(), |&colour| of_colour(colour))
    }
}
