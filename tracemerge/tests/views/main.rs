//! The views of traces: selections, reports, comparisons, names of addresses, and formats for other programs, which
//! read them.

#[path = "../support/mod.rs"]
mod support;

mod a_comparison_tells_people_and_programs_the_same;
mod a_timeline_has_every_call_and_message;
mod babeltrace_reads_the_same_records;
mod call_paths_and_chromes_json_tell_every_call;
mod debug_information_is_bounded;
mod deep_calls_are_folded;
mod lines_for_other_programs_have_every_record;
mod lnav_reads_threads_and_times;
mod names_are_those_of_addr2line;
mod names_come_from_a_pdb;
mod other_programs_read_what_is_written;
mod perfettos_trace_processor_reads_what_is_written;
mod pools_are_compared_as_one_set;
mod profiles_are_balanced_and_add_up;
mod tables_have_every_record_and_value;
mod uftrace_tells_calls_as_we_do;
mod views_show_what_was_asked_for;
mod vim_colours_each_kind_of_line;
mod what_a_format_cannot_tell_is_said;
mod what_selects_records_selects_them_for_each_format;
