//! `tracemerge` beside and after real programs: it finds, merges, follows, checks, shows, compares and cleans their
//! traces.

mod a_running_program_can_be_followed;
mod a_snapshot_reads_a_running_process;
mod calls_are_shown_with_their_names_and_places;
mod check_reports_whether_a_trace_is_whole;
mod clean_keeps_the_files_of_running_programs;
mod follow_shows_the_same_as_a_view;
mod info_counts_match_the_trace_files;
mod merge_gives_the_same_result_as_sort;
mod other_logs_are_merged_by_the_wall_clock;
mod run_ends_with_a_summary_on_a_terminal;
mod run_opens_the_traces;
mod run_records_what_its_view_needs;
mod running_programs_are_merged_without_gaps;
mod stats_can_follow_a_running_program;
#[cfg(target_os = "linux")]
mod thread_states_are_those_of_the_kernel;
mod traces_are_found_by_the_path_of_the_program;
mod traces_in_other_directories_are_found_again;
mod two_traces_can_be_compared;
mod view_times_match_the_clock_of_the_program;
