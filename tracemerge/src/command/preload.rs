//! Has the dynamic linker load the library that traces every function, for programs that call hooks and do not have it.
//!
//! A program that is compiled with `-finstrument-functions` calls hooks, which do nothing in glibc; with `-pg`, those of
//! `gprof`. Loaded before glibc, `libtracer.so` has the hooks that are called. It takes the variable back that has loaded it, so that the program's
//! children are started as they would have been.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSymbol};
use trace_store::variables::PRELOADED;

use crate::file::map::Map;
use crate::find::library::{LIBRARY, LOOKED_FOR, find_library};
use crate::os::environment::{PRELOAD, preloaded};
use crate::ui::messages::{Messages, shown};

/// The functions that a program calls where gcc or clang has put hooks into its functions: by `-finstrument-functions`, and by
/// `-pg` without and with `-mfentry`.
const HOOKS: [&[u8]; 3] = [b"__cyg_profile_func_enter", b"mcount", b"__fentry__"];

/// The section of a program whose hooks are dormant: where in its functions there is room for them.
const SLEDS: &str = "xray_instr_map";

/// Has `command`, which runs `program`, load the library if the program has hooks of a compiler, and not the library. Says so
/// where the library is not found.
pub fn preload_where_hooks_are(program: &Path, command: &mut Command, messages: &Messages) {
    if !cfg!(target_os = "linux") || !has_hooks(program) {
        return;
    }
    let Some(library) = find_library() else {
        let program = shown(program);
        messages.note(format_args!(
            "{program} was compiled with hooks in its functions, but {LIBRARY} is not installed, so its functions are not traced. It was looked for {LOOKED_FOR}"
        ));
        return;
    };
    let mut libraries = library.clone().into_os_string();
    if let Some(others) = preloaded() {
        libraries.push(":");
        libraries.push(others);
    }
    command.env(PRELOAD, libraries).env(PRELOADED, OsString::from(library));
}

/// Returns whether a file is a program, for this machine's dynamic linker, that calls the hooks and does not define them, or
/// whose hooks are dormant. What cannot be read is none: running it will tell why.
fn has_hooks(program: &Path) -> bool {
    let Ok(file) = Map::open(program) else { return false };
    let Ok(object) = object::File::parse(&*file) else { return false };
    let calls_them = |symbol: object::Symbol<'_, '_>| {
        symbol.is_undefined() && symbol.name_bytes().is_ok_and(|name| HOOKS.contains(&name))
    };
    object.dynamic_symbols().any(calls_them) || object.section_by_name(SLEDS).is_some()
}
