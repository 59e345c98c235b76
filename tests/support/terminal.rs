//! The run of a command that writes to a terminal.
#![allow(unsafe_code, reason = "a pseudo-terminal")]

use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

/// A running command that writes to a terminal of 160 columns.
pub struct OnTerminal {
    child: Child,
    reader: JoinHandle<String>,
}

impl OnTerminal {
    /// Starts a command; `attach` gives it the terminal as one of its streams.
    ///
    /// # Panics
    /// If there is no terminal, or the command cannot be run.
    pub fn start(command: &mut Command, attach: fn(&mut Command, OwnedFd)) -> OnTerminal {
        let size = libc::winsize { ws_row: 40, ws_col: 160, ws_xpixel: 0, ws_ypixel: 0 };
        let (mut ours, mut theirs) = (0, 0);
        let (name, terms) = (std::ptr::null_mut(), std::ptr::null());
        // SAFETY: both descriptors may be written; the size is read; no name and no terms are given.
        let made = unsafe { libc::openpty(&mut ours, &mut theirs, name, terms, &size) };
        assert_eq!(made, 0, "a pseudo-terminal");
        // SAFETY: both were just opened, and nothing else owns them.
        let (ours, theirs) = unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
        attach(command.env("TERM", "xterm"), theirs);
        let child = command.spawn().expect("it can be run");
        // The program then has the only descriptor of the other end, which is closed when it ends.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let reader = std::thread::spawn(|| {
            let (mut ours, mut text) = (ours, Vec::new());
            // A read after the end returns an error.
            let _ = ours.read_to_end(&mut text);
            String::from_utf8(text).expect("UTF-8")
        });
        OnTerminal { child, reader }
    }

    /// Waits for the end of the command; returns its whole output to the terminal.
    ///
    /// # Panics
    /// If the command has failed, or its output is not UTF-8.
    pub fn ended(mut self) -> String {
        assert!(self.child.wait().expect("its end").success());
        self.reader.join().expect("what it wrote")
    }
}
