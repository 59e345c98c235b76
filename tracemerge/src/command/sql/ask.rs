//! A session of queries: prepares the data set and DuckDB, and reads queries from the command line or from standard
//! input.

use std::fs::canonicalize;
use std::io::{self, BufRead, IsTerminal, Read};
use std::path::PathBuf;

use super::Question;
use super::answer::show;
use super::engine::{Engine, Program};
use super::prelude::prelude;
use crate::command::dataset::write_new;
use crate::command::merge::Job;
use crate::find::app::App;
use crate::find::choose::Choice;
use crate::find::set_files::list_files;
use crate::find::set_runs::checked_files;
use crate::os::signals::{Signals, keep_interrupts_from_this_process};
use crate::os::unfinished::Scratch;
use crate::ui::console::Stream;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, shown};
use crate::view::export::parquet::dataset::TABLES;
use crate::view::rows::RowForm;

/// The greatest length of queries that are read from standard input, in bytes.
const LONGEST_QUERY: u64 = 16 << 20;
/// The prompts on a terminal: for the first line of a query, and for its further lines.
const PROMPTS: [&str; 2] = ["sql> ", "  -> "];
/// The words that end a session on a terminal.
const ENDS: [&str; 4] = ["exit", "quit", ".exit", ".quit"];

/// Answers the query of `question`, or the queries on standard input, by DuckDB, and prints the answers.
pub(super) fn ask(question: &Question, messages: &mut Messages) -> Result<(), Error> {
    let Question { source, query, form, .. } = question;
    let program = Program::find()?;
    // A signal deletes the scratch directory.
    Signals::take();
    let failed =
        |error| Error::io("make a directory for temporary files in", &tempfile::env::temp_dir(), error);
    let scratch = Scratch::new().map_err(failed)?;
    let set = set_of(question, &scratch, messages)?;
    let listed = checked_files(&set, &TABLES).and_then(|files| {
        files.ok_or_else(|| io::Error::other("it has no table of runs, so it is not a data set"))
    });
    let files = listed.map_err(|error| Error::io("read the data set", source, error))?;
    let prelude = prelude(&files, &scratch);
    let engine = Engine { program, prelude, set, scratch };
    // The keyboard interrupts a query, and not the session.
    keep_interrupts_from_this_process();
    match query {
        Some(query) => answer(&engine, query, *form, messages),
        None if io::stdin().is_terminal() => converse(&engine, *form, messages),
        None => {
            let mut query = String::new();
            io::stdin().lock().take(LONGEST_QUERY + 1).read_to_string(&mut query).map_err(unread_query)?;
            check_length(&query)?;
            answer(&engine, &query, *form, messages)
        }
    }
}

/// Returns the error which says that queries cannot be read from standard input because of `error`.
fn unread_query(error: io::Error) -> Error {
    Error::plain(format!("cannot read queries from standard input: {error}"))
}

/// Checks that a query from standard input is not longer than `LONGEST_QUERY`.
///
/// # Errors
/// The query is too long.
fn check_length(query: &str) -> Result<(), Error> {
    if query.len() as u64 <= LONGEST_QUERY {
        return Ok(());
    }
    Err(Error::plain(format!("a query on standard input may have at most {LONGEST_QUERY} bytes")))
}

/// Returns the absolute path of a data set: the one that the user has named or, if the user has named traces, a new one
/// that is made of these traces.
fn set_of(question: &Question, scratch: &Scratch, messages: &mut Messages) -> Result<PathBuf, Error> {
    let Question { source, request, .. } = question;
    let failed = |error| Error::io("read the data set", source, error);
    if source.is_dir() && list_files(source).map_err(failed)?.is_some() {
        if request.view.leaves_out() {
            let path = shown(source);
            let text = format!(
                "{path} is a data set: select its records by the query, because options such as --since select \
                 records of traces only"
            );
            return Err(Error::plain(text));
        }
        return canonicalize(source).map_err(failed);
    }
    let apps = [App::or_directory(source.clone())?];
    let choice = if request.all_runs { Choice::All } else { Choice::Newest };
    let set = scratch.path().join("set");
    write_new(&set, &Job { apps: &apps, request, choice }, messages)?;
    if !set.is_dir() {
        return Err(Error::plain(format!("no run of {} could be read", shown(source))));
    }
    Ok(set)
}

/// Runs a query, and prints its answer.
fn answer(engine: &Engine, query: &str, form: RowForm, messages: &mut Messages) -> Result<(), Error> {
    let mut running = engine.start(query)?;
    let shown = show(running.rows(), form, messages);
    let ended = running.finish();
    shown?;
    if let Err(failure) = ended? {
        messages.failure(failure);
    }
    Ok(())
}

/// Reads queries from the terminal until the user ends the session.
fn converse(engine: &Engine, form: RowForm, messages: &mut Messages) -> Result<(), Error> {
    messages.done(format_args!(
        "a query ends with a semicolon: 'show tables;' lists the tables, 'describe calls;' the columns of the table calls. Ctrl-D ends the prompt"
    ));
    let mut query = String::new();
    loop {
        Stream::Error.show(PROMPTS[usize::from(!query.is_empty())].as_bytes());
        let mut line = String::new();
        let read = io::stdin().lock().take(LONGEST_QUERY + 1).read_line(&mut line).map_err(unread_query)?;
        check_length(&line)?;
        let ends = query.is_empty() && ENDS.contains(&line.trim().trim_end_matches(';'));
        if ends {
            return Ok(());
        }
        query.push_str(&line);
        if (read == 0 || query.trim_end().ends_with(';')) && !query.trim().is_empty() {
            // An error is shown, and does not end the session.
            answer(engine, &query, form, &mut Messages::new(false))?;
            query.clear();
        }
        if read == 0 {
            return Ok(());
        }
        if query.trim().is_empty() {
            query.clear();
        }
    }
}
