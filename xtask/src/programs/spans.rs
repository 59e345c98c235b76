//! The spans of requests, as two views of a trace show them.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::counts::split_fields;

/// The spans of requests in a view: for each, its URI, the number of times that it was entered, and the number of
/// threads that have entered it.
pub type Spans = BTreeSet<(String, usize, usize)>;

#[derive(Default)]
struct Span {
    uri: Option<String>,
    polls: usize,
    threads: HashSet<String>,
    closed: bool,
}

type ById = HashMap<u64, Span>;

fn all_named(spans: ById) -> Spans {
    let named = |span: Span| Some((span.uri?, span.polls, span.threads.len()));
    spans.into_values().filter_map(named).collect()
}

/// Parses the spans of requests in a tree. Each span must be left as often as it was entered, the innermost span first,
/// and closed once, after it was left for the last time.
pub fn of_tree(tree: &str) -> Result<Spans, String> {
    let (mut spans, mut depths) = (ById::new(), HashMap::<&str, usize>::new());
    for line in tree.lines() {
        let bad = |reason: &str| Err(format!("{reason}: {line}"));
        // The time, the time since the line before, the thread and, of an end, the duration.
        let Some((fields, text)) = split_fields::<3>(line) else { continue };
        let (thread, text) = (fields[2], without_duration(text));
        if let Some(id) = text.strip_prefix("request #").and_then(leading_number) {
            match spans.get_mut(&id) {
                Some(span) if span.uri.is_some() && !span.closed => {
                    span.polls += 1;
                    span.threads.insert(thread.to_owned());
                }
                _ => return bad("entered before it was made, or after its end"),
            }
            if text.ends_with('{') {
                *depths.entry(thread).or_default() += 1;
            }
        } else if text.starts_with("} request") {
            match depths.get_mut(thread) {
                Some(depth) if *depth > 0 => *depth -= 1,
                _ => return bad("left, and not entered"),
            }
        } else if let Some((id, rest)) = span_of_message(text) {
            let span = spans.entry(id).or_default();
            if rest == "request closed" {
                if std::mem::replace(&mut span.closed, true) {
                    return bad("closed twice");
                }
            } else if rest.starts_with("request{") && rest.ends_with(" new") {
                if span.uri.is_some() {
                    return bad("made twice");
                }
                span.uri = Some(uri_of(rest).to_owned());
            }
        }
    }
    if let Some((thread, _)) = depths.iter().find(|(_, depth)| **depth > 0) {
        return Err(format!("the thread {thread} has not left the spans that it has entered"));
    }
    match spans.values().find(|span| span.uri.is_some() && !span.closed) {
        Some(span) => Err(format!("{:?} is not closed", span.uri)),
        None => Ok(all_named(spans)),
    }
}

/// Parses the spans of requests in lines of JSON.
pub fn of_lines(lines: &str) -> Result<Spans, serde_json::Error> {
    let mut spans = ById::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line)?;
        if line["kind"] == "enter" && line["function"] == "request" {
            let id = &line["fields"]["span"];
            let id = id.as_u64().or_else(|| id.as_str()?.parse().ok()).unwrap_or_default();
            let span = spans.entry(id).or_default();
            span.polls += 1;
            span.threads.insert(line["tid"].to_string());
        } else if line["kind"] == "message" {
            match line["message"].as_str().and_then(span_of_message) {
                Some((id, text)) if text.starts_with("request{") && text.ends_with(" new") => {
                    spans.entry(id).or_default().uri = Some(uri_of(text).to_owned());
                }
                _ => {}
            }
        }
    }
    Ok(all_named(spans))
}

/// Splits a message about a span into the span's number and the text after it.
fn span_of_message(text: &str) -> Option<(u64, &str)> {
    let rest = text.strip_prefix("span=").or_else(|| Some(text.split_once(" span=")?.1))?;
    let (id, text) = rest.split_once(' ')?;
    Some((id.parse().ok()?, text))
}

/// Returns the URI among the values of a span.
fn uri_of(text: &str) -> &str {
    text.split_once("uri=").and_then(|(_, rest)| rest.split(' ').next()).unwrap_or_default()
}

/// Parses the number with which a text begins, before a space.
fn leading_number(text: &str) -> Option<u64> {
    text.split_once(' ')?.0.parse().ok()
}

/// Removes a duration, a number with its unit, from the beginning of a text.
fn without_duration(text: &str) -> &str {
    let without = || {
        let (number, rest) = text.split_once(' ')?;
        let (unit, rest) = rest.split_once(' ')?;
        let is_duration = number.parse::<f64>().is_ok() && ["ns", "us", "ms", "s"].contains(&unit);
        is_duration.then_some(rest.trim_start())
    };
    without().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADE: &str = "0.1  0.1 7  a.rs:1 span=3 request{method=GET uri=/1?2 version=HTTP/1.1} new\n";
    const ENTERED: &str = "0.2  0.1 7  request #3 {\n0.3  0.1 7  1.5 us } request\n";
    const CLOSED: &str = "0.4  0.1 7  a.rs:1 span=3 request closed\n";
    const MOVED: &str = "0.3  0.1 8  request #3 {\n0.3  0.1 8  1.5 us } request\n";

    #[test]
    fn a_request_is_one_span_from_its_beginning_to_its_end() {
        let spans = of_tree(&[MADE, ENTERED, MOVED, ENTERED, CLOSED].concat());
        assert_eq!(spans, Ok(Spans::from([("/1?2".to_owned(), 3, 2)])));
        let lines = r#"{"kind":"message","message":"span=3 request{uri=/1?2 v=1} new"}
            {"kind":"enter","function":"request","tid":7,"fields":{"span":3}}
            {"kind":"enter","function":"request","tid":8,"fields":{"span":"3"}}
            {"kind":"enter","function":"other","tid":9,"fields":{"span":3}}"#;
        assert_eq!(of_lines(lines).unwrap(), Spans::from([("/1?2".to_owned(), 2, 2)]));
    }

    #[test]
    fn each_wrong_order_is_noticed() {
        let left = "0.3  0.1 7  1.5 us } request\n";
        let open = "0.2  0.1 7  request #3 {\n";
        let wrong = [
            ("entered before", [ENTERED, MADE, CLOSED].concat()),
            ("or after its end", [MADE, CLOSED, ENTERED].concat()),
            ("not entered", [MADE, left, CLOSED].concat()),
            ("not left", [MADE, open, CLOSED].concat()),
            ("closed twice", [MADE, CLOSED, CLOSED].concat()),
            ("made twice", [MADE, MADE, CLOSED].concat()),
            ("is not closed", [MADE, ENTERED].concat()),
        ];
        for (reason, tree) in wrong {
            assert!(of_tree(&tree).is_err_and(|error| error.contains(reason)), "{reason}");
        }
    }
}
