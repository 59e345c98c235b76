//! The answer to a lookup of the functions at an address, and the kinds of lookups.

use std::fmt;
use std::sync::Arc;

use crate::symbols::demangle::is_last_part;

/// The origin of an address, which decides for which instruction the functions are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lookup {
    /// The address is that of the instruction to look up. The addresses of functions and of scopes are of this kind.
    Code,
    /// The address is anywhere in a compiled function. The beginning of that function is looked up, which has the
    /// function's own line: nothing is inlined there that could have another line.
    Function,
    /// The address is the one to which a call returns. The instruction before that address, the call, is looked up: the
    /// instruction at the address may be on another line, or in another function.
    ReturnAddress,
}

impl Lookup {
    /// Returns an address inside the instruction to look up; for a return address, that instruction is the call before
    /// it.
    pub(super) fn probe(self, address: u64) -> u64 {
        match self {
            Lookup::Code | Lookup::Function => address,
            Lookup::ReturnAddress => address.wrapping_sub(1),
        }
    }
}

/// The source of an answer, which decides how complete the answer can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Debug information: it has functions, also inlined ones, with their files and lines if these are recorded.
    DebugInfo,
    /// The line table and the symbol table. The line table has file and line, and the symbol table may have the
    /// function at the address. Inlined functions are not known.
    LineTable,
    /// The symbol table: it names the compiled function that contains the address, without file and line. The code at
    /// the address may come from another function that was inlined there.
    SymbolTable,
    /// No name was found, for this reason.
    Nothing(Unnamed),
}

/// The reason why an address has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unnamed {
    /// The user has switched names off.
    SwitchedOff,
    /// The address is in no module that the trace records.
    NoModule,
    /// Modules were loaded or unloaded about the time of the record, and nothing shows which module had the address at
    /// that time.
    Changing,
    /// The trace names no file for the module, or the module's file was not found.
    NoFile,
    /// Files of the module were found, but only of other builds.
    OtherBuildId,
    /// The module's file has neither debug information nor symbols of functions.
    NoSymbols,
    /// The module's file has functions, but none at this address.
    NoFunction,
    /// The module's file is damaged, or of an unknown kind.
    Damaged,
}

impl fmt::Display for Unnamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unnamed::SwitchedOff => "names are switched off",
            Unnamed::NoModule => "of no known module",
            Unnamed::Changing => "its module was loaded or unloaded about then",
            Unnamed::NoFile => "the module's file is not here",
            Unnamed::OtherBuildId => "the module's file is of another build",
            Unnamed::NoSymbols => "the module's file has no symbols",
            Unnamed::NoFunction => "of no known function",
            Unnamed::Damaged => "the module's file is damaged",
        })
    }
}

/// A function whose code is at an address, as a compiled function or inlined in another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The function's names as people write them. There are several names if functions with the same machine code share
    /// their address, and none if only file and line are known.
    pub names: Vec<Arc<str>>,
    /// The number of names that are left out of `names`.
    pub further_names: usize,
    /// The path of the source file, as the compiler got it.
    pub file: Option<Arc<str>>,
    /// The line in the source file.
    pub line: Option<u32>,
    /// Whether the function is inlined in the function of the next frame.
    pub is_inlined: bool,
}

impl fmt::Display for Frame {
    /// Writes all names: `a = b`; if some are left out, `a = b = c = d = 17 more`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, name) in self.names.iter().enumerate() {
            f.write_str(if number == 0 { "" } else { " = " })?;
            f.write_str(name)?;
        }
        if self.names.is_empty() {
            f.write_str("??")?;
        }
        if self.further_names > 0 { write!(f, " = {} more", self.further_names) } else { Ok(()) }
    }
}

/// The answer to the lookup of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The functions at the address: the innermost inlined function first, and the compiled function that contains the
    /// address last. Empty if nothing is known.
    pub frames: Vec<Frame>,
    /// The source from which the frames come.
    pub source: Source,
    /// Whether the build-id proves that the file in which the address was looked up is the module's file. If the module
    /// has no build-id, a file without a build-id is trusted, and this is false.
    pub is_verified: bool,
}

impl Answer {
    pub(super) fn nothing(why: Unnamed) -> Answer {
        Answer { frames: Vec::new(), source: Source::Nothing(why), is_verified: false }
    }

    /// Returns the compiled function that contains the address, ignoring the functions that are inlined in it.
    #[must_use]
    pub fn outermost(&self) -> Option<&Frame> {
        self.frames.last()
    }

    /// Returns the frames without the innermost ones that belong to the tracer itself. For an address in a scope, the
    /// rest begins with the function of the host that contains the scope.
    #[must_use]
    pub fn frames_of_host(&self) -> &[Frame] {
        let of_tracer = self.frames.iter().take_while(|frame| is_of_tracer(frame)).count();
        &self.frames[of_tracer..]
    }
}

/// The crates of the tracer that are linked into a host, by their names in code.
const CRATES: [&str; 3] = ["tracer", "trace_format", "trace_store"];

/// Returns whether a function belongs to the tracer. The path in the function's name decides, also if it is inside the
/// name of the code that drops a value of the tracer. If the name has no path, the source file decides.
fn is_of_tracer(frame: &Frame) -> bool {
    let Some(name) = frame.names.first().filter(|name| !is_last_part(name)) else {
        return frame.file.as_deref().is_some_and(is_file_of_tracer);
    };
    is_path_of_tracer(name)
}

/// Returns whether `name`, the path of a function, belongs to the tracer.
pub(super) fn is_path_of_tracer(name: &str) -> bool {
    let of_glue = ["core::ptr::drop_in_place<", "core::ptr::drop_glue<"];
    let path = of_glue.iter().find_map(|glue| name.strip_prefix(glue)).unwrap_or(name);
    let path = path.trim_start_matches('<');
    CRATES.iter().any(|own| path.strip_prefix(own).is_some_and(|rest| rest.starts_with("::")))
}

/// The folders of `tracer/src`, the library's code in its repository.
const FOLDERS: [&str; 11] =
    ["api", "copies", "flusher", "ring", "shared", "stack", "sync", "sys", "traced", "user", "words"];

/// Returns whether a source file belongs to the tracer: whether it is in the tracer's repository, or in a directory to
/// which cargo has unpacked a package of the tracer.
pub(super) fn is_file_of_tracer(file: &str) -> bool {
    let file = file.replace('\\', "/");
    let is_version = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    let packages = ["/tracer-lib-", "/tracer-format-", "/tracer-store-"];
    packages.iter().any(|package| file.split(package).skip(1).any(is_version))
        || FOLDERS.iter().any(|folder| file.contains(&format!("tracer/src/{folder}/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(name: &str) -> Frame {
        Frame { names: vec![name.into()], ..Frame::default() }
    }

    fn left(names: &[&str]) -> Vec<String> {
        let frames = names.iter().map(|name| frame(name)).collect();
        let answer = Answer { frames, source: Source::DebugInfo, is_verified: true };
        answer.frames_of_host().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn innermost_frames_of_the_tracer_itself_are_left_out() {
        let host = ["app::work", "tracer::api::scope"];
        assert_eq!(left(&["tracer::api::scope", "app::work"]), ["app::work"]);
        assert_eq!(left(&["<tracer::Scope as core::ops::drop::Drop>::drop", "app::work"]), ["app::work"]);
        let dropped = ["tracer::a", "core::ptr::drop_in_place<tracer::api::Scope>", "app::work"];
        assert_eq!(left(&dropped), ["app::work"]);
        assert_eq!(left(&["tracer::traced::enter"]), [""; 0]);
        // Only the innermost frames are left out, because the tracer may call the host. And only those of this crate.
        assert_eq!(left(&host), host);
        for other in ["app::tracer::a", "tracer_of_rays::a", "<app::S as tracer::T>::a", "tracer"] {
            assert_eq!(left(&[other]), [other]);
        }
    }

    #[test]
    fn a_frame_without_a_name_belongs_to_the_tracer_by_its_file() {
        let at = |file: &str| Frame { file: Some(file.into()), ..Frame::default() };
        assert!(is_of_tracer(&at("/home/u/.cargo/registry/src/x-1/tracer-lib-0.1.0/src/api/mod.rs")));
        assert!(is_of_tracer(&at("/home/u/project/tracer/src/api/mod.rs")));
        assert!(!is_of_tracer(&at("/home/u/tracer-library/src/main.rs")));
        assert!(!is_of_tracer(&at("/home/u/tracer/src/main.rs")));
        assert!(!is_of_tracer(&Frame::default()));
    }

    #[test]
    fn the_listed_folders_are_those_of_the_library() {
        // A package outside of the repository has no neighbours.
        let Ok(entries) = std::fs::read_dir("../tracer/src") else { return };
        let folders = entries.flatten().filter(|entry| entry.path().is_dir());
        let mut folders: Vec<_> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
        folders.sort();
        assert_eq!(folders, FOLDERS);
    }

    #[test]
    fn all_names_of_shared_code_are_shown_up_to_a_limit() {
        let names: Vec<Arc<str>> = vec!["a".into(), "b".into()];
        let mut shared = Frame { names, ..Frame::default() };
        assert_eq!(shared.to_string(), "a = b");
        shared.further_names = 17;
        assert_eq!(shared.to_string(), "a = b = 17 more");
        assert_eq!(Frame::default().to_string(), "??");
    }

    #[test]
    fn a_return_address_is_looked_up_at_its_call() {
        assert_eq!(Lookup::ReturnAddress.probe(0x1005), 0x1004);
        assert_eq!(Lookup::Code.probe(0x1005), 0x1005);
        assert_eq!(Lookup::ReturnAddress.probe(0), u64::MAX, "no call ends there");
    }
}
