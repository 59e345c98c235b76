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

/// Writes the manual page of the subcommand that these words name, or of the whole command if there are none.
///
/// # Errors
/// If there is no such subcommand, or if standard output accepts no more data.
pub(crate) fn page(words: &[String]) -> Result<(), Error> {
    let mut command = Cli::command();
    command.build();
    let mut found = &command;
    for word in words {
        found = found.find_subcommand(word).ok_or_else(|| {
            Error::plain(format!(
                "there is no subcommand '{}'; tracemerge --help lists them",
                words.join(" ").escape_debug()
            ))
        })?;
    }
    let text = rendered(found.clone()).map_err(|error| Error::io("make", Path::new("manual"), error))?;
    print(Content::Data, &text)
}

/// Returns the manual page of a command. The notes after the options keep their line breaks, which `clap_mangen`
/// would not keep.
fn rendered(mut command: Command) -> io::Result<Vec<u8>> {
    let notes = command.get_after_long_help().or(command.get_after_help());
    let notes = notes.map(ToString::to_string).unwrap_or_default();
    command = command.after_help(None::<&str>).after_long_help(None::<&str>);
    // `clap_mangen` leaves out the text of an option that the short help does not show.
    command = command.mut_args(|argument| argument.hide_short_help(false));
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

    /// Returns a command and all commands inside it.
    fn with_subcommands(command: &Command) -> Vec<&Command> {
        std::iter::once(command).chain(command.get_subcommands().flat_map(with_subcommands)).collect()
    }

    #[test]
    fn each_command_has_a_page_with_a_text_for_each_of_its_options() {
        let mut command = Cli::command();
        command.build();
        for command in with_subcommands(&command) {
            let page = String::from_utf8(rendered(command.clone()).unwrap()).unwrap();
            let options = page.split(".SH OPTIONS").nth(1).unwrap_or_default();
            let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
            for long in shown.filter_map(clap::Arg::get_long) {
                let name = format!("\\-\\-{}", long.replace('-', "\\-"));
                let item = options
                    .split(".TP\n")
                    .find(|item| item.lines().next().unwrap_or_default().contains(&name));
                let text = item.and_then(|item| item.lines().nth(1)).unwrap_or_default();
                let has_text = text.starts_with(|first: char| first.is_alphanumeric());
                assert!(has_text, "{}: {name}: {item:?}", command.get_name());
            }
        }
    }
}
