//! A page for a browser: one file that shows the trace, without a server and without any network access.
//!
//! The page has the records in blocks, and each block has its data in columns, deflated and in base64 ([`columns`]).
//! Texts are split into templates and arguments ([`texts`]). An overview comes before the blocks ([`overview`]), so
//! that the browser can show it at once. The page's scripts unpack the blocks in workers (`inflate.js`, `decode.js`,
//! `texts.js`), and draw them. No text of a trace becomes markup or script: all texts are inside the blocks, and the
//! scripts show them as text only.

#[cfg(feature = "html")]
mod columns;
#[cfg(feature = "html")]
mod overview;
#[cfg(feature = "html")]
mod page;
#[cfg(feature = "html")]
mod pages;
#[cfg(feature = "html")]
mod size;
#[cfg(feature = "html")]
mod texts;

use crate::ui::console::Content;
use crate::view::export::Export;
use crate::view::export::format::{OutputContent, OutputFormat, contains};
use crate::view::export::time_column::TimeMode;
use crate::view::layout::{Context, Destination, Layout, Needs};

/// The description of the format `html` for the command line.
pub(crate) static FORMAT: OutputFormat = OutputFormat {
    name: "html",
    about: "A page that shows the trace in a browser, in one file",
    extension: "html",
    content: OutputContent::Binary,
    nests_calls: false,
    times_of_day: false,
    takes_states: true,
    begins: |head| contains(head, b"<meta name=\"generator\" content=\"tracemerge\">"),
    #[cfg(feature = "html")]
    make: Some(page::make),
    #[cfg(not(feature = "html"))]
    make: None,
};

/// The description of the output if it is divided into several pages: a directory with `page-1.html`, `page-2.html` and
/// so on.
pub(crate) static PAGES: OutputFormat =
    OutputFormat { extension: "pages", content: OutputContent::Directory, begins: |_| false, ..FORMAT };

/// The maximum number of records of a page. A browser needs about 70 bytes of memory for each record.
pub(crate) const MAX_RECORDS: u64 = 20_000_000;
/// The minimum number of records of a page if the output is divided into several pages. So many records take about as
/// many bytes as the scripts of a page.
pub(crate) const MIN_RECORDS: u64 = 1000;

/// The layout that divides the output into several pages, each with at most this number of records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pages(
    #[cfg_attr(not(feature = "html"), expect(dead_code, reason = "there are no pages then"))] pub u64,
);

impl Layout for Pages {
    fn needs(&self) -> Needs {
        Needs { ends: true, ..(&FORMAT).needs() }
    }

    #[cfg(feature = "html")]
    fn format(&self, context: &Context) -> Box<dyn Export> {
        page::make_divided(context, Some(pages::Division::new(self.0)))
    }

    // An earlier check refuses a missing format.
    #[cfg(not(feature = "html"))]
    fn format(&self, context: &Context) -> Box<dyn Export> {
        (&FORMAT).format(context)
    }

    fn destination(&self) -> Destination {
        Destination::Exported(&PAGES)
    }

    fn content(&self, _time: TimeMode, _in_colours: bool) -> Content {
        Content::Data
    }
}
