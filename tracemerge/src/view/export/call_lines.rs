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
use crate::view::function_names::{CallInfo, Function, FunctionNames, KnownCalls, SharedNames, lock};
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

    /// Returns the lines of a call stack, or one line with the caller if the stack is the place of a call.
    fn stack(&self, named: usize, ticks: Ticks, stack: &StackLine<'_>, is_call_site: bool) -> Vec<String> {
        let mut names = lock(&self.names);
        if is_call_site {
            let caller =
                stack.frames.iter().skip(1).flat_map(|f| names.of_frame(named, ticks, f).to_vec()).next();
            return caller.iter().map(|id| function_line("called from", names.get(*id))).collect();
        }
        let mut lines = stack_lines(&mut names, (named, ticks), stack, Depth::Usual.most());
        lines.insert(0, "call stack:".to_owned());
        lines
    }
}

/// Returns the lines of a call stack of a process at these ticks, the innermost function first, with the places of at
/// most `most` functions.
#[must_use]
pub fn stack_lines(
    names: &mut FunctionNames,
    (named, ticks): (usize, Ticks),
    stack: &StackLine<'_>,
    most: usize,
) -> Vec<String> {
    let (mut lines, mut more) = (Vec::new(), 0);
    for frame in &stack.frames {
        for id in names.of_frame(named, ticks, frame).iter() {
            if lines.len() == most {
                more += 1;
                continue;
            }
            lines.push(function_line("by", names.get(*id)));
        }
    }
    if more > 0 {
        lines.push(format!("by {MORE} {}", count(more, "more function")));
    }
    if !stack.whole {
        lines.push("by ... (the walk ended here)".to_owned());
    }
    lines
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

/// Returns the text before a line inside `depth` open calls.
#[must_use]
pub fn indentation(depth: usize) -> String {
    let spaces = " ".repeat(depth.min(MOST_INDENTED) * STEP);
    if depth > MOST_INDENTED { format!("{spaces}[{depth}] ") } else { spaces }
}
