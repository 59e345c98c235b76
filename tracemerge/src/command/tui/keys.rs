//! The meaning of keys and of the mouse: the same as in `less`, `lnav` and `vim`, where these programs agree.

use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind,
};

/// The purpose of a line that the user types, such as a search or a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Search { forward: bool },
    Time,
    Pattern,
    Thread,
    Level,
    Since,
    Until,
}

impl Ask {
    /// Returns the prompt before the line that the user types.
    pub(super) fn prompt(self) -> &'static str {
        match self {
            Ask::Search { forward: true } => "/",
            Ask::Search { forward: false } => "?",
            Ask::Time => "go to time: ",
            Ask::Pattern => "only messages that match: ",
            Ask::Thread => "only threads: ",
            Ask::Level => "only of this level or a more urgent one: ",
            Ask::Since => "from this time on: ",
            Ask::Until => "before this time: ",
        }
    }
}

/// A command that the user gives by a key or by the mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Quit,
    /// Closes the help or the view; if neither is open, ends a search and stops following new records.
    Back,
    Help,
    /// Moves the selection down by this number of lines, or up if the number is negative.
    Select(i64),
    /// Scrolls down by this number of lines, or up if the number is negative.
    Scroll(i64),
    /// Scrolls down by this number of half screens, or up if the number is negative.
    HalfPages(i64),
    First,
    Last,
    /// Scrolls the text sideways by half a screen: to show what is further right if the number is positive, further
    /// left if it is negative.
    Shift(i64),
    Ask(Ask),
    /// Repeats the last search, in its direction if `same` is true, otherwise in the opposite direction.
    Again {
        same: bool,
    },
    /// Hides the records before the selected line; `UntilHere` hides the selected line and the records after it.
    FromHere,
    UntilHere,
    /// Removes all filters.
    All,
    Follow,
    Times,
    Copy,
    Overview,
    /// Shows the view that this key opens; the key `1` shows the lines of the traces.
    View(char),
    NextView,
    /// Folds the selected row of a tree (true), unfolds it (false), or toggles it (`None`).
    Fold(Option<bool>),
    FoldAll,
    /// A click with the left mouse button on this cell of the screen.
    Click {
        column: u16,
        row: u16,
    },
    Redraw,
}

/// The effect of a key on the line that the user is typing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Text(char),
    Erase,
    EraseAll,
    Enter,
    Cancel,
    /// Replaces the typed line by the previous one of the history; `Newer` replaces it by the next one.
    Older,
    Newer,
}

/// The number of lines by which a step of the mouse wheel scrolls.
const WHEEL: i64 = 3;

/// The text of the help: the keys and their effects.
pub(super) const HELP: &str = "\
 j k  Down Up  Enter     one line further, back
 Space b  PgDn PgUp      one screen further, back
 d u  Ctrl-D Ctrl-U      half a screen further, back
 g G  Home End           the first line, the last line
 Left Right  < >         the text further left, right
 / ?                     search forward, backward (a regular expression)
 n N                     search again, in the other direction
 t :                     go to a time: 1.5s, -200ms, 14:43:52, ticks
 &                       only messages that match, as --grep
 T L                     only threads, only levels, as --thread, --level
 S U                     only from a time on, only before a time
 [ ]                     only from this line on, only before it
 \\                       no filters
 F                       follow: show new records as they arrive
 z                       times as offset, delta, wall, utc, ticks
 y                       copy the line (OSC 52)
 o                       the lanes above: shown or not
 1 2 3 4                 lines, calls, spans, what has not ended
 5 6 7 8  Tab            functions, locks, messages, summary; the next one
 Enter - + *             in calls: fold or unfold a row; all rows
 wheel, click            scroll, select a line; in a lane: go to that time
 h F1  Esc  q            this help; back; quit

 In the lanes: # in calls, + at times, - waiting, t waiting for the tracer,
 p preempted, . records outside of calls";

/// Returns the key of an event if the event is a pressed key, and not a released one.
fn pressed(event: &Event) -> Option<&KeyEvent> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => Some(key),
        _ => None,
    }
}

/// Returns the command that an event of the keyboard or the mouse gives; `None` if it gives none.
pub(super) fn command(event: &Event) -> Option<Command> {
    if let Event::Mouse(mouse) = event {
        return match mouse.kind {
            MouseEventKind::ScrollDown => Some(Command::Scroll(WHEEL)),
            MouseEventKind::ScrollUp => Some(Command::Scroll(-WHEEL)),
            MouseEventKind::Down(MouseButton::Left) => {
                Some(Command::Click { column: mouse.column, row: mouse.row })
            }
            _ => None,
        };
    }
    let key = pressed(event)?;
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char(letter) if control => match letter {
            'c' => Command::Quit,
            'd' => Command::HalfPages(1),
            'u' => Command::HalfPages(-1),
            'f' => Command::HalfPages(2),
            'b' => Command::HalfPages(-2),
            'e' | 'n' => Command::Select(1),
            'y' | 'p' => Command::Select(-1),
            'l' => Command::Redraw,
            _ => return None,
        },
        KeyCode::Char(letter) => match letter {
            'q' | 'Q' => Command::Quit,
            'h' | 'H' => Command::Help,
            'j' => Command::Select(1),
            'k' => Command::Select(-1),
            ' ' | 'f' => Command::HalfPages(2),
            'b' => Command::HalfPages(-2),
            'd' => Command::HalfPages(1),
            'u' => Command::HalfPages(-1),
            'g' => Command::First,
            'G' => Command::Last,
            '<' => Command::Shift(-1),
            '>' => Command::Shift(1),
            '/' => Command::Ask(Ask::Search { forward: true }),
            '?' => Command::Ask(Ask::Search { forward: false }),
            'n' => Command::Again { same: true },
            'N' => Command::Again { same: false },
            't' | ':' => Command::Ask(Ask::Time),
            '&' => Command::Ask(Ask::Pattern),
            'T' => Command::Ask(Ask::Thread),
            'L' => Command::Ask(Ask::Level),
            'S' => Command::Ask(Ask::Since),
            'U' => Command::Ask(Ask::Until),
            '[' => Command::FromHere,
            ']' => Command::UntilHere,
            '\\' => Command::All,
            'F' => Command::Follow,
            'z' => Command::Times,
            'y' => Command::Copy,
            'o' => Command::Overview,
            '1'..='8' => Command::View(letter),
            '-' => Command::Fold(Some(true)),
            '+' => Command::Fold(Some(false)),
            '*' => Command::FoldAll,
            'r' | 'R' => Command::Redraw,
            _ => return None,
        },
        KeyCode::F(1) => Command::Help,
        KeyCode::Esc => Command::Back,
        KeyCode::Enter => Command::Fold(None),
        KeyCode::Down => Command::Select(1),
        KeyCode::Up => Command::Select(-1),
        KeyCode::PageDown => Command::HalfPages(2),
        KeyCode::PageUp => Command::HalfPages(-2),
        KeyCode::Home => Command::First,
        KeyCode::End => Command::Last,
        KeyCode::Left => Command::Shift(-1),
        KeyCode::Right => Command::Shift(1),
        KeyCode::Tab => Command::NextView,
        _ => return None,
    })
}

/// Returns the effect of a keyboard event on the line that the user is typing.
pub(super) fn typed(event: &Event) -> Option<Typed> {
    let key = pressed(event)?;
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c' | 'g') if control => Typed::Cancel,
        KeyCode::Char('u') if control => Typed::EraseAll,
        KeyCode::Char('h') if control => Typed::Erase,
        KeyCode::Char(letter) if !control => Typed::Text(letter),
        KeyCode::Backspace => Typed::Erase,
        KeyCode::Enter => Typed::Enter,
        KeyCode::Esc => Typed::Cancel,
        KeyCode::Up => Typed::Older,
        KeyCode::Down => Typed::Newer,
        _ => return None,
    })
}
