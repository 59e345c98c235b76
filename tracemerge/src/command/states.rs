//! The states of threads that the kernel reports while `run` runs a program (`TRACER_SCHED=1`), and their file.
//!
//! A thread of this process reads the kernel's rings until the program has ended. The states that it reads are kept in
//! a temporary file without a name, because the run to which they belong, and the clock of that run, are known only
//! afterwards. Then the states become a file of that run, beside the files of its threads.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use trace_format::file::Encoding;
use trace_format::line::{Key, Kind, Line, Ticks};
use trace_format::meta::{ClockKind, EndReason, Meta, RingPlace, Run, SystemClocks, Thread};
use trace_format::name::{INFIX, trace_file_suffix};
use trace_format::render::{RenderState, Renderer};
use trace_format::states::{StateChange, THREAD_NAME, ThreadState, ThreadTotals, write_refusal};
use trace_store::counter;

use crate::find::app::App;
use crate::find::choose::Choice;
use crate::find::find_traces;
use crate::find::header::Trace;
use crate::os::scheduler::{Rings, hold_before_exec, own_thread_id, process_that_waits};
use crate::os::thread_totals::TotalsReader;
use crate::output::place::Place;
use crate::ui::messages::{Messages, shown, shown_name};
use crate::view::thread_states::table_of_totals;

/// The longest time between two readings of the kernel's rings, which contain the states of threads.
const INTERVAL: Duration = Duration::from_millis(100);
/// The time between two readings of the clocks. Between two readings, the kernel's clock is assumed to be a linear
/// function of the counter.
const BETWEEN_ANCHORS: Duration = Duration::from_secs(1);
/// The time for which a record is held back, in nanoseconds, because older records of other processors may still
/// arrive.
const LATE: u64 = 20_000_000;
/// The number of times that the clocks are read for one anchor. Of these readings, the one that took the least time
/// becomes the anchor.
const READINGS: usize = 16;
/// The number of bytes of a record in the temporary file.
const KEPT_BYTES: usize = 32;
/// The size of buffers, in bytes: this much is collected in memory before it is written to a file.
const CHUNK: usize = 1 << 20;

/// Readings of the clocks at one moment, one for each kind of ticks that a run may have: ticks of the processor's
/// counter, and ticks of the system's clock.
struct Anchors {
    counter: Meta,
    system: Meta,
}

impl Anchors {
    fn read() -> Anchors {
        Anchors {
            counter: closest(|| Ticks(counter::ordered())),
            system: closest(|| Ticks(counter::system())),
        }
    }

    fn of(&self, clock: ClockKind) -> &Meta {
        if clock == ClockKind::System { &self.system } else { &self.counter }
    }
}

fn closest(now: impl Fn() -> Ticks + Copy) -> Meta {
    let within = |read: &Meta| match read {
        Meta::Clock { system, .. } => system.within,
        _ => None,
    };
    let read = (1..READINGS).map(|_| counter::look(now));
    read.fold(counter::look(now), |best, read| if within(&read) < within(&best) { read } else { best })
}

/// Returns the ticks and the time of the raw monotonic clock, in nanoseconds, that a reading of the clocks contains.
fn pair(anchor: &Meta) -> Option<(u64, u64)> {
    match anchor {
        Meta::Clock { ticks, system: SystemClocks { raw: Some(raw), .. }, .. } => Some((ticks.0, *raw)),
        _ => None,
    }
}

/// The states of threads that were read from the kernel, kept in a temporary file.
struct Kept {
    /// The id of this command's thread that read the states.
    tid: u64,
    states: BufWriter<File>,
    /// The number of records in the temporary file `states`.
    number: u64,
    anchors: Vec<Anchors>,
}

/// The outcome of reading the states of threads from the kernel.
enum Outcome {
    /// The kernel allowed the reading; these are the states.
    Kept(Kept),
    /// The kernel refused the reading. The value contains the kernel's reason, and the totals of each thread's times,
    /// which every user may read.
    Refused(Refusal),
}

/// The kernel's reason for refusing the states of threads, with the totals of each thread's times, which every user may
/// read.
struct Refusal {
    /// The id of this command's thread that asked the kernel for the states.
    tid: u64,
    why: String,
    totals: Vec<ThreadTotals>,
}

/// A reader of the states of a program's threads: a thread of this command.
pub(crate) struct StatesReader {
    has_ended: Arc<AtomicBool>,
    thread: JoinHandle<Result<Outcome, String>>,
}

impl StatesReader {
    /// Begins to read the states of the threads of the program that `command` will start.
    ///
    /// # Errors
    /// The system has no thread or no file descriptors left.
    pub(crate) fn begin(command: &mut Command) -> io::Result<StatesReader> {
        let held = hold_before_exec(command)?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&has_ended);
        let thread = thread::Builder::new().spawn(move || read(held, &ended))?;
        Ok(StatesReader { has_ended, thread })
    }

    /// Ends the reading, because the program has ended or could not be started. Writes the states to a file of the run
    /// of the process `pid` of `app`. The command that was given to [`StatesReader::begin`] must have been dropped
    /// before.
    pub(crate) fn finish(self, app: &App, choice: Choice, pid: u32, messages: &mut Messages) {
        self.has_ended.store(true, Ordering::Release);
        self.thread.thread().unpark();
        let panicked =
            |_| Err("the thread that reads them has panicked: please report this defect".to_owned());
        let read = self.thread.join().unwrap_or_else(panicked);
        match read {
            Ok(Outcome::Kept(kept)) => {
                let written =
                    write(app, choice, pid, kept.tid, |run, number, file| kept.render(run, number, file));
                if let Err(error) = written {
                    messages.warn(format_args!("the states of threads are lost: {error}"));
                }
            }
            Ok(Outcome::Refused(refusal)) => {
                let Refusal { tid, why, totals } = &refusal;
                messages.note(format_args!("the states of threads are not recorded: {why}"));
                if !totals.is_empty() {
                    let text =
                        |run: &Run, number, file: &mut File| file.write_all(&refusal.render(run, number));
                    if let Err(error) = write(app, choice, pid, *tid, text) {
                        messages.warn(format_args!("the totals of threads are lost: {error}"));
                    }
                    messages.done("the kernel's totals for each thread, which every user may read:");
                    messages.show(table(totals).as_bytes());
                }
            }
            Err(why) => messages.note(format_args!("the states of threads are not recorded: {why}")),
        }
    }
}

/// The maximum number of threads in the table of totals.
const ROWS: usize = 20;

/// Returns the totals of each thread's times as a table.
fn table(totals: &[ThreadTotals]) -> String {
    let label = |of: &ThreadTotals| format!("{} '{}'", of.thread, shown_name(&of.name));
    let totals: Vec<_> = totals.iter().map(|of| (label(of), of.clone())).collect();
    table_of_totals(&totals, ROWS)
}

/// Reads the states of the threads of the process that waits at the other end of `held`, until `has_ended` says that
/// the process has ended.
fn read(mut held: UnixStream, has_ended: &AtomicBool) -> Result<Outcome, String> {
    let pid = process_that_waits(&mut held).map_err(|error| error.to_string())?;
    let opened = Rings::open(pid).map_err(|why| (why, TotalsReader::begin(pid)));
    let tid = own_thread_id();
    let mut anchors = vec![Anchors::read()];
    let _ = held.write_all(&[1]);
    drop(held);
    let mut rings = match opened {
        Ok(rings) => rings,
        Err((why, totals)) => {
            return Ok(Outcome::Refused(Refusal { tid, why, totals: totals.read_until(has_ended) }));
        }
    };
    let failed = |error: io::Error| format!("temporary file: {error}");
    let states = BufWriter::with_capacity(CHUNK, tempfile::tempfile().map_err(failed)?);
    let mut kept = Kept { tid, states, number: 0, anchors: Vec::new() };
    let mut waiting: Vec<ThreadState> = Vec::new();
    let mut last_anchor = Instant::now();
    loop {
        let is_last = has_ended.load(Ordering::Acquire);
        if !is_last {
            rings.wait(INTERVAL);
        }
        // Records that are older than this are in the rings already.
        let until = pair(&counter::look(|| Ticks(0))).map_or(0, |(_, raw)| raw.saturating_sub(LATE));
        rings.take(&mut waiting);
        waiting.sort_by_key(|state| state.raw);
        let ready = if is_last { waiting.len() } else { waiting.partition_point(|state| state.raw < until) };
        for state in waiting.drain(..ready) {
            kept.keep(&state).map_err(failed)?;
        }
        if is_last || last_anchor.elapsed() >= BETWEEN_ANCHORS {
            anchors.push(Anchors::read());
            last_anchor = Instant::now();
        }
        if is_last {
            kept.anchors = anchors;
            return Ok(Outcome::Kept(kept));
        }
    }
}

impl Kept {
    fn keep(&mut self, state: &ThreadState) -> io::Result<()> {
        let words = [
            state.thread,
            state.raw,
            u64::from(state.cpu) | u64::from(state.lost) << 32,
            state.change as u64,
        ];
        self.number += 1;
        words.into_iter().try_for_each(|word| self.states.write_all(&word.to_le_bytes()))
    }

    fn render(self, run: &Run, number: Option<u32>, file: &mut File) -> io::Result<()> {
        let mut kept = self.states.into_inner().map_err(io::IntoInnerError::into_error)?;
        kept.rewind()?;
        let mut kept = BufReader::with_capacity(CHUNK, kept);
        let mut anchors = self.anchors.iter().map(|anchors| anchors.of(run.clock)).peekable();
        let pairs: Vec<(u64, u64)> =
            self.anchors.iter().filter_map(|anchors| pair(anchors.of(run.clock))).collect();
        let first = pairs.first().map_or(run.ticks, |(ticks, _)| Ticks(*ticks));
        let mut out = Vec::with_capacity(CHUNK);
        let mut renderer = begun_file(self.tid, run, number, (first, Encoding::Raw), &mut out);
        for _ in 0..self.number {
            let mut bytes = [0; KEPT_BYTES];
            kept.read_exact(&mut bytes)?;
            let Some(state) = kept_state(&bytes) else { continue };
            while let Some(anchor) =
                anchors.next_if(|anchor| pair(anchor).is_none_or(|(_, raw)| raw <= state.raw))
            {
                renderer.meta(anchor, &mut out);
            }
            renderer.thread_state(Ticks(ticks_at(&pairs, state.raw)), &state, &mut out);
            if out.len() >= CHUNK {
                file.write_all(&out)?;
                renderer.written(out.len());
                out.clear();
            }
        }
        anchors.for_each(|anchor| renderer.meta(anchor, &mut out));
        renderer.end(EndReason::Thread, None, &mut out);
        file.write_all(&out)
    }
}

impl Refusal {
    /// Returns the content of a file of the run, as text: the kernel's reason, and the totals of threads.
    fn render(&self, run: &Run, number: Option<u32>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut renderer = begun_file(self.tid, run, number, (run.ticks, Encoding::Text), &mut out);
        let mut put = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut payload = Vec::new();
            write(&mut payload);
            let key = Key { ticks: run.ticks, tid: self.tid };
            Line { key, kind: Kind::Meta, payload: &payload }.write(&mut out);
        };
        put(&|out| write_refusal(self.why.as_bytes(), out));
        self.totals.iter().for_each(|totals| put(&|out| totals.write(out)));
        renderer.end(EndReason::Thread, None, &mut out);
        out
    }
}

/// Begins the content of a run's file of states, with the header lines. `first` are the ticks of the first line.
fn begun_file(
    tid: u64,
    run: &Run,
    number: Option<u32>,
    (first, encoding): (Ticks, Encoding),
    out: &mut Vec<u8>,
) -> Renderer {
    let mut renderer = Renderer::new(tid, RenderState { last: first, ..RenderState::default() }, encoding);
    renderer.begin_at(0);
    let name = THREAD_NAME.to_vec();
    let thread = Thread { name, ring: RingPlace::Shared, why: Vec::new(), file: number };
    renderer.header(run, &thread, out);
    renderer
}

/// Writes the file of states for the latest run of the process `pid`. Calls `render` to write the content: its
/// arguments are the run, the number of the file among those of the run, and the file. `tid` is the id of the thread
/// that has read the states.
fn write(
    app: &App,
    choice: Choice,
    pid: u32,
    tid: u64,
    render: impl FnOnce(&Run, Option<u32>, &mut File) -> io::Result<()>,
) -> Result<(), String> {
    // The merge that follows reports what it finds.
    let Ok(found) = find_traces(app, choice, &mut Messages::silent()) else { return Ok(()) };
    let traces = || found.chosen.boots.iter().flatten();
    let of_process = traces().filter_map(|trace| trace.run.as_ref()).filter(|run| run.pid == pid);
    let Some(run) = of_process.max_by_key(|run| run.wall).cloned() else { return Ok(()) };
    let traces: Vec<&Trace> = traces().filter(|trace| trace.run.as_ref() == Some(&run)).collect();
    let path = path(&traces, tid).ok_or(
        "their file would be named after a trace file of the process, and none has a name of the usual form",
    )?;
    let named = |error: io::Error| format!("cannot write {}: {error}", shown(&path));
    let place = Place::open(&path, false).map_err(named)?;
    let mut file = place.begin_file().map_err(named)?;
    render(&run, number_of_file(&traces), file.file()).map_err(named)?;
    place.finish_file(file).map_err(named)
}

fn kept_state(bytes: &[u8; KEPT_BYTES]) -> Option<ThreadState> {
    let word = |at: usize| bytes.get(at * 8..at * 8 + 8)?.try_into().ok().map(u64::from_le_bytes);
    let (thread, raw, last, change) = (word(0)?, word(1)?, word(2)?, word(3)?);
    let (change, _) = StateChange::NAMES.into_iter().find(|(known, _)| *known as u64 == change)?;
    #[expect(clippy::cast_possible_truncation, reason = "two halves of a word")]
    let (cpu, lost) = (last as u32, (last >> 32) as u32);
    Some(ThreadState { thread, change, cpu, raw, lost })
}

/// Returns the ticks at `raw`, a time of the raw monotonic clock, by linear interpolation between the readings before
/// and after it. Each element of `pairs` is a reading: ticks, and raw time.
fn ticks_at(pairs: &[(u64, u64)], raw: u64) -> u64 {
    let after = pairs.partition_point(|(_, at)| *at <= raw).clamp(1, pairs.len().saturating_sub(1).max(1));
    let (Some(&(ticks, begin)), Some(&(next, end))) = (pairs.get(after - 1), pairs.get(after)) else {
        return raw;
    };
    let (span, width) = (i128::from(next) - i128::from(ticks), i128::from(end) - i128::from(begin));
    let since = i128::from(raw) - i128::from(begin);
    u64::try_from(i128::from(ticks) + since * span / width.max(1)).unwrap_or(0)
}

/// Returns a path for the file of states, in the directory of the run's files, at which no file exists yet.
fn path(traces: &[&Trace], tid: u64) -> Option<PathBuf> {
    let path = &traces.first()?.path;
    let name = path.file_name()?.to_str()?;
    let stem = &name[..name.rfind(INFIX)?];
    let mut paths =
        (0..).map(|number| path.with_file_name(stem.to_owned() + &trace_file_suffix(tid, number)));
    paths.find(|path| path.symlink_metadata().is_err())
}

/// Returns the number of the file of states among the run's files: the number that follows those of the files that the
/// run has made.
fn number_of_file(traces: &[&Trace]) -> Option<u32> {
    let of_threads = traces.iter().filter_map(|trace| trace.marks.thread.as_ref()?.file);
    let of_ends = traces.iter().filter_map(|trace| trace.marks.end.as_ref()?.files);
    of_threads.chain(of_ends.filter_map(|files| files.try_into().ok())).max()?.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_times_are_converted_by_the_readings_around_them() {
        let pairs = [(1000, 100), (3000, 200), (3100, 300)];
        let found: Vec<u64> =
            [50, 100, 150, 200, 250, 300, 350].iter().map(|raw| ticks_at(&pairs, *raw)).collect();
        assert_eq!(found, [0, 1000, 2000, 3000, 3050, 3100, 3150]);
        assert_eq!(ticks_at(&pairs[..1], 7), 7);
    }
}
