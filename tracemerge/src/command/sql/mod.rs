//! The subcommand `sql`: queries of traces and of data sets, which DuckDB answers.
//!
//! DuckDB is a third-party program, which must be installed: as its command `duckdb`, or as its module for Python. This
//! command makes views of the tables of a data set, and the macros in `macros.sql`. If the user names an application or
//! a directory of traces, it first writes a data set from the traces, among the temporary files.
//!
//! Data sets and traces may come from strangers. So the views name each file of the set, and DuckDB may neither open
//! other files nor install or load extensions; no query can change this. DuckDB writes rows as lines of JSON; the
//! console escapes them before they reach the terminal.

#[cfg(feature = "parquet")]
mod answer;
#[cfg(feature = "parquet")]
mod ask;
#[cfg(feature = "parquet")]
mod engine;
#[cfg(feature = "parquet")]
mod prelude;

use std::path::PathBuf;

use crate::ui::error::Error;
use crate::ui::messages::Messages;
use crate::view::request::Request;
use crate::view::rows::RowForm;

/// The user's request to `sql`: the source of the rows, the query, and the form of the answer.
#[derive(Debug)]
#[cfg_attr(not(feature = "parquet"), allow(dead_code, reason = "without DuckDB's tables there is no answer"))]
pub(crate) struct Question {
    /// The source of the rows: the path of a data set, of an application, or of a directory with traces.
    pub source: PathBuf,
    /// The query; if it is `None`, queries are read from standard input.
    pub query: Option<String>,
    /// The form of the answer.
    pub form: RowForm,
    /// The user's selection of records, if the source is not a data set.
    pub request: Request,
}

/// Answers queries by DuckDB, and prints the answers.
///
/// # Errors
/// If DuckDB is not installed, if there are no traces, or if the data set cannot be read.
#[cfg(feature = "parquet")]
pub(crate) fn sql(question: &Question, messages: &mut Messages) -> Result<(), Error> {
    ask::ask(question, messages)
}

/// Returns the error which says that this command was built without the format Parquet.
///
/// # Errors
/// Always.
#[cfg(not(feature = "parquet"))]
pub(crate) fn sql(_question: &Question, _messages: &mut Messages) -> Result<(), Error> {
    Err(crate::command::dataset::without_parquet())
}
