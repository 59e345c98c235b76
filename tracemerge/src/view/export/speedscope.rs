//! Profiles for speedscope, of the type `evented`: one profile for each thread that has calls. In a profile, each
//! beginning of a call has an end, and the times of all profiles count from the same moment.
//!
//! The format has one thread after another, so all calls are held in memory until the output ends.

use crate::ui::messages::count;
use crate::view::export::aspects::Aspect;
use crate::view::export::events::{EndedCall, Event, EventContent, EventFormat, Inventory, sentences};
use crate::view::export::format::{OutputContent, OutputFormat, contains, export_events};
use crate::view::export::json::{put_number, put_string};
use crate::view::function_names::FunctionId;
use crate::view::threads::Process;

/// The number of calls above which the user is told how much memory they take.
const MAX_QUIET_CALLS: u64 = 1_000_000;
/// The number of bytes that a call takes in memory: its beginning and its end.
const CALL_BYTES: u64 = 2 * size_of::<Step>() as u64;

/// The beginning or the end of a call.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The time, in nanoseconds since the first event.
    at: u64,
    function: FunctionId,
    is_end: bool,
}

/// The profile of a thread: the beginnings and the ends of its calls, in order.
#[derive(Debug, Default)]
struct Profile {
    steps: Vec<Step>,
    /// The indices in `steps` of the beginnings of the open calls, the outermost call first.
    open: Vec<usize>,
}

impl Profile {
    /// Appends a step at the time `at`, or at the time of the last step if that is later.
    fn put(&mut self, at: u64, function: FunctionId, is_end: bool) {
        let at = at.max(self.steps.last().map_or(0, |last| last.at));
        self.steps.push(Step { at, function, is_end });
    }

    fn enter(&mut self, at: u64, function: FunctionId) {
        self.open.push(self.steps.len());
        self.put(at, function, false);
    }

    /// Ends calls, the innermost first. A call's function may become known only at its end, so the function is also set
    /// in the step in which the call began.
    fn end(&mut self, at: u64, ended: &[EndedCall]) {
        for call in ended {
            let Some(entered) = self.open.pop() else { return };
            self.steps[entered].function = call.function;
            self.put(at, call.function, true);
        }
    }
}

/// The description of the format `speedscope` for the command line.
pub(crate) static FORMAT: OutputFormat = OutputFormat {
    name: "speedscope",
    about: "A profile of each thread, for speedscope",
    extension: "speedscope.json",
    content: OutputContent::Json,
    nests_calls: true,
    times_of_day: false,
    takes_states: false,
    begins: |head| contains(head, b"\"exporter\":\"tracemerge\""),
    make: Some(export_events::<SpeedscopeFormat>),
};

/// The output format `speedscope`, which writes a profile of each thread.
#[derive(Debug, Default)]
pub(crate) struct SpeedscopeFormat {
    /// The profile of each thread, by the thread's index in the inventory.
    profiles: Vec<Profile>,
    /// The time of the first event, from which the times of the profiles count.
    first: Option<u64>,
    calls: u64,
    /// The number of messages; `stacks` and `metas` are the numbers of call stacks and of `#` lines. All of these are
    /// left out, because a profile has only calls.
    messages: u64,
    stacks: u64,
    metas: u64,
    /// For each function id, the number that the function has in the output's list of frames; `None` if it is not in
    /// the list. `of_frames` has the function id of each frame of the list.
    frames: Vec<Option<u64>>,
    of_frames: Vec<FunctionId>,
}

impl SpeedscopeFormat {
    /// Returns the number of a function in the output's list of frames. Adds the function to the list if it is new.
    fn frame(&mut self, function: FunctionId) -> u64 {
        let number = function as usize;
        self.frames.resize(self.frames.len().max(number + 1), None);
        *self.frames[number].get_or_insert_with(|| {
            self.of_frames.push(function);
            self.of_frames.len() as u64 - 1
        })
    }

    fn put_profile(&mut self, name: &str, profile: &Profile, end: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\n{\"type\":\"evented\",\"name\":");
        put_string(name, out);
        out.extend_from_slice(b",\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":");
        put_number(end, out);
        out.extend_from_slice(b",\"events\":[");
        for (number, step) in profile.steps.iter().enumerate() {
            out.extend_from_slice(if number == 0 { b"\n" } else { b",\n" });
            let kind: &[u8] = if step.is_end { b"C" } else { b"O" };
            out.extend_from_slice(&[b"{\"type\":\"", kind, b"\",\"frame\":"].concat());
            put_number(self.frame(step.function), out);
            out.extend_from_slice(b",\"at\":");
            put_number(step.at, out);
            out.push(b'}');
        }
        out.extend_from_slice(b"]}");
    }

    fn put_frames(&self, inventory: &Inventory, out: &mut Vec<u8>) {
        for (number, id) in self.of_frames.iter().enumerate() {
            let function = inventory.function(*id);
            out.extend_from_slice(if number == 0 { b"\n{\"name\":" } else { b",\n{\"name\":" });
            put_string(if function.name.is_empty() { "?" } else { &function.name }, out);
            if !function.file.is_empty() {
                out.extend_from_slice(b",\"file\":");
                put_string(&function.file, out);
            }
            if let Some(line) = function.line {
                out.extend_from_slice(b",\"line\":");
                put_number(line.into(), out);
            }
            out.push(b'}');
        }
    }
}

/// Returns the name of a thread's profile, with the process if there are several.
fn name_of(thread: usize, inventory: &Inventory) -> String {
    let thread = &inventory.threads()[thread];
    let process: &Process = &inventory.processes()[thread.process];
    if inventory.processes().len() == 1 {
        return thread.label().to_owned();
    }
    format!("{} {} {}", process.name, process.pid(), thread.label())
}

impl EventFormat for SpeedscopeFormat {
    fn event(&mut self, event: &Event<'_>, inventory: &Inventory, _out: &mut Vec<u8>) {
        let at = event.time.saturating_sub(*self.first.get_or_insert(event.time));
        self.profiles.resize_with(self.profiles.len().max(inventory.threads().len()), Profile::default);
        let profile = &mut self.profiles[event.thread];
        match &event.what {
            EventContent::Enter(call_info) => {
                self.calls += 1;
                profile.enter(at, call_info.called.function);
            }
            EventContent::Leave(_, ended) | EventContent::Close(ended) => profile.end(at, ended),
            EventContent::Message { .. } => self.messages += 1,
            EventContent::Stack(_) => self.stacks += 1,
            EventContent::Meta { .. } => self.metas += 1,
        }
    }

    fn nests_calls(&self) -> bool {
        true
    }

    fn finish(&mut self, inventory: &Inventory, out: &mut Vec<u8>) {
        let profiles = std::mem::take(&mut self.profiles);
        let end = profiles.iter().filter_map(|profile| profile.steps.last()).map(|last| last.at).max();
        out.extend_from_slice(b"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",");
        out.extend_from_slice(b"\"exporter\":\"tracemerge\",\"profiles\":[");
        let mut is_first = true;
        for (thread, profile) in profiles.iter().enumerate().filter(|(_, profile)| !profile.steps.is_empty())
        {
            if !std::mem::replace(&mut is_first, false) {
                out.push(b',');
            }
            self.put_profile(&name_of(thread, inventory), profile, end.unwrap_or(0), out);
        }
        out.extend_from_slice(b"],\n\"shared\":{\"frames\":[");
        self.put_frames(inventory, out);
        out.extend_from_slice(b"]}}\n");
    }

    fn omissions(&self, inventory: &Inventory) -> Vec<String> {
        let mut omissions = sentences([
            (self.messages, "message", "left out: profiles have none"),
            (self.stacks, "call stack", "left out: only calls are shown"),
            (self.metas, "# line", "left out, including losses and stalls"),
        ]);
        omissions.extend(inventory.cut_calls());
        omissions.extend(inventory.without(&[
            Aspect::Spans,
            Aspect::Ends,
            Aspect::Unwinding,
            Aspect::CallSites,
        ]));
        if self.calls > MAX_QUIET_CALLS {
            let mib = (self.calls * CALL_BYTES) >> 20;
            omissions.push(format!("{} held in memory, {mib} MiB", count(self.calls, "call")));
        }
        omissions
    }
}
