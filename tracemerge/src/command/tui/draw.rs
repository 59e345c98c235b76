//! Draws the screen. All texts from traces are escaped, here or before, so that they cannot control the terminal.

use anstyle::{AnsiColor, Color as Ansi, Effects};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::keys::HELP;
use super::state::{LABEL, Tui};
use crate::ui::escaping::{escaped_line, styled_pieces};
use crate::ui::shorten::keep_end;

/// The spaces that are drawn in place of a tab character.
const TAB: &str = "    ";

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, tui: &Tui) {
    let area = frame.area();
    if area.height == 0 || area.width == 0 {
        return;
    }
    let row = |y: usize| Rect { y: u16::try_from(y).unwrap_or(u16::MAX), height: 1, ..area };
    let lanes = tui.lanes();
    for number in 0..lanes {
        frame.render_widget(lane(tui, number, area.width), row(number));
    }
    let mut top = lanes;
    if lanes > 0 {
        frame.render_widget(Line::from("─".repeat(area.width.into())).style(dim(tui)), row(lanes));
        top += 1;
    }
    for (number, line) in body(tui).into_iter().enumerate().take(tui.body()) {
        let at = row(top + number);
        if at.y + 1 < area.height.max(2) {
            frame.render_widget(line, at);
        }
    }
    let last = row(usize::from(area.height) - 1);
    frame.render_widget(Paragraph::new(status(tui, area.width)), last);
    if let Some(typing) = &tui.typing {
        let column = (typing.ask.prompt().chars().count() + typing.text.chars().count()) as u16;
        frame.set_cursor_position((column.min(area.width - 1), last.y));
    }
}

/// Returns the lines of the screen between the lanes of the threads, at the top, and the status line, at the bottom.
fn body(tui: &Tui) -> Vec<Line<'static>> {
    if tui.is_help {
        return HELP.lines().map(Line::from).collect();
    }
    if let Some(pane) = &tui.pane {
        let rows = pane.shown();
        let line = |row: &usize| {
            let sign = if pane.is_tree() { pane.sign(*row).unwrap_or(' ') } else { ' ' };
            let mut text = pane.rows[*row].clone();
            if pane.is_tree() {
                text.splice(0..0, [sign as u8, b' ']);
            }
            text_line(tui, &text, *row == pane.selected)
        };
        return rows.iter().skip(pane.top).take(tui.body()).map(line).collect();
    }
    let rows = tui.lines.shown();
    if rows.is_empty() && !tui.lines.is_pending() {
        return vec![Line::from("no record fits the filters (\\ removes them)")];
    }
    let selected = tui.lines.selected;
    let mut lines: Vec<_> =
        rows.iter().map(|row| text_line(tui, tui.lines.window.text(*row), Some(*row) == selected)).collect();
    // `vi` marks the lines after the end of a text in the same way.
    lines.resize(tui.body().max(lines.len()), Line::from("~").style(dim(tui)));
    lines
}

/// Returns a line of text with its styles, in which the matches of the search are highlighted.
fn text_line(tui: &Tui, text: &[u8], is_selected: bool) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut skipped = tui.left;
    for (style, piece) in styled_pieces(text) {
        let piece = piece.replace('\t', TAB);
        let length = piece.chars().count();
        let piece: String = piece.chars().skip(skipped).collect();
        skipped = skipped.saturating_sub(length);
        let style = if tui.has_colours { style_of(style) } else { Style::new() };
        match tui.pattern.as_ref() {
            Some((pattern, _)) => {
                let mut done = 0;
                for found in pattern.find_iter(piece.as_bytes()).filter(|found| !found.is_empty()) {
                    let (start, end) = (found.start(), found.end());
                    let (Some(before), Some(inside)) = (piece.get(done..start), piece.get(start..end)) else {
                        continue;
                    };
                    spans.push(Span::styled(before.to_owned(), style));
                    spans.push(Span::styled(
                        inside.to_owned(),
                        style.add_modifier(Modifier::UNDERLINED | Modifier::BOLD),
                    ));
                    done = end;
                }
                spans.push(Span::styled(piece.get(done..).unwrap_or_default().to_owned(), style));
            }
            None => spans.push(Span::styled(piece, style)),
        }
    }
    let line = Line::from(spans);
    if is_selected { line.style(Style::new().add_modifier(Modifier::REVERSED)) } else { line }
}

/// Returns the lane of a thread, stretched to the width of the screen; the time of the selected line is marked.
fn lane(tui: &Tui, number: usize, width: u16) -> Line<'static> {
    let Some(lane) = tui.overview.summary.as_ref().and_then(|of| of.threads.get(number)) else {
        return Line::default();
    };
    let label = escaped_line(&lane.thread);
    let label = format!("{:<1$}|", keep_end(&label, LABEL.into()), LABEL.into());
    let width = usize::from(width.saturating_sub(LABEL + 2));
    let cells: Vec<char> = lane.lane.chars().collect();
    let at = tui.lines.place().map(|place| {
        let (time, (first, last)) = tui.traces.steady(place);
        let (time, all) =
            (u128::from(time.saturating_sub(first)), u128::from(last.saturating_sub(first).max(1)));
        usize::try_from(time * width.saturating_sub(1) as u128 / all).unwrap_or(0)
    });
    let mut spans = vec![Span::raw(label)];
    for column in 0..width {
        let cell = cells.get(column * cells.len() / width.max(1)).copied().unwrap_or(' ');
        let mut style = if tui.has_colours { Style::new().fg(colour_of(cell)) } else { Style::new() };
        if at == Some(column) {
            style = style.add_modifier(Modifier::REVERSED);
        }
        spans.push(Span::styled(cell.to_string(), style));
    }
    spans.push(Span::raw("|"));
    Line::from(spans)
}

/// Returns the colour of one character of a thread's lane. The character shows what the thread did at that time.
fn colour_of(cell: char) -> Color {
    match cell {
        '#' | '+' => Color::Green,
        '-' => Color::Yellow,
        't' => Color::Magenta,
        'p' => Color::Red,
        _ => Color::Reset,
    }
}

fn status(tui: &Tui, width: u16) -> Line<'static> {
    if let Some(typing) = &tui.typing {
        return Line::from(format!("{}{}", typing.ask.prompt(), escaped_line(&typing.text)));
    }
    let title = tui.pane.as_ref().map_or("lines", |pane| pane.kind.title);
    let said = match (tui.doing(), tui.message.is_empty()) {
        (Some(doing), _) => doing,
        (None, false) => escaped_line(&tui.message),
        (None, true) => escaped_line(&tui.filters()),
    };
    let left = format!("{title}  {said}");
    let right = format!("{}  h: help", tui.position());
    let width = usize::from(width);
    let room = width.saturating_sub(right.chars().count() + 1);
    // A long message is worth more than the position.
    let text = if left.chars().count() > room { left } else { format!("{left:<room$} {right}") };
    Line::from(text).style(Style::new().add_modifier(Modifier::BOLD))
}

fn dim(tui: &Tui) -> Style {
    if tui.has_colours { Style::new().add_modifier(Modifier::DIM) } else { Style::new() }
}

/// Converts a style of `anstyle` to the same style of the drawing library.
fn style_of(style: anstyle::Style) -> Style {
    let mut same = Style::new();
    if let Some(Ansi::Ansi(colour)) = style.get_fg_color() {
        same = same.fg(match colour {
            AnsiColor::Black => Color::Black,
            AnsiColor::Red => Color::Red,
            AnsiColor::Green => Color::Green,
            AnsiColor::Yellow => Color::Yellow,
            AnsiColor::Blue => Color::Blue,
            AnsiColor::Magenta => Color::Magenta,
            AnsiColor::Cyan => Color::Cyan,
            AnsiColor::White => Color::Gray,
            AnsiColor::BrightBlack => Color::DarkGray,
            AnsiColor::BrightRed => Color::LightRed,
            AnsiColor::BrightGreen => Color::LightGreen,
            AnsiColor::BrightYellow => Color::LightYellow,
            AnsiColor::BrightBlue => Color::LightBlue,
            AnsiColor::BrightMagenta => Color::LightMagenta,
            AnsiColor::BrightCyan => Color::LightCyan,
            AnsiColor::BrightWhite => Color::White,
        });
    }
    if style.get_effects().contains(Effects::BOLD) {
        same = same.add_modifier(Modifier::BOLD);
    }
    if style.get_effects().contains(Effects::DIMMED) {
        same = same.add_modifier(Modifier::DIM);
    }
    same
}
