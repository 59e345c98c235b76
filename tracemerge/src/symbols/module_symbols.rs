//! Names for the addresses of many modules. A module's file is opened when the first of its addresses is looked up, and
//! each answer is kept.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use object::Object;
use trace_format::meta::Module;
use trace_store::recovery::path_from_bytes;

use crate::symbols::answer::{Answer, Frame, Lookup, Source, Unnamed};
use crate::symbols::debug_info::{DebugInfo, has_debug_info};
use crate::symbols::demangle::{is_last_part, last_part};
use crate::symbols::files::{Files, MAX_DEBUG_BYTES};
use crate::symbols::find_files::{
    Found, Missing, Settings, file_name, find_by_build_id, find_by_link, find_module,
};
use crate::symbols::pdb::Pdb;
use crate::symbols::symbol_table::SymbolTable;
use crate::ui::messages::shown;

/// The greatest number of names of one function that are shown.
const MAX_NAMES_OF_FUNCTION: usize = 4;

/// The lookup of names for addresses in the modules of traced processes.
pub struct Symbols<'f> {
    files: &'f Files,
    settings: Settings,
    /// For each module, the index of its file in `opened`.
    modules: HashMap<Arc<Module>, usize>,
    /// The index in `opened` of each file, by its build-id and path: modules of several processes may be one file.
    numbers: HashMap<(Vec<u8>, Vec<u8>), usize>,
    opened: Vec<ModuleNames<'f>>,
    answers: HashMap<(usize, u64), Arc<Answer>>,
    warnings: Vec<String>,
    notes: Vec<String>,
    /// Whether the user was notified that some debug information is too large.
    has_reported_size: bool,
}

impl fmt::Debug for Symbols<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (opened, answers) = (self.opened.len(), self.answers.len());
        f.debug_struct("Symbols").field("opened", &opened).field("answers", &answers).finish_non_exhaustive()
    }
}

impl<'f> Symbols<'f> {
    /// Prepares the lookup of names, without opening a file yet. Opened files are kept in `files`.
    #[must_use]
    pub fn new(files: &'f Files, settings: Settings) -> Symbols<'f> {
        Symbols {
            files,
            settings,
            modules: HashMap::new(),
            numbers: HashMap::new(),
            opened: Vec::new(),
            answers: HashMap::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
            has_reported_size: false,
        }
    }

    /// Returns the functions whose code is at `address`. `module` is the result of the [timeline](super::Timeline) for
    /// that address.
    pub fn name(
        &mut self,
        module: Result<&Arc<Module>, Unnamed>,
        address: u64,
        lookup: Lookup,
    ) -> Arc<Answer> {
        if !self.settings.names {
            return Arc::new(Answer::nothing(Unnamed::SwitchedOff));
        }
        let module = match module {
            Ok(module) => module,
            Err(why) => return Arc::new(Answer::nothing(why)),
        };
        let number = self.number(module);
        let probe = lookup.probe(address).wrapping_sub(module.bias);
        let start = || self.opened[number].table.start(probe);
        let probe = if lookup == Lookup::Function { start().unwrap_or(probe) } else { probe };
        if let Some(answer) = self.answers.get(&(number, probe)) {
            return Arc::clone(answer);
        }
        let answer = Arc::new(self.answer(number, probe));
        self.note_symbols(number, module, answer.source, lookup);
        self.answers.insert((number, probe), Arc::clone(&answer));
        answer
    }

    /// Adds a sentence for the user to the notes if a file has no symbols, or lacks the symbols of some traced
    /// functions. Each file has at most one sentence.
    fn note_symbols(&mut self, number: usize, module: &Module, source: Source, lookup: Lookup) {
        let which = match source {
            Source::Nothing(Unnamed::NoSymbols) => "its functions",
            // Callers are also in files of others, which have the symbols of their exported functions only.
            Source::Nothing(Unnamed::NoFunction) if lookup == Lookup::Function => "some of its functions",
            _ => return,
        };
        if std::mem::replace(&mut self.opened[number].has_reported_symbols, true) {
            return;
        }
        let name = file_name(&module.path).unwrap_or_default();
        self.notes.push(format!(
            "{} has no symbols of {which}, so these are shown by offsets in the file ({}+0x...); --debug-dir DIR \
             names the directory of a copy of the same build that has symbols",
            shown(&path_from_bytes(&module.path)),
            name.to_string_lossy().escape_debug(),
        ));
    }

    /// Returns the sentences for the user about files without symbols that were noted since the last call. Each file
    /// has at most one sentence in all.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Returns the warnings for the user that were added since the last call. They say that a module's file is missing,
    /// damaged or of another build, or that debug information is too large. Each module has at most one warning.
    pub fn take_warnings(&mut self) -> Vec<String> {
        if self.files.is_exceeded() && !std::mem::replace(&mut self.has_reported_size, true) {
            let most = MAX_DEBUG_BYTES >> 20;
            self.warnings.push(format!(
                "debug information beyond {most} MiB of memory is not read: functions that it describes have names \
                 from symbol tables, or are shown by offsets in their files"
            ));
        }
        std::mem::take(&mut self.warnings)
    }

    fn number(&mut self, module: &Arc<Module>) -> usize {
        if let Some(number) = self.modules.get(module) {
            return *number;
        }
        let key = (module.build_id.clone(), module.path.clone());
        let number = self.numbers.get(&key).copied().unwrap_or_else(|| {
            self.numbers.insert(key, self.opened.len());
            let (files, settings) = (self.files, &self.settings);
            let (names, warning) =
                catch_panic(|| ModuleNames::open(module, settings, files)).unwrap_or_else(|| {
                    let path = shown(&path_from_bytes(&module.path));
                    (
                        ModuleNames::without(Unnamed::Damaged),
                        Some(format!("cannot read {path}: it is damaged")),
                    )
                });
            self.warnings.extend(warning.map(|what| format!("{what}; {}", advice(module))));
            self.opened.push(names);
            self.opened.len() - 1
        });
        self.modules.insert(Arc::clone(module), number);
        number
    }

    fn answer(&mut self, number: usize, probe: u64) -> Answer {
        let names = &mut self.opened[number];
        if let Some(answer) = catch_panic(|| names.answer(probe)) {
            return answer;
        }
        // A reader that has panicked may be half changed, and is not used again.
        (names.debug, names.pdb) = (None, None);
        names.answer(probe)
    }
}

/// Returns the result of `work`, which reads a file that may be hostile; `None` if it panics. The libraries that read
/// debug information promise not to panic, and are tested for it; but the user's trace must not depend on that promise.
fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Returns the advice for the user about a module's file that was not found.
fn advice(module: &Module) -> String {
    let name = file_name(&module.path).unwrap_or_default();
    format!(
        "its functions are shown as offsets in the file; put the traced {} beside the trace, or name its directory with \
         --debug-dir",
        shown(&name)
    )
}

/// The sources of the names of one module.
struct ModuleNames<'f> {
    table: SymbolTable<'f>,
    debug: Option<DebugInfo<'f>>,
    /// The separate debug information (PDB) that a Windows program names, if the program has no debug information of
    /// another kind.
    pdb: Option<Pdb<'f>>,
    is_verified: bool,
    /// The reason that is given in an answer if no name is found.
    why: Unnamed,
    /// Whether the user was notified that the module's file has no symbols.
    has_reported_symbols: bool,
}

impl<'f> ModuleNames<'f> {
    fn without(why: Unnamed) -> ModuleNames<'f> {
        let table = SymbolTable::default();
        let (is_verified, has_reported_symbols) = (false, false);
        ModuleNames { table, debug: None, pdb: None, is_verified, why, has_reported_symbols }
    }

    /// Opens the sources of a module's names. Returns them with a warning for the user, if there is something to warn
    /// of.
    fn open(module: &Module, settings: &Settings, files: &'f Files) -> (ModuleNames<'f>, Option<String>) {
        let main = find_module(module, settings, files);
        let has_own = main.as_ref().is_ok_and(|main| has_debug_info(&main.object));
        let mut others =
            if has_own { Vec::new() } else { find_by_build_id(&module.build_id, settings, files) };
        let mut take = |is_wanted: fn(&Found<'f>) -> bool| {
            others.iter().position(is_wanted).map(|number| others.remove(number))
        };
        // A file with the debug information, or at least with the whole symbol table.
        let by_link = || find_by_link(main.as_ref().ok().filter(|_| !has_own)?, settings, files);
        let separate = take(|other| has_debug_info(&other.object))
            .or_else(by_link)
            .or_else(|| take(|other| other.object.symbol_table().is_some()));
        let main = main.or_else(|missing| take(|_| true).ok_or(missing));
        let (main, missing) = match main {
            Ok(main) => (Some(main), None),
            Err(missing) => (None, Some(missing)),
        };
        let Some(debug) = separate.as_ref().or(main.as_ref()) else {
            return match missing {
                Some(Missing::OtherBuildId(what)) => (Self::without(Unnamed::OtherBuildId), Some(what)),
                Some(Missing::Damaged(what)) => (Self::without(Unnamed::Damaged), Some(what)),
                Some(Missing::NoFile(what)) if !module.path.is_empty() => {
                    (Self::without(Unnamed::NoFile), Some(what))
                }
                _ => (Self::without(Unnamed::NoFile), None),
            };
        };
        let path = main.as_ref().map_or_else(|| path_from_bytes(&module.path), |main| main.path.clone());
        let opened = DebugInfo::open(debug, &path, settings, files);
        let warning = opened
            .as_ref()
            .err()
            .map(|error| format!("cannot read the debug information of {}: {error}", shown(&debug.path)));
        let mut table = symbols_of([separate.as_ref(), main.as_ref()], files);
        if let Some(main) = &main {
            table.add_jumps(&main.object);
        }
        let has_debug_info = has_debug_info(&debug.object);
        let alone = main.as_ref().filter(|_| !has_debug_info);
        let (pdb, of_pdb) = alone.map_or((None, None), |main| Pdb::of(main, settings, files));
        let warning = warning.or(of_pdb);
        let why = if table.is_empty() && !has_debug_info && pdb.is_none() {
            Unnamed::NoSymbols
        } else {
            Unnamed::NoFunction
        };
        let is_verified = !module.build_id.is_empty();
        let (debug, has_reported_symbols) = (opened.ok().flatten(), false);
        (ModuleNames { table, debug, pdb, is_verified, why, has_reported_symbols }, warning)
    }

    fn answer(&self, probe: u64) -> Answer {
        let frames = self.debug.as_ref().map(|debug| debug.frames(probe));
        let is_damaged = matches!(frames, Some(Err(_)));
        let mut frames = frames.and_then(Result::ok).unwrap_or_default();
        if let Some(pdb) = self.pdb.as_ref().filter(|_| frames.is_empty()) {
            frames = pdb.frames(probe).unwrap_or_default();
        }
        let in_table = self.table.names(probe);
        let source = match frames.last_mut() {
            Some(outermost) if !outermost.names.is_empty() => {
                complete_names(outermost, in_table);
                Source::DebugInfo
            }
            Some(outermost) => {
                set_names(outermost, in_table);
                Source::LineTable
            }
            None if !in_table.is_empty() => {
                let mut frame = Frame::default();
                set_names(&mut frame, in_table);
                frames.push(frame);
                Source::SymbolTable
            }
            None if is_damaged => Source::Nothing(Unnamed::Damaged),
            None => Source::Nothing(self.why),
        };
        let is_nothing = matches!(source, Source::Nothing(_));
        Answer { frames, source, is_verified: self.is_verified && !is_nothing }
    }
}

/// Returns the symbol table of the first file in `of` whose table has functions, or an empty table. The module's file
/// may have only a table for the dynamic linker, which has few functions.
fn symbols_of<'f>(of: [Option<&Found<'f>>; 2], files: &'f Files) -> SymbolTable<'f> {
    let tables = of.into_iter().flatten().map(|file| SymbolTable::of(&file.object, files));
    tables.into_iter().find(|table| !table.is_empty()).unwrap_or_default()
}

/// Completes the name that a function has in debug information with the names that the symbol table has at the
/// function's address.
///
/// The names in the table are used only if the function's own name is among them; otherwise they belong to the code of
/// another function. Debug information has only the last part of some names: in C++ of functions that are local to one
/// file, in Rust if there are only line tables. For such a name, the symbol table has the whole name.
fn complete_names(frame: &mut Frame, in_table: Vec<String>) {
    let Some(own) = frame.names.first().cloned() else { return };
    let mut names: Vec<String> = Vec::new();
    for name in in_table {
        let name = without_mark(&name, &own).to_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let is_own = |name: &String| **name == *own;
    let is_whole = |name: &String| is_last_part(&own) && last_part(name) == last_part(&own);
    if let Some(at) = names.iter().position(is_own).or_else(|| names.iter().position(is_whole)) {
        names[..=at].rotate_right(1);
        set_names(frame, names);
    }
}

/// Returns the name of a function, given the symbol of a part of its code. The compiler has added a mark to that
/// symbol: `f(int) [clone .cold]` and `f.cold` are the symbols of parts of `f`. `own` is the name of the function in
/// debug information.
fn without_mark<'a>(symbol: &'a str, own: &'a str) -> &'a str {
    let is_part = symbol.strip_prefix(own).is_some_and(|rest| rest.starts_with('.'));
    if is_part { own } else { symbol.split(" [clone ").next().unwrap_or(symbol) }
}

fn set_names(frame: &mut Frame, names: Vec<String>) {
    frame.further_names = names.len().saturating_sub(MAX_NAMES_OF_FUNCTION);
    frame.names = names.into_iter().take(MAX_NAMES_OF_FUNCTION).map(Arc::from).collect();
}
