//! Rows for people and for programs. A view defines its rows once, as a struct with a list of columns. Rows are
//! printed as a table for people, or as JSON or comma-separated values for programs. The help of the view lists the
//! columns.

use clap::Args;
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::ui::console::Content;
use crate::ui::messages::Grouped;
use crate::ui::table::{Alignment, Columns};
use crate::ui::units::duration;
use crate::view::export::csv::put_cell;

/// The version of the layout of all rows for programs. It increases if a column changes its meaning or is removed; new
/// columns may be added at any time.
pub(crate) const VERSION: u32 = 1;

/// The form in which rows are printed. Without an option, it is a table.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowForm {
    /// Write JSON
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Write comma-separated values
    #[arg(long)]
    pub csv: bool,
}

impl RowForm {
    /// Returns whether the rows are a table for people.
    #[must_use]
    pub(crate) fn is_table(self) -> bool {
        !self.json && !self.csv
    }

    /// Returns the type of the printed content.
    #[must_use]
    pub(crate) fn content(self) -> Content {
        match self {
            RowForm { json: true, .. } => Content::Json,
            RowForm { csv: true, .. } => Content::Data,
            RowForm { .. } => Content::Text,
        }
    }

    /// Appends rows for programs: JSON with the values of [`Row::FACTS`], or comma-separated values of the rows alone.
    pub(crate) fn write<T: Row>(self, facts: &[Value], rows: &[T], out: &mut Vec<u8>) {
        if self.csv { out.extend_from_slice(csv(rows).as_bytes()) } else { write_json(facts, rows, out) }
    }
}

/// A value of a row for programs. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    /// An unknown value: `null` in JSON, an empty cell in CSV.
    Unknown,
    /// A value that JSON leaves out; an empty cell in CSV.
    Absent,
    /// A truth value.
    Flag(bool),
    /// A count, an id or a time.
    Count(u64),
    /// A time that may be before the moment from which it counts.
    Signed(i64),
    /// A floating-point number.
    Number(f64),
    /// A text.
    Text(String),
    /// Values inside a value; a cell of CSV has them as JSON.
    Nested(serde_json::Value),
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Flag(flag)
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Value {
        Value::Count(count)
    }
}

impl From<u32> for Value {
    fn from(count: u32) -> Value {
        Value::Count(count.into())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Signed(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl Value {
    /// Returns a value that consists of several values, as JSON.
    #[must_use]
    pub(crate) fn nested(value: &impl Serialize) -> Value {
        // All keys in the callers' maps are texts, so the conversion does not fail.
        Value::Nested(serde_json::to_value(value).unwrap_or_default())
    }

    /// Returns rows that are nested in a single value, as an array of JSON objects.
    #[must_use]
    pub(crate) fn of_rows<T: Row>(rows: &[T]) -> Value {
        Value::nested(&rows.iter().map(JsonRow).collect::<Vec<_>>())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Unknown, Into::into)
    }
}

/// A column of rows of type `T`.
#[derive(Debug)]
pub(crate) struct Column<T: 'static> {
    /// The name of the column in the output for programs.
    name: &'static str,
    /// The meaning of the column's values.
    about: &'static str,
    value: fn(&T) -> Value,
    cell: Cell<T>,
}

/// The way in which the table for people shows a column, with the column's heading.
#[derive(Debug)]
enum Cell<T: 'static> {
    /// The table does not have the column.
    Absent,
    /// A count, with this heading.
    Count(&'static str),
    /// A time in nanoseconds, with this heading.
    Time(&'static str),
    /// A time in nanoseconds, with this heading; the table does not have the column if the time is unknown in all
    /// rows.
    KnownTime(&'static str),
    /// The text that the function makes from a row, aligned at one side of the column, with this heading.
    Text(&'static str, Alignment, fn(&T) -> String),
}

impl<T: 'static> Column<T> {
    /// Makes a column that only the output for programs has.
    #[must_use]
    pub(crate) const fn hidden(name: &'static str, about: &'static str, value: fn(&T) -> Value) -> Column<T> {
        Column { name, about, value, cell: Cell::Absent }
    }

    /// Makes a column of counts.
    #[must_use]
    pub(crate) const fn count(
        name: &'static str,
        heading: &'static str,
        about: &'static str,
        value: fn(&T) -> Value,
    ) -> Column<T> {
        Column { name, about, value, cell: Cell::Count(heading) }
    }

    /// Makes a column of times in nanoseconds.
    #[must_use]
    pub(crate) const fn time(
        name: &'static str,
        heading: &'static str,
        about: &'static str,
        value: fn(&T) -> Value,
    ) -> Column<T> {
        Column { name, about, value, cell: Cell::Time(heading) }
    }

    /// Makes a column of times in nanoseconds. The table does not have the column if the time is unknown in all rows.
    #[must_use]
    pub(crate) const fn known_time(
        name: &'static str,
        heading: &'static str,
        about: &'static str,
        value: fn(&T) -> Value,
    ) -> Column<T> {
        Column { name, about, value, cell: Cell::KnownTime(heading) }
    }

    /// Makes a column that shows the text that `text` makes from a row, aligned at one side of the column.
    #[must_use]
    pub(crate) const fn text(
        name: &'static str,
        heading: (&'static str, Alignment),
        about: &'static str,
        value: fn(&T) -> Value,
        text: fn(&T) -> String,
    ) -> Column<T> {
        Column { name, about, value, cell: Cell::Text(heading.0, heading.1, text) }
    }

    fn heading(&self) -> Option<(&'static str, Alignment)> {
        match self.cell {
            Cell::Absent => None,
            Cell::Count(heading) | Cell::Time(heading) | Cell::KnownTime(heading) => {
                Some((heading, Alignment::Right))
            }
            Cell::Text(heading, side, _) => Some((heading, side)),
        }
    }

    fn cell(&self, row: &T) -> Option<String> {
        match self.cell {
            Cell::Absent => None,
            Cell::Count(_) | Cell::Time(_) | Cell::KnownTime(_) => Some(self.number((self.value)(row))),
            Cell::Text(_, _, text) => Some(text(row)),
        }
    }

    /// Returns the text of a number in a cell of this column.
    fn number(&self, number: Value) -> String {
        match (number, &self.cell) {
            (Value::Count(time), Cell::Time(_) | Cell::KnownTime(_)) => duration(time),
            (Value::Count(count), _) => Grouped(count).to_string(),
            _ => "-".to_owned(),
        }
    }

    /// Returns this column's cell in the row of sums: the sum, or an empty text if `sums` has none for this column.
    /// Returns `None` if the table does not have the column.
    fn cell_of_sums(&self, sums: &[(&str, Value)]) -> Option<String> {
        self.heading()?;
        let sum = sums.iter().find(|(name, _)| *name == self.name).map(|(_, sum)| sum.clone());
        Some(match sum {
            None => String::new(),
            Some(Value::Text(text)) => text,
            Some(number) => self.number(number),
        })
    }
}

/// A type whose values are the rows of one kind of table.
pub(crate) trait Row: Sized + 'static {
    /// The name of the array of rows in JSON.
    const NAME: &'static str;
    /// The names and meanings of the facts about all rows, which only JSON has.
    const FACTS: &'static [(&'static str, &'static str)];
    /// The columns, in order.
    const COLUMNS: &'static [Column<Self>];
}

/// Returns rows as a table, with `indent` at the beginning of each line.
pub(crate) fn table<'a, T: Row>(rows: impl IntoIterator<Item = &'a T>, indent: &str) -> String {
    table_with_sums(rows, &[], indent)
}

/// Returns rows as a table, as [`table`] does. If there are `sums`, each with the name of its column, they are the
/// last row.
pub(crate) fn table_with_sums<'a, T: Row>(
    rows: impl IntoIterator<Item = &'a T>,
    sums: &[(&str, Value)],
    indent: &str,
) -> String {
    let rows: Vec<&T> = rows.into_iter().collect();
    let is_shown = |column: &&Column<T>| match column.cell {
        Cell::KnownTime(_) => rows.iter().any(|row| (column.value)(row) != Value::Unknown),
        _ => true,
    };
    let shown = || T::COLUMNS.iter().filter(is_shown);
    let mut columns = Columns::new(&shown().filter_map(Column::heading).collect::<Vec<_>>());
    for row in &rows {
        columns.row(shown().filter_map(|column| column.cell(row)).collect::<Vec<_>>());
    }
    if !sums.is_empty() {
        columns.row(shown().filter_map(|column| column.cell_of_sums(sums)).collect::<Vec<_>>());
    }
    columns.text(indent)
}

/// The limit of rows that `--rows all` sets.
pub(crate) const ALL_ROWS: usize = usize::MAX;

/// Reads the number of rows that a table may have: a number, or `all`.
///
/// # Errors
/// Returns an error if the text is neither.
pub(crate) fn row_limit(text: &str) -> Result<usize, String> {
    if text == "all" {
        return Ok(ALL_ROWS);
    }
    text.parse().map_err(|_| "expected a number of rows, such as 20, or all".to_owned())
}

/// Returns the help about the rows for programs.
#[must_use]
pub(crate) fn help<T: Row>() -> String {
    let facts = T::FACTS.iter().copied();
    let rows = (T::NAME, "an array of the rows");
    let columns = T::COLUMNS.iter().map(|column| (column.name, column.about));
    let list = |items: &mut dyn Iterator<Item = (&str, &str)>| -> String {
        items.map(|(name, about)| format!("  {name:<15} {about}\n")).collect()
    };
    format!(
        "\
Fields of --json:
  version         {VERSION}; it changes if a field is removed or gets another meaning
{}
Columns of --csv, and fields of the rows of --json. Times are in nanoseconds; an unknown value
is null in JSON, and an empty cell in CSV:
{}",
        list(&mut facts.chain([rows])),
        list(&mut columns.into_iter())
    )
}

/// Returns the help about the columns of rows that are nested in a field of other rows.
#[must_use]
pub(crate) fn list_of_columns<T: Row>() -> String {
    T::COLUMNS.iter().map(|column| format!("  {:<15} {}\n", column.name, column.about)).collect()
}

/// A row as an object of JSON.
pub(crate) struct JsonRow<'a, T>(pub(crate) &'a T);

impl<T: Row> Serialize for JsonRow<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = T::COLUMNS.iter().map(|column| (column.name, (column.value)(self.0)));
        serializer.collect_map(values.filter(|(_, value)| *value != Value::Absent))
    }
}

/// The facts about all rows and the rows themselves, as one object of JSON.
struct JsonSheet<'a, T>(&'a [Value], &'a [T]);

impl<T: Row> Serialize for JsonSheet<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version", &VERSION)?;
        let facts = T::FACTS.iter().zip(self.0);
        facts.into_iter().try_for_each(|((name, _), value)| map.serialize_entry(name, value))?;
        map.serialize_entry(T::NAME, &self.1.iter().map(JsonRow).collect::<Vec<_>>())?;
        map.end()
    }
}

fn write_json<T: Row>(facts: &[Value], rows: &[T], out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer_pretty(&mut *out, &JsonSheet(facts, rows));
    out.push(b'\n');
}

/// Returns rows as comma-separated values, after a line with the names of the columns.
#[must_use]
pub(crate) fn csv<'a, T: Row>(rows: impl IntoIterator<Item = &'a T>) -> String {
    let mut out = Vec::new();
    let mut line = |cells: &mut dyn Iterator<Item = String>| {
        for (number, cell) in cells.enumerate() {
            if number > 0 {
                out.push(b',');
            }
            put_cell(cell.as_bytes(), &mut out);
        }
        out.push(b'\n');
    };
    line(&mut T::COLUMNS.iter().map(|column| column.name.to_owned()));
    for row in rows {
        line(&mut T::COLUMNS.iter().map(|column| match (column.value)(row) {
            Value::Unknown | Value::Absent => String::new(),
            Value::Text(text) => text,
            // Converting a value in memory does not fail.
            value => serde_json::to_string(&value).unwrap_or_default(),
        }));
    }
    // All cells are text.
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Town {
        name: &'static str,
        people: u64,
        age: Option<u64>,
    }

    impl Row for Town {
        const NAME: &'static str = "towns";
        const FACTS: &'static [(&'static str, &'static str)] = &[("all", "The number of towns")];
        const COLUMNS: &'static [Column<Town>] = &[
            Column::count("people", "people", "The number of people", |town| town.people.into()),
            Column::time("age_ns", "age", "The age", |town| town.age.into()),
            Column::known_time("tower_ns", "tower", "The age of the tower", |_| Value::Unknown),
            Column::hidden("large", "Whether it is large", |town| (town.people > 1000).into()),
            Column::text(
                "name",
                ("town", Alignment::Left),
                "The name",
                |town| town.name.into(),
                |town| format!("<{}>", town.name),
            ),
        ];
    }

    const TOWNS: [Town; 2] = [
        Town { name: "a, \"b\"", people: 1234, age: Some(1_500_000) },
        Town { name: "c", people: 7, age: None },
    ];

    fn written(form: RowForm) -> String {
        let mut out = Vec::new();
        form.write(&[Value::Count(2)], &TOWNS, &mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn a_table_has_the_columns_with_headings() {
        let expected = "people      age  town\n 1,234  1.50 ms  <a, \"b\">\n     7        -  <c>\n";
        assert_eq!(table(&TOWNS, ""), expected);
    }

    #[test]
    fn a_row_of_sums_is_empty_where_there_is_no_sum() {
        let sums = [("people", Value::Count(1241)), ("name", Value::from("all towns"))];
        let expected = "people      age  town\n 1,234  1.50 ms  <a, \"b\">\n     7        -  <c>\n 1,241           all towns\n";
        assert_eq!(table_with_sums(&TOWNS, &sums, ""), expected);
    }

    #[test]
    fn the_help_names_each_field_and_column_for_programs() {
        let help = help::<Town>();
        for name in ["version", "all", "towns", "people", "age_ns", "tower_ns", "large", "name"] {
            assert_eq!(help.matches(&format!("\n  {name} ")).count(), 1, "{name}: {help}");
        }
    }

    #[test]
    fn json_and_comma_separated_values_have_the_columns_with_names() {
        let json: serde_json::Value =
            serde_json::from_str(&written(RowForm { json: true, csv: false })).expect("JSON");
        let expected = serde_json::json!({ "version": 1, "all": 2, "towns": [
            { "people": 1234, "age_ns": 1_500_000, "tower_ns": null, "large": true, "name": "a, \"b\"" },
            { "people": 7, "age_ns": null, "tower_ns": null, "large": false, "name": "c" },
        ]});
        assert_eq!(json, expected);
        let csv = written(RowForm { json: false, csv: true });
        assert_eq!(
            csv,
            "people,age_ns,tower_ns,large,name\n1234,1500000,,true,\"a, \"\"b\"\"\"\n7,,,false,c\n"
        );
    }
}
