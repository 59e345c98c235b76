//! A flame graph as an SVG image, drawn by the crate `inferno` from folded stacks.

use inferno::flamegraph::{self, Options};

use crate::input::inputs::Origin;
use crate::view::call_counts::CallCounts;
use crate::view::calls::Depth;
use crate::view::export::Export;
use crate::view::export::folded::FoldedFormat;
use crate::view::function_names::SharedNames;
use crate::view::lines_to_records::RecordText;

/// The format of flame graphs. A graph is as wide as all threads have taken, and has one frame for each
/// path. Memory grows with the number of paths.
#[derive(Debug)]
pub struct FlamegraphFormat {
    folded: FoldedFormat,
    /// Why there is no graph.
    failure: Option<String>,
}

impl FlamegraphFormat {
    /// Makes a format with the functions of `names`, and `labels` for the threads of all origins, whose paths may have this
    /// `depth`.
    #[must_use]
    pub fn new(depth: Depth, names: SharedNames, labels: Vec<String>) -> FlamegraphFormat {
        FlamegraphFormat { folded: FoldedFormat::new(depth, names, labels), failure: None }
    }
}

impl Export for FlamegraphFormat {
    fn begin(&mut self, origins: &[Origin], out: &mut Vec<u8>) {
        self.folded.begin(origins, out);
    }

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>) {
        self.folded.record(origin, record, out);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        let mut folded = Vec::new();
        self.folded.finish(&mut folded);
        let folded = String::from_utf8_lossy(&folded);
        let mut options = Options::default();
        options.count_name = "ns".to_owned();
        options.title = "Calls by thread and path".to_owned();
        // The same colours for the same names each time.
        options.hash = true;
        if let Err(error) = flamegraph::from_lines(&mut options, folded.lines(), out) {
            self.failure = Some(format!("no graph: {error}"));
        }
    }

    fn call_counts(&mut self) -> Option<&mut CallCounts> {
        self.folded.call_counts()
    }

    fn untold(&self) -> Vec<String> {
        self.failure.iter().cloned().chain(self.folded.untold()).collect()
    }
}
