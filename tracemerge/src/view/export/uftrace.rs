//! The directory for `uftrace`: a file of records for each thread that has calls, symbols for the functions,
//! and everything else as text in `extern.dat`.
//!
//! Functions have invented addresses, derived from their numbers, and a file of symbols maps them to names.
//! Sessions are processes. uftrace shows the texts of `extern.dat` as comments beside the calls of any
//! thread, so each text begins with its thread. Losses are such texts, too: uftrace's own record of a loss
//! would end all open calls of the thread.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;

use trace_format::escape::{EscapeContext, escape_into};
use trace_format::meta::Meta;
use trace_format::name::stem;

use crate::output::place::is_reserved_by_windows;
use crate::view::export::aspects::Aspect;
use crate::view::export::events::{EndedCall, Event, EventContent, EventFormat, Inventory, sentences};
use crate::view::export::fields::is_of_modules;
use crate::view::export::format::{OutputContent, OutputFormat, export_events};
use crate::view::export::parts::Parts;
use crate::view::export::pids::Pids;
use crate::view::function_names::FunctionId;

/// The beginning of the file `info`: the magic number, version 4, the size of this header, little-endian, 64 bits.
const HEADER: &[u8] = b"Ftrace!\0\x04\0\0\0\x28\0\x01\x02";
/// The features in `info`: sessions, symbols by their address within the file, and a maximum depth.
const FEATURES: u64 = 1 << 1 | 1 << 5 | 1 << 6;
/// The facts in `info`: the name of the executable, and the threads.
const INFOS: u64 = 1 | 1 << 7;
/// The maximum number of nested calls: a record has ten bits for its depth.
const MAX_CALL_DEPTH: usize = 1 << 10;
/// The address at which the invented executable is mapped. In the executable, the first function is at `FIRST`, and the
/// following ones are `APART` bytes apart.
const BASE: u64 = 0x40_0000;
const FIRST: u64 = 0x1000;
const APART: u64 = 16;
/// The first invented thread id. A thread gets an invented id if its own is already in use or not valid in uftrace.
const OWN_TIDS: u32 = 1 << 23;
/// The maximum number of bytes of a text in uftrace.
const MAX_UFTRACE_TEXT: usize = 1000;
const SECOND: u64 = 1_000_000_000;

/// The details of the trace that the directory does not contain.
const OMITTED_ASPECTS: [Aspect; 10] = [
    Aspect::Levels,
    Aspect::Targets,
    Aspect::Modules,
    Aspect::Places,
    Aspect::Values,
    Aspect::FunctionPlaces,
    Aspect::Spans,
    Aspect::Ends,
    Aspect::Unwinding,
    Aspect::CallSites,
];

const ENTRY: u64 = 0;
const EXIT: u64 = 1;

/// The state of the output for a thread, which uftrace calls a task.
#[derive(Debug)]
struct Task {
    tid: u32,
    /// The index of the file of the thread's records, and the time of the first record, if there is any.
    file: Option<(usize, u64)>,
    /// The number of the thread's open calls.
    depth: usize,
    /// The time of the thread's last record.
    last: u64,
}

/// The description of the format `uftrace` for the command line.
pub(crate) static FORMAT: OutputFormat = OutputFormat {
    name: "uftrace",
    about: "A directory with the calls, for uftrace report, replay and tui",
    extension: "uftrace",
    content: OutputContent::Directory,
    nests_calls: true,
    times_of_day: false,
    takes_states: false,
    begins: |_| false,
    make: Some(export_events::<UftraceFormat>),
};

/// The output format `uftrace`, which writes a directory.
#[derive(Debug, Default)]
pub(crate) struct UftraceFormat {
    parts: Parts,
    pids: Pids,
    tasks: Vec<Option<Task>>,
    /// The thread ids that are already in use in the output.
    tids: HashSet<u32>,
    renumbered: u64,
    /// The time of the first event of each process, by the index of the process in the inventory.
    processes: BTreeMap<usize, u64>,
    texts: Option<usize>,
    has_calls: bool,
    /// The number of texts that were left out because they came before the first call. `cut` is the number of
    /// truncated texts, and `too_deep` the number of calls that were nested too deeply.
    before: u64,
    cut: u64,
    too_deep: u64,
    /// A buffer for the escaped text of a message.
    text: Vec<u8>,
}

/// Returns the address of a function, relative to its file.
fn offset(function: FunctionId) -> u64 {
    FIRST + u64::from(function) * APART
}

/// Returns a form of a process name that is a valid file name on all systems.
fn plain_name(name: &str) -> String {
    let is_plain = |byte: char| byte.is_ascii_alphanumeric() || matches!(byte, '.' | '-' | '_');
    let plain: String = name.chars().map(|byte| if is_plain(byte) { byte } else { '_' }).collect();
    let plain = plain.trim_start_matches('.');
    let plain = String::from_utf8_lossy(&stem(plain.as_bytes())).replace('~', "-");
    match plain {
        plain if plain.is_empty() => "unknown".to_owned(),
        plain if is_reserved_by_windows(&plain) => format!("_{plain}"),
        plain => plain,
    }
}

impl UftraceFormat {
    /// Assigns an id to the thread of an event, and registers the thread's process.
    fn introduce(&mut self, event: &Event<'_>, inventory: &Inventory) {
        self.tasks.resize_with(self.tasks.len().max(inventory.threads().len()), || None);
        let process = inventory.threads()[event.thread].process;
        let met = self.processes.entry(process).or_insert(event.time);
        *met = (*met).min(event.time);
        if self.tasks[event.thread].is_some() {
            return;
        }
        let thread = &inventory.threads()[event.thread];
        let pid = self.pids.of(process, inventory).0;
        let is_main = thread.tid == u64::from(inventory.processes()[process].pid());
        let own = if is_main {
            Some(pid)
        } else {
            i32::try_from(thread.tid).ok().and_then(|tid| u32::try_from(tid).ok())
        };
        let tid = own.filter(|tid| *tid != 0 && self.tids.insert(*tid)).unwrap_or_else(|| {
            self.renumbered += u64::from(thread.tid != 0);
            OWN_TIDS + u32::try_from(event.thread).unwrap_or(0)
        });
        self.tasks[event.thread] = Some(Task { tid, file: None, depth: 0, last: 0 });
    }

    /// Writes the record of entering or leaving a function.
    fn call(&mut self, (thread, wall): (usize, u64), of: u64, function: FunctionId, out: &mut Vec<u8>) {
        let Some(Some(task)) = self.tasks.get_mut(thread) else { return };
        if of == EXIT {
            task.depth = task.depth.saturating_sub(1);
        }
        let depth = task.depth;
        if of == ENTRY {
            task.depth += 1;
        }
        if depth >= MAX_CALL_DEPTH {
            self.too_deep += u64::from(of == ENTRY);
            return;
        }
        self.has_calls = true;
        task.last = task.last.max(wall);
        let file =
            task.file.get_or_insert_with(|| (self.parts.add(format!("{}.dat", task.tid)), task.last)).0;
        // Two bits for the kind, one for arguments (none here), three for a magic number, ten for the depth,
        // and the rest for the address.
        let word = of | 5 << 3 | (depth as u64) << 6 | (BASE + offset(function)) << 16;
        let bytes = self.parts.of(file);
        bytes.extend_from_slice(&task.last.to_le_bytes());
        bytes.extend_from_slice(&word.to_le_bytes());
        self.parts.pass_on(file, out);
    }

    fn leave(&mut self, at: (usize, u64), ended: &[EndedCall], out: &mut Vec<u8>) {
        for call in ended {
            self.call(at, EXIT, call.function, out);
        }
    }

    /// Writes a text of a thread. The text must not contain line feeds or other control bytes.
    fn text(&mut self, event: &Event<'_>, text: &[u8], inventory: &Inventory, out: &mut Vec<u8>) {
        if !self.has_calls {
            // Before the first call, uftrace would show the text as a call without a name.
            self.before += 1;
            return;
        }
        let Some(Some(task)) = self.tasks.get(event.thread) else { return };
        let mut line = format!("[{} ", task.tid).into_bytes();
        escape_into(&mut line, inventory.threads()[event.thread].label().as_bytes(), EscapeContext::Line);
        line.extend_from_slice(b"] ");
        line.extend_from_slice(text);
        if line.len() > MAX_UFTRACE_TEXT {
            self.cut += 1;
            let end = (0..=MAX_UFTRACE_TEXT).rev().find(|at| line[*at] & 0xc0 != 0x80).unwrap_or(0);
            line.truncate(end);
        }
        let file = *self.texts.get_or_insert_with(|| self.parts.add("extern.dat".to_owned()));
        let bytes = self.parts.of(file);
        let _ = write!(bytes, "{}.{:09} ", event.time / SECOND, event.time % SECOND);
        bytes.extend_from_slice(&line);
        bytes.push(b'\n');
        self.parts.pass_on(file, out);
    }

    /// Writes the files by which uftrace interprets the records: `task.txt`, `info`, and for the processes the maps
    /// (`sid-*.map`) and the symbols (`*.sym`).
    fn write_descriptions(&mut self, inventory: &Inventory) {
        let time = |wall: u64| format!("{}.{:09}", wall / SECOND, wall % SECOND);
        let end = BASE + offset(u32::try_from(inventory.functions.len()).unwrap_or(u32::MAX));
        let (mut tasks, mut names) = (String::new(), BTreeMap::new());
        for (&process, &met) in &self.processes {
            let (pid, name) =
                (self.pids.of(process, inventory).0, plain_name(&inventory.processes()[process].name));
            let met = time(met);
            tasks.push_str(&format!(
                "SESS timestamp={met} pid={pid} sid={process:016x} exename=\"/{name}\"\n"
            ));
            tasks.push_str(&format!("TASK timestamp={met} tid={pid} pid={pid}\n"));
            let map = self.parts.add(format!("sid-{process:016x}.map"));
            let line = format!("{BASE:012x}-{end:012x} r-xp 00000000 00:00 0 /{name}\n");
            self.parts.of(map).extend_from_slice(line.as_bytes());
            // uftrace uses the stack to distinguish kernel addresses. Without it, all addresses would count
            // as kernel addresses.
            self.parts
                .of(map)
                .extend_from_slice(b"7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 [stack]\n");
            names.insert(name, process);
        }
        let mut tids = Vec::new();
        for (task, thread) in self.tasks.iter().zip(inventory.threads()) {
            let Some(Task { tid, file: Some((_, first)), .. }) = task else { continue };
            let pid = self.pids.of(thread.process, inventory).0;
            tids.push(tid.to_string());
            if *tid != pid {
                tasks.push_str(&format!("TASK timestamp={} tid={tid} pid={pid}\n", time(*first)));
            }
        }
        let mut symbols = Vec::new();
        for (number, function) in (0..).zip(&inventory.functions) {
            let _ = write!(symbols, "{:016x} T ", offset(number));
            let name = if function.name.is_empty() { "unknown" } else { &function.name };
            escape_into(&mut symbols, name.as_bytes(), EscapeContext::Line);
            symbols.push(b'\n');
        }
        let _ = writeln!(symbols, "{:016x} ? __sym_end", end - BASE);
        for name in names.keys() {
            let file = self.parts.add(format!("{name}.sym"));
            self.parts.of(file).extend_from_slice(&symbols);
        }
        let file = self.parts.add("task.txt".to_owned());
        self.parts.of(file).extend_from_slice(tasks.as_bytes());
        let file = self.parts.add("info".to_owned());
        let info = self.parts.of(file);
        info.extend_from_slice(HEADER);
        info.extend_from_slice(&FEATURES.to_le_bytes());
        info.extend_from_slice(&INFOS.to_le_bytes());
        info.extend_from_slice(&(MAX_CALL_DEPTH as u64).to_le_bytes());
        let name = names.keys().next().map_or("unknown", |name| &name[..]);
        let _ = write!(info, "exename:/{name}\ntaskinfo:lines=2\ntaskinfo:nr_tid={}\n", tids.len());
        let _ = writeln!(info, "taskinfo:tids={}", tids.join(","));
    }
}

impl EventFormat for UftraceFormat {
    fn event(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
        self.introduce(event, inventory);
        let at = (event.thread, event.time);
        match &event.what {
            EventContent::Message { text, .. } => {
                let mut escaped = std::mem::take(&mut self.text);
                escaped.clear();
                escape_into(&mut escaped, text.as_bytes(), EscapeContext::Line);
                self.text(event, &escaped, inventory, out);
                self.text = escaped;
            }
            EventContent::Enter(call_info) => self.call(at, ENTRY, call_info.called.function, out),
            EventContent::Leave(_, ended) | EventContent::Close(ended) => self.leave(at, ended, out),
            EventContent::Stack(text) => self.text(event, format!("^ {text}").as_bytes(), inventory, out),
            EventContent::Meta {
                meta: Some(Meta::Run(_) | Meta::Thread(_) | Meta::Name { .. } | Meta::Clock { .. }),
                ..
            } => {}
            EventContent::Meta { meta, .. } if is_of_modules(*meta) => {}
            EventContent::Meta { payload, .. } => {
                self.text(event, format!("# {payload}").as_bytes(), inventory, out)
            }
        }
    }

    fn nests_calls(&self) -> bool {
        true
    }

    fn finish(&mut self, inventory: &Inventory, out: &mut Vec<u8>) {
        self.write_descriptions(inventory);
        self.parts.finish(out);
    }

    fn omissions(&self, inventory: &Inventory) -> Vec<String> {
        let mut omissions = inventory.text_omissions();
        omissions.extend(inventory.cut_calls());
        omissions.extend(inventory.without(&OMITTED_ASPECTS));
        omissions.extend(self.pids.omissions());
        omissions.extend(sentences([
            (
                self.renumbered,
                "thread",
                "with an id that is taken or has more than 31 bits: numbered from 8388608 on",
            ),
            (self.too_deep, "call", "inside of 1,024 others: left out"),
            (self.before, "line", "before the first call: left out, because uftrace attaches lines to calls"),
            (self.cut, "text", "of more than 1,000 bytes: cut"),
        ]));
        if !self.has_calls {
            omissions.push("there are no calls, and uftrace cannot open a trace without calls".to_owned());
        }
        omissions
    }
}
