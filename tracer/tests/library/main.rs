//! The functions and types of the library that programs use beside its macros, in a process that does not trace.

#[cfg(feature = "unwind")]
mod callers_are_found_by_name_and_by_path;
#[cfg(feature = "unwind")]
mod closures_run_after_a_return;
mod locks_behave_like_those_of_std;
