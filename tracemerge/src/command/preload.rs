//! Preloads `libtracer`, the library that traces every function, into programs that call hooks but are not linked with
//! this library.
//!
//! A program compiled with `-finstrument-functions` calls hooks that do nothing in glibc; a program compiled with `-pg`
//! calls the hooks of `gprof`. If `libtracer.so` is loaded before glibc, such programs call the hooks of `libtracer.so`
//! instead. The library restores the environment variable by which it was loaded, so that the program's children start
//! without it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use trace_store::variables::PRELOADED;

use crate::find::executable::Executable;
use crate::find::library::{LIBRARY, SEARCHED_PLACES, find_library};
use crate::find::untraced::{conflict, file_name, is_library, obstacle, refusing_runtime};
use crate::os::environment::{PRELOAD, TSAN_OPTIONS, preloaded, sanitizer_options};
use crate::ui::messages::{Messages, shown};

/// Changes `command`, which runs `program`, so that `libtracer` is loaded if the program calls a compiler's hooks but
/// is not linked with the library. Reports if the library cannot be loaded. The caller keeps the returned directory
/// until the program has ended.
#[must_use]
pub(crate) fn preload_if_hooked(
    program: &Path,
    command: &mut Command,
    messages: &Messages,
) -> Option<TempDir> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let executable = Executable::read(program)?;
    let given = shown(program);
    let is_traced = executable.has_library || executable.has_hooks;
    if let Some(options) =
        options_of_thread_sanitizer().filter(|_| is_traced && executable.has_thread_sanitizer)
    {
        command.env(TSAN_OPTIONS, options);
    }
    if executable.has_library {
        if let Some(why) = conflict(&executable) {
            messages.note(format_args!("{given} and the tracer disturb each other: {why}"));
        }
        return None;
    }
    let others = preloaded().unwrap_or_default();
    let named: Vec<_> = others.to_str().unwrap_or_default().split([':', ' ']).collect();
    if !executable.has_hooks || named.iter().any(|entry| is_library(entry)) {
        return None;
    }
    if let Some(why) = obstacle(&executable) {
        messages.note(format_args!("the functions of {given} are not traced: {why}"));
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
    // A sanitizer's runtime comes before the library: AddressSanitizer refuses another order, and the runtime of
    // ThreadSanitizer has functions of the same names. The user's libraries stay before both if they can.
    let first = refusing_runtime(&executable);
    if let Some(runtime) = first {
        messages.note(format_args!(
            "{runtime} is put before the libraries of LD_PRELOAD, because it must be loaded first"
        ));
    }
    let is_missing = |runtime: &&str| !named.iter().any(|entry| file_name(entry) == *runtime);
    let runtimes = executable.runtimes().filter(is_missing).filter(|runtime| Some(*runtime) != first);
    let all = first.into_iter().map(OsStr::new).chain(Some(&*others).filter(|others| !others.is_empty()));
    let all = all.chain(runtimes.map(OsStr::new)).chain([library.as_os_str()]);
    command.env(PRELOAD, all.collect::<Vec<_>>().join(OsStr::new(":"))).env(PRELOADED, others);
    kept
}

/// Returns options that allow a forked child to start a thread if the program has ThreadSanitizer: the tracer starts
/// one in each child that it traces. Returns `None` if the user's options already decide this.
fn options_of_thread_sanitizer() -> Option<OsString> {
    let options = sanitizer_options(TSAN_OPTIONS);
    let is_set = options.to_string_lossy().contains("die_after_fork");
    (!is_set).then(|| [OsStr::new("die_after_fork=0"), &options].join(OsStr::new(" ")))
}

/// The directories in which links to the library are made. Their paths contain no special characters, as the path of
/// another directory for temporary files may.
const FOR_LINKS: [&str; 2] = ["/tmp", "/dev/shm"];

/// Returns a path of `library` that is valid in the dynamic linker's list of libraries, in which spaces and colons
/// separate libraries and `$` begins a word to be replaced. If the path of `library` contains such a character, the
/// result is the path of a link to it in a new directory, which only this user can write to. The returned `TempDir`
/// deletes this directory when it is dropped.
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

/// Makes a symbolic link to `file` at `path`, which is in a directory that belongs to this user.
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "the link is made in a directory of this user")]
pub(crate) fn link(file: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(file, path)
}

/// Copies `file` to `path`, which is in a directory that belongs to this user.
#[cfg(not(unix))]
#[expect(clippy::disallowed_methods, reason = "the copy is made in a directory of this user")]
pub(crate) fn link(file: &Path, path: &Path) -> io::Result<()> {
    std::fs::copy(file, path).map(drop)
}
