//! The views of traces: selections, reports, comparisons, names of addresses, and formats for other programs, which
//! read them.

#[path = "../support/mod.rs"]
mod support;

mod a_timeline_has_every_call_and_message;
mod babeltrace_reads_the_same_records;
mod call_paths_and_chrome_json_have_every_call;
mod calls_left_in_another_order_overlap;
mod collapsed_trees_have_each_call_path_once;
mod comparisons_agree_in_text_and_json;
mod data_sets_are_read_like_their_traces;
mod data_sets_have_every_record_once;
mod debug_information_is_bounded;
mod deep_calls_are_folded;
mod durations_are_those_of_the_program;
mod empty_selections_are_explained;
mod every_shown_name_selects_its_thread;
mod exported_lines_have_every_record;
mod files_are_found_by_build_id;
mod functions_of_two_traces_are_compared;
mod lnav_reads_threads_and_times;
mod long_traces_have_several_pages;
mod names_agree_with_addr2line;
mod names_come_from_a_pdb;
mod omissions_of_each_format_are_reported;
mod other_programs_read_the_exports;
mod perfettos_trace_processor_reads_the_exports;
mod pools_are_compared_as_one_set;
mod profiles_are_balanced_and_add_up;
mod reports_have_spans;
mod rows_for_programs_are_those_of_the_table;
mod selections_apply_to_each_format;
mod show_indents_calls;
mod spans_have_tracks_in_timelines;
mod spans_may_be_left_on_another_thread;
mod sql_answers_agree_with_views;
mod stats_name_functions;
mod stripped_functions_are_shown_as_offsets;
mod summaries_fit_a_screen;
mod tables_have_every_record_and_value;
mod the_page_agrees_with_report;
mod uftrace_agrees_about_calls;
mod views_show_the_selected_records;
mod vim_colours_each_kind_of_line;
mod waits_of_the_tracer_are_no_time_of_a_call;
mod what_has_not_ended_lasts_until_the_last_sign_of_life;
