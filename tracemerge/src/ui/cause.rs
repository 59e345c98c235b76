//! The cause of a process's end, described in words for messages.

use trace_format::meta::Cause;

/// Returns the known cause of a process's end, in parentheses, as text that follows the kind of the end in a message;
/// empty if no cause is known.
#[must_use]
pub(crate) fn in_words(cause: &Cause) -> String {
    let panic = cause.panic.map(|tid| format!("a panic of thread {tid}"));
    let signal = cause.signal.map(|signal| signal.to_string());
    let status = cause.status.map(|status| format!("status {status}"));
    let known: Vec<String> = [panic, signal, status].into_iter().flatten().collect();
    if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) }
}
