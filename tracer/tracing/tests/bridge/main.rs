//! The events and spans of programs are in their traces.

mod events_and_spans_are_in_the_trace;
mod requests_are_followed_through_a_server;
