//! The ends of processes: exits, crashes, kills, forks, other programs in their place; and the recovery of dead
//! runs.

mod a_crash_leaves_its_stack;
mod a_forked_child_has_its_own_run;
mod a_kill_during_a_write_loses_nothing;
mod a_killed_program_leaves_readable_rings;
mod a_killed_program_loses_nothing;
mod a_program_that_changes_its_user_loses_nothing;
mod a_thread_may_be_stopped_anywhere;
mod an_exit_keeps_every_record;
mod an_unfinished_startup_decision_is_taken_over;
mod children_of_every_kind_lose_nothing;
mod dead_runs_are_distinguished_from_running_ones;
mod earlier_layouts_are_recovered;
mod kept_files_of_every_version_are_read;
mod other_readers_find_every_record_of_a_killed_program;
mod runs_whose_directory_is_elsewhere_are_left;
mod torture_accounts_for_every_record;
mod traces_record_how_their_process_ended;
mod unrecoverable_runs_are_merged_from_memory;
