//! The tree: calls indented below their callers, with the time that each took, and messages and call stacks
//! in their place.
//!
//! A call without anything inside is one line; any other call has one line for its enter record and one for
//! its leave record. The first line also names the place of the call, if debug information of inlined
//! functions or a call stack after the enter record contains it. Lines are in the order of time, and a call
//! stands where it was entered, so lines wait until the calls before them are known ([`held`]). Besides these
//! lines, the tree keeps only the open calls in memory. Calls that are still open when their process ends are
//! shown after all others: they are the stacks of all its threads at that moment.
//!
//! Calls nested too deeply are not shown one by one: one line, where the outermost of them ends, says how many there
//! were.

mod by_thread;
mod call_graph;
mod folded_lines;
mod held;
mod met_calls;

use std::io::{self, Write as _};

use clap::Args;
use regex::Regex;
use trace_format::function::StackLine;
use trace_format::line::{Kind, Ticks};
use trace_format::meta::{EndReason, Meta};
use trace_format::record::Flags;

use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::input::other_kinds::OtherKinds;
use crate::ui::messages::Grouped;
use crate::ui::units::{duration, nanoseconds, put_duration};
use crate::view::calls::{Cut, Depth, Ended, Ending, MORE, NO_CALLS, OpenCall, OpenCalls, cut};
use crate::view::export::Export;
use crate::view::export::call_lines::StackLines;
use crate::view::export::in_words::in_words;
use crate::view::export::time_column::{TimeColumn, TimeMode};
use crate::view::export::tree::by_thread::{LinesByThread, ThreadLines};
use crate::view::export::tree::call_graph::CallGraph;
use crate::view::export::tree::folded_lines::FoldedLines;
use crate::view::export::tree::held::{HeldLines, MOST_PLACES, TreeLine};
use crate::view::export::tree::met_calls::{MetCalls, named_functions};
use crate::view::function_names::{CallInfo, Called, FunctionId, KnownCalls, SharedNames, lock};
use crate::view::layout::{Context, Layout, Needs, Subcommand};
use crate::view::span_threads::SpanThreads;
use crate::view::threads::{Thread, ThreadIds, Threads};

/// The width of the column of durations, in characters.
const DURATION: usize = 9;
/// The number of spaces of indentation for each nested call.
const STEP: usize = 2;
/// The minimum time of a call, in nanoseconds, for which the tree says how long the thread was off the processor.
const SLOW: u64 = 100_000;
/// The divisor that limits which times off the processor the tree names: those of at least the call's time divided by
/// this number.
const LEAST_PART: u64 = 100;

/// The layout of `tree`: calls indented below the calls that they are in.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TreeLayout {
    /// Only calls that took at least this long, as 10us or 1.5ms, and messages in them
    #[arg(long, value_name = "TIME", value_parser = nanoseconds, default_value = "0ns", hide_default_value = true)]
    pub min_duration: u64,
    /// Only calls of functions whose name matches, with the calls inside
    #[arg(long, value_name = "REGEX", value_parser = function_pattern)]
    pub function: Option<String>,
    /// One line for each call path, with the number of its calls, their time, and that without the calls inside
    #[arg(long)]
    pub collapse: bool,
    /// Each thread as one tree, one after the other
    #[arg(long, conflicts_with = "collapse")]
    pub by_thread: bool,
    /// All functions of call stacks, also those of panics, of the runtime and of the tracer
    #[arg(long, conflicts_with = "collapse")]
    pub full: bool,
    /// Each of several equal calls that follow each other in a separate line, also on a terminal
    #[arg(long, conflicts_with = "collapse")]
    pub unfolded: bool,
}

/// Checks a pattern for the names of functions.
fn function_pattern(text: &str) -> Result<String, String> {
    Regex::new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

impl Subcommand for TreeLayout {
    const NAME: &'static str = "tree";
    const ABOUT: &'static str = "Show which functions called which, and how long they took";
    const FOLLOW: Option<&'static str> = Some("Show records of running applications as they arrive");
    const NOT_FOLLOWED: &'static [&'static str] = &["by_thread"];
    const HELP: &'static str = "\
Shows the calls of scope(), scope! and #[traced], indented below their callers: the time,
the thread, the duration of the call, the function with the place of its scope. A call
that contains records has two lines, 'f {' and '} f'; messages and call stacks are between
them, after a ':'. A call that never returned has a note with the reason.

'called from FILE:LINE' is the place of a call, if known: for inlined functions, and for
all functions if the program ran with TRACER_CALL_SITES=1.

On a terminal, equal calls that follow each other are one line, 'f  ×37', with the sum of their
times; --unfolded shows each.

Lines are in the order of time over all threads; a call stands where it was entered. For
that, up to 100,000 lines, or 16 MiB, are held back until the calls before them are known.

--by-thread shows the threads one after the other, in the order of their first records. The lines
wait in memory, up to 16 MiB, and beyond that in a temporary file.

Calls nested deeper than 64 are one line, '… 261,791 more calls of f', with the time of the
outermost of them, and with the messages in them. --depth all shows them all; --depth 5 is
an overview, which leaves out deeper messages.

A call without a record of its return (the record was lost, or a longjmp has left the call)
ends with the call around it. A call whose guard is dropped later than that of a call around
it has the note 'left after a call around it', and what follows is indented below it until then.
--min-duration leaves out shorter calls, and messages that came before the call around them
had taken that long.

Call stacks begin at the user's functions and end at main or at the function of the thread.
Functions of panics, of the runtime and of the tracer around them are left out, unless
--full is given.

--collapse shows a call graph: one line for each call path of all threads, with the number of
its calls and their times; then --min-duration is the least time of all calls of a path.

If tracemerge run has recorded the states of threads (TRACER_SCHED=1), calls of 100 us or longer
have a note like '[waiting 9.80 ms, preempted 1.20 ms]': the parts of their time, from a
hundredth, in which the thread was off the processor.

Functions that were recorded by address get their names from the executable and its debug
information: line tables have the function that contains the scope, and its line. The
file must have the build-id in the trace, and may be in its old place, beside the traces
or in --debug-dir. '(symbol)' follows names from the symbol table: the function may be one
that was inlined there.

Examples:
  tracemerge tree ./app
  tracemerge tree --thread 'worker*' --min-duration 100us ./app
  tracemerge tree --function 'parse' --depth 5 ./app
  tracemerge tree --collapse --min-duration 1ms ./app";
}

impl Layout for TreeLayout {
    fn reports_waits(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs {
            times: true,
            calls: true,
            labels: true,
            labels_in_time: true,
            states: true,
            ..Needs::default()
        }
    }

    fn default_time(&self) -> TimeMode {
        TimeMode::Offset
    }

    fn format(&self, context: &Context) -> Box<dyn Export> {
        if self.collapse {
            return Box::new(CallGraph::new(self, context));
        }
        Box::new(TreeFormat::new(self.clone(), context))
    }

    fn is_summary(&self) -> bool {
        self.collapse || self.by_thread
    }

    fn nests_calls(&self) -> bool {
        true
    }

    fn min_duration(&self) -> u64 {
        // A path may have many short calls.
        if self.collapse { 0 } else { self.min_duration }
    }
}

/// The format of the view `tree`, which shows calls below their callers.
#[derive(Debug)]
pub(crate) struct TreeFormat {
    layout: TreeLayout,
    /// The depth to which nested calls are shown. If the user has set it, messages inside deeper calls are not shown.
    depth: Depth,
    /// The pattern of the functions that are shown.
    function: Option<Regex>,
    time: TimeColumn,
    names: SharedNames,
    call_info: KnownCalls,
    threads: Threads,
    /// The number of characters of the longest label.
    width: usize,
    tree: Vec<ThreadTree>,
    other_kinds: OtherKinds,
    met: MetCalls,
    held: HeldLines,
    folded: FoldedLines,
    entered_spans: SpanThreads,
    /// The lines of each thread, if the user wants one tree for each thread.
    by_thread: Option<LinesByThread>,
    stacks: StackLines,
    /// The thread and the ticks of the latest record.
    latest: Option<(usize, Ticks)>,
    /// The number of calls that are shown too late: their first line comes after lines of later times.
    late: u64,
}

/// The calls of one thread.
#[derive(Debug, Default)]
struct ThreadTree {
    /// The number of characters of the thread's label.
    columns: usize,
    /// The number of open calls, from the outermost on, that the user does not want. Calls inside a wanted call are
    /// wanted.
    unwanted: usize,
    /// The number of open calls, from the outermost on, whose first line is no longer awaited: the line is written, or
    /// the call is not wanted.
    written: usize,
    calls: OpenCalls,
    /// The parts that the tree has shown of each open call, the outermost first.
    shown: Vec<ShownCall>,
    /// The reason for which the thread's calls have no leave records, if the thread has ended with its process.
    why: Option<&'static str>,
    /// Whether the thread's last record is the enter record of its innermost open call. A call stack with the
    /// same ticks may then contain the place of the call.
    has_just_entered: bool,
}

impl ThreadTree {
    /// Returns the number of shown calls around the next record.
    fn depth(&self) -> usize {
        self.shown.last().filter(|around| around.is_wanted).map_or(0, |around| around.depth + 1)
    }
}

/// The parts that the tree has shown of an open call.
#[derive(Clone, Copy, Debug)]
struct ShownCall {
    /// The number of shown calls around the call when it was entered.
    depth: usize,
    /// The ticks of the enter record.
    entered: Ticks,
    /// The caller, with the source line at which it made the call, if known.
    called_from: Option<FunctionId>,
    /// The number of the place in `held` that is reserved for the first line of the call; `None` when the line is known
    /// or the place was given up.
    place: Option<u64>,
    /// Whether the first line of the call has been added, because something inside the call is shown, or because the
    /// call has taken long enough.
    is_written: bool,
    /// Whether the user wants this call or a call around it.
    is_wanted: bool,
}

impl TreeFormat {
    fn new(layout: TreeLayout, context: &Context) -> TreeFormat {
        let Context { names, labels, depth, time, .. } = context.clone();
        let width = labels.iter().map(|label| label.full().chars().count()).max().unwrap_or(0);
        TreeFormat {
            // The command line rejects invalid patterns.
            function: layout.function.as_deref().and_then(|pattern| Regex::new(pattern).ok()),
            stacks: StackLines::new(layout.full, depth),
            entered_spans: SpanThreads::default(),
            folded: FoldedLines::new(context.on_terminal && !layout.unfolded),
            by_thread: layout.by_thread.then(LinesByThread::default),
            layout,
            depth,
            time,
            call_info: KnownCalls::of(&names),
            names,
            threads: context.threads(),
            width,
            tree: Vec::new(),
            other_kinds: OtherKinds::default(),
            met: MetCalls::default(),
            held: HeldLines::default(),
            latest: None,
            late: 0,
        }
    }

    /// Returns a note if no call is shown: the reason, and which calls there are.
    fn note_without_calls(&self) -> Option<String> {
        let min = self.layout.min_duration;
        match (self.met.all, &self.layout.function) {
            _ if self.met.is_shown => None,
            // Sources may leave out short calls.
            (_, Some(_)) if min > 0 => Some(format!(
                "no call of a function that matches --function took {} or longer",
                duration(min)
            )),
            (_, None) if min > 0 => Some(format!("no shown call took {} or longer", duration(min))),
            (0, _) => Some(NO_CALLS.to_owned()),
            (_, Some(_)) if !self.met.is_wanted => {
                let calls = self.met.by_function.iter().map(|(function, calls)| (*function, *calls));
                let functions = named_functions(calls, &lock(&self.names));
                Some(format!("no called function matches --function; there are calls of {functions}"))
            }
            _ => None,
        }
    }

    /// Returns a note if the first lines of calls do not stand where the calls were entered.
    fn note_of_late_calls(&self) -> Option<String> {
        (self.late > 0).then(|| {
            format!(
                "{}: at most {} lines, or 16 MiB, are held back until it is known which calls are shown",
                if self.late == 1 {
                    "1 call is shown below lines that are later than its entry".to_owned()
                } else {
                    format!(
                        "{} calls are shown below lines that are later than their entry",
                        Grouped(self.late)
                    )
                },
                Grouped(MOST_PLACES as u64)
            )
        })
    }

    /// Appends sentences about the waits for the tracer, and about the states of threads.
    fn put_notes(&self, out: &mut Vec<u8>) {
        let notes = [self.threads.waits_in_words(), self.threads.states().in_words()];
        for note in notes.into_iter().flatten() {
            out.extend_from_slice(note.as_bytes());
            out.push(b'\n');
        }
    }

    /// Makes the column of labels wide enough for the new label of a thread.
    fn widen(&mut self, thread: usize) {
        let columns = self.threads.threads()[thread].full_label().chars().count();
        self.tree[thread].columns = columns;
        self.width = self.width.max(columns);
    }

    /// Returns the indices of the thread and the process of an origin. Assigns them if the origin is new.
    #[inline]
    fn ids(&mut self, number: usize, origin: &Origin) -> ThreadIds {
        let ids = self.threads.ids(number, origin);
        if ids.thread >= self.tree.len() {
            self.tree.push(ThreadTree::default());
            self.widen(ids.thread);
        }
        ids
    }

    /// Adds a line to the lines that are held back: at the reserved place `place`, or after all other lines.
    fn add(
        &mut self,
        place: Option<u64>,
        thread: usize,
        (ticks, taken): (Ticks, Option<u64>),
        text: Vec<u8>,
    ) {
        self.held.add(place, TreeLine { thread, ticks: Some(ticks), taken, text });
    }

    /// Writes the lines up to the first line whose text is still awaited. If too many lines are held back, decides
    /// about that line now, so that the lines after it can be written.
    fn write_known(&mut self, out: &mut Vec<u8>) {
        loop {
            while let Some(line) = self.held.pop() {
                let folded = match &mut self.by_thread {
                    Some(by_thread) => {
                        let make = || ThreadLines::new(self.time.clone(), self.folded.without_lines());
                        &mut by_thread.thread(line.thread, make).folded
                    }
                    None => &mut self.folded,
                };
                folded.add(line).into_iter().flatten().for_each(|line| self.write(line, out));
            }
            if !self.held.is_full() {
                return;
            }
            let Some((thread, depth)) = self.held.awaited() else { return };
            if self.decide(thread) {
                continue;
            }
            // It is still unknown whether this call will be long enough to be shown.
            let shown = self.tree[thread].shown.get_mut(depth);
            let Some(place) = shown.and_then(|shown| shown.place.take()) else { return };
            self.held.give_up(place);
        }
    }

    /// Adds the first line of each open call of a thread that has already taken long enough. Returns whether the line
    /// that all others waited for is now known.
    fn decide(&mut self, thread: usize) -> bool {
        let (Some((of, ticks)), Some(awaited)) = (self.latest, self.held.awaited()) else { return false };
        let now = self.threads.time(of, ticks);
        self.write_open(thread, (ticks, now));
        self.held.awaited() != Some(awaited)
    }

    /// Writes a line with its columns, or adds it to the lines of its thread.
    fn write(&mut self, line: TreeLine, out: &mut Vec<u8>) {
        let TreeLine { thread, ticks, taken, text } = line;
        let of = &self.threads.threads()[thread];
        match &mut self.by_thread {
            Some(by_thread) => {
                let make = || ThreadLines::new(self.time.clone(), self.folded.without_lines());
                by_thread.add(thread, make, |time, out| {
                    put_time(time, of, ticks, out);
                    put_taken(taken, &text, out);
                });
            }
            None => {
                put_time(&mut self.time, of, ticks, out);
                out.extend_from_slice(b"  ");
                out.extend_from_slice(of.full_label().as_bytes());
                // `write!` would take longer than all other work for a line.
                out.resize(out.len() + self.width - self.tree[thread].columns, b' ');
                put_taken(taken, &text, out);
            }
        }
        self.held.take_back(text);
    }

    /// Returns how many open calls of a thread, wanted or not, are not folded. All calls inside these are folded.
    fn most(&self, thread: usize) -> usize {
        self.tree[thread].unwanted.saturating_add(self.depth.most())
    }

    /// Appends the indentation for a line inside `depth` shown calls.
    fn indent(&self, depth: usize, out: &mut Vec<u8>) {
        let depth = depth.min(self.depth.most().saturating_add(1));
        out.resize(out.len() + depth * STEP, b' ');
    }

    /// Adds the first lines of the open calls that have none yet, if they are wanted and have taken long
    /// enough.
    fn write_open(&mut self, thread: usize, (ticks, now): (Ticks, u64)) {
        let most = self.most(thread);
        let end = self.tree[thread].shown.len().min(most.saturating_add(1));
        for depth in self.tree[thread].written..end {
            let (call, shown) = (self.tree[thread].calls.open()[depth], self.tree[thread].shown[depth]);
            // Calls inside a short call are even shorter.
            if call.taken(now, self.threads.work(thread)).0 < self.layout.min_duration {
                break;
            }
            self.tree[thread].written = depth + 1;
            if shown.is_written || !shown.is_wanted {
                continue;
            }
            let place = std::mem::take(&mut self.tree[thread].shown[depth].place);
            self.tree[thread].shown[depth].is_written = true;
            let mut text = self.held.text();
            self.indent(shown.depth, &mut text);
            if depth < most {
                self.write_function(&call, shown.called_from, &mut text);
            } else {
                // The number of folded calls is known only when they end.
                let _ = write!(text, "{MORE} more calls");
            }
            text.extend_from_slice(b" {");
            self.late += u64::from(place.is_none());
            let at = if place.is_some() { shown.entered } else { ticks };
            self.add(place, thread, (at, None), text);
        }
    }

    fn write_function(&self, call: &OpenCall, called_from: Option<FunctionId>, out: &mut Vec<u8>) {
        let names = lock(&self.names);
        let function = names.get(call.function);
        out.extend_from_slice(function.name.as_bytes());
        if let Some(span) = call.span {
            let _ = write!(out, " #{span}");
        }
        if !function.at.is_empty() {
            [&b"  ("[..], function.at.as_bytes(), b")"].iter().for_each(|part| out.extend_from_slice(part));
        }
        if let Some(from) = called_from {
            [&b"  called from "[..], names.get(from).at.as_bytes()]
                .iter()
                .for_each(|part| out.extend_from_slice(part));
        }
    }

    fn enter(&mut self, thread: usize, ticks: Ticks, (called, span): (Called, Option<u64>)) {
        let now = self.threads.time(thread, ticks);
        // If short calls are hidden, it is not yet known whether this call will be shown, and hidden calls must not
        // affect the shown ones.
        if self.layout.min_duration == 0 && self.tree[thread].shown.len() <= self.most(thread) {
            self.write_open(thread, (ticks, now));
        }
        let matches = |pattern: &Regex| pattern.is_match(&lock(&self.names).get(called.function).name);
        let is_wanted = self.function.as_ref().is_none_or(matches)
            || self.tree[thread].shown.last().is_some_and(|outer| outer.is_wanted);
        self.met.add(called.function, is_wanted);
        if let Some(span) = span {
            self.entered_spans.enter((self.threads.threads()[thread].process, span), thread);
        }
        let tree = &mut self.tree[thread];
        tree.unwanted += usize::from(!is_wanted);
        tree.calls.enter(called.place, called.function, span, now);
        tree.has_just_entered = true;
        let depth = tree.shown.len();
        let place = (is_wanted && depth <= self.most(thread)).then(|| self.held.reserve(thread, depth));
        let (entered, called_from) = (ticks, called.from);
        let depth = self.tree[thread].depth();
        let shown = ShownCall { entered, depth, called_from, place, is_written: false, is_wanted };
        self.tree[thread].shown.push(shown);
    }

    /// Takes the place of the innermost call from a record, if the record is a call stack that was recorded for this
    /// purpose: it comes directly after the call's enter record, has the same ticks, and has only the function and its
    /// caller. Returns whether the record is such a call stack.
    fn take_call_site(&mut self, thread: usize, named: usize, record: &RecordText<'_>) -> bool {
        let tree = &mut self.tree[thread];
        let (Some(shown), Some(call)) = (tree.shown.last_mut(), tree.calls.open().last()) else {
            return false;
        };
        if record.kind != Kind::Stack || !tree.has_just_entered || shown.entered != record.ticks {
            return false;
        }
        let Some(line) = record.parsed().next() else { return false };
        let stack = StackLine::parse(line.payload).filter(|stack| !stack.whole && stack.frames.len() == 2);
        let Some(stack) = stack else { return false };
        if shown.called_from.is_none() {
            shown.called_from = lock(&self.names).call_site(named, record.ticks, call.function, &stack);
        }
        true
    }

    fn leave(&mut self, thread: usize, ticks: Ticks, (called, span, flags): (Called, Option<u64>, Flags)) {
        let now = self.threads.time(thread, ticks);
        let left_by = thread;
        let thread = span.map_or(thread, |span| {
            let has_open = |of: usize| self.tree[of].calls.has_open_at(called.place, Some(span));
            self.entered_spans.leave((self.threads.threads()[thread].process, span), thread, has_open)
        });
        let how = match flags {
            _ if thread != left_by => " left on another thread",
            _ if flags.has(Flags::UNWINDING) => " left by a panic",
            _ if flags.has(Flags::CANCELLED) => " cancelled",
            _ => "",
        };
        let most = self.most(thread);
        let calls = &mut self.tree[thread].calls;
        calls.overlap_up_to(most);
        let Some(left) = calls.leave(called.place, called.function, span) else { return };
        if !calls.outliving(left).is_empty() {
            self.overlap(thread, left);
        }
        let how = |ending| if ending == Ending::Unseen { " no leave record" } else { how };
        self.end_calls(thread, (Some(ticks), now), left, how);
    }

    /// Reorders the display states of a thread's calls as its open calls have been reordered: those that outlive the
    /// call that is being left have been moved below it. `left` is the number of calls that stay open.
    #[cold]
    fn overlap(&mut self, thread: usize, left: usize) {
        let tree = &mut self.tree[thread];
        tree.calls.reorder(left, &mut tree.shown);
        tree.written = tree.written.min(left - tree.calls.outliving(left).len());
        tree.unwanted = tree.shown.iter().take_while(|shown| !shown.is_wanted).count();
        for (depth, shown) in tree.shown.iter().enumerate().skip(tree.written) {
            shown.place.into_iter().for_each(|place| self.held.set_depth(place, depth));
        }
    }

    /// Ends all open calls of a thread except the outermost `left` ones, the innermost first. `how` returns the text
    /// that says how a call has ended.
    fn end_calls<'h>(
        &mut self,
        thread: usize,
        (ticks, now): (Option<Ticks>, u64),
        left: usize,
        how: impl Fn(Ending) -> &'h str,
    ) {
        loop {
            let (most, min) = (self.most(thread), self.layout.min_duration);
            let tree = &mut self.tree[thread];
            let ended = tree.calls.pop_shown(left, (now, self.threads.work(thread)), most, min);
            let depth = tree.calls.open().len();
            let shown = tree.shown.get(depth).copied();
            // Folded calls that were too short to count are not in `ended`.
            let kept = depth + usize::from(ended.is_some());
            let places = tree.shown.iter().skip(kept).filter_map(|shown| shown.place);
            places.for_each(|place| self.held.give_up(place));
            tree.shown.truncate(depth);
            tree.written = tree.written.min(depth);
            tree.unwanted = tree.unwanted.min(depth);
            let Some((ended, shown)) = ended.zip(shown) else { return };
            let how = match how(ended.ending) {
                "" if ended.call.outlives => " left after a call around it",
                how => how,
            };
            self.end(thread, (ticks, now), (&ended, shown), how);
        }
    }

    /// Adds the line of an ended call, which was already removed from the open calls.
    fn end(
        &mut self,
        thread: usize,
        (ticks, now): (Option<Ticks>, u64),
        (ended, shown): (&Ended, ShownCall),
        how: &str,
    ) {
        let Ended { call, folded, .. } = ended;
        let (taken, _) = call.taken(now, self.threads.work(thread));
        // If the first line of a call is shown, its end is shown, too, even if the call is too short after all
        // because a later line has reported a wait in it.
        if !shown.is_wanted || (taken < self.layout.min_duration && !shown.is_written) {
            shown.place.into_iter().for_each(|place| self.held.give_up(place));
            return;
        }
        self.met.is_shown = true;
        let folded = folded.as_ref().map(|folded| {
            let names = lock(&self.names);
            folded.text(|function| &names.get(function).name)
        });
        // The calls around the ended one have taken long enough, too.
        self.write_open(thread, (ticks.unwrap_or(shown.entered), now));
        let mut text = self.held.text();
        self.indent(shown.depth, &mut text);
        if shown.is_written {
            text.extend_from_slice(b"} ");
        }
        match folded {
            Some(calls) => text.extend_from_slice(calls.as_bytes()),
            None if shown.is_written => {
                text.extend_from_slice(lock(&self.names).get(call.function).name.as_bytes());
            }
            None => self.write_function(call, shown.called_from, &mut text),
        }
        if !how.is_empty() {
            text.extend_from_slice(b"  <-");
            text.extend_from_slice(how.as_bytes());
        }
        self.write_off(thread, (call.entered, now), taken, &mut text);
        self.late += u64::from(!shown.is_written && shown.place.is_none());
        let ticks = if shown.place.is_some() { Some(shown.entered) } else { ticks };
        self.held.add(shown.place, TreeLine { thread, ticks, taken: Some(taken), text });
    }

    /// Appends how long a thread was off the processor in a call, if this is known and the call took at least `SLOW`.
    fn write_off(&self, thread: usize, (entered, now): (u64, u64), taken: u64, out: &mut Vec<u8>) {
        let off = self.threads.work(thread).off_between(entered, now).filter(|_| taken >= SLOW);
        let words = off.map_or_else(String::new, |off| off.within(taken).in_words(taken / LEAST_PART));
        if !words.is_empty() {
            let _ = write!(out, "  [{words}]");
        }
    }

    /// Adds a message, a call stack or a warning, indented below its call.
    fn write_lines(&mut self, thread: usize, record: &RecordText<'_>, named: usize) {
        let now = self.threads.time(thread, record.ticks);
        let depth = self.tree[thread].shown.len();
        let around =
            depth.checked_sub(1).map(|at| (self.tree[thread].shown[at], self.tree[thread].calls.open()[at]));
        let is_wanted = match around {
            Some((shown, call)) => {
                let (taken, _) = call.taken(now, self.threads.work(thread));
                shown.is_wanted && taken >= self.layout.min_duration
            }
            None => self.function.is_none() && self.layout.min_duration == 0,
        };
        // A user who limits the depth for an overview does not want messages in deeper calls.
        let is_deep = matches!(self.depth, Depth::AtMost(_)) && depth >= self.most(thread);
        let depth = self.tree[thread].depth();
        if (!is_wanted && record.kind != Kind::Meta) || is_deep {
            return;
        }
        self.write_open(thread, (record.ticks, now));
        for line in record.parsed() {
            let stack = (line.kind == Kind::Stack).then(|| StackLine::parse(line.payload)).flatten();
            let place = (named, record.ticks);
            let texts = stack.map_or_else(
                || vec![in_words(&line).into_owned()],
                |stack| {
                    let lines = self.stacks.lines(&mut lock(&self.names), place, &stack);
                    lines.into_iter().map(String::into_bytes).collect()
                },
            );
            for content in texts {
                let mut text = self.held.text();
                self.indent(depth, &mut text);
                text.extend_from_slice(if line.kind == Kind::Meta { b"# " } else { b": " });
                text.extend_from_slice(&content);
                self.add(None, thread, (record.ticks, None), text);
            }
        }
    }

    /// Ends the calls of a thread that are still open, and writes `why`, the reason for which they have no leave
    /// record.
    fn still_open(&mut self, thread: usize, ticks: Ticks, why: &str) {
        let now = self.threads.time(thread, ticks);
        self.end_calls(thread, (Some(ticks), now), 0, |_| why);
    }

    /// Ends the calls of a thread that are open at the end of the output. If other processes have lived longer, these
    /// calls come after their later lines. Then the time stands in the text of the lines and not in the column of
    /// times, so that the times in the column never go back.
    fn open_at_the_end(&mut self, thread: usize, latest: u64) {
        // The end of a thread is unknown if it still runs or was only partly selected.
        let why = self.tree[thread].why.unwrap_or(" still running at the end of the shown records");
        let process = self.threads.threads()[thread].process;
        let last = self.threads.last(process);
        if self.threads.last_time(process) >= latest {
            return self.still_open(thread, last, why);
        }
        let mut at = Vec::new();
        self.time.clone().write(&self.threads.threads()[thread].clock, last, &mut at);
        let why = format!("{why}, at {}", String::from_utf8_lossy(&at).trim());
        let now = self.threads.time(thread, last);
        self.end_calls(thread, (None, now), 0, |_| &why);
    }
}

/// Appends the column of times, which is blank if `ticks` is `None`.
fn put_time(time: &mut TimeColumn, of: &Thread, ticks: Option<Ticks>, out: &mut Vec<u8>) {
    match ticks {
        Some(ticks) if of.may_be_older(ticks) => time.write_older(&of.clock, ticks, out),
        Some(ticks) => time.write(&of.clock, ticks, out),
        None => {
            let start = out.len();
            time.clone().write(&of.clock, Ticks(0), out);
            out[start..].fill(b' ');
        }
    }
}

/// Appends the duration of a call, and the text of a line.
fn put_taken(taken: Option<u64>, text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"  ");
    let start = out.len();
    taken.into_iter().for_each(|taken| put_duration(taken, out));
    let missing = (start + DURATION).saturating_sub(out.len());
    out.resize(out.len() + missing, b' ');
    out[start..].rotate_right(missing);
    out.extend_from_slice(b"  ");
    out.extend_from_slice(text);
    out.push(b'\n');
}

/// Returns why calls are still open when a thread ends together with its process, for the lines of these calls.
fn why_open(reason: EndReason) -> Option<&'static str> {
    match reason {
        EndReason::Killed => Some(" still running when the process was killed"),
        EndReason::Panic => Some(" still running when a panic ended the process"),
        EndReason::Exit => Some(" still running when the process ended"),
        EndReason::Shutdown => Some(" still running when tracing was switched off"),
        _ => None,
    }
}

impl Export for TreeFormat {
    fn begin_at(&mut self, first: u64) {
        self.time.first = first;
        self.threads.begin_at(first);
    }

    fn learn_thread(&mut self, number: usize, origin: &Origin, label: String) {
        let ThreadIds { thread, .. } = self.ids(number, origin);
        self.threads.learn(number, origin, label);
        self.widen(thread);
    }

    fn begin(&mut self, _origins: &[Origin], _out: &mut Vec<u8>) {}

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>) {
        let ids = self.ids(record.origin, origin);
        let ThreadIds { thread, process, named } = ids;
        if self.threads.label_at(thread, record.ticks) {
            self.widen(thread);
        }
        let is_call_site = self.take_call_site(thread, named, record);
        self.tree[thread].has_just_entered = false;
        self.threads.see(process, record.ticks);
        self.latest = Some((thread, record.ticks));
        if is_call_site {
            return;
        }
        match record.kind {
            Kind::Enter | Kind::Leave => {
                let call_info = self.call_info.call_info(&self.names, named, record);
                let Some(&CallInfo { called, span, left }) = call_info else { return };
                if record.kind == Kind::Enter {
                    self.enter(thread, record.ticks, (called, span));
                } else {
                    self.leave(thread, record.ticks, (called, span, left));
                }
            }
            Kind::Meta => {
                let Some(line) = record.parsed().next() else { return };
                lock(&self.names).take_meta(named, line.payload);
                let meta = Meta::parse(line.payload);
                meta.iter().for_each(|meta| self.threads.take_meta(ids, meta));
                self.widen(thread);
                match meta.as_ref().and_then(|meta| cut(meta, record.ticks)) {
                    Some((Cut::ThreadEnded, ticks)) => {
                        let why = " still open when the thread ended";
                        self.still_open(thread, ticks, why);
                    }
                    Some((Cut::SwitchedOff, ticks)) => {
                        let why = " still open when tracing was switched off";
                        self.still_open(thread, ticks.max(record.ticks), why);
                    }
                    None => {}
                }
                if matches!(meta, Some(Meta::Lost { .. })) {
                    self.tree[thread].calls.note_loss();
                }
                if let Some(Meta::End(end)) = &meta {
                    self.tree[thread].why = why_open(end.reason);
                }
                if record.is_warning() {
                    self.write_lines(thread, record, named);
                }
            }
            Kind::Message | Kind::Continuation | Kind::Stack | Kind::Lock => {
                self.write_lines(thread, record, named);
            }
            Kind::State => self.other_kinds.see_state(),
            Kind::Other(kind) => self.other_kinds.see(kind),
        }
        self.write_known(out);
    }

    fn takes_calls(&self) -> bool {
        true
    }

    fn end_round(&mut self, out: &mut Vec<u8>) {
        while let Some((thread, _)) = self.held.awaited() {
            if !self.decide(thread) {
                break;
            }
            self.write_known(out);
        }
        self.folded.take().into_iter().for_each(|line| self.write(line, out));
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        let latest = self.latest.map_or(0, |(of, ticks)| self.threads.time(of, ticks));
        let last = |thread: &usize| self.threads.last_time(self.threads.threads()[*thread].process);
        let mut threads: Vec<usize> = (0..self.tree.len()).collect();
        // Threads whose process ended before the latest record come first; their lines have no times in the column.
        threads.sort_by_key(|thread| last(thread).max(latest));
        threads.into_iter().for_each(|thread| self.open_at_the_end(thread, latest));
        self.write_known(out);
        self.folded.take().into_iter().for_each(|line| self.write(line, out));
        let folded = self.by_thread.as_mut().map_or_else(Vec::new, LinesByThread::take_folded);
        folded.into_iter().for_each(|line| self.write(line, out));
        if self.by_thread.is_none() {
            self.put_notes(out);
        }
    }

    fn further_part(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        let Some(by_thread) = &mut self.by_thread else { return Ok(false) };
        let threads = self.threads.threads();
        let has_more = by_thread.put_part(|thread| format!("{}\n", threads[thread].full_label()), out)?;
        if !has_more {
            self.put_notes(out);
        }
        Ok(has_more)
    }

    fn omissions(&self) -> Vec<String> {
        self.other_kinds
            .omissions()
            .chain(self.note_without_calls())
            .chain(self.note_of_late_calls())
            .chain(self.stacks.omission())
            .collect()
    }
}

#[cfg(test)]
mod tests;
