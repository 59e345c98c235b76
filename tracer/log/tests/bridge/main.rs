//! The messages that programs write with `log` are in their traces.

mod log_records_are_messages;
