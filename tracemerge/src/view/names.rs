//! The functions that `>`, `<` and `^` lines tell of, by number: of addresses the names are looked up, of sites
//! they stand in the line.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trace_format::function::{FunctionLine, FunctionPlace, Named};
use trace_format::line::Ticks;
use trace_format::meta::{Meta, Run};

use crate::input::inputs::Origin;
use crate::symbols::{Answer, Files, Frame, Lookup, ModuleLine, Settings, Source, Symbols, Timeline};

/// The number of a function.
pub type FunctionId = u32;

/// A function, as people read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// The name; of functions that share their code all names, and an address where there is none.
    pub name: String,
    /// The source file and the line, `parse.rs:88`; empty where they are not known.
    pub at: String,
}

/// The functions of all processes of the traces.
pub struct Names {
    symbols: Symbols<'static>,
    processes: HashMap<Option<(Vec<u8>, u32, u32)>, usize>,
    modules: Vec<ProcessModules>,
    functions: Vec<Function>,
    by_function: HashMap<Function, FunctionId>,
    by_text: HashMap<Vec<u8>, FunctionId>,
    by_address: HashMap<(usize, u64), FunctionId>,
}

/// Names that a format and who made it share.
pub type SharedNames = Arc<Mutex<Names>>;

/// Locks names that are shared.
pub fn lock(names: &SharedNames) -> MutexGuard<'_, Names> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").field("functions", &self.functions.len()).finish_non_exhaustive()
    }
}

/// The module table of one process, as far as its lines were met.
#[derive(Default)]
struct ProcessModules {
    lines: Vec<ModuleLine>,
    known: HashSet<Vec<u8>>,
    /// The timeline of the lines; `None` where some came since it was made.
    timeline: Option<Timeline>,
    /// Whether modules have come or gone while the process was traced: then an address may have had several.
    changes: bool,
}

impl Names {
    /// Makes names that are looked up as `settings` say.
    #[must_use]
    pub fn new(settings: Settings) -> Names {
        // Debug information points into files, which are needed until the process ends.
        let files: &'static Files = Box::leak(Box::default());
        Names {
            symbols: Symbols::new(files, settings),
            processes: HashMap::new(),
            modules: Vec::new(),
            functions: Vec::new(),
            by_function: HashMap::new(),
            by_text: HashMap::new(),
            by_address: HashMap::new(),
        }
    }

    /// Returns the number of the process that an origin is of.
    pub fn process(&mut self, origin: &Origin) -> usize {
        let key = |run: &Run| (run.boot.clone(), run.pid, run.id);
        let number = *self.processes.entry(origin.run.as_ref().map(key)).or_insert(self.modules.len());
        if number == self.modules.len() {
            self.modules.push(ProcessModules::default());
        }
        number
    }

    /// Takes the payload of a `#` line of a process, which may be one of the module table.
    pub fn take_meta(&mut self, process: usize, payload: &[u8]) {
        let is_table =
            [&b"module "[..], b"unloaded ", b"missed "].iter().any(|word| payload.starts_with(word));
        let modules = &mut self.modules[process];
        if !is_table || !modules.known.insert(payload.to_vec()) {
            return;
        }
        let Some(line) = Meta::parse(payload).and_then(ModuleLine::of) else { return };
        modules.changes |= match &line {
            ModuleLine::Loaded(module) => module.loaded.after.0 > 0,
            ModuleLine::Unloaded(..) | ModuleLine::Missed(_) => true,
        };
        modules.lines.push(line);
        modules.timeline = None;
        self.by_address.retain(|(of, _), _| *of != process);
    }

    /// Returns a function.
    #[must_use]
    pub fn get(&self, id: FunctionId) -> &Function {
        &self.functions[id as usize]
    }

    /// Returns the number of the function that a `>` or `<` line of a process tells of.
    pub fn of_line(&mut self, process: usize, ticks: Ticks, line: &FunctionLine<'_>) -> FunctionId {
        match line.place {
            FunctionPlace::Address(address, _) => self.of_address(process, ticks, address),
            FunctionPlace::Site(named) => self.of_site(named),
            FunctionPlace::Unknown(site) => {
                self.number(Function { name: format!("site {site}"), at: String::new() })
            }
        }
    }

    /// Returns the functions that the address of a return is in: the innermost inlined one first, none of the
    /// tracer's own.
    pub fn of_return(&mut self, process: usize, ticks: Ticks, address: u64) -> Vec<FunctionId> {
        let answer = self.answer(process, ticks, address, Lookup::ReturnAddress);
        let frames = answer.frames_of_host();
        if frames.len() < 2 {
            return vec![self.number(function_of(&answer, address))];
        }
        frames.iter().map(|frame| self.number(function_in(frame))).collect()
    }

    fn of_site(&mut self, named: Named<'_>) -> FunctionId {
        let text = [named.function, b" at ", named.at].concat();
        if let Some(id) = self.by_text.get(&text) {
            return *id;
        }
        let at = String::from_utf8_lossy(named.at);
        let function =
            Function { name: String::from_utf8_lossy(named.function).into_owned(), at: short_place(&at) };
        let id = self.number(function);
        self.by_text.insert(text, id);
        id
    }

    /// Returns the number of the function that an address of a process is in.
    fn of_address(&mut self, process: usize, ticks: Ticks, address: u64) -> FunctionId {
        let key = (process, address);
        let is_kept = !self.modules[process].changes;
        if let Some(id) = self.by_address.get(&key).filter(|_| is_kept) {
            return *id;
        }
        let answer = self.answer(process, ticks, address, Lookup::Code);
        let id = self.number(function_of(&answer, address));
        if is_kept {
            self.by_address.insert(key, id);
        }
        id
    }

    fn answer(&mut self, process: usize, ticks: Ticks, address: u64, lookup: Lookup) -> Arc<Answer> {
        let modules = &mut self.modules[process];
        let lines = &modules.lines;
        let timeline = modules.timeline.get_or_insert_with(|| Timeline::new(lines.iter().cloned()));
        self.symbols.name(timeline.find(ticks, address), address, lookup)
    }

    fn number(&mut self, function: Function) -> FunctionId {
        if let Some(id) = self.by_function.get(&function) {
            return *id;
        }
        let id = FunctionId::try_from(self.functions.len()).unwrap_or(FunctionId::MAX);
        self.functions.push(function.clone());
        self.by_function.insert(function, id);
        id
    }

    /// Returns what the user should be told about files since the last call.
    pub fn take_warnings(&mut self) -> Vec<String> {
        self.symbols.take_warnings()
    }
}

/// Returns the function that an answer tells of, as people read it.
fn function_of(answer: &Answer, address: u64) -> Function {
    if let Source::Nothing(why) = answer.source {
        return Function { name: format!("{address:#x} ({why})"), at: String::new() };
    }
    let frame = answer.frames_of_host().first().or_else(|| answer.outermost());
    let Some(frame) = frame else { return Function { name: format!("{address:#x}"), at: String::new() } };
    let mut function = function_in(frame);
    if answer.source == Source::SymbolTable {
        // What is inlined there is not known.
        function.name.push_str(" (symbol)");
    }
    function
}

fn function_in(frame: &Frame) -> Function {
    let at = match (&frame.file, frame.line) {
        (Some(file), Some(line)) => short_place(&format!("{file}:{line}")),
        _ => String::new(),
    };
    Function { name: frame.to_string(), at }
}

/// Returns a place without the directories of its file.
fn short_place(place: &str) -> String {
    place.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
}
