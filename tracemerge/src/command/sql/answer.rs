//! The answer to a query, printed as a table, as JSON or as comma-separated values. DuckDB writes each row as one line
//! with a JSON object.

use std::fmt;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::ui::console::{Console, cannot_print};
use crate::ui::error::Error;
use crate::ui::escaping::escaped_line;
use crate::ui::messages::{Messages, count};
use crate::ui::table::{Alignment, Columns};
use crate::view::export::csv::put_cell;
use crate::view::rows::{RowForm, VERSION};

/// The greatest length of a line of DuckDB's answer, which is one row, in bytes.
const LONGEST_ROW: u64 = 64 << 20;
/// The greatest number of rows that a printed table may have, and the greatest number of bytes of these rows. All rows
/// are kept in memory until the widths of the columns are known.
const MAX_TABLE: (u64, usize) = (10_000, 64 << 20);

/// The names of a row's columns and their values, in order.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pairs, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Returns the names and values of a row, which is a line of DuckDB's answer. A line that is not a JSON object, such as
/// a line of a query plan, is a row with one column, `text`.
fn pairs_of(line: &str) -> Vec<(String, Value)> {
    match serde_json::from_str(line) {
        Ok(Pairs(pairs)) => pairs,
        Err(_) => vec![("text".to_owned(), Value::String(line.to_owned()))],
    }
}

/// Returns a value as the text of a cell; `unknown` is the text for `null`.
fn text_of(value: Value, unknown: &str) -> String {
    match value {
        Value::Null => unknown.to_owned(),
        Value::String(text) => text,
        value => value.to_string(),
    }
}

/// A table to be printed, of rows with the same columns.
struct Sheet {
    names: Vec<String>,
    rows: Vec<Vec<Value>>,
    bytes: usize,
}

impl Sheet {
    /// Returns the table as text.
    fn text(self) -> String {
        let side = |column: usize| {
            let is_number =
                |row: &Vec<Value>| matches!(row.get(column), Some(Value::Number(_) | Value::Null));
            if self.rows.iter().all(is_number) { Alignment::Right } else { Alignment::Left }
        };
        let headings: Vec<String> = self.names.iter().map(|name| escaped_line(name)).collect();
        let headings: Vec<_> =
            headings.iter().enumerate().map(|(column, name)| (name.as_str(), side(column))).collect();
        let mut columns = Columns::new(&headings);
        for row in self.rows {
            columns.row(row.into_iter().map(|value| escaped_line(&text_of(value, "-"))).collect::<Vec<_>>());
        }
        columns.text("")
    }
}

/// The part of the answer that was printed so far, and what is needed to print the rest.
struct Printed {
    form: RowForm,
    out: Console,
    /// The names of the columns of the previous row: if those of the next row differ, a new table begins.
    names: Vec<String>,
    sheet: Option<Sheet>,
    rows: u64,
    /// The number of rows that are not printed because their table was full.
    left_out: u64,
}

impl Printed {
    fn row(&mut self, line: &str) -> io::Result<()> {
        if self.form.json {
            let comma = if self.rows == 0 { "" } else { "," };
            self.rows += 1;
            // Another program's line is JSON, or becomes a text.
            let pairs = serde_json::from_str::<Pairs>(line).is_ok();
            let row = if pairs { line.to_owned() } else { serde_json::json!({ "text": line }).to_string() };
            return write!(self.out, "{comma}\n    {row}");
        }
        let (names, values): (Vec<String>, Vec<Value>) = pairs_of(line).into_iter().unzip();
        let is_new = names != self.names || self.rows == 0;
        self.rows += 1;
        if self.form.csv {
            if is_new {
                self.csv(names.iter().cloned())?;
                self.names = names;
            }
            return self.csv(values.into_iter().map(|value| text_of(value, "")));
        }
        if is_new {
            self.end_table()?;
            self.names.clone_from(&names);
        }
        let sheet = self.sheet.get_or_insert(Sheet { names, rows: Vec::new(), bytes: 0 });
        if sheet.rows.len() as u64 >= MAX_TABLE.0 || sheet.bytes >= MAX_TABLE.1 {
            self.left_out += 1;
            return Ok(());
        }
        sheet.bytes += line.len();
        sheet.rows.push(values);
        Ok(())
    }

    fn csv(&mut self, cells: impl Iterator<Item = String>) -> io::Result<()> {
        let mut line = Vec::new();
        for (number, cell) in cells.enumerate() {
            if number > 0 {
                line.push(b',');
            }
            put_cell(cell.as_bytes(), &mut line);
        }
        line.push(b'\n');
        self.out.write_all(&line)
    }

    fn end_table(&mut self) -> io::Result<()> {
        let Some(sheet) = self.sheet.take() else { return Ok(()) };
        self.out.write_all(sheet.text().as_bytes())
    }
}

/// Reads the next line of DuckDB's answer; returns `None` at the end of the answer.
fn next_line(rows: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let read = rows.take(LONGEST_ROW).read_until(b'\n', &mut line)?;
    if read as u64 == LONGEST_ROW {
        return Err(io::Error::other(
            "a row of the answer has more than 64 MiB: select fewer columns, or parts of them",
        ));
    }
    let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
    Ok((read > 0).then_some(text))
}

/// Prints the rows of an answer as they arrive. If standard output is a pipe whose reader has closed it, the remaining
/// rows are not printed.
///
/// # Errors
/// The rows cannot be read, or cannot be printed.
pub(super) fn show(rows: &mut impl BufRead, form: RowForm, messages: &mut Messages) -> Result<(), Error> {
    let out = Console::stdout(form.content()).map_err(cannot_print)?;
    let mut printed = Printed { form, out, names: Vec::new(), sheet: None, rows: 0, left_out: 0 };
    let mut failure = None;
    let mut print = || {
        if form.json {
            write!(printed.out, "{{\n  \"version\": {VERSION},\n  \"rows\": [")?;
        }
        loop {
            match next_line(rows) {
                Ok(Some(line)) if line.is_empty() => {}
                Ok(Some(line)) => printed.row(&line)?,
                Ok(None) => break,
                Err(error) => {
                    failure = Some(Error::io("read the rows of", Path::new("DuckDB"), error));
                    break;
                }
            }
        }
        if form.json {
            return printed.out.write_all(b"\n  ]\n}\n");
        }
        printed.end_table()
    };
    let result = print();
    let Printed { out, left_out, .. } = printed;
    let result = match result {
        Ok(()) => out.finish(),
        Err(error) => {
            out.abandon();
            Err(error)
        }
    };
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(cannot_print(error)),
        _ => {}
    }
    if left_out > 0 {
        messages.note(format_args!(
            "the table leaves out {}, because it ends after 10,000 rows or 64 MiB: --csv and --json write all rows",
            count(left_out, "row")
        ));
    }
    failure.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_keep_their_order_and_texts_their_lines() {
        let mut sheet = Sheet { names: vec!["z".into(), "a".into()], rows: Vec::new(), bytes: 0 };
        for line in ["{\"z\":1,\"a\":\"x\\ny\\u001b[2J\"}", "{\"z\":null,\"a\":[1,\"b\"]}"] {
            let (names, values): (Vec<_>, Vec<_>) = pairs_of(line).into_iter().unzip();
            assert_eq!(names, ["z", "a"]);
            sheet.rows.push(values);
        }
        assert_eq!(sheet.text(), "z  a\n1  x\\x0ay\\x1b[2J\n-  [1,\"b\"]\n");
        assert_eq!(pairs_of("┌──┐"), [("text".to_owned(), Value::String("┌──┐".into()))]);
    }

    #[test]
    fn a_line_is_read_whole_or_not_at_all() {
        let mut rows = &b"{\"a\":1}\r\nb"[..];
        let read: Vec<_> = std::iter::from_fn(|| next_line(&mut rows).unwrap()).collect();
        assert_eq!(read, ["{\"a\":1}", "b"]);
        let mut endless = io::BufReader::new(io::repeat(b'x'));
        assert!(next_line(&mut endless).unwrap_err().to_string().contains("64 MiB"));
    }
}
