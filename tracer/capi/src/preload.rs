//! Restores the environment variables by which `tracemerge run` has loaded this library, so that the program's children
//! are started without the library.

use std::env;

use tracer::__foreign::PRELOADED;

/// The variable in which the dynamic linker finds the libraries to load first.
const PRELOAD: &str = "LD_PRELOAD";

/// The function that the dynamic linker calls when it has loaded this library, before the program's own constructors.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = remove_preload;

extern "C" fn remove_preload() {
    let Some(others) = env::var_os(PRELOADED) else { return };
    // SAFETY: preloaded libraries are initialized before any code of the program runs, so there is no other thread.
    unsafe {
        env::remove_var(PRELOADED);
        if others.is_empty() {
            env::remove_var(PRELOAD);
        } else {
            env::set_var(PRELOAD, others);
        }
    }
}
