//! The functions in the lines of traces: in lines for entering (`>`) and leaving (`<`) a function, and in call stacks
//! (`^`). Each function has an id. Names are looked up by addresses, unless the line itself contains them, as the lines
//! of sites do.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trace_format::function::{FunctionLine, FunctionName, FunctionPlace, StackFrame, StackLine, escape_name};
use trace_format::line::{Kind, Line, Ticks};
use trace_format::meta::{Meta, Module, Run};
use trace_format::record::Flags;

use crate::file::fast_map::FastMap;
use crate::file::record_text::RecordText;
use crate::file::records::Place;
use crate::input::inputs::Origin;
use crate::symbols::{
    Answer, Files, Frame, Lookup, ModuleLine, Settings, Source, StackFunction, Symbols, Timeline, Unnamed,
    file_name,
};
use crate::view::calls::{CallPlace, Folded};

/// The id of a function: its index among all functions that were met.
pub(crate) type FunctionId = u32;

/// A function in readable form. The texts are escaped, as in lines of traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Function {
    /// The name of the function; all names if several functions share their code. If there is no name: the offset in
    /// the file, such as `app+0x1234`, or the address if the file is not known.
    pub name: String,
    /// The source file without its directories, and the line, such as `parse.rs:88`; empty if they are not
    /// known.
    pub at: String,
    /// The source file with its directories, and the line.
    place: String,
    /// Whether the name is only an offset or an address.
    is_unnamed: bool,
    /// If the name is an offset in a file, the build-id of this file; otherwise empty.
    build_id: Vec<u8>,
}

impl Function {
    /// Makes a function from a name and a source line, both of which are escaped.
    fn new(name: String, place: String) -> Function {
        let at = place.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
        Function { name, at, place, is_unnamed: false, build_id: Vec::new() }
    }

    /// Makes a function whose name is not known, from its address. If the module at the address is known, the function
    /// gets as its name the offset in the module's file, such as `app+0x1234`, which is the same in all processes and
    /// runs with this file.
    fn unnamed(address: u64, why: Option<Unnamed>, module: Option<&Module>) -> Function {
        let is_off = why == Some(Unnamed::SwitchedOff);
        let of_file = module.filter(|_| !is_off).and_then(|module| Some((module, file_name(&module.path)?)));
        let (name, build_id) = match (of_file, why) {
            (Some((module, file)), _) => {
                let offset = address.wrapping_sub(module.bias);
                (format!("{}+{offset:#x}", escaped(&file.to_string_lossy())), module.build_id.clone())
            }
            (None, Some(why)) => (format!("{address:#x} ({why})"), Vec::new()),
            (None, None) => (format!("{address:#x}"), Vec::new()),
        };
        Function { is_unnamed: true, build_id, ..Function::new(name, String::new()) }
    }

    /// If the name is an offset in a file, returns the build-id of this file; otherwise an empty slice. Equal offsets
    /// in two builds are different functions.
    #[must_use]
    pub(crate) fn build_id(&self) -> &[u8] {
        &self.build_id
    }

    /// Returns the source file with its directories, and the line; empty if they are not known.
    #[must_use]
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Returns the function as part of a call stack.
    #[must_use]
    pub(crate) fn in_stack(&self) -> StackFunction<'_> {
        StackFunction { name: if self.is_unnamed { "" } else { &self.name }, place: &self.place }
    }

    /// Returns the name and the source line as lines of traces contain them; empty if the function has no name.
    fn named(&self) -> FunctionName<'_> {
        if self.is_unnamed {
            return FunctionName::default();
        }
        FunctionName { function: self.name.as_bytes(), at: self.place.as_bytes(), called_from: &[] }
    }

    /// Returns whether `self` and `other` seem to be the same function: they are at the same line of the same file, or
    /// have the same name in the same file. One of the two may name the file without its directories. The line alone
    /// does not suffice, because debug information may have the line of an attribute, while a site has the line of the
    /// function.
    fn is_beside(&self, other: &Function) -> bool {
        let ends = |long: &str, short: &str| {
            let before = long.strip_suffix(short).filter(|_| !short.is_empty());
            before.is_some_and(|before| before.is_empty() || before.ends_with(['/', '\\']))
        };
        let (of, to) = (self.file_and_name(), other.file_and_name());
        let is_one = of.1 == to.1 && (ends(of.0, to.0) || ends(to.0, of.0));
        is_one || ends(&self.place, &other.place) || ends(&other.place, &self.place)
    }

    /// Returns the source file, and the last part of the name without its generic types.
    fn file_and_name(&self) -> (&str, &str) {
        let name = self.name.split('<').next().unwrap_or_default().trim_end_matches("::");
        let file = self.place.rsplit_once(':').map_or("", |(file, _)| file);
        (file, name.rsplit("::").next().unwrap_or_default())
    }
}

/// The contents of a `>` or `<` line about a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallInfo {
    /// The function, and its caller.
    pub called: Called,
    /// The id of the span; `None` if the call is not the call of a span.
    pub span: Option<u64>,
    /// The flags that describe how the function was left.
    pub left: Flags,
}

/// A call, with its place and its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Called {
    /// The place of the call, which its enter record and its leave record have in common.
    pub place: CallPlace,
    /// The function that was entered or left.
    pub function: FunctionId,
    /// The calling function, with the place of the call, if known.
    pub from: Option<FunctionId>,
}

/// The functions of all processes of the traces.
pub(crate) struct FunctionNames {
    symbols: Symbols<'static>,
    processes: HashMap<Option<(Vec<u8>, u32, u32)>, usize>,
    modules: Vec<ProcessModules>,
    functions: Vec<Function>,
    by_function: HashMap<Function, FunctionId>,
    by_text: HashMap<Vec<u8>, FunctionId>,
    by_address: FastMap<(usize, u64, bool), Called>,
    by_return: HashMap<(usize, u64), Arc<[FunctionId]>>,
    /// Whether names of functions are used; if not, functions are shown by their addresses.
    is_on: bool,
    /// A number that grows with each line of a module table that is read. Names that were looked up before may be
    /// outdated then.
    generation: Arc<AtomicU64>,
    /// A buffer for the text of a site.
    text: Vec<u8>,
}

/// A cache of the functions of calls, by their [places](crate::file::records::Call), for one consumer of records. The
/// cache finds functions without locking the names.
#[derive(Debug)]
pub(crate) struct KnownCalls {
    /// The serial number of the batch of records in which the places of `call_info` are valid, and the generation of
    /// the names at that time.
    of: (u64, u64),
    /// The call at each place of a batch; `None` if the place was not met, or may stand for another call the next time.
    call_info: Vec<Option<CallInfo>>,
    /// The calls that were found by address; the key is the process, and the address combined with the flags. They stay
    /// valid for all batches of records, while each batch has places of its own.
    by_address: FastMap<(usize, u64), CallInfo>,
    /// The call that was returned last, if the cache must not keep it; the returned reference points here.
    last: Option<CallInfo>,
    newest: Arc<AtomicU64>,
}

impl KnownCalls {
    /// Makes an empty cache for functions of `names`.
    #[must_use]
    pub(crate) fn of(names: &SharedNames) -> KnownCalls {
        let newest = lock(names).generation.clone();
        KnownCalls { of: (0, 0), call_info: Vec::new(), by_address: FastMap::default(), last: None, newest }
    }

    /// Returns the call at `place` in the records with the serial number `serial`, if this place was met there
    /// before.
    #[inline]
    #[must_use]
    pub(crate) fn met(&self, serial: u64, place: u32) -> Option<&CallInfo> {
        // Relaxed: the thread that changes the names is this one, or was joined with it.
        let is_it = self.of == (serial, self.newest.load(Ordering::Relaxed));
        self.call_info.get(place as usize).filter(|_| is_it)?.as_ref()
    }

    /// Returns the call of an enter or leave record of a process, from the cache or from `names`; `None` if the
    /// record cannot be read.
    #[inline]
    pub(crate) fn call_info(
        &mut self,
        names: &SharedNames,
        process: usize,
        record: &RecordText<'_>,
    ) -> Option<&CallInfo> {
        if let Some(call) = &record.call {
            // Relaxed: the thread that changes the names is this one, or was joined with it.
            let of = (call.serial(), self.newest.load(Ordering::Relaxed));
            let place = call.place as usize;
            if self.of == of && self.call_info.get(place).is_some_and(Option::is_some) {
                let Some(span) = call.span else { return self.call_info[place].as_ref() };
                self.last = self.call_info[place].map(|call_info| CallInfo { span: Some(span), ..call_info });
                return self.last.as_ref();
            }
        }
        self.ask(names, process, record)
    }

    #[cold]
    fn ask(&mut self, names: &SharedNames, process: usize, record: &RecordText<'_>) -> Option<&CallInfo> {
        let Some(call) = &record.call else {
            self.last = lock(names)
                .call_info(process, record.ticks, record.payload())
                .map(|(call_info, _)| call_info);
            return self.last.as_ref();
        };
        let (place, newest) = (call.place as usize, self.newest.load(Ordering::Relaxed));
        if self.of.1 != newest {
            self.by_address.clear();
        }
        if self.of != (call.serial(), newest) {
            self.of = (call.serial(), newest);
            self.call_info.clear();
        }
        let key = match call.at() {
            Place::Address(address, flags) => Some((process, address << 8 | u64::from(flags.0))),
            Place::Text(..) => None,
        };
        let known = key.and_then(|key| self.by_address.get(&key));
        let (call_info, is_lasting) = match known {
            Some(call_info) => (*call_info, true),
            None => lock(names).call_info_at(process, record.ticks, call.at())?,
        };
        if is_lasting {
            self.call_info.resize(self.call_info.len().max(place + 1), None);
            self.call_info[place] = Some(call_info);
            if let Some(key) = key {
                self.by_address.insert(key, call_info);
            }
        }
        self.last = Some(CallInfo { span: call.span, ..call_info });
        self.last.as_ref()
    }
}

/// The names of functions, shared between a format and the code that has made the format.
pub(crate) type SharedNames = Arc<Mutex<FunctionNames>>;

/// Locks the shared names of functions.
pub(crate) fn lock(names: &SharedNames) -> MutexGuard<'_, FunctionNames> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for FunctionNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionNames").field("functions", &self.functions.len()).finish_non_exhaustive()
    }
}

/// The lines of the module table of one process that were read so far.
#[derive(Default)]
struct ProcessModules {
    lines: Vec<ModuleLine>,
    known: HashSet<Vec<u8>>,
    /// The modules at each time, according to `lines`; `None` if this must be found anew because lines were added.
    timeline: Option<Timeline>,
    /// Whether modules were loaded or unloaded while the process was traced. If so, an address may have
    /// belonged to several modules.
    changes: bool,
}

impl FunctionNames {
    /// Makes an empty table of functions; `settings` decide how names are looked up.
    #[must_use]
    pub(crate) fn new(settings: Settings) -> FunctionNames {
        // Debug information refers to the files, so they are needed until the process ends.
        let files: &'static Files = Box::leak(Box::default());
        let is_on = settings.names;
        FunctionNames {
            symbols: Symbols::new(files, settings),
            processes: HashMap::new(),
            modules: Vec::new(),
            functions: Vec::new(),
            by_function: HashMap::new(),
            by_text: HashMap::new(),
            by_address: FastMap::default(),
            by_return: HashMap::new(),
            is_on,
            generation: Arc::default(),
            text: Vec::new(),
        }
    }

    /// Returns the index of the process to which an origin belongs. Adds the process if it is new.
    pub(crate) fn process(&mut self, origin: &Origin) -> usize {
        let key = |run: &Run| (run.boot.clone(), run.pid, run.id);
        let number = *self.processes.entry(origin.run.as_ref().map(key)).or_insert(self.modules.len());
        if number == self.modules.len() {
            self.modules.push(ProcessModules::default());
        }
        number
    }

    /// Takes the payload of a `#` line of a process: adds it to the module table of the process if it is one of the
    /// table's lines, and ignores it otherwise.
    pub(crate) fn take_meta(&mut self, process: usize, payload: &[u8]) {
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
        self.by_address.retain(|(of, ..), _| *of != process);
        self.by_return.retain(|(of, _), _| *of != process);
        // Relaxed: a reader holds the lock of the names, or is the thread that reads the lines.
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the function with the id `id`.
    #[must_use]
    pub(crate) fn get(&self, id: FunctionId) -> &Function {
        &self.functions[id as usize]
    }

    /// Returns the call in the payload of a `>` or `<` line of a process, and whether the same payload will mean the
    /// same call later; `None` if the payload cannot be read.
    fn call_info(&mut self, process: usize, ticks: Ticks, payload: &[u8]) -> Option<(CallInfo, bool)> {
        let line = FunctionLine::parse(payload)?;
        let called = self.of_line(process, ticks, &line);
        let call_info = CallInfo { called, span: line.span, left: line.flags };
        let is_lasting = matches!(called.place, CallPlace::Site(..)) || !self.modules[process].changes;
        Some((call_info, line.span.is_none() && is_lasting))
    }

    /// Returns the call at a place, and whether the same place will mean the same call later; `None` if the place
    /// cannot be read.
    fn call_info_at(&mut self, process: usize, ticks: Ticks, place: Place<'_>) -> Option<(CallInfo, bool)> {
        match place {
            Place::Address(address, left) => {
                let called = self.of_call(process, ticks, address, left.has(Flags::HOOK));
                Some((CallInfo { called, span: None, left }, !self.modules[process].changes))
            }
            Place::Text(text, flags) => {
                let (call_info, is_lasting) = self.call_info(process, ticks, text)?;
                Some((CallInfo { left: call_info.left.with(flags), ..call_info }, is_lasting))
            }
        }
    }

    /// Returns the call of a record with this address; `is_hook` says whether a compiler's hook wrote the
    /// record.
    pub(crate) fn of_call(&mut self, process: usize, ticks: Ticks, address: u64, is_hook: bool) -> Called {
        if address == 0 && is_hook {
            return Called { place: CallPlace::Last, function: self.number(Function::default()), from: None };
        }
        self.of_address(process, ticks, address, is_hook)
    }

    /// Returns whether modules are known to have been loaded or unloaded while a process was traced. If so,
    /// an address may have belonged to several functions.
    #[must_use]
    pub(crate) fn has_changes(&self, process: usize) -> bool {
        self.modules[process].changes
    }

    /// Returns the call in a `>` or `<` line of a process. Uses a name in the line unchanged.
    pub(crate) fn of_line(&mut self, process: usize, ticks: Ticks, line: &FunctionLine<'_>) -> Called {
        let of_site =
            |function, number| Called { place: CallPlace::Site(function, number), function, from: None };
        let is_hook = line.flags.has(Flags::HOOK);
        match line.place {
            FunctionPlace::Address(address, named)
                if self.is_on && !named.function.is_empty() && (address, is_hook) != (0, true) =>
            {
                let (place, function) = (place_of(address, is_hook), self.of_text(named));
                let from = FunctionName { function: &[], at: named.called_from, called_from: &[] };
                Called { place, function, from: (!from.is_empty()).then(|| self.of_text(from)) }
            }
            FunctionPlace::Address(address, _) => self.of_call(process, ticks, address, is_hook),
            FunctionPlace::Site(named, number) => of_site(self.of_text(named), number),
            FunctionPlace::Unknown(site) => {
                of_site(self.number(Function::new(format!("site {site}"), String::new())), 0)
            }
        }
    }

    /// Returns the functions of a frame of a call stack, the innermost inlined function first, without the
    /// tracer's own functions. Uses names in the line unchanged.
    pub(crate) fn of_frame(
        &mut self,
        process: usize,
        ticks: Ticks,
        frame: &StackFrame<'_>,
    ) -> Arc<[FunctionId]> {
        if self.is_on && !frame.names.is_empty() {
            return frame.names.iter().map(|named| self.of_text(*named)).collect();
        }
        let key = (process, frame.address);
        let is_kept = !self.modules[process].changes;
        if let Some(functions) = self.by_return.get(&key).filter(|_| is_kept) {
            return functions.clone();
        }
        let (answer, module) = self.answer(process, ticks, frame.address, Lookup::ReturnAddress);
        let frames = answer.frames_of_host();
        let functions: Arc<[FunctionId]> = if frames.len() < 2 {
            [self.number(function_of(&answer, frame.address, module.as_deref()))].into()
        } else {
            frames.iter().map(|frame| self.number(function_in(frame))).collect()
        };
        if is_kept {
            self.by_return.insert(key, functions.clone());
        }
        functions
    }

    /// Returns the caller of a function, with the place of the call, from the call stack that was recorded
    /// when the function was entered. Returns `None` if the stack does not begin in that function, because
    /// the number of missing frames is then unknown.
    pub(crate) fn call_site(
        &mut self,
        process: usize,
        ticks: Ticks,
        entered: FunctionId,
        stack: &StackLine<'_>,
    ) -> Option<FunctionId> {
        let frames = stack.frames.iter().take(2).map(|frame| self.of_frame(process, ticks, frame));
        let frames: Vec<Arc<[FunctionId]>> = frames.collect();
        let mut functions = frames.iter().flat_map(|functions| functions.iter());
        let first = *functions.next()?;
        let caller = *functions.next()?;
        (self.get(first).is_beside(self.get(entered)) && !self.get(caller).at.is_empty()).then_some(caller)
    }

    /// Appends the payload of a `>`, `<` or `^` line of a process, with names after its addresses. Returns
    /// false, and appends nothing, if the payload has no address to which a name could be added.
    pub(crate) fn write_named(
        &mut self,
        process: usize,
        ticks: Ticks,
        line: &Line<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        if line.kind == Kind::Stack {
            return self.write_stack(process, ticks, line.payload, out);
        }
        let Some(mut call_info) = FunctionLine::parse(line.payload) else { return false };
        let FunctionPlace::Address(address, FunctionName { function: b"", .. }) = call_info.place else {
            return false;
        };
        let called = self.of_line(process, ticks, &call_info);
        let place =
            called.from.filter(|_| line.kind == Kind::Enter).map(|from| self.get(from).place.as_bytes());
        let named = self.get(called.function).named();
        if named.is_empty() {
            return false;
        }
        call_info.place =
            FunctionPlace::Address(address, FunctionName { called_from: place.unwrap_or_default(), ..named });
        call_info.write(out);
        true
    }

    fn write_stack(&mut self, process: usize, ticks: Ticks, payload: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(mut stack) = StackLine::parse(payload) else { return false };
        let functions: Vec<_> =
            stack.frames.iter().map(|frame| self.of_frame(process, ticks, frame)).collect();
        for (frame, functions) in
            stack.frames.iter_mut().zip(&functions).filter(|(frame, _)| frame.names.is_empty())
        {
            let names = functions.iter().map(|id| self.get(*id).named());
            frame.names = names.filter(|named| !named.is_empty()).collect();
        }
        stack.write(out);
        true
    }

    /// Returns the id of the function that is named in a line.
    fn of_text(&mut self, named: FunctionName<'_>) -> FunctionId {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        FunctionName { called_from: &[], ..named }.write(&mut text);
        let known = self.by_text.get(&text).copied();
        let id = known.unwrap_or_else(|| {
            let owned = |text| String::from_utf8_lossy(text).into_owned();
            let id = self.number(Function::new(owned(named.function), owned(named.at)));
            self.by_text.insert(text.clone(), id);
            id
        });
        self.text = text;
        id
    }

    /// Returns the function that contains an address of a process, and its caller if the function is inlined
    /// there. If `is_compiled` is set, returns the function around the inlined ones.
    fn of_address(&mut self, process: usize, ticks: Ticks, address: u64, is_compiled: bool) -> Called {
        let key = (process, address, is_compiled);
        let is_kept = !self.modules[process].changes;
        if let Some(called) = self.by_address.get(&key).filter(|_| is_kept) {
            return *called;
        }
        let lookup = if is_compiled { Lookup::Function } else { Lookup::Code };
        let (answer, module) = self.answer(process, ticks, address, lookup);
        let module = module.as_deref();
        let function = self.number(if is_compiled {
            function_of_frame(&answer, answer.outermost(), address, module)
        } else {
            function_of(&answer, address, module)
        });
        let from = match answer.frames_of_host() {
            [inlined, around, ..] if inlined.is_inlined && !is_compiled => Some(function_in(around)),
            _ => None,
        };
        let from = from.filter(|around| !around.at.is_empty()).map(|around| self.number(around));
        let called = Called { place: place_of(address, is_compiled), function, from };
        if is_kept {
            self.by_address.insert(key, called);
        }
        called
    }

    /// Returns the functions at an address of a process, or why they are unknown, and the module that contains the
    /// address if that is known.
    fn answer(
        &mut self,
        process: usize,
        ticks: Ticks,
        address: u64,
        lookup: Lookup,
    ) -> (Arc<Answer>, Option<Arc<Module>>) {
        let modules = &mut self.modules[process];
        let lines = &modules.lines;
        let timeline = modules.timeline.get_or_insert_with(|| Timeline::new(lines.iter().cloned()));
        let module = timeline.find(ticks, address);
        (self.symbols.name(module, address, lookup), module.ok().cloned())
    }

    /// Returns the id of an invented function whose name describes the folded calls.
    pub(crate) fn folded(&mut self, folded: &Folded) -> FunctionId {
        let name = folded.text(|function| &self.get(function).name);
        self.number(Function::new(name, String::new()))
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

    /// Returns the warnings about files with symbols that have come up since the previous call of this function.
    pub(crate) fn take_warnings(&mut self) -> Vec<String> {
        self.symbols.take_warnings()
    }

    /// Returns sentences about files without symbols that have come up since the previous call of this function.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        self.symbols.take_notes()
    }
}

fn place_of(address: u64, is_hook: bool) -> CallPlace {
    if is_hook { CallPlace::Frame(address) } else { CallPlace::Address(address) }
}

/// Returns the function at `address` in readable form. `answer` is what was found about the address. If several
/// functions are inlined there, returns the innermost one that is not the tracer's own.
fn function_of(answer: &Answer, address: u64, module: Option<&Module>) -> Function {
    let frame = answer.frames_of_host().first().or_else(|| answer.outermost());
    let mut function = function_of_frame(answer, frame, address, module);
    if answer.source == Source::SymbolTable && !function.is_unnamed {
        // A symbol table does not tell which functions are inlined at the address.
        function.name.push_str(" (symbol)");
    }
    function
}

/// Returns the function of `frame`, one of the frames found for `address`. If there is no frame, returns a function
/// without a name.
fn function_of_frame(
    answer: &Answer,
    frame: Option<&Frame>,
    address: u64,
    module: Option<&Module>,
) -> Function {
    match answer.source {
        Source::Nothing(why) => Function::unnamed(address, Some(why), module),
        _ => frame.map_or_else(|| Function::unnamed(address, None, module), function_in),
    }
}

fn function_in(frame: &Frame) -> Function {
    let place = match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        _ => String::new(),
    };
    Function::new(escaped(&frame.to_string()), escaped(&place))
}

/// Escapes a text as in lines of traces, so that names that are looked up equal the same names in lines.
fn escaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    escape_name(text, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}
