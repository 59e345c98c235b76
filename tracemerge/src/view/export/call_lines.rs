//! The calls of functions as lines for people: `-> f` where a thread enters a function, `<- f` where it leaves the
//! function. Each line has a depth: the number of calls of its thread that are open at the line.

use std::fmt::Write as _;

use trace_format::function::StackLine;
use trace_format::line::{Kind, Ticks};
use trace_format::meta::Meta;
use trace_format::record::Flags;

use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::symbols::shown_functions;
use crate::ui::messages::count;
use crate::view::calls::{Depth, MORE, OpenCalls, cut};
use crate::view::function_names::{CallInfo, Function, FunctionNames, KnownCalls, SharedNames, lock};
use crate::view::span_threads::SpanThreads;
use crate::view::threads::{ThreadIds, Threads};
use crate::view::work_time::WorkTime;

/// The number of spaces of indentation for each open call.
const STEP: usize = 2;
/// The depth up to which lines are indented. A deeper line begins with its depth as a number.
const MOST_INDENTED: usize = 40;

/// A converter of the records of calls to lines. Keeps the open calls of all threads.
#[derive(Debug)]
pub(crate) struct CallLines {
    names: SharedNames,
    call_info: KnownCalls,
    threads: Threads,
    of_thread: Vec<ThreadCalls>,
    entered_spans: SpanThreads,
    stacks: StackLines,
}

/// The open calls of one thread.
#[derive(Debug, Default)]
struct ThreadCalls {
    calls: OpenCalls,
    /// The ticks of the thread's last record, if it was the enter record of a call. If a call stack with the same ticks
    /// follows, the stack tells from where the call was made.
    just_entered: Option<Ticks>,
}

/// The depth of a record, and its lines if the record belongs to a call or is a call stack.
#[derive(Debug)]
pub(crate) struct OfCalls {
    /// The number of open calls around the record.
    pub depth: usize,
    /// The lines for people if the record belongs to a call or is a call stack; otherwise `None`.
    pub lines: Option<Vec<String>>,
}

impl CallLines {
    /// Creates a converter for the calls of `threads`, before any of their records is read; `stacks` makes the lines of
    /// call stacks.
    #[must_use]
    pub(crate) fn new(threads: Threads, stacks: StackLines) -> CallLines {
        let names = threads.names().clone();
        let (call_info, of_thread) = (KnownCalls::of(&names), Vec::new());
        CallLines { call_info, names, threads, of_thread, entered_spans: SpanThreads::default(), stacks }
    }

    /// Returns the converter of call stacks.
    #[must_use]
    pub(crate) fn stacks(&self) -> &StackLines {
        &self.stacks
    }

    /// Returns the label of the thread to which an origin (a file or a ring) belongs, as known from the records so far.
    pub(crate) fn label(&mut self, number: usize, origin: &Origin) -> &str {
        let ThreadIds { thread, .. } = self.threads.ids(number, origin);
        self.threads.threads()[thread].full_label()
    }

    /// Sets the label of the thread to which an origin (a file or a ring) belongs.
    pub(crate) fn learn_thread(&mut self, number: usize, origin: &Origin, label: String) {
        self.threads.learn(number, origin, label);
    }

    /// Takes the next record, which may begin or end a call. Returns the depth of the record, and its lines if the
    /// record belongs to a call or is a call stack.
    pub(crate) fn take(&mut self, origin: &Origin, record: &RecordText<'_>) -> OfCalls {
        let ids = self.threads.ids(record.origin, origin);
        let ThreadIds { thread, named, .. } = ids;
        self.threads.label_at(thread, record.ticks);
        if self.of_thread.len() <= thread {
            self.of_thread.resize_with(thread + 1, ThreadCalls::default);
        }
        let just_entered = self.of_thread[thread].just_entered.take();
        let depth = self.of_thread[thread].calls.depth();
        let other = OfCalls { depth, lines: None };
        match record.kind {
            Kind::Enter => self.enter(ids, record).unwrap_or(other),
            Kind::Leave => self.leave(ids, record).unwrap_or(other),
            Kind::Stack => {
                let line = record.parsed().next();
                let Some(stack) = line.and_then(|line| StackLine::parse(line.payload)) else { return other };
                let is_call_site =
                    just_entered == Some(record.ticks) && !stack.whole && stack.frames.len() == 2;
                OfCalls { depth, lines: Some(self.stack(named, record.ticks, &stack, is_call_site)) }
            }
            Kind::Meta => {
                let Some(line) = record.parsed().next() else { return other };
                lock(&self.names).take_meta(named, line.payload);
                let meta = Meta::parse(line.payload);
                meta.iter().for_each(|meta| self.threads.take_meta(ids, meta));
                if matches!(meta, Some(Meta::Lost { .. })) {
                    self.of_thread[thread].calls.note_loss();
                }
                if meta.and_then(|meta| cut(&meta, record.ticks)).is_some() {
                    self.of_thread[thread].calls = OpenCalls::default();
                }
                other
            }
            _ => other,
        }
    }

    fn enter(&mut self, ids: ThreadIds, record: &RecordText<'_>) -> Option<OfCalls> {
        let ThreadIds { thread, process, named } = ids;
        let CallInfo { called, span, .. } = *self.call_info.call_info(&self.names, named, record)?;
        if let Some(span) = span {
            self.entered_spans.enter((process, span), thread);
        }
        let of_thread = &mut self.of_thread[thread];
        let depth = of_thread.calls.depth();
        of_thread.calls.enter(called.place, called.function, span, 0);
        of_thread.just_entered = Some(record.ticks);
        let names = lock(&self.names);
        let function = names.get(called.function);
        let mut line = format!("-> {}", function.name);
        add_span(span, &mut line);
        add_place(function, &mut line);
        if let Some(from) = called.from {
            let _ = write!(line, "  called from {}", names.get(from).at);
        }
        Some(OfCalls { depth, lines: Some(vec![line]) })
    }

    fn leave(&mut self, ids: ThreadIds, record: &RecordText<'_>) -> Option<OfCalls> {
        let ThreadIds { thread, process, named } = ids;
        let CallInfo { called, span, left } = *self.call_info.call_info(&self.names, named, record)?;
        let of = span.map_or(thread, |span| {
            let has_open = |of: usize| self.of_thread[of].calls.has_open_at(called.place, Some(span));
            self.entered_spans.leave((process, span), thread, has_open)
        });
        let around = self.of_thread[thread].calls.depth();
        let calls = &mut self.of_thread[of].calls;
        let remaining = calls.leave(called.place, called.function, span);
        // Calls inside the left one either outlive it, or have no leave records.
        let ended = remaining.and_then(|remaining| {
            std::iter::from_fn(|| calls.pop(remaining, 0, &WorkTime::WITHOUT_WAITS)).last()
        });
        let depth = ended.filter(|_| of == thread).map_or(around, |(call, _)| call.depth);
        let function = ended.map_or(called.function, |(call, _)| call.function);
        let names = lock(&self.names);
        let name = match &names.get(function).name[..] {
            "" => "a function that was entered before the shown records",
            name => name,
        };
        let mut line = format!("<- {name}");
        add_span(span, &mut line);
        line.push_str(match left {
            _ if of != thread => " (entered on another thread)",
            _ if left.has(Flags::UNWINDING) => " (left by a panic)",
            _ if left.has(Flags::CANCELLED) => " (cancelled)",
            _ => "",
        });
        Some(OfCalls { depth, lines: Some(vec![line]) })
    }

    /// Returns the lines of a call stack. If `is_call_site`, the stack belongs to the call that was just entered, and
    /// only one line is returned, with the caller; no line if the caller is unknown.
    fn stack(
        &mut self,
        named: usize,
        ticks: Ticks,
        stack: &StackLine<'_>,
        is_call_site: bool,
    ) -> Vec<String> {
        let mut names = lock(&self.names);
        if is_call_site {
            let caller =
                stack.frames.iter().skip(1).flat_map(|f| names.of_frame(named, ticks, f).to_vec()).next();
            return caller.iter().map(|id| function_line("called from", names.get(*id))).collect();
        }
        let mut lines = self.stacks.lines(&mut names, (named, ticks), stack);
        lines.insert(0, "call stack:".to_owned());
        lines
    }
}

/// A converter of call stacks to lines. Counts the functions that the lines leave out.
#[derive(Debug)]
pub(crate) struct StackLines {
    /// Whether all functions of call stacks are shown.
    is_full: bool,
    /// The maximum number of functions of a call stack that are shown.
    most: usize,
    /// The number of functions that were left out because they are not the user's: functions of panics, of the runtime
    /// or of the tracer.
    left_out: u64,
}

impl StackLines {
    /// Creates a converter. `is_full` says whether all functions of a call stack are shown, including those that are
    /// not the user's. Unless `is_full` or `depth` is [`Depth::All`], a stack is limited to as many functions as
    /// [`Depth::Usual`] allows.
    #[must_use]
    pub(crate) fn new(is_full: bool, depth: Depth) -> StackLines {
        let most = if is_full || depth == Depth::All { usize::MAX } else { Depth::Usual.most() };
        StackLines { is_full, most, left_out: 0 }
    }

    /// Returns the lines of a call stack that a process has recorded at these ticks, the innermost function first.
    pub(crate) fn lines(
        &mut self,
        names: &mut FunctionNames,
        (named, ticks): (usize, Ticks),
        stack: &StackLine<'_>,
    ) -> Vec<String> {
        let of_frame = |frame| names.of_frame(named, ticks, frame).to_vec();
        let ids: Vec<_> = stack.frames.iter().flat_map(of_frame).collect();
        let all: Vec<_> = ids.iter().map(|id| names.get(*id).in_stack()).collect();
        let shown = if self.is_full { 0..ids.len() } else { shown_functions(&all, stack.whole) };
        self.left_out += (ids.len() - shown.len()) as u64;
        let (is_end_shown, shown) = (shown.end == ids.len(), &ids[shown]);
        let mut lines: Vec<_> =
            shown.iter().take(self.most).map(|id| function_line("by", names.get(*id))).collect();
        let more = (shown.len() - lines.len()) as u64;
        if more > 0 {
            lines.push(format!("by {MORE} {}", count(more, "more function")));
        }
        if !stack.whole && is_end_shown {
            lines.push("by ... (the stack could not be followed further)".to_owned());
        }
        lines
    }

    /// Returns a sentence about the functions that were left out, if there are any.
    #[must_use]
    pub(crate) fn omission(&self) -> Option<String> {
        let left_out = count(self.left_out, "function");
        let of = "of panics, of the runtime and of the tracer";
        (self.left_out > 0).then(|| format!("left out of call stacks: {left_out} {of}; --full shows them"))
    }
}

fn function_line(how: &str, function: &Function) -> String {
    let mut line = format!("{how} {}", function.name);
    add_place(function, &mut line);
    line
}

fn add_span(span: Option<u64>, line: &mut String) {
    span.iter().for_each(|span| {
        // Writing to memory does not fail.
        let _ = write!(line, " #{span}");
    });
}

fn add_place(function: &Function, line: &mut String) {
    if !function.at.is_empty() {
        let _ = write!(line, "  ({})", function.at);
    }
}

/// Returns the indentation of a line inside `depth` open calls.
#[must_use]
pub(crate) fn indentation(depth: usize) -> String {
    let spaces = " ".repeat(depth.min(MOST_INDENTED) * STEP);
    if depth > MOST_INDENTED { format!("{spaces}[{depth}] ") } else { spaces }
}
