//! Shows parts of lines in colours.

use anstyle::Style;
use regex::bytes::Regex;

use crate::ui::colour::number_of;
use crate::ui::escaping::put_mark;

/// Calls `write`, and puts the text that it appends into the style `style`.
pub(crate) fn paint(out: &mut Vec<u8>, style: Style, write: impl FnOnce(&mut Vec<u8>)) {
    if style.is_plain() {
        return write(out);
    }
    put_mark(number_of(style), out);
    write(out);
    put_mark(number_of(Style::new()), out);
}

/// Appends the text of a message, and puts the parts that match the pattern `found` into the style `style`.
pub(crate) fn write_found(out: &mut Vec<u8>, found: Option<&Regex>, style: Style, text: &[u8]) {
    let mut done = 0;
    if let Some(found) = found.filter(|_| !style.is_plain()) {
        for hit in found.find_iter(text).filter(|hit| !hit.is_empty()) {
            out.extend_from_slice(&text[done..hit.start()]);
            paint(out, style, |out| out.extend_from_slice(hit.as_bytes()));
            done = hit.end();
        }
    }
    out.extend_from_slice(&text[done..]);
}
