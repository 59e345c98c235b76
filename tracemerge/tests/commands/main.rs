//! The behaviour of the commands: errors, statuses, outputs, terminals, pagers and viewers.

#[path = "../support/mod.rs"]
mod support;

mod cleaning_deletes_what_the_path_has_made;
mod errors_say_what_is_so;
mod habits_of_a_terminal_are_kept;
mod no_raw_byte_reaches_a_terminal;
mod open_starts_the_viewer_that_is_there;
mod output_is_whole_or_absent;
mod outputs_follow_no_link;
mod run_passes_the_status_on;
mod what_is_no_file_is_named_by_every_command;
mod windows_is_lived_with;
mod write_errors_are_errors;
