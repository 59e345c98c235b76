//! The bytes by which the library makes a stripped program larger, and those of each call.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler for which the limits hold; the code of another one may be larger by [`SLACK`].
const COMPILER: &str = "rustc 1.95.";
/// The maximum number of bytes that the first call adds, and that each further call with three arguments adds.
const FIRST_CALL: u64 = 811_600;
const FURTHER_CALL: u64 = 480;
/// The share, in percent, by which the code of other compilers may be larger.
const SLACK: u64 = 10;
/// The number of further calls.
const CALLS: u64 = 200;

/// Returns the size of a program with this body of its main function, built as users build it, and stripped.
fn size_of(name: &str, body: &str) -> u64 {
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("weighed").join(name);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = format!(
        "[package]\nname = \"{name}\"\nedition = \"2021\"\n[dependencies]\ntracer = {{ package = \"tracer-lib\", \
         path = {:?} }}\n[profile.release]\nstrip = true\n[workspace]\n",
        root.join("tracer")
    );
    fs::create_dir_all(place.join("src")).expect("a directory");
    fs::write(place.join("Cargo.toml"), manifest).expect("a manifest");
    fs::write(place.join("src/main.rs"), format!("fn main() {{\n{body}}}\n")).expect("a program");
    fs::copy(root.join("Cargo.lock"), place.join("Cargo.lock")).expect("the versions of dependencies");
    let target = place.with_file_name("target");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["build", "--quiet", "--release", "--offline", "--target-dir"]).arg(&target);
    let output = cargo.current_dir(&place).env_remove("RUSTFLAGS").output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::metadata(target.join("release").join(name)).expect("a program").len()
}

#[test]
fn the_library_and_its_calls_add_no_more_bytes_than_they_may() {
    let version = Command::new("rustc").arg("--version").output().expect("the compiler");
    let is_known = String::from_utf8_lossy(&version.stdout).starts_with(COMPILER);
    let allowed = |bytes: u64| if is_known { bytes } else { bytes * (100 + SLACK) / 100 };

    let first = "    let a = std::env::args().count();\n    tracer::trace!(\"hello {} {}\", a, \"x\");\n";
    let mut further = format!("{first}    let (b, c) = (a as u32, a as f64);\n");
    for call in 0..CALLS {
        let _ = writeln!(further, "    tracer::trace!(\"message {call} {{}} {{}} {{}}\", a, b, c);");
        further += "    std::hint::black_box(a);\n";
    }
    let without = size_of("without", "    std::hint::black_box(std::env::args().count());\n");
    let with = size_of("with", first);
    let with_many = size_of("with_many", &further);
    let (library, call) = (with - without, (with_many - with) / CALLS);
    assert!(library <= allowed(FIRST_CALL), "the library adds {library} bytes");
    assert!(call <= allowed(FURTHER_CALL), "a call adds {call} bytes");
}
