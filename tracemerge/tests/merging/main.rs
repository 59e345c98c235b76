//! The search for traces, and their merge: owners, runs, clocks, damaged and odd files, memory and descriptors.

#[path = "../support/mod.rs"]
mod support;

mod a_damaged_run_line_hides_no_files;
mod a_live_run_gives_a_prefix;
mod damaged_files_are_named_and_the_rest_is_merged;
mod info_shows_forked_processes;
mod kinds_of_later_versions_are_copied;
mod logs_are_placed_by_their_times;
mod machines_are_aligned_by_the_wall_clock;
mod machines_are_aligned_by_their_messages;
mod memory_and_output_grow_with_the_input;
mod odd_files_are_merged_in_bounded_memory;
mod output_equals_that_of_sort;
mod owners_are_never_mixed;
mod ranges_are_complete_even_if_ticks_go_back;
mod raw_files_whose_ticks_go_back_lose_no_records;
mod several_applications_are_merged_into_one;
mod ten_thousand_files_fit_256_descriptors;
mod the_newest_run_is_chosen;
mod traces_are_found_by_any_path;
mod truncating_a_file_does_not_kill_a_running_merge;
