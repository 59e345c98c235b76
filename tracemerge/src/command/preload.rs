//! Preloads the library that traces every function, for programs that call hooks but are not linked with the library.
//!
//! A program that is compiled with `-finstrument-functions` calls hooks, which do nothing in glibc; one compiled with
//! `-pg` calls those of `gprof`. If `libtracer.so` is loaded before glibc, the program calls the library's hooks
//! instead. The library restores the variable that has loaded it, so that the program's children start unchanged.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSymbol};
use tempfile::TempDir;
use trace_store::variables::PRELOADED;

use crate::file::map::Map;
use crate::find::library::{HOOK_OF_C, LIBRARY, SEARCHED_PLACES, find_library};
use crate::os::environment::{PRELOAD, preloaded};
use crate::ui::messages::{Messages, shown};

/// The functions that a program calls if gcc or clang has put hooks into its functions: with
/// `-finstrument-functions`, and with `-pg` without and with `-mfentry`.
const HOOKS: [&[u8]; 3] = [HOOK_OF_C, b"mcount", b"__fentry__"];

/// The section of a program with dormant hooks that lists the room for hooks in its functions.
const SLEDS: &str = "xray_instr_map";

/// Makes `command`, which runs `program`, load the library if the program has a compiler's hooks but not the library.
/// Reports if the library cannot be loaded. Keep the returned value until the program has ended.
#[must_use]
pub fn preload_if_hooked(program: &Path, command: &mut Command, messages: &Messages) -> Option<TempDir> {
    if !cfg!(target_os = "linux") || !has_hooks(program) {
        return None;
    }
    let Some(library) = find_library() else {
        let program = shown(program);
        messages.note(format_args!(
            "{program} was compiled with hooks in its functions, but {LIBRARY} is not installed, so its functions are not traced. tracemerge looks for it {SEARCHED_PLACES}"
        ));
        return None;
    };
    let (library, kept) = match listable(&library) {
        Ok(found) => found,
        Err(error) => {
            messages.note(format_args!(
                "the functions of {} are not traced: the dynamic linker does not accept the path {}, and a link to it cannot be made: {error}",
                shown(program),
                shown(&library)
            ));
            return None;
        }
    };
    let mut libraries = library.clone().into_os_string();
    if let Some(others) = preloaded() {
        libraries.push(":");
        libraries.push(others);
    }
    command.env(PRELOAD, libraries).env(PRELOADED, OsString::from(library));
    kept
}

/// The directories for links. Directories that a user chooses may have special characters in their paths, too.
const FOR_LINKS: [&str; 2] = ["/tmp", "/dev/shm"];

/// Returns a path of the library that the dynamic linker accepts in a list of libraries: in the list, spaces and
/// colons separate the libraries, and `$` precedes a word that is replaced. If the path contains one of them, returns
/// the path of a link in a directory that only this user can write to, and that is removed with the second value.
#[expect(clippy::disallowed_methods, reason = "the directory is private, and no output")]
fn listable(library: &Path) -> io::Result<(PathBuf, Option<TempDir>)> {
    if !library.as_os_str().as_encoded_bytes().iter().any(|byte| b" :$".contains(byte)) {
        return Ok((library.to_owned(), None));
    }
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for place in FOR_LINKS {
        let made = tempfile::Builder::new().prefix("tracemerge-").tempdir_in(place).and_then(|directory| {
            let path = directory.path().join(LIBRARY);
            link(library, &path)?;
            Ok((path, Some(directory)))
        });
        match made {
            Ok(made) => return Ok(made),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "the link is made in a private directory")]
fn link(file: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(file, path)
}

#[cfg(not(unix))]
#[expect(clippy::disallowed_methods, reason = "the copy is made in a private directory")]
fn link(file: &Path, path: &Path) -> io::Result<()> {
    std::fs::copy(file, path).map(drop)
}

/// Returns whether a file is a program, for this machine's dynamic linker, that calls the hooks and does not define
/// them, or whose hooks are dormant. Returns false if the file cannot be read: running it will report why.
fn has_hooks(program: &Path) -> bool {
    let Ok(file) = Map::open(program) else { return false };
    let Ok(object) = object::File::parse(&*file) else { return false };
    let calls_them = |symbol: object::Symbol<'_, '_>| {
        symbol.is_undefined() && symbol.name_bytes().is_ok_and(|name| HOOKS.contains(&name))
    };
    object.dynamic_symbols().any(calls_them) || object.section_by_name(SLEDS).is_some()
}
