//! The columns of a record, for formats that write one record in each line. What a column contains depends on the kind
//! of the record.

use std::io::Write;

use trace_format::escape::unescape;
use trace_format::meta::Meta;
use trace_format::record::Flags;
use trace_format::sites::Level;
use trace_format::wall::Wall;

use crate::view::export::events::{EndedCall, Event, EventContent, Inventory, LockContent, NamedFunction};
use crate::view::export::json::{put_number, put_string, put_value};
use crate::view::function_names::{CallInfo, FunctionId};

/// A record in columns. A column is `None` if its value is unknown, or if it does not apply to the kind of
/// the record.
#[derive(Debug, Default)]
pub(crate) struct Row<'a> {
    /// The id of the process.
    pub pid: Option<u32>,
    /// The name of the process's executable.
    pub process: &'a str,
    /// The id of the thread.
    pub tid: u64,
    /// The label of the thread.
    pub thread: &'a str,
    /// The kind of the record: `message`, `enter`, `leave`, `stack`, or the first word of a `#` line.
    pub kind: &'a str,
    /// The level of the message.
    pub level: Option<&'static str>,
    /// The target: the name by which the record is filtered.
    pub target: Option<&'a str>,
    /// The module path of the site.
    pub module: Option<&'a str>,
    /// The source file of the site or the function.
    pub file: Option<&'a str>,
    /// The line in the source file.
    pub line: Option<u32>,
    /// The function that contains the message, or that was entered or left.
    pub function: Option<&'a str>,
    /// The format string of the message.
    pub template: Option<&'a str>,
}

/// Returns the columns of an event; `None` if no record made the event.
#[must_use]
pub(crate) fn row_of<'a>(event: &Event<'a>, inventory: &'a Inventory) -> Option<Row<'a>> {
    let thread = &inventory.threads()[event.thread];
    let process = &inventory.processes()[thread.process];
    let pid = process.run.as_ref().map(|run| run.pid);
    let row = Row { pid, process: &process.name, tid: thread.tid, thread: thread.label(), ..Row::default() };
    Some(match &event.what {
        EventContent::Message { site, lock, .. } => {
            let kind = if *lock == LockContent::Record { "lock" } else { "message" };
            let row = Row { kind, ..row };
            let Some(known) = inventory.site(*site) else { return Some(row) };
            let site = &known.site;
            Row {
                level: level(site.level),
                target: some(known.target()),
                module: some(&site.module),
                file: some(&site.file),
                line: Some(site.line),
                function: some(&site.function),
                template: some(&site.template),
                ..row
            }
        }
        EventContent::Enter(call_info) => {
            of_function(Row { kind: "enter", ..row }, inventory.function(call_info.called.function))
        }
        EventContent::Leave(call_info, ended) => {
            of_function(Row { kind: "leave", ..row }, inventory.function(function_left(call_info, ended)))
        }
        EventContent::Stack(_) => Row { kind: "stack", ..row },
        EventContent::Meta { payload, .. } => Row { kind: word_and_rest(payload).0, ..row },
        EventContent::Close(_) => return None,
    })
}

/// The error in nanoseconds that tables show for a time of another machine whose error has no known limit: the greatest
/// integer that the column can have.
const UNLIMITED_NS: u64 = i64::MAX as u64;

/// Returns the maximum error of an event's time for tables, in nanoseconds; `None` if the time was not converted from
/// the clock of another machine.
#[must_use]
pub(crate) fn foreign_error_ns(event: &Event<'_>, inventory: &Inventory) -> Option<u64> {
    let foreign = inventory.threads()[event.thread].foreign.as_ref()?;
    Some(foreign.error_ns(event.ticks).map_or(UNLIMITED_NS, |ns| ns.min(UNLIMITED_NS)))
}

/// Returns the text of an event: that of a message, of a call stack, or of a `#` line after its first word.
#[must_use]
pub(crate) fn message_of<'a>(event: &Event<'a>) -> Option<&'a str> {
    match event.what {
        EventContent::Message { text, .. } | EventContent::Stack(text) => Some(text),
        EventContent::Meta { payload, .. } => Some(word_and_rest(payload).1),
        EventContent::Enter(_) | EventContent::Leave(..) | EventContent::Close(_) => None,
    }
}

/// Returns the function that a leave record leaves: that of the outermost ended call, or the one that the record names
/// if no call has ended.
#[must_use]
pub(crate) fn function_left(call_info: &CallInfo, ended: &[EndedCall]) -> FunctionId {
    ended.last().map_or(call_info.called.function, |call| call.function)
}

fn word_and_rest(payload: &str) -> (&str, &str) {
    payload.split_once(' ').unwrap_or((payload, ""))
}

/// Appends the fields of an event as a JSON object; nothing if the event has no fields.
pub(crate) fn put_fields(event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
    match &event.what {
        EventContent::Message { site, values: Some(values), .. } => {
            if let Some(known) = inventory.site(*site) {
                let named = known.fields.fields().iter().zip(*values);
                put_object(named.map(|(field, value)| (&field.name[..], value)), out, put_value);
            }
        }
        EventContent::Message { lock: LockContent::Record, text, .. } => {
            put_object(keys_of(word_and_rest(word_and_rest(text).1).1), out, put_key);
        }
        EventContent::Enter(call_info) => {
            put_call(call_info, call_info.called.from.map(|from| inventory.function(from)), out)
        }
        EventContent::Leave(call_info, _) => put_call(call_info, None, out),
        EventContent::Meta { payload, .. } => put_object(keys_of(word_and_rest(payload).1), out, put_key),
        EventContent::Message { .. } | EventContent::Stack(_) | EventContent::Close(_) => {}
    }
}

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Returns the name that a level has in the output; `None` if there is no level.
#[must_use]
pub(crate) fn level(level: Level) -> Option<&'static str> {
    Some(match level {
        Level::None => return None,
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "info",
        Level::Debug => "debug",
        Level::Trace => "trace",
    })
}

/// Returns the level with the name `text`, in upper or lower case.
///
/// # Errors
/// Returns an error if no level has this name.
pub(crate) fn level_of_name(text: &str) -> Result<Level, String> {
    let levels = [Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace];
    let named = levels.into_iter().find(|of| level(*of).is_some_and(|name| name.eq_ignore_ascii_case(text)));
    named.ok_or_else(|| "expected a level: error, warn, info, debug or trace".to_owned())
}

fn of_function<'a>(row: Row<'a>, function: &'a NamedFunction) -> Row<'a> {
    Row { function: some(&function.name), file: some(&function.file), line: function.line, ..row }
}

/// Appends the details of a call's record as a JSON object: the span, the call site and the flags; nothing if there are
/// none.
fn put_call(call_info: &CallInfo, from: Option<&NamedFunction>, out: &mut Vec<u8>) {
    if call_info.span.is_none() && from.is_none() && call_info.left == Flags::NONE {
        return;
    }
    let mut fields: Vec<(&str, Key)> = Vec::new();
    if let Some(span) = call_info.span {
        fields.push(("span", Key::Number(span)));
    }
    if let Some(from) = from {
        let line = from.line.map_or_else(String::new, |line| format!(":{line}"));
        fields.push(("called_from", Key::Text(format!("{}{line}", from.file))));
    }
    for (flag, name) in
        [(Flags::UNWINDING, "unwinding"), (Flags::ENDED, "ended"), (Flags::CANCELLED, "cancelled")]
    {
        if call_info.left.has(flag) {
            fields.push((name, Key::Yes));
        }
    }
    if !fields.is_empty() {
        put_object(fields.into_iter(), out, put_key);
    }
}

/// Appends the value of a key, in JSON.
pub(crate) fn put_key(value: Key, out: &mut Vec<u8>) {
    match value {
        Key::Yes => out.extend_from_slice(b"true"),
        Key::Number(number) => put_number(number, out),
        Key::Text(text) => put_string(&text, out),
    }
}

/// Appends a JSON object with these fields. `put` appends the value of a field.
pub(crate) fn put_object<'a, T>(
    fields: impl Iterator<Item = (&'a str, T)>,
    out: &mut Vec<u8>,
    mut put: impl FnMut(T, &mut Vec<u8>),
) {
    out.push(b'{');
    for (number, (name, value)) in fields.enumerate() {
        if number > 0 {
            out.push(b',');
        }
        put_string(name, out);
        out.push(b':');
        put(value, out);
    }
    out.push(b'}');
}

/// The value of a key in a `#` line, or of a detail of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A number, from decimal digits.
    Number(u64),
    /// The value `true`.
    Yes,
    /// Any other value, unescaped.
    Text(String),
}

/// Returns the keys of a `#` line, without its first word, with their values. Hexadecimal values are returned as texts.
pub(crate) fn keys_of(payload: &str) -> impl Iterator<Item = (&str, Key)> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        let (name, behind) = rest.trim_start_matches(' ').split_once('=')?;
        let (value, behind, is_quoted) = match behind.strip_prefix('"') {
            Some(quoted) => {
                let (value, behind) = quoted.split_once('"')?;
                (value, behind, true)
            }
            None => {
                let end = behind.find(' ').unwrap_or(behind.len());
                (&behind[..end], &behind[end..], false)
            }
        };
        rest = behind;
        let is_hex = matches!(name, "id" | "root" | "check" | "start" | "end" | "bias" | "build_id");
        let value = match value.parse() {
            Ok(number) if !is_quoted && !is_hex => Key::Number(number),
            _ => Key::Text(String::from_utf8_lossy(&unescape(value.as_bytes())).into_owned()),
        };
        Some((name, value))
    })
}

/// A cache of the texts that many rows of a format have in common: the text of the columns that depend only on the
/// thread, and that of the columns that depend only on the function or the site. Each text is made once and then
/// copied.
#[derive(Debug, Default)]
pub(crate) struct CommonTexts {
    /// For each thread, its label and the text made for this label. If the thread is renamed, the text is made again.
    threads: Vec<(String, Vec<u8>)>,
    /// For each function, the text for its enter records, and (in the second array) the text for its leave records.
    functions: [Vec<Vec<u8>>; 2],
    /// For each site, the text for its messages.
    sites: Vec<Vec<u8>>,
}

impl CommonTexts {
    /// Appends the text of the first columns of an event, up to the thread's label. `put` makes this text from a row;
    /// it is called once for each thread and label.
    pub(crate) fn put_thread(
        &mut self,
        event: &Event<'_>,
        inventory: &Inventory,
        out: &mut Vec<u8>,
        put: impl Fn(&Row<'_>, &mut Vec<u8>),
    ) {
        let label = inventory.threads()[event.thread].label();
        self.threads.resize_with(self.threads.len().max(event.thread + 1), Default::default);
        let (shown, text) = &mut self.threads[event.thread];
        if text.is_empty() || shown != label {
            label.clone_into(shown);
            text.clear();
            row_of(event, inventory).iter().for_each(|row| put(row, text));
        }
        out.extend_from_slice(text);
    }

    /// Appends the text of the columns from the record's kind to the template. `put` makes this text from a row; it is
    /// called once for each function or site, and for each other record.
    pub(crate) fn put_place(
        &mut self,
        event: &Event<'_>,
        inventory: &Inventory,
        out: &mut Vec<u8>,
        put: impl Fn(&Row<'_>, &mut Vec<u8>),
    ) {
        let (texts, index) = match &event.what {
            EventContent::Message { site: Some(site), lock, .. } if *lock != LockContent::Record => {
                (&mut self.sites, *site)
            }
            EventContent::Enter(call_info) => (&mut self.functions[0], call_info.called.function as usize),
            EventContent::Leave(call_info, ended) => {
                (&mut self.functions[1], function_left(call_info, ended) as usize)
            }
            _ => return row_of(event, inventory).iter().for_each(|row| put(row, out)),
        };
        texts.resize_with(texts.len().max(index + 1), Vec::new);
        if texts[index].is_empty() {
            row_of(event, inventory).iter().for_each(|row| put(row, &mut texts[index]));
        }
        out.extend_from_slice(&texts[index]);
    }
}

/// A writer of wall times as text. Consecutive times within one second share the text up to the seconds.
#[derive(Debug, Default)]
pub(crate) struct TimeText {
    second: Option<u64>,
    text: Vec<u8>,
}

impl TimeText {
    /// Appends a time, in nanoseconds since 1970, as `2026-11-20T15:11:02.123456789Z`.
    pub(crate) fn put(&mut self, wall: u64, out: &mut Vec<u8>) {
        const SECOND: u64 = 1_000_000_000;
        if self.second != Some(wall / SECOND) {
            self.second = Some(wall / SECOND);
            self.text.clear();
            // Writing to memory does not fail.
            let _ = write!(self.text, "{}", Wall(wall));
        }
        // The text ends with the nine digits of the nanoseconds and a `Z`.
        let before = self.text.len().saturating_sub(10);
        out.extend_from_slice(&self.text[..before]);
        out.extend_from_slice(&itoa::Buffer::new().format(SECOND + wall % SECOND).as_bytes()[1..]);
        out.push(b'Z');
    }
}

/// Returns whether a `#` line is about a loaded module of the process. Other programs do not use such lines.
#[must_use]
pub(crate) fn is_of_modules(meta: Option<&Meta>) -> bool {
    matches!(meta, Some(Meta::Module(_) | Meta::Unloaded { .. } | Meta::Missed { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_equal_those_in_lines() {
        let mut times = TimeText::default();
        for wall in [0, 1_795_187_462_000_000_000, 1_795_187_462_987_654_321, 1_795_187_463_000_000_001, 7] {
            let mut out = Vec::new();
            times.put(wall, &mut out);
            assert_eq!(String::from_utf8(out).ok(), Some(Wall(wall).to_string()));
        }
    }

    #[test]
    fn the_keys_of_a_line_have_their_types() {
        let found: Vec<_> = keys_of(r#"id=00000012 pid=12 exe="/a b/\x22c" reason=full odd"#).collect();
        let text = |text: &str| Key::Text(text.to_owned());
        assert_eq!(
            found,
            [
                ("id", text("00000012")),
                ("pid", Key::Number(12)),
                ("exe", text("/a b/\"c")),
                ("reason", text("full")),
            ]
        );
    }
}
