//! Gives the shared library the name under which programs look for it: that of its interface's version. And tells the tests
//! for which system they are compiled.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=HOST_OF_TEST={}", env::var("TARGET").unwrap_or_default());
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        let version = env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtracer.so.{version}");
    }
}
