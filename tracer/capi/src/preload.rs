//! Takes back what `tracemerge run` has set so that this library was loaded: the program's children are started without it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use tracer::__foreign::PRELOADED;

/// The variable of the dynamic linker.
const PRELOAD: &str = "LD_PRELOAD";

/// The function that the dynamic linker calls when it has loaded this library, before the program's own constructors.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = take_back;

extern "C" fn take_back() {
    let Some(library) = env::var_os(PRELOADED) else { return };
    let others = env::var_os(PRELOAD).and_then(|libraries| without(&libraries, &library));
    // SAFETY: libraries that are preloaded are initialized before anything of the program runs, so there is no other thread.
    unsafe {
        env::remove_var(PRELOADED);
        match others {
            Some(others) if others.is_empty() => env::remove_var(PRELOAD),
            Some(others) => env::set_var(PRELOAD, others),
            None => {}
        }
    }
}

/// Returns what follows `library` in a list of libraries that begins with it; `None` where the list begins otherwise.
fn without(libraries: &OsStr, library: &OsStr) -> Option<OsString> {
    let rest = libraries.as_bytes().strip_prefix(library.as_bytes())?;
    match rest {
        [] => Some(OsString::new()),
        [b':' | b' ', rest @ ..] => Some(OsString::from_vec(rest.to_vec())),
        _ => None,
    }
}
