//! Links the program `libtracer` as a shared library. Cargo installs only programs, so this makes `cargo install` put
//! the library for unmodified programs beside the command.

use std::{env, fs, io};

/// The symbols that the library exports, the same as those of `libtracer.so` of the package `tracer-capi`.
const EXPORTS: &str = "{
    global: tracer_*; __cyg_profile_func_*; __tsan_*; mcount; __fentry__; __monstartup; _mcleanup;
        dlopen; dlmopen; dlclose;
    local: *;
};
";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(carries_library)");
    if !carries_library() {
        return Ok(());
    }
    println!("cargo::rustc-cfg=carries_library");
    let exports = format!("{}/exports.map", env::var("OUT_DIR").unwrap_or_default());
    fs::write(&exports, EXPORTS)?;
    // The entry point, if the library is started as a program: it prints a description of itself.
    let arguments = [
        "-shared",
        "-Wl,-soname,libtracer",
        "-Wl,-e,tracer_started_as_program",
        "-Xlinker",
        "--version-script",
    ];
    for argument in arguments.into_iter().chain(["-Xlinker", &exports]) {
        println!("cargo::rustc-link-arg-bin=libtracer={argument}");
    }
    Ok(())
}

/// Returns whether to build the library: the feature is on and the target supports it. A statically linked library
/// cannot load other libraries, and the code that sanitizers add is for programs.
fn carries_library() -> bool {
    let is = |variable: &str, value: &str| env::var(variable).is_ok_and(|is| is == value);
    let is_static = env::var("CARGO_CFG_TARGET_FEATURE")
        .is_ok_and(|features| features.split(',').any(|feature| feature == "crt-static"));
    env::var_os("CARGO_FEATURE_LIBRARY").is_some()
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && !is_static
        && env::var_os("CARGO_CFG_SANITIZE").is_none()
}
