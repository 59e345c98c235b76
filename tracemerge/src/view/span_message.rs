//! The messages that the bridge from `tracing` records about spans: `INFO app: span=7 request{path="/"} new parent=3`.

/// A message about a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanMessage<'a> {
    /// The id of the span.
    pub id: u64,
    /// The name of the span.
    pub name: &'a str,
    /// The values of the span's fields, as `path="/" size=3`; empty if there are none.
    pub fields: &'a str,
    /// The statement of the message about the span.
    pub subject: Subject,
}

/// The statement of a message about a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The span is new, and has the parent with this id, if any.
    New(Option<u64>),
    /// Values of the span's fields became known.
    Recorded,
    /// The span follows from the span with this id, in the sense of `tracing`.
    FollowsFrom(u64),
    /// The span is closed: the program has dropped its last handle.
    Closed,
}

/// The levels of messages, which each message of the bridge begins with.
const LEVELS: [&str; 5] = ["ERROR ", "WARN ", "INFO ", "DEBUG ", "TRACE "];

impl SpanMessage<'_> {
    /// Returns whether a text begins with a level, as each message of the bridge does.
    #[must_use]
    pub(crate) fn has_level(text: &[u8]) -> bool {
        LEVELS.iter().any(|level| text.starts_with(level.as_bytes()))
    }

    /// Reads a message; `None` if it is not about a span.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Option<SpanMessage<'_>> {
        let rest = LEVELS.iter().find_map(|level| text.strip_prefix(level))?;
        let (_target, rest) = rest.split_once(": span=")?;
        let (id, rest) = rest.split_once(' ')?;
        let id = id.parse().ok()?;
        let number = |word: &str| {
            let (before, number) = rest.rsplit_once(word)?;
            Some((before, number.parse::<u64>().ok()?))
        };
        let (described, subject) = if let Some(before) = rest.strip_suffix(" new") {
            (before, Subject::New(None))
        } else if let Some((before, parent)) = number(" new parent=") {
            (before, Subject::New(Some(parent)))
        } else if let Some(before) = rest.strip_suffix(" closed") {
            (before, Subject::Closed)
        } else if let Some((before, other)) = number(" follows_from=") {
            (before, Subject::FollowsFrom(other))
        } else {
            (rest, Subject::Recorded)
        };
        let (name, fields) = match described.strip_suffix('}').and_then(|open| open.split_once('{')) {
            Some(parts) => parts,
            None => (described, ""),
        };
        Some(SpanMessage { id, name, fields, subject })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_bridge_about_spans_are_read() {
        let parsed = |text| {
            SpanMessage::parse(text).map(|message| {
                let SpanMessage { id, name, fields, subject } = message;
                (id, name.to_owned(), fields.to_owned(), subject)
            })
        };
        for (text, id, name, fields, subject) in [
            ("INFO app: span=1 request new", 1, "request", "", Subject::New(None)),
            (
                r#"TRACE app::db: span=12 my query{sql="{a} new" n=3} new parent=7"#,
                12,
                "my query",
                r#"sql="{a} new" n=3"#,
                Subject::New(Some(7)),
            ),
            ("WARN app: span=1 request closed", 1, "request", "", Subject::Closed),
            ("ERROR app: span=1 request{status=500}", 1, "request", "status=500", Subject::Recorded),
            ("DEBUG app: span=9 request follows_from=4", 9, "request", "", Subject::FollowsFrom(4)),
        ] {
            assert_eq!(parsed(text), Some((id, name.to_owned(), fields.to_owned(), subject)), "{text}");
        }
        for other in ["INFO app: hello span=1", "app: span=1 x new", "INFO app: span=x y new", "", "INFO "] {
            assert_eq!(parsed(other), None, "{other}");
        }
    }
}
