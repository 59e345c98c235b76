//! The list of the formats of other programs in which a merge can be written.

use std::fmt;

use crate::ui::console::Content;
use crate::view::export::events::{EventExport, EventFormat};
use crate::view::export::time_column::TimeMode;
use crate::view::export::{
    Export, chrome, csv, ctf, flamegraph, folded, html, jsonl, parquet, perfetto, speedscope, uftrace,
};
use crate::view::layout::{Context, Destination, Layout, Needs};

/// All formats, in the order in which help lists them.
pub(crate) static FORMATS: [&OutputFormat; 11] = [
    &jsonl::FORMAT,
    &csv::FORMAT,
    &html::FORMAT,
    &perfetto::FORMAT,
    &chrome::FORMAT,
    &folded::FORMAT,
    &flamegraph::FORMAT,
    &speedscope::FORMAT,
    &uftrace::FORMAT,
    &ctf::FORMAT,
    &parquet::FORMAT,
];

/// A format that other programs read. The file of each format has a static variable of this type.
pub(crate) struct OutputFormat {
    /// The name of the format on the command line. If the format needs a feature of the crate, the feature has the same
    /// name.
    pub name: &'static str,
    /// The description of the format in the list of formats.
    pub about: &'static str,
    /// The extension of the output's file name.
    pub extension: &'static str,
    /// The type of the output.
    pub content: OutputContent,
    /// Whether the output shows calls inside other calls.
    pub nests_calls: bool,
    /// Whether the times in the output are wall times; if not, they are steady times.
    pub times_of_day: bool,
    /// Whether the output shows when threads were not running on a processor.
    pub takes_states: bool,
    /// A function that returns whether the beginning of a file looks like an output in this format. Not used for
    /// directories.
    pub begins: fn(&[u8]) -> bool,
    /// A function that creates the writer of the format; `None` if the format was left out when this command was built.
    pub make: Option<Make>,
}

/// A function that creates the writer of a format.
pub(crate) type Make = fn(&Context) -> Box<dyn Export>;

/// The type of the output in a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputContent {
    /// Text, which may be written to a terminal.
    Text,
    /// JSON, which may be written to a terminal.
    Json,
    /// A file that is not text.
    Binary,
    /// A directory.
    Directory,
}

/// Returns whether `head`, the beginning of a file, contains `text`.
pub(crate) fn contains(head: &[u8], text: &[u8]) -> bool {
    memchr::memmem::find(head, text).is_some()
}

/// Creates the export for a format `F` that is written from events.
pub(crate) fn export_events<F: EventFormat + Default + 'static>(context: &Context) -> Box<dyn Export> {
    Box::new(EventExport::new(F::default(), context.depth, context.threads(), context.catalog.clone()))
}

impl OutputFormat {
    /// Returns whether the output is text, which may be written to a terminal.
    #[must_use]
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.content, OutputContent::Text | OutputContent::Json)
    }

    /// Returns whether the output is a directory.
    #[must_use]
    pub(crate) fn is_directory(&self) -> bool {
        self.content == OutputContent::Directory
    }
}

impl PartialEq for OutputFormat {
    fn eq(&self, other: &OutputFormat) -> bool {
        self.name == other.name
    }
}

impl Eq for OutputFormat {}

impl fmt::Debug for OutputFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Layout for &'static OutputFormat {
    fn needs(&self) -> Needs {
        let (times_of_day, states) = (self.times_of_day, self.takes_states);
        Needs {
            times: true,
            times_of_day,
            sites: true,
            values: true,
            calls: true,
            labels: true,
            states,
            ..Needs::default()
        }
    }

    fn format(&self, context: &Context) -> Box<dyn Export> {
        // An earlier check refuses a missing format.
        self.make.map_or_else(|| export_events::<csv::CsvFormat>(context), |make| make(context))
    }

    fn destination(&self) -> Destination {
        Destination::Exported(self)
    }

    fn content(&self, _time: TimeMode, _in_colours: bool) -> Content {
        if self.content == OutputContent::Json { Content::Json } else { Content::Data }
    }

    fn nests_calls(&self) -> bool {
        self.nests_calls
    }
}
