//! The lines of one thread, written: what a message, a piece of one, captured arguments and metadata look like.

use crate::escape::{Place, escape_line};
use crate::fields::Plan;
use crate::line::{Kind, Prefix, Ticks};

/// Writes lines. Holds no text between calls.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    prefix: Prefix,
    /// A message on its way; empty between calls.
    text: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(tid: u64) -> Lines {
        Lines { prefix: Prefix::new(tid), text: Vec::new() }
    }

    /// Begins the line of a message.
    #[inline]
    pub(crate) fn message(&self, ticks: Ticks, out: &mut Vec<u8>) {
        self.prefix.begin(out, ticks, Kind::Message);
    }

    /// Goes on with the message that was begun.
    #[inline]
    pub(crate) fn text(&self, ticks: Ticks, text: &[u8], out: &mut Vec<u8>) {
        let mut rest = text;
        loop {
            rest = &rest[escape_line(out, rest, Place::Line)..];
            if rest.is_empty() {
                return;
            }
            out.push(b'\n');
            self.prefix.begin(out, ticks, Kind::Continuation);
            rest = &rest[1..];
        }
    }

    /// A whole message of captured arguments; false, and nothing written, where they are not what `plan` says.
    #[inline]
    pub(crate) fn captured(
        &mut self,
        ticks: Ticks,
        plan: &Plan,
        arguments: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        let rendered = plan.render(arguments, &mut text).is_ok();
        if rendered {
            self.message(ticks, out);
            self.text(ticks, &text, out);
            out.push(b'\n');
        }
        self.text = text;
        rendered
    }

    /// A `#` line.
    pub(crate) fn meta(&self, ticks: Ticks, payload: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        self.prefix.begin(out, ticks, Kind::Meta);
        payload(out);
        out.push(b'\n');
    }
}
