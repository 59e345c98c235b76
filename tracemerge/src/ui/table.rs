//! A table of texts for a terminal, in columns that are as wide as their widest text.

/// The greatest width of a column, in characters. A longer text, which a file from elsewhere may contain, extends
/// beyond its column; otherwise one long text would make every row as long. The standard library panics at widths of
/// more than 65,535.
const MAX_WIDTH: usize = 200;

/// The side of a column at which the texts in the column are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alignment {
    /// The left side, for names.
    Left,
    /// The right side, for numbers.
    Right,
}

/// A table: rows of texts under a row of headings.
#[derive(Debug)]
pub(crate) struct Columns {
    align: Vec<Alignment>,
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// Makes a table without rows. `headings` has, for each column, the heading and the alignment of the column's
    /// texts.
    #[must_use]
    pub(crate) fn new(headings: &[(&str, Alignment)]) -> Columns {
        let (texts, align) = headings.iter().map(|(text, align)| ((*text).to_owned(), *align)).unzip();
        Columns { align, rows: vec![texts] }
    }

    /// Adds a row, which has one text for each column.
    pub(crate) fn row(&mut self, row: impl Into<Vec<String>>) {
        self.rows.push(row.into());
    }

    /// Returns all rows as text, each with `indent` before it and a line feed after it.
    #[must_use]
    pub(crate) fn text(&self, indent: &str) -> String {
        let width = |column: usize| {
            let widths = self.rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or(0).min(MAX_WIDTH)
        };
        let widths: Vec<usize> = (0..self.align.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&self.align).zip(&widths).map(|((cell, align), width)| match align {
                Alignment::Left => format!("{cell:<width$}"),
                Alignment::Right => format!("{cell:>width$}"),
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            text.push_str(&format!("{indent}{}\n", line.trim_end()));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_text() {
        let mut columns =
            Columns::new(&[("name", Alignment::Left), ("n", Alignment::Right), ("note", Alignment::Left)]);
        columns.row(["worker 3".to_owned(), "12".to_owned(), String::new()]);
        assert_eq!(columns.text(" "), " name       n  note\n worker 3  12\n");
    }
    #[test]
    fn a_text_of_any_length_is_whole_and_makes_no_other_row_longer() {
        let long = "x".repeat(70_000);
        let mut columns = Columns::new(&[("name", Alignment::Left), ("n", Alignment::Right)]);
        columns.row([long.clone(), "1".to_owned()]);
        columns.row(["short".to_owned(), "2".to_owned()]);
        let text = columns.text("");
        let [_, first, second] = text.lines().collect::<Vec<_>>()[..] else { panic!("three lines") };
        assert_eq!(first, format!("{long}  1"));
        assert!(second.starts_with("short ") && second.ends_with(" 2") && second.len() < 300, "{second}");
    }
}
