//! The reasons why a program is not traced, each with a remedy. Some reasons are visible in the program's file, and
//! `run` reports them before the start; others are found when the program has ended without a trace.

use std::env::consts::ARCH;
use std::io::Read;
use std::path::Path;

use crate::file::map::open_regular;
use crate::find::app::App;
use crate::find::executable::Executable;
use crate::find::library::{
    BUILT_NAME, HOOK_OF_C, INSTALLED_NAME, LIBRARY, SEARCHED_PLACES, exports, find_library,
};
use crate::os::environment::{ASAN_OPTIONS, ENABLE, choices_of_records, preloaded, sanitizer_options};
use crate::ui::messages::shown;

/// The prefixes of the names of dynamic linkers that belong to C libraries other than glibc.
const OTHER_LINKERS: [&str; 3] = ["ld-musl", "ld-uClibc", "linker"];
/// The spellings of the option with which AddressSanitizer accepts that another library is loaded before itself.
const ANY_ORDER: [&str; 2] = ["verify_asan_link_order=0", "verify_asan_link_order=false"];
/// The maximum number of bytes that are read of a script's first line.
const FIRST_LINE_BYTES: u64 = 256;

/// Returns the reason why the library cannot be preloaded into the program; `None` if it can.
#[must_use]
pub(crate) fn obstacle(program: &Executable) -> Option<String> {
    let linker = program.linker.as_deref();
    let is_of_other_library =
        |linker: &str| OTHER_LINKERS.iter().any(|other| file_name(linker).starts_with(other));
    if let Some(processor) = program.other_processor {
        Some(format!("it is for {processor}, but {LIBRARY} is for {ARCH}: compile the program for {ARCH}"))
    } else if program.changes_rights {
        Some(more_rights())
    } else if program.has_memory_sanitizer {
        Some(memory_sanitizer())
    } else if linker.is_none() {
        Some(
            "it is linked statically, so no library can be preloaded. Link it dynamically, or with -Wl,-u,tracer_startup and libtracer.a"
                .into(),
        )
    } else if linker.is_some_and(is_of_other_library) {
        let linker = linker.unwrap_or_default();
        Some(format!(
            "{LIBRARY} needs glibc, and the program's C library is another one ({linker}). Link it with glibc"
        ))
    } else {
        hooks_of_others()
    }
}

/// Returns the reason why tracing a program that is linked with the library would break a sanitizer; `None` if it would
/// not.
#[must_use]
pub(crate) fn conflict(program: &Executable) -> Option<String> {
    let is_apart = program.runtimes().any(|name| name.starts_with("libtsan"));
    if is_apart && program.has_own_thread_hooks {
        let why = "libtracer.a replaces functions of ThreadSanitizer that have the same names, so the reports of \
                   ThreadSanitizer lack callers. Link libtracer.so in its place";
        return Some(why.into());
    }
    program.has_memory_sanitizer.then(memory_sanitizer)
}

/// Returns the name of AddressSanitizer's runtime if it will refuse to start the program: the runtime must be loaded
/// first, but the user preloads another library.
#[must_use]
pub(crate) fn refusing_runtime(program: &Executable) -> Option<&str> {
    let is_of_asan = |name: &str| name.starts_with("libasan.so") || name.starts_with("libclang_rt.asan");
    let runtime = program.runtimes().find(|name| is_of_asan(name))?;
    let preloaded = preloaded()?;
    let libraries = preloaded.to_string_lossy();
    let first = libraries.split([':', ' ']).find(|name| !name.is_empty())?;
    let options = sanitizer_options(ASAN_OPTIONS);
    let is_accepted = ANY_ORDER.iter().any(|order| options.to_string_lossy().contains(order));
    (!is_of_asan(file_name(first)) && !is_accepted).then_some(runtime)
}

/// Returns the reason why the program, which has ended, wrote no trace.
#[must_use]
pub(crate) fn reason(app: &App) -> String {
    let path = app.real_path().unwrap_or(&app.given);
    let Some(program) = Executable::read(path) else {
        return interpreter(path).map_or_else(
            || "is it linked with the tracer, and does it call it?".into(),
            |by| {
                format!(
                    "it is a script, which {by} runs. Name the program that it starts: tracemerge run PROGRAM"
                )
            },
        );
    };
    let is_known = cfg!(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    ));
    let signal = app.ended.and_then(|ended| ended.cause.signal);
    let signal = signal.map(|signal| {
        format!(
            "{signal} ended it before its first record. Run it alone: if it ends in the same way, the tracer is \
             not the cause"
        )
    });
    let unchosen = || {
        let set = choices_of_records().into_iter();
        let set: Vec<_> = set.map(|(name, value)| format!("{name}={}", shown(Path::new(&value)))).collect();
        (!set.is_empty())
            .then(|| format!("no record fits {}. Choose another value, or set none", set.join(" and ")))
    };
    if !program.has_hooks && !program.has_library && is_known && program.other_processor.is_none() {
        let why = "its functions have no hooks, and it is not linked with the tracer. Compile it with \
                   -finstrument-functions or -pg (C, C++), build it with cargo tracer (Rust), or call the tracer \
                   in it. If it starts the program that you mean, name that one: tracemerge run PROGRAM";
        return why.into();
    }
    let found = if program.has_library || !is_known {
        let rights = program.changes_rights.then(more_rights);
        let sanitizer = || program.has_memory_sanitizer.then(memory_sanitizer);
        rights.or_else(sanitizer).or_else(|| refusal(&program))
    } else if find_library().is_none() {
        Some(format!("{LIBRARY} is not installed. tracemerge looks for it {SEARCHED_PLACES}"))
    } else {
        obstacle(&program)
    };
    found.or_else(unchosen).or(signal).unwrap_or_else(|| {
        if program.has_library || !is_known {
            format!(
                "it made no record before it ended. It must call the tracer, must not remove {ENABLE} from its \
                 environment before that call, and if it calls startup(VARIABLE), that variable must be set"
            )
        } else {
            "it called no function that has hooks. Name the program whose functions are called".into()
        }
    })
}

/// Returns the reason why AddressSanitizer refused to start a program that is linked with the library, with a remedy.
fn refusal(program: &Executable) -> Option<String> {
    let runtime = refusing_runtime(program)?;
    Some(format!(
        "LD_PRELOAD names a library before {runtime}, which must be the first. Remove it from LD_PRELOAD, or set \
         {ASAN_OPTIONS}={}",
        ANY_ORDER[0]
    ))
}

fn more_rights() -> String {
    "the system gives it more rights than its caller has (set-user-ID, set-group-ID or capabilities), so it \
     preloads no library, and the tracer obeys no variables. Trace a copy: cp makes it without these rights"
        .into()
}

fn memory_sanitizer() -> String {
    "MemorySanitizer ends a program that uses values from code which was compiled without it, as the tracer was. \
     Compile the program without -fsanitize=memory"
        .into()
}

/// Returns the reason why the library's hooks would not be called: `LD_PRELOAD` names another library that has hooks
/// with the same names. Returns `None` if there is no such library.
fn hooks_of_others() -> Option<String> {
    let libraries = preloaded()?;
    let libraries = libraries.to_string_lossy();
    let mut named = libraries.split([':', ' ']).filter(|name| !name.is_empty() && !is_library(name));
    let other = named.find(|name| exports(Path::new(name), HOOK_OF_C))?;
    Some(format!("LD_PRELOAD names {other}, which has hooks of its own. Remove it from LD_PRELOAD"))
}

/// Returns whether an entry of `LD_PRELOAD` names the library.
#[must_use]
pub(crate) fn is_library(entry: &str) -> bool {
    let name = file_name(entry);
    name.starts_with("libtracer.so") || [BUILT_NAME, INSTALLED_NAME].contains(&name)
}

/// Returns the file name in the path of a library.
#[must_use]
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Returns the program that runs a script; `None` if the file is not a script.
fn interpreter(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    open_regular(path).ok()?.0.take(FIRST_LINE_BYTES).read_to_end(&mut bytes).ok()?;
    let line = bytes.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    Some(shown(Path::new(String::from_utf8_lossy(line).trim())).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dynamic() -> Executable {
        Executable { linker: Some("/lib64/ld-linux-x86-64.so.2".into()), ..Executable::default() }
    }

    #[test]
    fn a_program_for_another_c_library_is_not_preloaded() {
        assert_eq!(obstacle(&dynamic()), None);
        for linker in ["/lib/ld-musl-x86_64.so.1", "/system/bin/linker64"] {
            let why = obstacle(&Executable { linker: Some(linker.into()), ..dynamic() }).unwrap();
            assert!(why.contains("needs glibc") && why.contains(linker), "{why}");
        }
    }

    #[test]
    fn a_program_with_memory_sanitizer_is_not_preloaded() {
        let program = Executable { has_memory_sanitizer: true, ..dynamic() };
        assert!(obstacle(&program).unwrap().contains("Compile the program without -fsanitize=memory"));
        assert!(conflict(&program).is_some());
    }

    #[test]
    fn functions_of_the_static_library_disturb_only_a_runtime_in_another_file() {
        let program = |runtime: &str| Executable {
            needed: vec![runtime.into()],
            has_own_thread_hooks: true,
            ..dynamic()
        };
        assert!(conflict(&program("libtsan.so.2")).unwrap().contains("Link libtracer.so in its place"));
        assert_eq!(conflict(&program("libubsan.so.1")), None);
    }
}
