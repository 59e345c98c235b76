//! The settings and definitions that DuckDB reads before each query: limits of what queries may do, a view of each
//! table, and macros.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::find::set_files::FilePlace;
use crate::os::unfinished::Scratch;
use crate::view::export::parquet::dataset::columns_of_tables;
use crate::view::export::parquet::schema::ColumnType;

/// The definitions of macros in SQL, which docs/guide.md describes.
const MACROS: &str = include_str!("macros.sql");
/// The amount of memory that DuckDB may use before it moves data to temporary files.
const MEMORY: &str = "1GB";

/// Returns the settings and definitions for a data set that consists of `files`. The set's directory has to be DuckDB's
/// current directory.
pub(super) fn prelude(files: &[FilePlace], scratch: &Scratch) -> String {
    let mut by_table = BTreeMap::<&str, Vec<String>>::new();
    for place in files {
        by_table.entry(&place.table).or_default().push(quoted(&place.path(), '\''));
    }
    let temporary = scratch.path().join("spilled");
    let mut text = format!(
        "set autoinstall_known_extensions = false;\n\
         set autoload_known_extensions = false;\n\
         set memory_limit = '{MEMORY}';\n\
         set temp_directory = {};\n\
         set TimeZone = 'UTC';\n",
        quoted(&temporary.to_string_lossy(), '\'')
    );
    for (table, columns) in columns_of_tables() {
        // Columns that no file of the table has are there, too.
        let columns = columns
            .iter()
            .map(|column| format!("null::{} as {}", type_of(column.of), quoted(&column.name, '"')));
        let columns: Vec<String> =
            columns.chain(["null::date as day".into(), "null::varchar as machine".into()]).collect();
        let mut select = format!("select {} where false", columns.join(", "));
        if let Some(files) = by_table.get(table) {
            // Writing to memory does not fail.
            let _ = write!(
                select,
                " union all by name select * from read_parquet([{}], union_by_name = true, \
                 hive_partitioning = true, hive_types = {{'day': date, 'machine': varchar}})",
                files.join(", ")
            );
        }
        put_view(table, &select, &mut text);
    }
    text.push_str(MACROS);
    // From here on, no query reaches other files, or changes a setting.
    text.push_str(
        "set allowed_directories = ['.'];\nset enable_external_access = false;\nset lock_configuration = true;\n",
    );
    text
}

fn put_view(table: &str, select: &str, text: &mut String) {
    // Writing to memory does not fail.
    let _ = writeln!(text, "create or replace view {} as {select};", quoted(table, '"'));
}

/// Returns the SQL name of the type of a column.
fn type_of(of: ColumnType) -> &'static str {
    match of {
        ColumnType::Integer | ColumnType::FewIntegers => "bigint",
        ColumnType::Time => "timestamptz",
        ColumnType::F32 => "float",
        ColumnType::F64 => "double",
        ColumnType::Bool => "boolean",
        ColumnType::Text => "varchar",
    }
}

/// Returns a text in quotes, as SQL requires it: quotes inside are doubled.
fn quoted(text: &str, quote: char) -> String {
    let doubled = text.replace(quote, &format!("{quote}{quote}"));
    format!("{quote}{doubled}{quote}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_no_quotes() {
        assert_eq!(quoted("it's", '\''), "'it''s'");
        assert_eq!(quoted("a\"; drop", '"'), "\"a\"\"; drop\"");
    }

    #[test]
    fn each_table_has_a_view_and_nothing_is_allowed_behind_the_definitions() {
        let scratch = Scratch::new().unwrap();
        let files = [FilePlace::parse(["calls", "2026-11-18", "m", "a.parquet"].into_iter()).unwrap()];
        let text = prelude(&files, &scratch);
        for (table, _) in columns_of_tables() {
            assert_eq!(
                text.matches(&format!("create or replace view \"{table}\" as ")).count(),
                1,
                "{table}"
            );
        }
        assert_eq!(text.matches("read_parquet(").count(), 1);
        assert!(text.ends_with("set lock_configuration = true;\n"));
    }
}
