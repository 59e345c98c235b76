//! The calls of functions as lines for people: `-> f` where a thread enters a function, `<- f` where it leaves it,
//! and the depth of each line, which is the number of calls of its thread that are open there.

use std::fmt::Write as _;

use trace_format::function::StackLine;
use trace_format::line::{Kind, Ticks};
use trace_format::meta::Meta;
use trace_format::record::Flags;

use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::ui::messages::count;
use crate::view::calls::{Depth, MORE, OpenCalls, cut};
use crate::view::function_names::{CallInfo, Function, KnownCalls, SharedNames, lock};
use crate::view::threads::{ThreadIds, Threads};
use crate::view::work_time::WorkTime;

/// The number of spaces of indentation for each open call.
const STEP: usize = 2;
/// The number of open calls that are shown by indentation. A deeper line begins with its depth as a number.
const MOST_INDENTED: usize = 40;

/// The open calls of all threads.
#[derive(Debug)]
pub struct CallLines {
    names: SharedNames,
    call_info: KnownCalls,
    threads: Threads,
    of_thread: Vec<ThreadCalls>,
}

/// The open calls of one thread.
#[derive(Debug, Default)]
struct ThreadCalls {
    calls: OpenCalls,
    /// The ticks of the thread's last record, if that was the enter record of a call. A call stack with the same
    /// ticks may then contain the place of the call.
    just_entered: Option<Ticks>,
}

/// The depth of a record, and its lines if it is one of calls.
#[derive(Debug)]
pub struct OfCalls {
    /// The number of open calls around the record.
    pub depth: usize,
    /// The lines of a call or a call stack; `None` if the record is another one.
    pub lines: Option<Vec<String>>,
}

impl CallLines {
    /// Makes the lines of calls of `threads`, of which no record was seen yet.
    #[must_use]
    pub fn new(threads: Threads) -> CallLines {
        let names = threads.names().clone();
        CallLines { call_info: KnownCalls::of(&names), names, threads, of_thread: Vec::new() }
    }

    /// Takes the next record.
    pub fn take(&mut self, origin: &Origin, record: &RecordText<'_>) -> OfCalls {
        let ThreadIds { thread, named, .. } = self.threads.ids(record.origin, origin);
        if self.of_thread.len() <= thread {
            self.of_thread.resize_with(thread + 1, ThreadCalls::default);
        }
        let just_entered = self.of_thread[thread].just_entered.take();
        let depth = self.of_thread[thread].calls.open().len();
        let other = OfCalls { depth, lines: None };
        match record.kind {
            Kind::Enter => self.enter(thread, named, record).unwrap_or(other),
            Kind::Leave => self.leave(thread, named, record).unwrap_or(other),
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
                if Meta::parse(line.payload).and_then(|meta| cut(&meta, record.ticks)).is_some() {
                    self.of_thread[thread].calls = OpenCalls::default();
                }
                other
            }
            _ => other,
        }
    }

    fn enter(&mut self, thread: usize, named: usize, record: &RecordText<'_>) -> Option<OfCalls> {
        let CallInfo { called, span, .. } = *self.call_info.call_info(&self.names, named, record)?;
        let of_thread = &mut self.of_thread[thread];
        let depth = of_thread.calls.open().len();
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

    fn leave(&mut self, thread: usize, named: usize, record: &RecordText<'_>) -> Option<OfCalls> {
        let CallInfo { called, span, left } = *self.call_info.call_info(&self.names, named, record)?;
        let calls = &mut self.of_thread[thread].calls;
        let remaining = calls.leave(called.place, called.function, span);
        // Calls further in have lost their leave records.
        let ended = remaining.and_then(|remaining| {
            std::iter::from_fn(|| calls.pop(remaining, 0, &WorkTime::WITHOUT_WAITS)).last()
        });
        let depth = calls.open().len();
        let function = ended.map_or(called.function, |(call, _)| call.function);
        let names = lock(&self.names);
        let name = match &names.get(function).name[..] {
            "" => "a function that was entered before",
            name => name,
        };
        let mut line = format!("<- {name}");
        add_span(span, &mut line);
        line.push_str(match left {
            _ if left.has(Flags::UNWINDING) => " (left by a panic)",
            _ if left.has(Flags::CANCELLED) => " (cancelled)",
            _ => "",
        });
        Some(OfCalls { depth, lines: Some(vec![line]) })
    }

    /// Returns the lines of a call stack, the innermost function first; if it is the place of a call, one line with
    /// the caller.
    fn stack(&self, named: usize, ticks: Ticks, stack: &StackLine<'_>, is_call_site: bool) -> Vec<String> {
        let mut names = lock(&self.names);
        let frames = stack.frames.iter().skip(usize::from(is_call_site));
        let functions: Vec<_> =
            frames.flat_map(|frame| names.of_frame(named, ticks, frame).to_vec()).collect();
        let by = if is_call_site { "called from" } else { "by" };
        let most = if is_call_site { 1 } else { Depth::Usual.most() };
        let mut lines: Vec<String> = functions
            .iter()
            .take(most)
            .map(|id| {
                let mut line = format!("{by} {}", names.get(*id).name);
                add_place(names.get(*id), &mut line);
                line
            })
            .collect();
        if is_call_site {
            return lines;
        }
        lines.insert(0, "call stack:".to_owned());
        if functions.len() > most {
            let more = count((functions.len() - most) as u64, "more function");
            lines.push(format!("by {MORE} {more}"));
        }
        if !stack.whole {
            lines.push("by ... (the walk ended here)".to_owned());
        }
        lines
    }
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

/// Returns the text before a line inside `depth` open calls.
#[must_use]
pub fn indentation(depth: usize) -> String {
    let spaces = " ".repeat(depth.min(MOST_INDENTED) * STEP);
    if depth > MOST_INDENTED { format!("{spaces}[{depth}] ") } else { spaces }
}
