//! Defence against other users, damaged rings and files, and forged lines: SECURITY.md has the promises.

/// The checks of the fuzz targets.
#[path = "../../fuzz/checks.rs"]
mod checks;

mod any_bytes_are_read_without_harm;
mod commands_survive_any_input;
mod hostile_rings_do_no_harm;
mod no_text_can_forge_a_line;
mod other_users_cannot_delay_or_crash_a_reader;
mod other_users_cannot_mislead_the_tracer;
