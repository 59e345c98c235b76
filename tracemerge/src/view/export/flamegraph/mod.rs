//! A flame graph as an SVG image.

#[cfg(feature = "flamegraph")]
mod graph;

use crate::view::export::format::{OutputContent, OutputFormat, contains};

/// The description of the format `flamegraph` for the command line.
pub(crate) static FORMAT: OutputFormat = OutputFormat {
    name: "flamegraph",
    about: "A flame graph, drawn as SVG",
    extension: "svg",
    content: OutputContent::Text,
    nests_calls: true,
    times_of_day: false,
    takes_states: false,
    begins: |head| contains(head, b"<svg") && contains(head, b"Calls by thread and path"),
    #[cfg(feature = "flamegraph")]
    make: Some(|context| Box::new(graph::FlamegraphFormat::new(context.depth, context.threads()))),
    #[cfg(not(feature = "flamegraph"))]
    make: None,
};
