//! `tracemerge` beside and after real programs: it finds, merges, follows, checks, shows, compares and cleans their
//! traces.

mod a_merge_of_a_running_program_is_a_prefix_of_it;
mod a_running_program_can_be_followed;
mod a_snapshot_reads_a_living_process;
mod calls_are_shown_with_their_names_and_places;
mod check_proves_that_a_trace_is_whole;
mod cleaning_leaves_what_still_runs;
mod info_counts_what_there_is;
mod logs_of_others_are_merged_by_the_wall_clock;
mod merged_traces_equal_those_of_sort;
mod times_of_a_view_are_those_of_the_program;
mod traces_are_found_by_the_name_that_was_started;
mod two_traces_can_be_compared;
mod what_is_followed_can_be_counted;
mod what_is_followed_is_a_view_that_grows;
mod what_was_found_once_is_found_again;
