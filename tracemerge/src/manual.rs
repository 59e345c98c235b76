//! Completions and manual pages, made from the definition of the command line.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::Cli;
use crate::error::Error;

const NAME: &str = "tracemerge";

/// Writes the completions of `shell`.
///
/// # Errors
/// Where standard output takes no more.
pub fn completions(shell: Shell) -> Result<(), Error> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut text);
    put(&text)
}

/// Writes the manual page of the whole, or of the subcommand `of`.
///
/// # Errors
/// Where there is no such subcommand, or standard output takes no more.
pub fn page(of: Option<&str>) -> Result<(), Error> {
    let mut command = Cli::command();
    command.build();
    if let Some(name) = of {
        let found = command.find_subcommand(name);
        let found =
            found.ok_or_else(|| Error::plain(format!("there is no subcommand '{}'", name.escape_debug())))?;
        command = found.clone();
    }
    let mut text = Vec::new();
    Man::new(command).render(&mut text).map_err(|error| Error::io("make", Path::new("manual"), error))?;
    put(&text)
}

fn put(text: &[u8]) -> Result<(), Error> {
    match io::stdout().write_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::io("write to standard output", Path::new("-"), error))
        }
        _ => Ok(()),
    }
}
