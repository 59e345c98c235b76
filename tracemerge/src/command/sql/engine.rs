//! DuckDB as a program: its command, or Python with its module. Each query runs in a process of its own, which first
//! reads the definitions of views and macros. All processes of a session share a database, so that later queries can
//! use the tables and views that a query creates.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::command::run::find_in_path;
use crate::os::unfinished::Scratch;
use crate::ui::error::Error;

/// The Python program that answers queries by means of DuckDB's module.
const DRIVER: &str = include_str!("driver.py");
/// The greatest number of bytes that are shown of an error message of DuckDB.
const LONGEST_ERROR: u64 = 1 << 14;

/// The program by which DuckDB answers queries.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// DuckDB's command `duckdb`, at this path.
    Command(PathBuf),
    /// Python, at this path, with DuckDB's module.
    Python(PathBuf),
}

impl Program {
    /// Finds the installed program by which DuckDB answers queries.
    ///
    /// # Errors
    /// If neither DuckDB's command nor its module for Python is installed.
    pub(super) fn find() -> Result<Program, Error> {
        if let Some(command) = find_in_path(Path::new("duckdb")) {
            return Ok(Program::Command(command));
        }
        let pythons = ["python3", "python"].iter().filter_map(|name| find_in_path(Path::new(name)));
        let has_module = |python: &PathBuf| {
            let mut command = of_python(python);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        pythons.into_iter().find(has_module).map(Program::Python).ok_or_else(|| {
            Error::plain(
                "there is no DuckDB, which answers queries: install its command duckdb \
                 (https://duckdb.org/install) or its module for Python (python3 -m pip install duckdb)",
            )
        })
    }
}

/// Returns a command that runs the Python program. Called without arguments, the program ends as soon as it has loaded
/// DuckDB's module.
fn of_python(python: &Path) -> Command {
    let mut command = Command::new(python);
    // Neither the current directory nor the environment name modules.
    command.args(["-I", "-c", DRIVER]);
    command
}

/// DuckDB, set up to answer the queries of a session about one data set.
#[derive(Debug)]
pub(super) struct Engine {
    /// The program that answers queries.
    pub program: Program,
    /// The settings and definitions that DuckDB reads before each query.
    pub prelude: String,
    /// The absolute path of the data set. It is the current directory of DuckDB's processes, so the definitions contain
    /// relative paths.
    pub set: PathBuf,
    /// The temporary directory with the session's database, and with the files of queries that need much memory.
    pub scratch: Scratch,
}

/// A query that DuckDB is answering.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    errors: File,
    rows: BufReader<ChildStdout>,
}

impl Engine {
    /// Starts to answer a query.
    ///
    /// # Errors
    /// If DuckDB cannot be started.
    pub(super) fn start(&self, query: &str) -> Result<Running, Error> {
        let database = self.scratch.path().join("session.duckdb");
        let mut command = match &self.program {
            Program::Command(program) => {
                let mut command = Command::new(program);
                command.args(["-no-init", "-batch", "-bail", "-jsonlines"]).arg(database);
                command
            }
            Program::Python(program) => {
                let mut command = of_python(program);
                command.arg(database).arg(self.prelude.len().to_string());
                command
            }
        };
        let mut begin = || {
            let (mut input, errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
            input.write_all(self.prelude.as_bytes())?;
            input.write_all(query.as_bytes())?;
            input.write_all(b"\n;\n")?;
            input.rewind()?;
            command.current_dir(&self.set).stdin(input).stdout(Stdio::piped()).stderr(errors.try_clone()?);
            let mut child = command.spawn()?;
            let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
            Ok(Running { child, errors, rows: BufReader::new(stdout) })
        };
        begin().map_err(|error| Error::io("run", Path::new(command.get_program()), error))
    }
}

impl Running {
    /// Returns the reader of DuckDB's answer, which has a line for each row.
    pub(super) fn rows(&mut self) -> &mut impl BufRead {
        &mut self.rows
    }

    /// Waits for the end of DuckDB's process. Returns the error message of DuckDB, if the query failed.
    ///
    /// # Errors
    /// If it cannot be determined how the process ended.
    pub(super) fn finish(self) -> Result<Result<(), String>, Error> {
        let Running { mut child, mut errors, rows } = self;
        // A query whose rows are not wanted any more ends.
        drop(rows);
        let failed = |error| Error::io("wait for", Path::new("DuckDB"), error);
        let status = child.wait().map_err(failed)?;
        if status.success() {
            return Ok(Ok(()));
        }
        let mut said = Vec::new();
        let read = errors.rewind().and_then(|()| errors.take(LONGEST_ERROR).read_to_end(&mut said));
        read.map_err(failed)?;
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        Ok(Err(if said.is_empty() { format!("DuckDB ended with {status}") } else { said }))
    }
}
