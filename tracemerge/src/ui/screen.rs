//! The terminal as a screen: this process draws the whole screen, and gets the events of keys and the mouse. The
//! terminal is given back in its former state when this process ends, also after an error, at a signal and at a panic.
//!
//! Text must be [escaped](crate::ui::escaping) before it is drawn.
#![allow(clippy::disallowed_methods, reason = "the terminal of the screen")]

use std::io::{self, BufWriter, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{ReentrantMutex, ReentrantMutexGuard, const_reentrant_mutex};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture, Event};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size as terminal_size,
};
use ratatui::crossterm::{cursor, queue};
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};

use crate::os::sys::standard_output;
use crate::os::unfinished::give_back_terminal_by;
use crate::ui::base64::put_base64;
use crate::ui::console::Stream;

/// The number of columns and of lines that is assumed if the terminal does not know its size.
const SIZE: (u16, u16) = (80, 24);

/// Whether this process has taken the terminal as a screen and not yet given it back.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether a thread of this process has panicked while the terminal was taken.
static HAS_PANICKED: AtomicBool = AtomicBool::new(false);

/// The lock that a thread holds while it draws the screen, and while it restores the terminal after a panic and writes
/// the panic's message. It is reentrant, because a thread may panic while it draws.
static DRAWING: ReentrantMutex<()> = const_reentrant_mutex(());

/// Returns whether this process can take the terminal: it reads keys from one, and writes to one.
#[must_use]
pub(crate) fn can_be_taken() -> bool {
    io::stdin().is_terminal() && Stream::Output.is_terminal()
}

/// Restores the terminal to its state before [`Screen::take`], if this process has taken it.
pub(crate) fn give_back() {
    if !IS_TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    // The process is about to end anyway, so nothing could be done about errors.
    if let Ok(mut out) = standard_output() {
        let _ = queue!(out, DisableMouseCapture, cursor::Show, LeaveAlternateScreen);
        let _ = out.flush();
    }
    let _ = disable_raw_mode();
}

/// Restores the terminal before the message of a panic, if this process has taken the terminal. While the returned
/// guard exists, no other thread draws; afterwards no thread draws at all.
pub(crate) fn give_back_at_panic() -> ReentrantMutexGuard<'static, ()> {
    let drawing = DRAWING.lock();
    HAS_PANICKED.fetch_or(IS_TAKEN.load(Ordering::SeqCst), Ordering::SeqCst);
    give_back();
    drawing
}

/// The terminal, which this process has taken as a screen. It is given back when this value is dropped.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Box<dyn Write>>>>,
    size: (u16, u16),
}

/// Returns the number of columns and of lines of the terminal.
fn size() -> (u16, u16) {
    terminal_size().ok().filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or(SIZE)
}

fn area((width, height): (u16, u16)) -> Rect {
    Rect { x: 0, y: 0, width, height }
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Screen")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

impl Screen {
    /// Takes the terminal as a screen: keys and the mouse go to this process, and the earlier text is hidden.
    ///
    /// # Errors
    /// There is no terminal, or the terminal does not accept the settings.
    pub(crate) fn take() -> io::Result<Screen> {
        let out: Box<dyn Write> = Box::new(standard_output()?);
        let mut out = BufWriter::with_capacity(1 << 16, out);
        give_back_terminal_by(give_back);
        enable_raw_mode()?;
        IS_TAKEN.store(true, Ordering::SeqCst);
        let began = queue!(out, EnterAlternateScreen, EnableMouseCapture).and_then(|()| out.flush());
        let size = size();
        let options = TerminalOptions { viewport: Viewport::Fixed(area(size)) };
        let terminal = began.and_then(|()| Terminal::with_options(CrosstermBackend::new(out), options));
        terminal.map(|terminal| Screen { terminal, size }).inspect_err(|_| give_back())
    }

    /// Checks that the terminal is still a screen. It is none any more after a thread has panicked.
    ///
    /// # Errors
    /// A thread has panicked, and its message is written.
    pub(crate) fn check(&self) -> io::Result<()> {
        let _drawing = DRAWING.lock();
        if HAS_PANICKED.load(Ordering::SeqCst) {
            Err(io::Error::other("it was given back because of the defect above"))
        } else {
            Ok(())
        }
    }

    /// Returns the number of columns and of lines of the terminal now, and adapts the screen to them.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn size(&mut self) -> io::Result<(u16, u16)> {
        let size = size();
        if size != self.size {
            self.size = size;
            self.terminal.resize(area(size))?;
        }
        Ok(size)
    }

    /// Draws the screen. Only those parts that differ from the previous screen are written to the terminal.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let _drawing = DRAWING.lock();
        // A signal or a panic may have given the terminal back.
        if IS_TAKEN.load(Ordering::SeqCst) {
            self.terminal.draw(draw)?;
        }
        Ok(())
    }

    /// Makes the next [`Screen::draw`] draw everything, because the terminal may show something other than the previous
    /// screen.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn forget(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }

    /// Waits for the next key or event of the mouse, for at most the duration `wait`. Returns `None` if nothing came.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn next_event(&self, wait: Duration) -> io::Result<Option<Event>> {
        Ok(if event::poll(wait)? { Some(event::read()?) } else { None })
    }

    /// Asks the terminal to put `text` into the clipboard (OSC 52).
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn copy(&mut self, text: &str) -> io::Result<()> {
        let mut sequence = b"\x1b]52;c;".to_vec();
        put_base64(text.as_bytes(), &mut sequence);
        sequence.push(0x07);
        let out = self.terminal.backend_mut();
        out.write_all(&sequence)?;
        Write::flush(out)
    }
}
