//! The formats of other programs for the output of a merge, by name.

use std::sync::Arc;

use crate::input::site_catalog::SiteCatalog;
use crate::ui::console::Content;
use crate::view::calls::Depth;
use crate::view::export::Export;
use crate::view::export::chrome::ChromeFormat;
use crate::view::export::csv::CsvFormat;
use crate::view::export::ctf::CtfFormat;
use crate::view::export::events::{EventExport, EventFormat};
#[cfg(feature = "flamegraph")]
use crate::view::export::flamegraph::FlamegraphFormat;
use crate::view::export::folded::FoldedFormat;
use crate::view::export::jsonl::JsonlFormat;
#[cfg(feature = "parquet")]
use crate::view::export::parquet::ParquetFormat;
use crate::view::export::perfetto::PerfettoFormat;
use crate::view::export::speedscope::SpeedscopeFormat;
use crate::view::export::uftrace::UftraceFormat;
use crate::view::function_names::SharedNames;

/// A format that other programs read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherFormat {
    /// A JSON object for each record.
    Jsonl,
    /// A row of comma-separated values for each record.
    Csv,
    /// Packets for Perfetto.
    Perfetto,
    /// The JSON of Chrome's tracing.
    Chrome,
    /// Call paths with their own times.
    Folded,
    /// A flame graph, drawn.
    Flamegraph,
    /// Profiles for speedscope.
    Speedscope,
    /// A directory for uftrace.
    Uftrace,
    /// The Common Trace Format.
    Ctf,
    /// Tables in Parquet.
    Parquet,
}

impl OtherFormat {
    /// All formats, in the order in which they are shown.
    pub const ALL: &[OtherFormat] = &[
        OtherFormat::Jsonl,
        OtherFormat::Csv,
        OtherFormat::Perfetto,
        OtherFormat::Chrome,
        OtherFormat::Folded,
        OtherFormat::Flamegraph,
        OtherFormat::Speedscope,
        OtherFormat::Uftrace,
        OtherFormat::Ctf,
        OtherFormat::Parquet,
    ];

    /// Returns the name and a description.
    #[must_use]
    pub fn named(self) -> (&'static str, &'static str) {
        match self {
            OtherFormat::Jsonl => ("jsonl", "A JSON object for each record"),
            OtherFormat::Csv => ("csv", "A row of comma-separated values for each record"),
            OtherFormat::Perfetto => ("perfetto", "A timeline for Perfetto, https://ui.perfetto.dev"),
            OtherFormat::Chrome => ("chrome", "A timeline as JSON, for tools that read Chrome's traces"),
            OtherFormat::Folded => ("folded", "Call paths with their own nanoseconds, for flame graphs"),
            OtherFormat::Flamegraph => ("flamegraph", "A flame graph, drawn as SVG"),
            OtherFormat::Speedscope => ("speedscope", "A profile of each thread, for speedscope"),
            OtherFormat::Uftrace => {
                ("uftrace", "A directory with the calls, for uftrace report, replay and tui")
            }
            OtherFormat::Ctf => ("ctf", "A directory in the Common Trace Format 1.8, for babeltrace2"),
            OtherFormat::Parquet => ("parquet", "A directory of tables in Parquet, for DuckDB and others"),
        }
    }

    /// Returns the extension of the output's file name.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            OtherFormat::Jsonl => "jsonl",
            OtherFormat::Csv => "csv",
            OtherFormat::Perfetto => "perfetto-trace",
            OtherFormat::Chrome => "chrome.json",
            OtherFormat::Folded => "folded",
            OtherFormat::Flamegraph => "svg",
            OtherFormat::Speedscope => "speedscope.json",
            OtherFormat::Uftrace => "uftrace",
            OtherFormat::Ctf => "ctf",
            OtherFormat::Parquet => "parquet",
        }
    }

    /// Returns whether `head`, the beginning of a file, looks like an output in this format. Not used for
    /// directories.
    #[must_use]
    pub fn begins(self, head: &[u8]) -> bool {
        let has = |text: &[u8]| memchr::memmem::find(head, text).is_some();
        let line = || head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        match self {
            OtherFormat::Jsonl => head.starts_with(b"{\"ticks\":") && has(b",\"ns\":"),
            OtherFormat::Csv => head.starts_with(b"ticks,time,ns,pid,process,tid,thread,kind,level,target,"),
            // A packet with a sequence number and a time.
            OtherFormat::Perfetto => matches!(head, [0x0a, _, 0x50, 0x01, 0x40, ..]),
            OtherFormat::Chrome => {
                head.starts_with(b"{") && has(b"\"displayTimeUnit\":\"ns\",\"traceEvents\":[")
            }
            OtherFormat::Folded => {
                let number = line().rsplit(|byte| *byte == b' ').next().unwrap_or_default();
                line().len() > number.len() && !number.is_empty() && number.iter().all(u8::is_ascii_digit)
            }
            OtherFormat::Flamegraph => has(b"<svg") && has(b"Calls by thread and path"),
            OtherFormat::Speedscope => has(b"\"exporter\":\"tracemerge\""),
            OtherFormat::Uftrace | OtherFormat::Ctf | OtherFormat::Parquet => false,
        }
    }

    /// Makes the export in this format, with the functions of `names`, the sites of `catalog`, and `labels`
    /// for the threads of all origins. `depth` limits nested calls.
    #[must_use]
    pub fn export(
        self,
        depth: Depth,
        names: SharedNames,
        catalog: Arc<SiteCatalog>,
        labels: Vec<String>,
    ) -> Box<dyn Export> {
        type FormatInputs = (Depth, SharedNames, Arc<SiteCatalog>, Vec<String>);
        fn of<F: EventFormat + 'static>(
            format: F,
            (depth, names, catalog, labels): FormatInputs,
        ) -> Box<dyn Export> {
            Box::new(EventExport::new(format, depth, names, catalog, labels))
        }
        let about = (depth, names, catalog, labels);
        match self {
            OtherFormat::Jsonl => of(JsonlFormat::default(), about),
            OtherFormat::Csv => of(CsvFormat::default(), about),
            OtherFormat::Perfetto => of(PerfettoFormat::default(), about),
            OtherFormat::Chrome => of(ChromeFormat::default(), about),
            OtherFormat::Folded => Box::new(FoldedFormat::new(about.0, about.1, about.3)),
            #[cfg(feature = "flamegraph")]
            OtherFormat::Flamegraph => Box::new(FlamegraphFormat::new(about.0, about.1, about.3)),
            // An earlier check refuses this format.
            #[cfg(not(feature = "flamegraph"))]
            OtherFormat::Flamegraph => Box::new(FoldedFormat::new(about.0, about.1, about.3)),
            OtherFormat::Speedscope => of(SpeedscopeFormat::default(), about),
            OtherFormat::Uftrace => of(UftraceFormat::default(), about),
            OtherFormat::Ctf => of(CtfFormat::default(), about),
            #[cfg(feature = "parquet")]
            OtherFormat::Parquet => of(ParquetFormat::default(), about),
            // An earlier check refuses this format.
            #[cfg(not(feature = "parquet"))]
            OtherFormat::Parquet => of(CsvFormat::default(), about),
        }
    }

    /// Returns the missing feature, if the format needs a feature that this command was built without.
    #[must_use]
    pub fn missing_feature(self) -> Option<&'static str> {
        match self {
            OtherFormat::Flamegraph if !cfg!(feature = "flamegraph") => Some("flamegraph"),
            OtherFormat::Parquet if !cfg!(feature = "parquet") => Some("parquet"),
            _ => None,
        }
    }

    /// Returns whether the output is text, which may be written to a terminal.
    #[must_use]
    pub fn is_text(self) -> bool {
        self != OtherFormat::Perfetto && !self.is_directory()
    }

    /// Returns whether the output has nested calls.
    #[must_use]
    pub fn nests_calls(self) -> bool {
        match self {
            OtherFormat::Jsonl | OtherFormat::Csv | OtherFormat::Ctf | OtherFormat::Parquet => false,
            OtherFormat::Perfetto
            | OtherFormat::Chrome
            | OtherFormat::Folded
            | OtherFormat::Flamegraph
            | OtherFormat::Speedscope
            | OtherFormat::Uftrace => true,
        }
    }

    /// Returns the type of the output's content.
    #[must_use]
    pub fn content(self) -> Content {
        match self {
            OtherFormat::Jsonl | OtherFormat::Chrome | OtherFormat::Speedscope => Content::Json,
            _ => Content::Data,
        }
    }

    /// Returns whether the output is a directory.
    #[must_use]
    pub fn is_directory(self) -> bool {
        matches!(self, OtherFormat::Uftrace | OtherFormat::Ctf | OtherFormat::Parquet)
    }
}
