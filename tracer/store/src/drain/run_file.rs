//! The run's own file, with the reports that belong to the run and to no thread's file. It is made only if it reports
//! something that no other file does.
//!
//! The file is named like a thread's file, with the flusher's thread id. It gets this name only when it is complete.

use std::io;

use trace_format::life::Dropped;
use trace_format::meta::{DROPPED, Ended, LossReason, Meta, RingPlace, Run, Thread};
use trace_format::render::{RenderState, Renderer};

use super::trace_place::TracePlace;

/// The content of the run's own file.
#[derive(Clone, Copy, Debug)]
pub struct RunFile {
    /// The flusher's thread id.
    pub tid: u64,
    /// The number of records of threads that had no ring, or no file: these records are lost.
    pub ringless_records: u64,
    /// The number of lost records in flight recorders that were discarded after their threads had ended.
    pub forgotten: u64,
    /// The number of files that the run has dropped to stay below its limit, and the counts of what they contained.
    pub dropped: Dropped,
    /// The way in which the run ended.
    pub ended: Ended,
}

impl RunFile {
    /// Writes the file, unless it exists already: a recoverer may have been killed after it had written the file.
    ///
    /// # Errors
    /// No file can be made or written.
    pub fn write(&self, place: &mut TracePlace, run: &Run) -> io::Result<()> {
        if place.has_file_of(self.tid, run.id) {
            // The recoverer may not have removed the other name.
            place.remove_unfinished(self.tid, run.id);
            return Ok(());
        }
        let mut text = Vec::with_capacity(512);
        let state = RenderState { last: run.ticks, ..RenderState::default() };
        let mut renderer = Renderer::new(self.tid, state, place.encoding);
        renderer.begin_at(0);
        let file = place.next_file();
        let name = b"tracer-flusher".to_vec();
        renderer.header(run, &Thread { name, ring: RingPlace::Shared, why: Vec::new(), file }, &mut text);
        renderer.lost(self.ringless_records, LossReason::Full, &mut text);
        renderer.lost(self.forgotten, LossReason::Overwritten, &mut text);
        if self.dropped.files > 0 {
            renderer.meta(&Meta::Dropped { files: self.dropped.files }, &mut text);
            renderer.lost_otherwise(self.dropped.records, DROPPED, &mut text);
            for (lost, reason) in self.dropped.lost.into_iter().zip(LossReason::ALL) {
                renderer.lost(lost, reason, &mut text);
            }
        }
        renderer.end(self.ended, file.map(u64::from), &mut text);
        place.create_whole(self.tid, run.id, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use trace_format::meta::EndReason;

    #[test]
    fn a_second_name_left_by_a_killed_recoverer_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let run = Run {
            version: trace_format::VERSION,
            id: 7,
            root: 7,
            pid: 1,
            exe: b"app".to_vec(),
            boot: Vec::new(),
            ticks: trace_format::line::Ticks(1),
            wall: trace_format::wall::Wall(0),
            clock: trace_format::meta::ClockKind::Ordered,
        };
        let mut place = TracePlace::new(Some(directory.path()), Path::new("/bin/app"), None, run.id, |_| ());
        let file = RunFile {
            tid: 5,
            ringless_records: 3,
            forgotten: 0,
            dropped: Dropped::default(),
            ended: EndReason::Killed.into(),
        };
        file.write(&mut place, &run).unwrap();
        let named = place.path(5, 0);
        std::fs::hard_link(&named, place.unfinished_path(5, run.id)).unwrap();
        file.write(&mut place, &run).unwrap();
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(left, [named]);
    }
}
