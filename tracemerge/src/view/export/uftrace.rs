//! The directory that `uftrace` works on: a file of records for each thread that has calls, symbols for the
//! functions, and all else as text in `extern.dat`.
//!
//! Functions have invented addresses, by their numbers, and a file of symbols gives the names back. Sessions are
//! processes. What is in `extern.dat` uftrace shows as a comment beside the calls of whichever thread it looks at,
//! so each text begins with its thread. Losses stand there, too: uftrace's own record of a loss would end all
//! open calls of the thread.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;

use trace_format::escape::{EscapeContext, escape_into};
use trace_format::meta::Meta;
use trace_format::name::stem;

use crate::output::place::is_reserved_by_windows;
use crate::view::export::aspects::Aspect;
use crate::view::export::events::{EndedCall, Event, EventFormat, Scene, What, sentences};
use crate::view::export::fields::is_of_modules;
use crate::view::export::parts::Parts;
use crate::view::export::pids::Pids;
use crate::view::function_names::FunctionId;

/// The beginning of `info`: the magic number, version 4, the size of this header, little-endian, 64 bits.
const HEADER: &[u8] = b"Ftrace!\0\x04\0\0\0\x28\0\x01\x02";
/// What uftrace finds in the directory: sessions, symbols by the address in their file, and a greatest depth.
const FEATURES: u64 = 1 << 1 | 1 << 5 | 1 << 6;
/// What `info` tells: the name of the executable, and the threads.
const INFOS: u64 = 1 | 1 << 7;
/// The number of nested calls that a record can tell.
const DEEPEST: usize = 1 << 10;
/// The addresses at which the invented file is mapped, and how far apart functions are in it.
const BASE: u64 = 0x40_0000;
const FIRST: u64 = 0x1000;
const APART: u64 = 16;
/// The first of the numbers for threads whose id another thread has, or that is none of uftrace.
const OWN_TIDS: u32 = 1 << 23;
/// The number of bytes of a text that uftrace takes.
const LONGEST: usize = 1000;
const SECOND: u64 = 1_000_000_000;

/// What the directory has no place for.
const UNTOLD: [Aspect; 10] = [
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

/// What is written of a thread so far.
#[derive(Debug)]
struct Task {
    tid: u32,
    /// The file of its records, if it has any, and the time of the first.
    file: Option<(usize, u64)>,
    /// The number of its open calls.
    depth: usize,
    /// The time of its last record.
    last: u64,
}

/// The format of uftrace.
#[derive(Debug, Default)]
pub struct UftraceFormat {
    parts: Parts,
    pids: Pids,
    tasks: Vec<Option<Task>>,
    /// The numbers of threads that are taken.
    tids: HashSet<u32>,
    renumbered: u64,
    /// The time at which each process, by its number in the scene, was met.
    processes: BTreeMap<usize, u64>,
    texts: Option<usize>,
    has_calls: bool,
    /// The numbers of texts that came before the first call, and that were cut; of calls that were too deep.
    before: u64,
    cut: u64,
    too_deep: u64,
    /// A buffer.
    text: Vec<u8>,
}

/// Returns the address of a function, from the beginning of its file.
fn offset(function: FunctionId) -> u64 {
    FIRST + u64::from(function) * APART
}

/// Returns a name of a process that is a name of a file everywhere.
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
    /// Gives the thread of an event its number, and notes its process.
    fn introduce(&mut self, event: &Event<'_>, scene: &Scene) {
        self.tasks.resize_with(self.tasks.len().max(scene.threads.len()), || None);
        let process = scene.threads[event.thread].process;
        let met = self.processes.entry(process).or_insert(event.wall);
        *met = (*met).min(event.wall);
        if self.tasks[event.thread].is_some() {
            return;
        }
        let thread = &scene.threads[event.thread];
        let pid = self.pids.of(process, scene).0;
        let is_main = thread.tid == u64::from(scene.processes[process].pid());
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

    /// Writes that a function is entered or left.
    fn call(&mut self, (thread, wall): (usize, u64), of: u64, function: FunctionId, out: &mut Vec<u8>) {
        let Some(Some(task)) = self.tasks.get_mut(thread) else { return };
        if of == EXIT {
            task.depth = task.depth.saturating_sub(1);
        }
        let depth = task.depth;
        if of == ENTRY {
            task.depth += 1;
        }
        if depth >= DEEPEST {
            self.too_deep += u64::from(of == ENTRY);
            return;
        }
        self.has_calls = true;
        task.last = task.last.max(wall);
        let file =
            task.file.get_or_insert_with(|| (self.parts.add(format!("{}.dat", task.tid)), task.last)).0;
        // Two bits for the kind, one for arguments, of which there are none, three for a magic number, ten for the
        // depth and the rest for the address.
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

    /// Writes a text of a thread, which has no bytes with a meaning in lines.
    fn text(&mut self, event: &Event<'_>, text: &[u8], scene: &Scene, out: &mut Vec<u8>) {
        if !self.has_calls {
            // uftrace would show it as a call without a name.
            self.before += 1;
            return;
        }
        let Some(Some(task)) = self.tasks.get(event.thread) else { return };
        let mut line = format!("[{} ", task.tid).into_bytes();
        escape_into(&mut line, scene.threads[event.thread].label.as_bytes(), EscapeContext::Line);
        line.extend_from_slice(b"] ");
        line.extend_from_slice(text);
        if line.len() > LONGEST {
            self.cut += 1;
            let end = (0..=LONGEST).rev().find(|at| line[*at] & 0xc0 != 0x80).unwrap_or(0);
            line.truncate(end);
        }
        let file = *self.texts.get_or_insert_with(|| self.parts.add("extern.dat".to_owned()));
        let bytes = self.parts.of(file);
        let _ = write!(bytes, "{}.{:09} ", event.wall / SECOND, event.wall % SECOND);
        bytes.extend_from_slice(&line);
        bytes.push(b'\n');
        self.parts.pass_on(file, out);
    }

    /// Writes the files that tell what the records mean.
    fn tell(&mut self, scene: &Scene) {
        let time = |wall: u64| format!("{}.{:09}", wall / SECOND, wall % SECOND);
        let end = BASE + offset(u32::try_from(scene.functions.len()).unwrap_or(u32::MAX));
        let (mut tasks, mut names) = (String::new(), BTreeMap::new());
        for (&process, &met) in &self.processes {
            let (pid, name) = (self.pids.of(process, scene).0, plain_name(&scene.processes[process].name));
            let met = time(met);
            tasks.push_str(&format!(
                "SESS timestamp={met} pid={pid} sid={process:016x} exename=\"/{name}\"\n"
            ));
            tasks.push_str(&format!("TASK timestamp={met} tid={pid} pid={pid}\n"));
            let map = self.parts.add(format!("sid-{process:016x}.map"));
            let line = format!("{BASE:012x}-{end:012x} r-xp 00000000 00:00 0 /{name}\n");
            self.parts.of(map).extend_from_slice(line.as_bytes());
            // By the stack uftrace knows which addresses are those of the kernel; without it, all are.
            self.parts
                .of(map)
                .extend_from_slice(b"7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 [stack]\n");
            names.insert(name, process);
        }
        let mut tids = Vec::new();
        for (task, thread) in self.tasks.iter().zip(&scene.threads) {
            let Some(Task { tid, file: Some((_, first)), .. }) = task else { continue };
            let pid = self.pids.of(thread.process, scene).0;
            tids.push(tid.to_string());
            if *tid != pid {
                tasks.push_str(&format!("TASK timestamp={} tid={tid} pid={pid}\n", time(*first)));
            }
        }
        let mut symbols = Vec::new();
        for (number, function) in (0..).zip(&scene.functions) {
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
        info.extend_from_slice(&(DEEPEST as u64).to_le_bytes());
        let name = names.keys().next().map_or("unknown", |name| &name[..]);
        let _ = write!(info, "exename:/{name}\ntaskinfo:lines=2\ntaskinfo:nr_tid={}\n", tids.len());
        let _ = writeln!(info, "taskinfo:tids={}", tids.join(","));
    }
}

impl EventFormat for UftraceFormat {
    fn event(&mut self, event: &Event<'_>, scene: &Scene, out: &mut Vec<u8>) {
        self.introduce(event, scene);
        let at = (event.thread, event.wall);
        match &event.what {
            What::Message { text, .. } => {
                let mut escaped = std::mem::take(&mut self.text);
                escaped.clear();
                escape_into(&mut escaped, text.as_bytes(), EscapeContext::Line);
                self.text(event, &escaped, scene, out);
                self.text = escaped;
            }
            What::Enter(told) => self.call(at, ENTRY, told.called.function, out),
            What::Leave(_, ended) | What::Close(ended) => self.leave(at, ended, out),
            What::Stack(text) => self.text(event, format!("^ {text}").as_bytes(), scene, out),
            What::Meta {
                meta: Some(Meta::Run(_) | Meta::Thread(_) | Meta::Name { .. } | Meta::Clock { .. }),
                ..
            } => {}
            What::Meta { meta, .. } if is_of_modules(*meta) => {}
            What::Meta { payload, .. } => self.text(event, format!("# {payload}").as_bytes(), scene, out),
        }
    }

    fn nests_calls(&self) -> bool {
        true
    }

    fn finish(&mut self, scene: &Scene, out: &mut Vec<u8>) {
        self.tell(scene);
        self.parts.finish(out);
    }

    fn untold(&self, scene: &Scene) -> Vec<String> {
        let mut untold = scene.odd_texts();
        untold.extend(scene.cut_calls());
        untold.extend(scene.without(&UNTOLD));
        untold.extend(self.pids.untold());
        untold.extend(sentences([
            (
                self.renumbered,
                "thread",
                "with the id of another one, or with none of 31 bits: numbered from 8388608 on",
            ),
            (self.too_deep, "call", "inside of 1,024 others: left out"),
            (
                self.before,
                "line",
                "before the first call, to which uftrace has nothing to put them: left out",
            ),
            (self.cut, "text", "of more than 1,000 bytes: cut"),
        ]));
        if !self.has_calls {
            untold.push("there are no calls, and uftrace opens no trace without any".to_owned());
        }
        untold
    }
}
