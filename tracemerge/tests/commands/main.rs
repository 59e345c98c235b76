//! The behaviour of the commands: errors, statuses, outputs, terminals, pagers and viewers.

#[path = "../support/mod.rs"]
mod support;

mod cleaning_deletes_only_files_of_the_path;
mod errors_name_the_real_cause;
mod every_command_rejects_non_files;
mod misspelt_commands_do_nothing;
mod no_raw_byte_reaches_a_terminal;
mod open_starts_an_installed_viewer;
mod output_is_whole_or_absent;
mod outputs_follow_no_link;
mod run_passes_the_status_on;
mod terminal_conventions_are_followed;
mod the_newest_traces_need_no_name;
mod the_terminal_view_is_used_by_keys;
mod threads_with_one_id_are_counted_apart;
mod windows_behaviour_is_handled;
mod write_errors_fail_the_command;
