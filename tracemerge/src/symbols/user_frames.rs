//! The part of a call stack that a user wants to see: from the user's innermost function to `main`, or to the function
//! of the thread. The other frames belong to the machinery of panics and exceptions, to the tracer, and to the code
//! that starts processes and threads.
//!
//! A function is recognized by the beginning of its path, or by its whole name if it has no path: a user's module may
//! be called `panicking`. A name without a path, as line tables have it, is completed by the path of its source file.

use std::ops::Range;

use crate::symbols::answer::{is_file_of_tracer, is_path_of_tracer};
use crate::symbols::demangle::{flat, is_last_part, last_part};

/// A function of a call stack.
#[derive(Clone, Copy, Debug)]
pub struct StackFunction<'a> {
    /// The function's name, or several names with ` = ` between them; empty if no name is known.
    pub name: &'a str,
    /// The source file with its directories, and the line; empty if they are not known.
    pub place: &'a str,
}

/// The owner of a function: the code to which it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The user, or a library of which nothing else is known.
    User,
    /// Nobody knows the owner, because the function has no name.
    Unknown,
    /// The standard library, or an executor of tasks.
    Library,
    /// The code that runs for a panic, an exception or a signal, and the tracer.
    Machinery,
    /// The code that calls `main` or the function of a thread.
    Start,
}

/// Returns which functions of a call stack are shown; the innermost function is the first. `is_whole` states whether
/// the stack goes up to the beginning of its thread. All functions between the user's innermost and outermost function
/// are shown; if no function is the user's, all functions are shown.
#[must_use]
pub fn shown_functions(functions: &[StackFunction<'_>], is_whole: bool) -> Range<usize> {
    let mut owners: Vec<Owner> = functions.iter().map(owner).collect();
    // Only the start of the process calls the `main` of C, which in a program in Rust calls the runtime.
    if let Some(main) = functions.iter().rposition(|function| plain(function.name) == "main") {
        owners.truncate(main + 1);
        if main > 0 && last_part(functions[main - 1].name).starts_with("lang_start") {
            owners[main] = Owner::Start;
        }
    }
    let is_user = |owner: &Owner| *owner == Owner::User;
    let (Some(innermost), Some(outermost)) =
        (owners.iter().position(is_user), owners.iter().rposition(is_user))
    else {
        return 0..functions.len();
    };
    let is_end_known = is_whole || owners[outermost..].contains(&Owner::Start);
    let end = if is_end_known { end_of_users(&owners, outermost + 1) } else { owners.len() };
    // A hook for panics of the user's may have called the tracer's.
    let caller = innermost + owners[innermost..].iter().take_while(|owner| is_user(owner)).count();
    let panic =
        panic_around_hook(&functions[caller..]).map(|panic| behind_machinery(&owners, caller + panic));
    let start = panic.filter(|start| *start <= outermost).unwrap_or_else(|| behind_machinery(&owners, 0));
    start..end
}

/// Returns the index after the last function that may be the user's, if no function from the index `from` on is known
/// to be the user's. Functions without names may be the user's, except for a single one right before the code that
/// starts threads: it is the C library's function that calls the thread's function.
fn end_of_users(owners: &[Owner], from: usize) -> usize {
    let unknown = owners[from..].iter().take_while(|owner| **owner == Owner::Unknown).count();
    let calls_thread = unknown == 1 && owners.get(from + 1) == Some(&Owner::Start);
    if calls_thread { from } else { from + unknown }
}

/// Skips, from the index `from` on, the functions that run for panics, aborts and signals, and the library functions
/// around them. Returns the index after the skipped functions, or `from` if no such function comes before the user's
/// first one.
fn behind_machinery(owners: &[Owner], from: usize) -> usize {
    let is_user = |owner: &Owner| *owner == Owner::User;
    let inner = owners[from..].iter().take_while(|owner| !is_user(owner)).count();
    let machinery = owners[from..from + inner].iter().rposition(|owner| *owner == Owner::Machinery);
    machinery.map_or(from, |last| {
        let behind = &owners[from + last + 1..];
        let is_library = |owner: &&Owner| matches!(owner, Owner::Library | Owner::Start);
        from + last + 1 + behind.iter().take_while(is_library).count()
    })
}

/// Returns the index in `callers` of the standard library's function that runs panic hooks; `None` if that function has
/// not called this hook. `callers` are the callers of the hook, the innermost first.
fn panic_around_hook(callers: &[StackFunction<'_>]) -> Option<usize> {
    let is_call = |function: &&StackFunction<'_>| ["call", "call_once"].contains(&&*last_part(function.name));
    let calls = callers.iter().take_while(is_call).count();
    let runs_hook = callers.get(calls)?.name.starts_with("std::panicking::")
        && callers[calls].name.contains("panic_with_hook");
    runs_hook.then_some(calls)
}

/// Returns a name without the note ` (symbol)`, which says that the name comes from a symbol table.
fn plain(name: &str) -> &str {
    name.strip_suffix(" (symbol)").unwrap_or(name)
}

/// Splits `a = b = c`, the names of functions that the linker has merged into one, into the single names.
fn aliases(names: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(names);
    std::iter::from_fn(move || {
        let names = rest.take()?;
        let Ok(at) = find_outside_brackets(names, ALIAS) else { return Some(names) };
        rest = Some(&names[at + ALIAS.len()..]);
        Some(&names[..at])
    })
}

/// The text between the names of functions that the linker has merged into one.
const ALIAS: &str = " = ";

/// Returns the offset of the first occurrence of `wanted` in `text` that is outside of all brackets.
///
/// # Errors
/// There is no such text: the error is the offset of the end of `text`, or of a bracket that closes one opened before
/// `text`.
fn find_outside_brackets(text: &str, wanted: &str) -> Result<usize, usize> {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            // The arrow of a function's type; Rust's older scheme writes it with a dot.
            '>' if text[..at].ends_with(['-', '.']) => {}
            '>' | ')' | ']' => depth = depth.checked_sub(1).ok_or(at)?,
            _ if depth == 0 && text[at..].starts_with(wanted) => return Ok(at),
            _ => {}
        }
    }
    Err(text.len())
}

/// Returns the owner of a function. If several functions with the same code share its address, and any of them may be
/// the user's, the user is the owner.
fn owner(function: &StackFunction<'_>) -> Owner {
    if function.name.is_empty() {
        return Owner::Unknown;
    }
    let mut found = Owner::User;
    for name in aliases(plain(function.name)) {
        match owner_of_name(name, function.place) {
            Owner::User if name.contains("::") => return Owner::User,
            // One of the aliases of a function in C.
            Owner::User => {}
            owner if found == Owner::User => found = owner,
            _ => {}
        }
    }
    found
}

fn owner_of_name(name: &str, place: &str) -> Owner {
    if is_path_of_tracer(name) {
        return Owner::Machinery;
    }
    if let Some(implemented) = name.strip_prefix('<') {
        return owner_of_implementation(implemented);
    }
    if is_last_part(name) {
        let file = place.replace('\\', "/");
        if is_file_of_tracer(&file) {
            return Owner::Machinery;
        }
        if let Some(module) = module_of_rust(&file) {
            return owner_of_rust(&format!("{module}::{}", last_part(name)));
        }
        return if file.contains("/include/c++/") { Owner::Library } else { owner_in_c(name) };
    }
    let flat = flat(name);
    // A template's name begins with the type that it returns, and that of a method may end with a qualifier.
    let path = flat.split(' ').rfind(|word| word.contains("::")).unwrap_or(&flat);
    let parts = [name.split('<').next(), name.rsplit('>').next()];
    if parts.iter().flatten().any(|part| part.contains('(')) {
        owner_in_cpp(path)
    } else {
        owner_of_rust(path)
    }
}

/// Returns the owner of a method, given its name without the `<` at the beginning: `A as B>::f` is a method of the
/// trait B for the type A, and `A>::f` one of the type A itself.
fn owner_of_implementation(implemented: &str) -> Owner {
    let (end, of_trait) = match find_outside_brackets(implemented, " as ") {
        Ok(at) => (at, Some(&implemented[at + " as ".len()..])),
        Err(end) => (end, None),
    };
    let is_library = |path: &str| !path.contains("::") || owner_of_rust(path) != Owner::User;
    let of_type = implemented[..end].trim_start_matches(['&', '<', '[', '(', '*']);
    let of_type = ["mut ", "const ", "dyn "].iter().fold(of_type, |path, word| path.trim_start_matches(word));
    match of_trait {
        // The shim that calls a closure.
        Some(by) if by.starts_with("core::ops::function::Fn") => Owner::Library,
        Some(by) if !is_library(by) => Owner::User,
        _ if is_library(of_type) => Owner::Library,
        _ => Owner::User,
    }
}

/// Returns the path of the module that belongs to the source file `file` of Rust's standard library, such as
/// `std::panicking`; `None` if `file` is not a source file of that library.
fn module_of_rust(file: &str) -> Option<String> {
    let (before, path) = file.split_once("/library/")?;
    let is_of_rust = before.split('/').any(|folder| folder == "rustc" || folder.starts_with("rustc-"))
        || before.ends_with("/rustlib/src/rust");
    let (path, _) = path.split_once(".rs").filter(|_| is_of_rust)?;
    let (library, module) = path.split_once("/src/")?;
    let is_library = ["std", "core", "alloc", "panic_unwind", "panic_abort", "test"].contains(&library);
    is_library.then(|| format!("{library}::{}", module.replace('/', "::")))
}

fn owner_of_rust(path: &str) -> Owner {
    let mut segments = path.split("::");
    let (first, second, third) = (segments.next(), segments.next(), segments.next());
    let has = |segment: &str| path.split("::").any(|of| of == segment);
    match (first.unwrap_or_default(), second.unwrap_or_default()) {
        // Catching a panic is no part of a panic.
        ("std" | "core", "panicking")
            if !third.is_some_and(|third| {
                ["try", "r#try"].contains(&third) || third.starts_with("catch_unwind")
            }) =>
        {
            Owner::Machinery
        }
        ("panic_unwind" | "panic_abort" | "__rustc", _) => Owner::Machinery,
        ("std", _) if has("__rust_end_short_backtrace") => Owner::Machinery,
        ("std" | "test", _) if has("__rust_begin_short_backtrace") => Owner::Start,
        ("std", "rt" | "thread") => Owner::Start,
        ("std", "sys") if has("thread_start") => Owner::Start,
        ("std" | "core" | "alloc", _) => Owner::Library,
        // The harness of tests.
        ("test", module) if module.starts_with("run_test") || ["types", "lib"].contains(&module) => {
            Owner::Start
        }
        ("tokio", "runtime" | "task") | ("rayon_core", _) => Owner::Library,
        _ => Owner::User,
    }
}

fn owner_in_cpp(path: &str) -> Owner {
    let mut segments = path.split("::");
    match (segments.next().unwrap_or_default(), segments.next().unwrap_or_default()) {
        ("__cxxabiv1", _) | ("__gnu_cxx", "__verbose_terminate_handler") => Owner::Machinery,
        ("std", "terminate" | "unexpected" | "rethrow_exception" | "__terminate") => Owner::Machinery,
        ("std", "thread" | "jthread" | "__thread_proxy") => Owner::Start,
        ("std" | "__gnu_cxx", _) => Owner::Library,
        _ => Owner::User,
    }
}

/// The names of functions without a path that run for a panic, an exception or a signal.
const MACHINERY: &str = "\
    abort raise gsignal tgkill pthread_kill __pthread_kill __pthread_kill_implementation \
    __pthread_kill_internal __restore_rt __kernel_rt_sigreturn _sigtramp __assert_fail __assert_fail_base \
    __assert_rtn __fortify_fail __chk_fail __stack_chk_fail __libc_message __cxa_throw __cxa_rethrow \
    __cxa_bad_cast __cxa_pure_virtual __gxx_personality_v0 rust_begin_unwind rust_panic rust_eh_personality \
    __rust_start_panic RaiseException RtlRaiseException RtlDispatchException KiUserExceptionDispatch \
    KiUserExceptionDispatcher _CxxThrowException _assert _wassert tracer_stack";

/// The names of functions without a path that call `main` or the function of a thread.
const START: &str = "\
    _start __libc_start_main __libc_start_main_impl __libc_start_call_main libc_start_main_stage2 \
    __libc_start1 start_thread clone __clone clone3 __clone3 _pthread_start __nptl_deallocate_tsd \
    __call_tls_dtors __run_exit_handlers execute_native_thread_routine BaseThreadInitThunk \
    RtlUserThreadStart _threadstartex _callthreadstartex mainCRTStartup WinMainCRTStartup __tmainCRTStartup \
    __scrt_common_main_seh invoke_main";

fn owner_in_c(name: &str) -> Owner {
    let name = name.split(['(', '<', '@']).next().unwrap_or_default();
    let name = name.strip_prefix("__GI_").unwrap_or(name);
    let is_in = |list: &str| list.split_whitespace().any(|listed| listed == name);
    match name {
        _ if is_in(MACHINERY) || name.starts_with("_Unwind_") => Owner::Machinery,
        _ if is_in(START) => Owner::Start,
        _ => Owner::User,
    }
}

#[cfg(test)]
mod tests;
