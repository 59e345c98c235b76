//! The state of the terminal view, and what the commands do to it.

use std::time::{Duration, Instant};

use ratatui::crossterm::event::Event;
use regex::bytes::Regex;

use super::background::{Making, Summary};
use super::keys::{Ask, Command, Typed, command, typed};
use super::lines::{Lines, Step};
use super::pane::{KINDS, Kind, Pane};
use super::traces::{Place, Traces};
use crate::time::point_of_time::When;
use crate::ui::escaping::{escaped_line, without_marks};
use crate::ui::messages::Grouped;
use crate::ui::units::duration;
use crate::view::export::fields::{level, level_of_name};
use crate::view::export::time_column::TimeMode;
use crate::view::request::View;
use crate::view::select::compiled;
use crate::view::wanted_threads::ThreadSelector;

/// The time between two checks for new records.
const LOOK: Duration = Duration::from_millis(500);
/// The time for which pending work is done before the screen is drawn again and keys are read.
const WORK: Duration = Duration::from_millis(60);
/// The number of lines that a screen must have for each lane it shows: a larger screen shows more lanes.
const LANES: usize = 5;
/// The minimum number of lines of a screen that shows lanes.
const LEAST: usize = 12;
/// The ways to show times, in the order in which a key switches between them.
const TIMES: [TimeMode; 5] =
    [TimeMode::Offset, TimeMode::Delta, TimeMode::Wall, TimeMode::Utc, TimeMode::Ticks];
/// The number of columns at the left of the lanes for the labels of their threads.
pub(super) const LABEL: u16 = 20;

/// The input line while the user types it.
#[derive(Debug)]
pub(super) struct Typing {
    pub ask: Ask,
    pub text: String,
    /// The number of steps back in the history of typed lines; 0 stands for the line that the user is typing.
    back: usize,
}

/// The lanes of threads above the lines, and the summary from which they are drawn.
#[derive(Debug)]
pub(super) struct Overview {
    pub is_wanted: bool,
    /// Whether the summary still has to be made. It is made only after the lines are on the screen.
    is_due: bool,
    making: Option<Making>,
    pub summary: Option<Summary>,
}

/// The terminal view.
#[derive(Debug)]
pub(super) struct Tui {
    pub traces: Traces,
    pub lines: Lines,
    pub pane: Option<Pane>,
    pub is_help: bool,
    pub typing: Option<Typing>,
    typed_before: Vec<String>,
    /// The pattern of the last search, and whether the search went forward.
    pub pattern: Option<(Regex, bool)>,
    pub message: String,
    pub is_following: bool,
    next_look: Instant,
    pub overview: Overview,
    /// The number of columns by which the text is scrolled to the left.
    pub left: usize,
    size: (u16, u16),
    pub has_colours: bool,
    /// The filter for threads as the user has typed it: the parsed selectors do not keep this text.
    threads: Option<String>,
    percent: Option<(Place, u64)>,
    /// The text that the terminal has to copy to the clipboard.
    pub copied: Option<String>,
    pub is_redrawn: bool,
    /// Whether the screen may differ from the one that was drawn last.
    pub is_changed: bool,
    pub has_ended: bool,
}

impl Tui {
    /// Makes a terminal view that begins with the first line or, if new records are to be followed, with the last line.
    pub(super) fn new(traces: Traces, has_colours: bool, is_following: bool) -> Tui {
        let (first, end) = traces.ends();
        let lines = Lines::at(if is_following { end } else { first });
        let message = match (traces.has_rough_times(), traces.are_large()) {
            (true, _) => {
                "large trace: key o makes the lanes; last digits of times may differ from tracemerge show"
            }
            (false, true) => "large trace: key o makes the lanes",
            (false, false) => "",
        };
        let message = message.to_owned();
        let overview = Overview { is_wanted: !traces.are_large(), is_due: true, making: None, summary: None };
        Tui {
            traces,
            lines,
            pane: None,
            is_help: false,
            typing: None,
            typed_before: Vec::new(),
            pattern: None,
            message,
            is_following,
            next_look: Instant::now() + LOOK,
            overview,
            left: 0,
            size: (80, 24),
            has_colours,
            threads: None,
            percent: None,
            copied: None,
            is_redrawn: false,
            is_changed: true,
            has_ended: false,
        }
    }

    /// Sets the size of the screen.
    pub(super) fn resize(&mut self, size: (u16, u16)) {
        self.is_changed |= self.size != size;
        self.size = size;
        self.lines.resize(self.body());
        let body = self.body();
        if let Some(pane) = &mut self.pane {
            pane.keep_in_sight(body);
        }
    }

    /// Returns the number of lanes on the screen.
    pub(super) fn lanes(&self) -> usize {
        let height = usize::from(self.size.1);
        let lanes = self.overview.summary.as_ref().map_or(0, |summary| summary.threads.len());
        if self.overview.is_wanted && height >= LEAST { lanes.min(height / LANES) } else { 0 }
    }

    /// Returns the number of lines between the lanes and the last line of the screen.
    pub(super) fn body(&self) -> usize {
        let lanes = self.lanes();
        usize::from(self.size.1).saturating_sub(lanes + usize::from(lanes > 0) + 1).max(1)
    }

    /// Returns whether work is pending, so that the program should not wait for a key.
    pub(super) fn is_busy(&self) -> bool {
        self.lines.is_pending()
    }

    /// Performs a part of the pending work, and fetches the results of background threads.
    pub(super) fn work(&mut self) {
        if let Some(made) = self.overview.making.as_ref().and_then(Making::made) {
            self.is_changed = true;
            self.overview.making = None;
            self.overview.summary = made.ok().and_then(|json| Summary::of(&json));
            self.lines.resize(self.body());
        }
        if let Some(pane) = &mut self.pane {
            self.is_changed |= pane.take_made();
        }
        if self.is_following && Instant::now() >= self.next_look {
            self.next_look = Instant::now() + LOOK;
            match self.traces.reopen() {
                Ok(()) => self.lines.follow_to(self.traces.ends().1),
                Err(error) => self.stop_following(&error.to_string()),
            }
        }
        let begun = Instant::now();
        self.is_changed |= self.lines.is_pending();
        while self.lines.is_pending() && begun.elapsed() < WORK {
            match self.lines.step(&mut self.traces) {
                Ok(Step::NotFound) => {
                    let pattern = self.pattern.as_ref().map_or("", |(pattern, _)| pattern.as_str());
                    self.message = format!("not found: {pattern}");
                }
                Ok(_) => {}
                Err(error) => self.message = error.to_string(),
            }
        }
        // They take all processors, so the screen comes first.
        if self.overview.is_due && self.overview.is_wanted && !self.lines.is_pending() {
            self.overview.is_due = false;
            self.overview.making = Some(Making::begin(self.traces.job(), "summary", &["--json"]));
        }
        let place = self.lines.place();
        if let Some(place) = place.filter(|place| self.percent.is_none_or(|(of, _)| of != *place)) {
            self.percent = Some((place, self.traces.percent(place)));
        }
    }

    fn stop_following(&mut self, why: &str) {
        self.is_following = false;
        self.message = why.to_owned();
    }

    /// Executes the command that an event of the keyboard or the mouse gives; while the user types a line, changes that
    /// line instead.
    pub(super) fn take(&mut self, event: &Event) {
        self.is_changed = true;
        if self.typing.is_some() {
            if let Some(typed) = typed(event) {
                self.take_typed(typed);
            }
        } else if let Some(command) = command(event) {
            self.message.clear();
            self.obey(command);
        }
    }

    fn take_typed(&mut self, typed: Typed) {
        let Some(typing) = &mut self.typing else { return };
        match typed {
            Typed::Text(letter) => typing.text.push(letter),
            Typed::Erase if typing.text.is_empty() => self.typing = None,
            Typed::Erase => {
                typing.text.pop();
            }
            Typed::EraseAll => typing.text.clear(),
            Typed::Cancel => self.typing = None,
            Typed::Older | Typed::Newer => {
                let most = self.typed_before.len();
                let back =
                    if typed == Typed::Older { typing.back + 1 } else { typing.back.saturating_sub(1) };
                typing.back = back.min(most);
                let text = self.typed_before.get(most - typing.back).filter(|_| typing.back > 0);
                typing.text = text.cloned().unwrap_or_default();
            }
            Typed::Enter => {
                let Some(Typing { ask, text, .. }) = self.typing.take() else { return };
                if !text.is_empty() {
                    self.typed_before.push(text.clone());
                }
                if let Err(why) = self.answer(ask, &text) {
                    self.message = why;
                }
            }
        }
    }

    /// Executes the line `text` that the user has typed for the purpose `ask`, such as a search or a filter. Returns
    /// the reason as an error if the line cannot be used.
    fn answer(&mut self, ask: Ask, text: &str) -> Result<(), String> {
        let mut view = self.traces.view().clone();
        let when = || if text.is_empty() { Ok(None) } else { text.parse::<When>().map(Some) };
        match ask {
            Ask::Search { forward } => {
                match (text.is_empty(), &mut self.pattern) {
                    (true, Some((_, of))) => *of = forward,
                    (true, None) => return Err("nothing was searched before".to_owned()),
                    (false, pattern) => *pattern = Some((compiled(text)?, forward)),
                }
                self.search(true);
                return Ok(());
            }
            Ask::Time => {
                let Some(when) = when()? else { return Ok(()) };
                let place = self.traces.place_of(when)?;
                self.show_lines();
                self.lines.go_to(place);
                return Ok(());
            }
            Ask::Pattern => {
                view.selection.pattern = if text.is_empty() { None } else { Some(compiled(text)?) };
                view.selection.invert = false;
            }
            Ask::Thread => {
                let named = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                let selector = |name: &str| name.parse::<ThreadSelector>();
                view.thread = named.map(selector).collect::<Result<_, _>>().map_err(|_| String::new())?;
                let before = self.threads.replace(text.to_owned()).filter(|_| !text.is_empty());
                if text.is_empty() {
                    self.threads = None;
                }
                return self.select(view).inspect_err(|_| self.threads = before);
            }
            Ask::Level => {
                let wanted = if text.is_empty() { None } else { Some(level_of_name(text)?) };
                if wanted.is_some() && !self.traces.has_sites() {
                    return Err(
                        "text files and rings do not record levels; raw files do (TRACER_FORMAT=raw)".into(),
                    );
                }
                let mut sites = view.selection.sites.take().unwrap_or_default();
                sites.wanted.level = wanted;
                view.selection.sites = Some(sites).filter(|sites| !sites.wanted.is_all());
            }
            Ask::Since => view.since = when()?,
            Ask::Until => view.until = when()?,
        }
        self.select(view)
    }

    /// Shows only the records that `view` selects, and begins at the selected line.
    fn select(&mut self, view: View) -> Result<(), String> {
        self.traces.select(view).map_err(|error| error.to_string())?;
        self.lines.reload(self.traces.ends().0);
        self.percent = None;
        (self.overview.is_due, self.overview.making) = (true, None);
        if let Some(pane) = self.pane.take() {
            self.pane = Some(Pane::open(pane.kind, self.traces.job()));
        }
        Ok(())
    }

    fn show_lines(&mut self) {
        (self.pane, self.is_help) = (None, false);
    }

    fn search(&mut self, same: bool) {
        let Some((pattern, forward)) = self.pattern.clone() else {
            self.message = "nothing was searched before".to_owned();
            return;
        };
        let forward = forward == same;
        let body = self.body();
        match &mut self.pane {
            Some(pane) => {
                if pane.search(&pattern, forward) {
                    pane.keep_in_sight(body);
                } else {
                    self.message = format!("not found: {}", pattern.as_str());
                }
            }
            None => {
                self.is_following = false;
                self.lines.search(&pattern, forward);
            }
        }
    }

    /// Executes a command of the user.
    pub(super) fn obey(&mut self, command: Command) {
        let body = self.body() as i64;
        match command {
            Command::Quit if self.is_help => self.is_help = false,
            Command::Quit => self.has_ended = true,
            Command::Back if self.is_help => self.is_help = false,
            Command::Back if self.pane.is_some() => self.pane = None,
            Command::Back => {
                self.lines.stop();
                self.is_following = false;
            }
            Command::Help => self.is_help = !self.is_help,
            Command::Select(lines) => self.move_by(lines, false),
            Command::Scroll(lines) => self.move_by(lines, true),
            Command::HalfPages(pages) => self.move_by(pages * (body / 2).max(1), true),
            Command::First => self.go_to_end(false),
            Command::Last => self.go_to_end(true),
            Command::Shift(way) => {
                let step = usize::from(self.size.0 / 2);
                self.left =
                    if way > 0 { self.left.saturating_add(step) } else { self.left.saturating_sub(step) };
            }
            Command::Ask(ask) => self.typing = Some(Typing { ask, text: String::new(), back: 0 }),
            Command::Again { same } => self.search(same),
            Command::FromHere | Command::UntilHere => {
                let Some(place) = self.lines.place() else { return };
                let mut view = self.traces.view().clone();
                let when = Some(self.traces.when(place));
                if command == Command::FromHere {
                    view.since = when
                } else {
                    view.until = when
                }
                self.select_or_say(view);
            }
            Command::All => {
                let View { time, color, .. } = self.traces.view().clone();
                self.threads = None;
                self.select_or_say(View { time, color, ..View::default() });
            }
            Command::Follow => {
                self.show_lines();
                (self.is_following, self.next_look) = (true, Instant::now());
            }
            Command::Times => {
                let mut view = self.traces.view().clone();
                let at = TIMES.iter().position(|mode| *mode == view.time).map_or(0, |at| at + 1);
                view.time = TIMES[at % TIMES.len()];
                self.message = format!("times: {}", name_of(view.time));
                match self.traces.select(view) {
                    Ok(()) => self.lines.reload(self.traces.ends().0),
                    Err(error) => self.message = error.to_string(),
                }
            }
            Command::Copy => self.copy(),
            Command::Overview => {
                self.overview.is_wanted = !self.overview.is_wanted;
                self.lines.resize(self.body());
            }
            Command::View('1') => self.show_lines(),
            Command::View(key) => {
                if let Some(kind) = KINDS.iter().find(|kind| kind.key == key) {
                    self.open(kind);
                }
            }
            Command::NextView => {
                let at = self
                    .pane
                    .as_ref()
                    .map_or(0, |pane| 1 + KINDS.iter().take_while(|of| of.key != pane.kind.key).count());
                match KINDS.get(at) {
                    Some(kind) => self.open(kind),
                    None => self.show_lines(),
                }
            }
            Command::Fold(how) => match &mut self.pane {
                Some(pane) => pane.fold(how),
                None if how.is_none() => self.move_by(1, false),
                None => {}
            },
            Command::FoldAll => {
                let body = self.body();
                if let Some(pane) = &mut self.pane {
                    pane.fold_all();
                    pane.keep_in_sight(body);
                }
            }
            Command::Click { column, row } => self.click(column, usize::from(row)),
            Command::Redraw => self.is_redrawn = true,
        }
    }

    fn select_or_say(&mut self, view: View) {
        if let Err(why) = self.select(view) {
            self.message = why;
        }
    }

    fn open(&mut self, kind: &'static Kind) {
        (self.is_help, self.left) = (false, 0);
        self.pane = Some(Pane::open(kind, self.traces.job()));
    }

    fn move_by(&mut self, lines: i64, is_scroll: bool) {
        let body = self.body();
        self.is_following &= lines > 0;
        match &mut self.pane {
            Some(pane) => pane.select(lines, body),
            None if is_scroll => self.lines.scroll(lines),
            None => self.lines.select(lines),
        }
    }

    fn go_to_end(&mut self, last: bool) {
        if self.pane.is_some() {
            return self.move_by(if last { i64::MAX } else { i64::MIN }, false);
        }
        self.is_following = false;
        let (first, end) = self.traces.ends();
        self.lines.go_to(if last { end } else { first });
    }

    fn copy(&mut self) {
        let text = match (&self.pane, self.lines.selected) {
            (Some(pane), _) => pane.rows.get(pane.selected).cloned(),
            (None, Some(row)) => Some(self.lines.window.text(row).to_vec()),
            (None, None) => None,
        };
        if let Some(text) = text {
            self.copied = Some(escaped_line(&String::from_utf8_lossy(&without_marks(&text))));
            self.message = "copied".to_owned();
        }
    }

    fn click(&mut self, column: u16, row: usize) {
        let lanes = self.lanes();
        let body = self.body();
        if row < lanes {
            let width = u64::from(self.size.0.saturating_sub(LABEL + 2).max(1));
            let at = u64::from(column.saturating_sub(LABEL + 1)).min(width);
            let (_, (first, last)) = self.traces.steady(self.traces.ends().0);
            let ns = u128::from(last.saturating_sub(first)) * u128::from(at) / u128::from(width);
            if let Ok(place) = self.traces.place_of(When::AfterFirst(u64::try_from(ns).unwrap_or(u64::MAX))) {
                self.show_lines();
                self.is_following = false;
                self.lines.go_to(place);
            }
            return;
        }
        let row = row.saturating_sub(lanes + usize::from(lanes > 0));
        if row >= body {
            return;
        }
        match &mut self.pane {
            Some(pane) => {
                let clicked = pane.shown().get(pane.top + row).copied();
                let is_again = clicked == Some(pane.selected);
                pane.selected = clicked.unwrap_or(pane.selected);
                if is_again {
                    pane.fold(None);
                }
            }
            None => {
                self.is_following = false;
                self.lines.select_on_screen(row);
            }
        }
    }

    /// Returns a text that names the filters in use, for the last line of the screen.
    pub(super) fn filters(&self) -> String {
        let view = self.traces.view();
        let mut filters = Vec::new();
        if let Some(pattern) = &view.selection.pattern {
            filters.push(format!(
                "{}{}",
                if view.selection.invert { "not &" } else { "&" },
                pattern.as_str()
            ));
        }
        if !view.thread.is_empty() {
            filters.push(
                self.threads.as_ref().map_or_else(|| "--thread".to_owned(), |text| format!("T {text}")),
            );
        }
        if !view.process.is_empty() {
            filters.push("--process".to_owned());
        }
        if let Some(sites) = &view.selection.sites {
            let name = sites.wanted.level.and_then(level);
            filters.push(name.map_or_else(|| "--site".to_owned(), |name| format!("L {name}")));
        }
        if view.has_period() {
            filters.push("a period".to_owned());
        }
        filters.join("  ")
    }

    /// Returns a text with the position of the selected line in time and among the lines, for the last line of the
    /// screen.
    pub(super) fn position(&self) -> String {
        let Some((place, percent)) = self.percent else { return String::new() };
        let (time, (first, last)) = self.traces.steady(place);
        let (at, all) = (duration(time.saturating_sub(first)), duration(last.saturating_sub(first)));
        let following = if self.is_following { "following  " } else { "" };
        let (first, end) = self.traces.ends();
        let is_whole = self.lines.window.ends.0 <= first && self.lines.window.ends.1 >= end;
        let line = match self.lines.selected.filter(|_| is_whole).map(|row| self.lines.window.count(row)) {
            Some((before, all)) => format!("line {} of {}", Grouped(before as u64 + 1), Grouped(all as u64)),
            None => format!("{percent} %"),
        };
        format!("{following}{at} of {all}  {line}")
    }

    /// Returns a text that describes the work in progress; `None` if nothing is in progress.
    pub(super) fn doing(&self) -> Option<String> {
        let place = self.lines.searched()?;
        Some(format!("searching, at {} % (Esc ends it)", self.traces.percent(place)))
    }
}

fn name_of(mode: TimeMode) -> &'static str {
    match mode {
        TimeMode::Ticks => "ticks",
        TimeMode::Offset => "offset",
        TimeMode::Delta => "delta",
        TimeMode::Wall => "wall",
        TimeMode::Utc => "utc",
    }
}
