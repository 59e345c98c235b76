//! The search for `libtracer.so`, the library with the hooks that compilers call.

use std::path::{Path, PathBuf};

use object::Object;

use crate::file::map::Map;
use crate::os::environment::own_directory;

/// The soname of the library: the name by which programs ask for it if they are linked with it. It includes the major
/// version.
pub(crate) const LIBRARY: &str = concat!("libtracer.so.", env!("CARGO_PKG_VERSION_MAJOR"));
/// The name of the library in the directory in which it was built.
pub(crate) const BUILT_NAME: &str = "libtracer_capi.so";
/// The name of the library that is installed together with this program.
pub(crate) const INSTALLED_NAME: &str = "libtracer";
/// The system's library directories, which are searched if the library is not beside this program.
const PLACES: [&str; 4] = ["/usr/local/lib", "/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu"];

/// The text for users that says where the library is searched for, and how to install it.
pub(crate) const SEARCHED_PLACES: &str = "beside tracemerge, in ../lib beside that, and in /usr/local/lib and /usr/lib. In a checkout, cargo install --path tracemerge installs it, on Linux on x86-64 with glibc";

/// The hook that a function calls if gcc or clang has compiled it.
pub(crate) const HOOK_OF_C: &[u8] = b"__cyg_profile_func_enter";
/// The hook that a function calls if `cargo tracer` has compiled it.
pub(crate) const HOOK_OF_RUST: &[u8] = b"__tsan_func_entry";

/// Finds the library: beside this program, in `lib` beside the program's directory, or in the system's library
/// directories. A separately installed library comes first, then the library that was installed together with this
/// program, then a library in the system's directories.
#[must_use]
pub(crate) fn find_library() -> Option<PathBuf> {
    let own = own_directory();
    let beside = own.as_deref().and_then(Path::parent).map(|parent| parent.join("lib"));
    // If this program was built for another system, the file of the name `INSTALLED_NAME` is a program.
    own.as_deref()
        .and_then(installed_in)
        .or_else(|| installed_in(beside.as_deref()?))
        .or_else(|| Some(own.as_deref()?.join(INSTALLED_NAME)).filter(|file| exports(file, HOOK_OF_C)))
        .or_else(|| PLACES.iter().find_map(|place| installed_in(Path::new(place))))
}

/// Returns the path of the library in the directory `place`, if it was installed there separately or built there.
fn installed_in(place: &Path) -> Option<PathBuf> {
    [LIBRARY, BUILT_NAME].map(|name| place.join(name)).into_iter().find(|file| file.is_file())
}

/// Returns whether a file is a library that exports a function of this name; false if the file cannot be read.
#[must_use]
pub(crate) fn exports(file: &Path, function: &[u8]) -> bool {
    let Ok(file) = Map::open(file) else { return false };
    let Ok(object) = object::File::parse(&*file) else { return false };
    object.exports().is_ok_and(|exports| exports.iter().any(|export| export.name() == function))
}
