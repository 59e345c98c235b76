//! Where the library is that has the hooks of compilers, `libtracer.so`.

use std::path::{Path, PathBuf};

use crate::os::environment::own_directory;

/// The name of the library, by which programs look for it, too: the first part of its version is in it.
pub const LIBRARY: &str = concat!("libtracer.so.", env!("CARGO_PKG_VERSION_MAJOR"));
/// The name of the library where it was built, and not installed.
const BUILT: &str = "libtracer_capi.so";
/// Where libraries are installed, if not beside this program.
const PLACES: [&str; 4] = ["/usr/local/lib", "/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu"];

/// Where the library is looked for, as users are told.
pub const LOOKED_FOR: &str = "beside tracemerge, in ../lib beside that, and in /usr/local/lib and /usr/lib";

/// Finds the library: beside this program, in `lib` beside the program's directory, or where the system has its libraries.
#[must_use]
pub fn find_library() -> Option<PathBuf> {
    let own = own_directory();
    let beside = own.as_deref().and_then(Path::parent).map(|parent| parent.join("lib"));
    let mut places = own.iter().chain(&beside).cloned().chain(PLACES.map(PathBuf::from));
    places.find_map(|place| {
        [LIBRARY, BUILT].map(|name| place.join(name)).into_iter().find(|file| file.is_file())
    })
}
