//! Reverts the variables by which `tracemerge run` has loaded this library: the program's children are started
//! without it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use tracer::__foreign::PRELOADED;

/// The variable of the dynamic linker.
const PRELOAD: &str = "LD_PRELOAD";

/// The function that the dynamic linker calls when it has loaded this library, before the program's own constructors.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = remove_preload;

extern "C" fn remove_preload() {
    let Some(library) = env::var_os(PRELOADED) else { return };
    let others = env::var_os(PRELOAD).and_then(|libraries| without(&libraries, &library));
    // SAFETY: preloaded libraries are initialized before any code of the program runs, so there is no other thread.
    unsafe {
        env::remove_var(PRELOADED);
        match others {
            Some(others) if others.is_empty() => env::remove_var(PRELOAD),
            Some(others) => env::set_var(PRELOAD, others),
            None => {}
        }
    }
}

/// Returns the list of libraries after `library`, which it must begin with; `None` if it begins with another one.
fn without(libraries: &OsStr, library: &OsStr) -> Option<OsString> {
    let rest = libraries.as_bytes().strip_prefix(library.as_bytes())?;
    match rest {
        [] => Some(OsString::new()),
        [b':' | b' ', rest @ ..] => Some(OsString::from_vec(rest.to_vec())),
        _ => None,
    }
}
