//! Gives the shared library its soname, `libtracer.so.` and the major version, by which programs look for it. Also
//! passes the target to the tests, and passes to the code whether the compiler has naked functions.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=HOST_OF_TEST={}", env::var("TARGET").unwrap_or_default());
    println!("cargo:rustc-check-cfg=cfg(naked_functions)");
    if minor_version().is_none_or(|minor| minor >= 88) {
        println!("cargo:rustc-cfg=naked_functions");
    }
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        let version = env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtracer.so.{version}");
    }
}

/// Returns the second number of the compiler's version: 88 of `rustc 1.88.0 (...)`.
fn minor_version() -> Option<u32> {
    let output = Command::new(env::var_os("RUSTC")?).arg("--version").output().ok()?;
    String::from_utf8(output.stdout).ok()?.split('.').nth(1)?.parse().ok()
}
