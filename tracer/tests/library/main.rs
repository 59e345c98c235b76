//! The functions and types of the library that programs use beside its macros, in a process that does not trace.

#[cfg(feature = "unwind")]
mod callers_are_found_by_name_and_by_path;
mod locks_do_what_those_of_std_do;
#[cfg(feature = "unwind")]
mod what_follows_a_return_is_run;
