//! The ends of processes: exits, crashes, kills, forks, other programs in their place; and the recovery of dead
//! runs.

mod a_crash_leaves_its_stack;
mod a_decision_that_is_never_ended_is_taken_over;
mod a_forked_child_is_a_run_of_its_own;
mod a_kill_in_the_middle_of_a_write_loses_nothing;
mod a_killed_program_is_whole_to_other_readers;
mod a_killed_program_leaves_readable_rings;
mod a_killed_program_loses_nothing;
mod a_program_that_becomes_another_user_loses_nothing;
mod a_thread_may_be_stopped_anywhere;
mod an_exit_keeps_every_record;
mod children_of_every_kind_lose_nothing;
mod earlier_layouts_are_recovered;
mod kept_files_of_every_version_are_read;
mod the_dead_are_told_from_the_living;
mod torture_holds_the_equation;
mod what_cannot_be_recovered_is_merged_from_memory;
mod what_ended_a_process_is_in_its_trace;
