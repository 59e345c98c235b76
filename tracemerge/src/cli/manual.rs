//! Completions and manual pages, made from the definition of the command line.

use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::{Cli, NAME};
use crate::ui::console::{Content, print};
use crate::ui::error::Error;

/// Writes the completions of `shell`.
///
/// # Errors
/// If standard output accepts no more data.
pub(crate) fn completions(shell: Shell) -> Result<(), Error> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut text);
    print(Content::Data, &text)
}

/// Writes the manual page of a `subcommand`, or of the whole command.
///
/// # Errors
/// If there is no such subcommand, or if standard output accepts no more data.
pub(crate) fn page(subcommand: Option<&str>) -> Result<(), Error> {
    let mut command = Cli::command();
    command.build();
    if let Some(name) = subcommand {
        let found = command.find_subcommand(name);
        let found =
            found.ok_or_else(|| Error::plain(format!("there is no subcommand '{}'", name.escape_debug())))?;
        command = found.clone();
    }
    let text = rendered(command).map_err(|error| Error::io("make", Path::new("manual"), error))?;
    print(Content::Data, &text)
}

/// Returns the manual page of a command. The notes after the options keep their line breaks, which `clap_mangen`
/// would not keep.
fn rendered(mut command: Command) -> io::Result<Vec<u8>> {
    let notes = command.get_after_long_help().or(command.get_after_help());
    let notes = notes.map(ToString::to_string).unwrap_or_default();
    command = command.after_help(None::<&str>).after_long_help(None::<&str>);
    let (has_commands, has_version) = (command.has_subcommands(), command.get_version().is_some());
    let (page, mut text) = (Man::new(command), Vec::new());
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if has_commands {
        page.render_subcommands_section(&mut text)?;
    }
    text.extend_from_slice(b".SH NOTES\n.nf\n");
    for line in notes.lines() {
        // A dot or a quote at the beginning would make the line a request to the formatter.
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        text.extend_from_slice(format!("\\&{line}\n").as_bytes());
    }
    text.extend_from_slice(b".fi\n");
    if has_version {
        page.render_version_section(&mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_with_all_its_options() {
        let mut command = Cli::command();
        command.build();
        for command in std::iter::once(&command).chain(command.get_subcommands()) {
            let page = String::from_utf8(rendered(command.clone()).unwrap()).unwrap();
            let options = page.split(".SH OPTIONS").nth(1).unwrap_or_default();
            let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
            for long in shown.filter_map(clap::Arg::get_long) {
                let name = format!("\\-\\-{}", long.replace('-', "\\-"));
                assert!(options.contains(&name), "{}: {name}: {options}", command.get_name());
            }
        }
    }
}
