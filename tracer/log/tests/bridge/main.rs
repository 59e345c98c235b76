//! What programs say by `log` is in their traces.

mod log_records_are_messages;
