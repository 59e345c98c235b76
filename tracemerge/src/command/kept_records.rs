//! Keeps the merged records of traces in memory, for the benchmark of the output formats. The benchmark passes them to
//! a format as a merge would, and thus measures neither the reading of files nor the merging of lines.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::tz::TimeZone;

use crate::file::record_text::RecordText;
use crate::find::app::App;
use crate::find::choose::Choice;
use crate::find::find_traces_of_all;
use crate::input::inputs::{Inputs, Origin};
use crate::input::site_catalog::SiteCatalog;
use crate::output::target::Target;
use crate::symbols::Settings;
use crate::ui::console::Content;
use crate::ui::messages::Messages;
use crate::view::batch::Unformatted;
use crate::view::delivery::Delivery;
use crate::view::export::format::{FORMATS, OutputFormat};
use crate::view::export::time_column::{TimeColumn, TimeMode};
use crate::view::export::{Export, Exporting};
use crate::view::layout::{Context, Layout, Needs};
use crate::view::lines_to_records::RecordSink;
use crate::view::plan::Plan;
use crate::view::request::View;
use crate::view::select::Selection;
use crate::view::sites::SiteSelection;
use crate::view::thread_labels::thread_labels;

/// The merged records of traces, which are kept in memory.
pub struct KeptRecords {
    inputs: Inputs,
    catalog: Arc<SiteCatalog>,
    records: Unformatted,
    /// The number of records that are kept.
    pub count: u64,
}

impl fmt::Debug for KeptRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptRecords").field("count", &self.count).finish_non_exhaustive()
    }
}

/// An output format that writes nothing, and keeps all records.
#[derive(Clone)]
struct Keeping(Arc<Mutex<Unformatted>>);

impl Export for Keeping {
    fn begin(&mut self, _origins: &[Origin], _out: &mut Vec<u8>) {}

    fn record(&mut self, _origin: &Origin, record: &RecordText<'_>, _out: &mut Vec<u8>) {
        // Keeping a record does not fail.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).record(record);
    }

    fn takes_calls(&self) -> bool {
        true
    }

    fn finish(&mut self, _out: &mut Vec<u8>) {}
}

impl KeptRecords {
    /// Merges the traces in the directory `place`, and keeps the merged records.
    ///
    /// # Errors
    /// If the traces cannot be read. The error is a text that says why.
    pub fn read(place: PathBuf) -> Result<KeptRecords, String> {
        let said = |error: &dyn fmt::Display| error.to_string();
        let mut messages = Messages::silent();
        let app = App::or_directory(place).map_err(|error| said(&error))?;
        let found = find_traces_of_all(&[app], Choice::All, &mut messages).map_err(|error| said(&error))?;
        let catalog = Arc::new(SiteCatalog::with_values());
        let mut inputs =
            Inputs::open(&found.chosen, &[], &[], true, &mut messages).map_err(|error| said(&error))?;
        let sites = SiteSelection { catalog: catalog.clone(), ..SiteSelection::default() };
        let selection = Selection { sites: Some(sites), ..Selection::default() };
        let view = View { selection: selection.clone(), ..View::default() };
        let mut plan =
            Plan::new(&mut inputs, &view, Needs { times: true, ..Needs::default() }, &mut messages)
                .map_err(|error| said(&error))?;
        let kept = Keeping(Arc::new(Mutex::new(Unformatted::new(true))));
        let delivery = Delivery {
            inputs: &mut inputs,
            plan: &mut plan,
            selection: &selection,
            format: &|| Box::new(kept.clone()),
            target: &Target::Stdout,
            content: Content::Data,
            paged: false,
        };
        delivery.write_into(&mut Vec::new()).map_err(|_| "the traces are not in order".to_owned())?;
        let records = std::mem::take(&mut *kept.0.lock().unwrap_or_else(PoisonError::into_inner));
        let count = records.records().count() as u64;
        Ok(KeptRecords { inputs, catalog, records, count })
    }

    /// Writes all records to a new file or directory at `path`, in the output format with the name `format`. Returns
    /// the number of bytes that the format has written to its stream.
    ///
    /// # Errors
    /// If there is no such format, or if the output cannot be written.
    pub fn write(&self, format: &str, path: &Path) -> io::Result<u64> {
        let of_name = |known: &&&OutputFormat| known.name == format && known.make.is_some();
        let known = FORMATS.iter().find(of_name).ok_or(io::ErrorKind::NotFound)?;
        let output = Some(path.as_os_str());
        let target = if known.is_directory() {
            Target::directory(output, path, known.name)
        } else {
            Target::new(output, path, &[], &HashSet::new())
        };
        let target = target.map_err(io::Error::other)?;
        let mut out = target.begin(known.content(TimeMode::Ticks, false)).map_err(io::Error::other)?;
        let bytes = self.write_to(known, &mut out)?;
        target.finish(out)?;
        Ok(bytes)
    }

    fn write_to(&self, layout: &dyn Layout, out: &mut dyn Write) -> io::Result<u64> {
        let time = TimeColumn::new(TimeMode::Ticks, 0, TimeZone::UTC);
        let labels = thread_labels(&self.inputs);
        let context =
            Context { labels, catalog: self.catalog.clone(), ..Context::new(time, Settings::default()) };
        let mut export = layout.format(&context);
        let mut counted = Counted { out, bytes: 0 };
        let mut text = Vec::new();
        export.begin(&self.inputs.origins, &mut text);
        counted.write_all(&text)?;
        let mut exporting = Exporting::new(&mut *export, &self.inputs.origins, &mut counted);
        self.records.records().try_for_each(|record| exporting.record(&record))?;
        exporting.finish()?;
        text.clear();
        export.finish(&mut text);
        counted.write_all(&text)?;
        Ok(counted.bytes)
    }
}

/// A writer that counts the bytes written through it.
struct Counted<'a> {
    out: &'a mut dyn Write,
    bytes: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
