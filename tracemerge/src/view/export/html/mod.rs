//! A page for a browser: one file that shows the trace, without a server and without any request.
//!
//! The page has the records in blocks, and each block has its data in columns, deflated and in base64
//! ([`columns`]). Texts are templates with arguments ([`texts`]). An overview is before the blocks ([`overview`]), so
//! that the browser shows it at once. The page's scripts unpack the blocks in workers (`inflate.js`, `decode.js`,
//! `texts.js`), and draw them. No text of a trace becomes markup or script: all of them are inside the
//! blocks, and the scripts write them as text only.

#[cfg(feature = "html")]
mod columns;
#[cfg(feature = "html")]
mod overview;
#[cfg(feature = "html")]
mod page;
#[cfg(feature = "html")]
mod size;
#[cfg(feature = "html")]
mod texts;

use crate::view::export::format::{OutputContent, OutputFormat, contains};

/// The description of the format for the command line.
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
