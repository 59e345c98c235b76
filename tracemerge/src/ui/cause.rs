//! What ended a process, in words.

use trace_format::meta::Cause;

/// Returns what is known of the end, to be written behind how the process ended; empty where nothing is.
#[must_use]
pub fn in_words(cause: &Cause) -> String {
    let panic = cause.panic.map(|tid| format!("a panic of thread {tid}"));
    let signal = cause.signal.map(|signal| signal.to_string());
    let status = cause.status.map(|status| format!("status {status}"));
    let known: Vec<String> = [panic, signal, status].into_iter().flatten().collect();
    if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) }
}
