//! The search for traces, and their merge: owners, runs, clocks, damaged and odd files, memory and descriptors.

#[path = "../support/mod.rs"]
mod support;

mod a_damaged_run_line_hides_nothing;
mod a_file_that_is_truncated_under_a_merge_does_not_kill_it;
mod a_live_run_gives_a_prefix;
mod a_range_of_files_that_go_back_is_that_of_their_merge;
mod damaged_files_are_named_and_the_rest_is_merged;
mod info_shows_who_was_forked;
mod kinds_of_later_versions_are_copied;
mod machines_are_aligned_by_the_wall_clock;
mod memory_and_output_grow_with_the_input;
mod odd_files_cost_no_memory_and_no_harm;
mod output_equals_that_of_sort;
mod owners_are_never_mixed;
mod raw_files_that_go_back_lose_nothing;
mod several_applications_are_merged_into_one;
mod ten_thousand_files_fit_256_descriptors;
mod the_newest_run_is_chosen;
mod traces_are_found_by_any_path;
