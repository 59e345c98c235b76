//! Tests of the screen's content.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseEvent, MouseEventKind};
use tempfile::TempDir;
use trace_format::escape::{EscapeContext, escape_into};
use trace_format::line::{Key, Kind, Line, Ticks};
use trace_format::meta::{ClockKind, Meta, RingPlace, Run, Thread};
use trace_format::wall::Wall;

use super::draw::draw;
use super::pane::{KINDS, Pane};
use super::state::Tui;
use super::traces::{Place, Traces};
use crate::find::app::App;
use crate::find::choose::Choice;
use crate::ui::messages::Messages;
use crate::view::export::show::ShowLayout;
use crate::view::request::{Request, View};

const APP: &str = "app-of-the-terminal-view";
/// The number of ticks of a line, which are nanoseconds here.
const STEP: u64 = 10;

/// Text that controls a terminal.
const HOSTILE: &str = "\u{1b}]2;TITLE\u{7}\u{1b}[35;7mFORGED\u{1b}[2J\u{202e}";

fn line(ticks: u64, tid: u64, kind: Kind, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Line { key: Key { ticks: Ticks(ticks), tid }, kind, payload }.write(&mut out);
    out
}

fn meta(ticks: u64, tid: u64, meta: &Meta) -> Vec<u8> {
    let mut payload = Vec::new();
    meta.write(&mut payload);
    line(ticks, tid, Kind::Meta, &payload)
}

/// Makes the files of threads, which have `lines` in turn: `line 0`, `line 1` and so on.
fn traces_of(threads: &[&str], lines: u64) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let run = Run {
        version: trace_format::VERSION,
        id: 16,
        root: 16,
        pid: 1,
        exe: b"/nowhere/app".to_vec(),
        boot: b"6c1e".to_vec(),
        ticks: Ticks(1),
        wall: Wall(1_795_187_462_000_000_000),
        clock: ClockKind::Ordered,
    };
    for (number, name) in threads.iter().enumerate() {
        let tid = 9 + number as u64;
        let thread =
            Thread { name: name.as_bytes().to_vec(), ring: RingPlace::Shared, why: Vec::new(), file: None };
        let mut file = [meta(1, tid, &Meta::Run(run.clone())), meta(1, tid, &Meta::Thread(thread))].concat();
        let own = (0..lines).filter(|line| line % threads.len() as u64 == number as u64);
        own.for_each(|of| {
            file.extend(line(STEP * (of + 1), tid, Kind::Message, format!("line {of}").as_bytes()))
        });
        fs::write(place.path().join(format!("{APP}.trace.{tid}")), file).unwrap();
    }
    place
}

struct Shown {
    tui: Tui,
    terminal: Terminal<TestBackend>,
    _place: TempDir,
}

impl Shown {
    fn of(place: TempDir, size: (u16, u16)) -> Shown {
        let app = App::new(place.path().join(APP)).unwrap();
        let request = Request { layout: Arc::new(ShowLayout::default()), ..Request::default() };
        let view = View { time: request.layout.default_time(), ..View::default() };
        let request = Request { view, ..request };
        let traces = Traces::open(&[app], Choice::Newest, &request, &mut Messages::silent()).unwrap();
        let mut tui = Tui::new(traces, false, false);
        // The lanes come some time later.
        tui.overview.is_wanted = false;
        let mut shown =
            Shown { tui, terminal: Terminal::new(TestBackend::new(size.0, size.1)).unwrap(), _place: place };
        shown.rest();
        shown
    }

    /// Performs all pending work, and draws the screen.
    fn rest(&mut self) {
        let size = self.terminal.backend().buffer().area;
        self.tui.resize((size.width, size.height));
        loop {
            self.tui.work();
            if !self.tui.is_busy() {
                break;
            }
        }
        self.terminal.draw(|frame| draw(frame, &self.tui)).unwrap();
    }

    fn press(&mut self, keys: &[KeyCode]) {
        for key in keys {
            self.tui.take(&Event::Key(KeyEvent::new(*key, KeyModifiers::NONE)));
            self.rest();
        }
    }

    /// Types each letter; a line feed is the key Enter.
    fn keys(&mut self, text: &str) {
        let key = |letter| if letter == '\n' { KeyCode::Enter } else { KeyCode::Char(letter) };
        self.press(&text.chars().map(key).collect::<Vec<_>>());
    }

    fn screen(&self) -> Vec<String> {
        let buffer = self.terminal.backend().buffer();
        let cells = |y| (0..buffer.area.width).map(move |x| buffer[(x, y)].symbol().to_owned());
        (0..buffer.area.height).map(|y| cells(y).collect::<String>().trim_end().to_owned()).collect()
    }

    /// Returns the numbers of the shown lines, without the last line of the screen.
    fn numbers(&self) -> Vec<u64> {
        let screen = self.screen();
        let rows = screen[..screen.len() - 1].iter().filter_map(|row| row.rsplit_once("line "));
        rows.map(|(_, number)| number.parse().unwrap()).collect()
    }

    fn selected(&self) -> String {
        let row = self.tui.lines.selected.unwrap();
        let text = crate::ui::escaping::without_marks(self.tui.lines.window.text(row)).into_owned();
        String::from_utf8(text).unwrap()
    }
}

#[test]
fn each_line_is_shown_once_and_in_order_in_both_directions() {
    let mut shown = Shown::of(traces_of(&["one", "two", "three"], 1000), (80, 24));
    let mut all = shown.numbers();
    assert_eq!(all, (0..23).collect::<Vec<_>>());
    while shown.numbers().last() != Some(&999) {
        let before = shown.numbers();
        shown.press(&[KeyCode::PageDown]);
        let now = shown.numbers();
        assert_ne!(now, before);
        all.extend(now.iter().filter(|number| !before.contains(number)));
    }
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
    while shown.numbers().first() != Some(&0) {
        let before = shown.numbers();
        shown.press(&[KeyCode::PageUp]);
        let now: Vec<u64> = shown.numbers();
        assert!(now.windows(2).all(|two| two[0] + 1 == two[1]) && now[0] < before[0], "{now:?}");
        assert!(now.last().unwrap() + 1 >= before[0], "{before:?} {now:?}");
    }
    shown.keys("G");
    assert_eq!(shown.numbers(), (977..1000).collect::<Vec<_>>());
    shown.keys("g");
    assert_eq!(shown.numbers(), (0..23).collect::<Vec<_>>());
    // As `show` writes the line.
    assert!(shown.screen()[1].starts_with("     0.000000019  two    line 1"), "{:#?}", shown.screen());
}

#[test]
fn a_search_finds_the_next_line_before_or_behind() {
    let mut shown = Shown::of(traces_of(&["one", "two"], 1000), (80, 24));
    shown.keys("/line 7.7$\n");
    assert!(shown.selected().ends_with("line 707"));
    assert!(shown.numbers().contains(&707));
    shown.keys("n");
    assert!(shown.selected().ends_with("line 717"));
    shown.keys("N");
    shown.keys("?line 12$\n");
    assert!(shown.selected().ends_with("line 12"), "{}", shown.selected());
    shown.keys("/nowhere\n");
    assert!(shown.screen()[23].contains("not found: nowhere"), "{:?}", shown.screen()[23]);
    assert!(shown.selected().ends_with("line 12"));
    shown.keys("/(\n");
    assert!(shown.screen()[23].contains("regex parse error"), "{:?}", shown.screen()[23]);
}

#[test]
fn filters_and_times_take_what_the_options_of_show_take() {
    let mut shown = Shown::of(traces_of(&["one", "two"], 1000), (80, 24));
    shown.keys("&[05]$\n");
    assert_eq!(shown.numbers(), (0..23).map(|number| number * 5).collect::<Vec<_>>());
    shown.keys("Ttwo\n");
    assert_eq!(shown.numbers(), (0..23).map(|number| number * 10 + 5).collect::<Vec<_>>());
    shown.keys("G");
    assert_eq!(shown.numbers().last(), Some(&995));
    shown.keys("Tnobody\n");
    assert!(shown.screen()[23].contains("no thread or process fits"), "{:?}", shown.screen()[23]);
    assert_eq!(shown.numbers().last(), Some(&995));
    shown.keys("\\g");
    assert_eq!(shown.numbers()[..3], [0, 1, 2]);
    shown.keys("t@5010\n");
    assert_eq!(shown.numbers()[0], 500);
    shown.keys("]G");
    assert_eq!(shown.numbers().last(), Some(&499));
    shown.keys("&nothing\n");
    assert!(shown.screen()[0].contains("no record fits"), "{:?}", shown.screen());
}

#[test]
fn a_screen_may_change_its_size_and_be_tiny() {
    for size in [(200, 60), (80, 24), (20, 3), (5, 1), (1, 1)] {
        let mut shown = Shown::of(traces_of(&["one"], 100), size);
        for key in ["G", "g", "/line 50\n", "h", "h", "2", "1", ">", "<", "z", "y", "o"] {
            shown.keys(key);
        }
        shown.terminal.backend_mut().resize(80, 24);
        shown.rest();
        assert!(shown.numbers().contains(&50), "{size:?}: {:#?}", shown.screen());
    }
}

#[test]
fn the_mouse_scrolls_and_selects() {
    let mut shown = Shown::of(traces_of(&["one"], 100), (80, 24));
    let mouse = |kind| Event::Mouse(MouseEvent { kind, column: 30, row: 4, modifiers: KeyModifiers::NONE });
    shown.tui.take(&mouse(MouseEventKind::ScrollDown));
    shown.rest();
    assert_eq!(shown.numbers()[0], 3);
    shown.tui.take(&mouse(MouseEventKind::Down(ratatui::crossterm::event::MouseButton::Left)));
    shown.rest();
    assert!(shown.selected().ends_with("line 7"));
    shown.keys("y");
    assert!(shown.tui.copied.as_ref().unwrap().ends_with("one  line 7"));
}

#[test]
fn hostile_names_and_messages_are_escaped() {
    let place = traces_of(&[&format!("a{HOSTILE}")], 1);
    let path = place.path().join(format!("{APP}.trace.9"));
    let mut file = fs::read(&path).unwrap();
    let mut message = Vec::new();
    escape_into(&mut message, HOSTILE.as_bytes(), EscapeContext::Line);
    file.extend(line(500, 9, Kind::Message, &message));
    fs::write(path, file).unwrap();
    let mut shown = Shown::of(place, (160, 24));
    let check = |shown: &Shown| {
        let screen = shown.screen().concat();
        assert!(screen.chars().all(|of| !of.is_control() && of != '\u{202e}'), "{screen:?}");
    };
    check(&shown);
    assert!(shown.screen().concat().contains("FORGED"));
    shown.keys(&format!("/{HOSTILE}\n"));
    check(&shown);
    shown.keys("y");
    assert!(!shown.tui.copied.as_ref().unwrap().contains('\u{1b}'));
    let began = Instant::now();
    shown.tui.overview.is_wanted = true;
    while shown.tui.lanes() == 0 && began.elapsed() < Duration::from_secs(60) {
        shown.rest();
    }
    check(&shown);
    assert_eq!(shown.tui.lanes(), 1);
}

#[test]
fn rows_of_calls_are_folded() {
    let place = traces_of(&["one"], 1);
    let shown = Shown::of(place, (80, 24));
    let mut pane = Pane::open(&KINDS[0], shown.tui.traces.job());
    pane.set(
        b"9 calls\n  calls  function\n      1  a\n      2    b\n      3      c\n      4    d\n      5  e\n",
    );
    assert_eq!(pane.shown(), [0, 1, 2, 3, 4, 5, 6]);
    pane.selected = 3;
    pane.fold(None);
    assert_eq!(pane.shown(), [0, 1, 2, 3, 5, 6]);
    pane.selected = 2;
    pane.fold(Some(true));
    assert_eq!(pane.shown(), [0, 1, 2, 6]);
    assert_eq!((pane.sign(2), pane.sign(6)), (Some('+'), None));
    // A search unfolds what hides the found row.
    assert!(pane.search(&regex::bytes::Regex::new("c$").unwrap(), true));
    assert_eq!((pane.selected, pane.shown()), (4, vec![0, 1, 2, 3, 4, 5, 6]));
    pane.fold_all();
    assert_eq!(pane.shown(), [0, 1, 2, 6]);
}

#[test]
fn parts_border_on_each_other_and_cover_everything() {
    let shown = Shown::of(traces_of(&["one", "two"], 1000), (80, 24));
    let traces = &shown.tui.traces;
    let (first, end) = traces.ends();
    let (mut place, mut behind) = (first, Vec::new());
    while let Some((boot, period)) = traces.behind(place) {
        assert_eq!(period.start, place.ticks);
        place = Place { boot, ticks: period.end };
        behind.push(period);
    }
    assert_eq!(place, end);
    assert!(behind.len() > 10, "{behind:?}");
    let mut before = 0;
    while let Some((boot, period)) = traces.before(place) {
        assert_eq!(period.end, place.ticks);
        place = Place { boot, ticks: period.start };
        before += 1;
    }
    assert!(place == first && before > 10, "{place:?} {before}");
}
