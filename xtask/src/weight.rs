//! The number of bytes by which the library makes a stripped program larger, and by which each further call does, built
//! as users build it: with default features, in release builds with the default profile and with link-time
//! optimization.

use std::fmt::Write;

use crate::failure::{Named, Result, check};
use crate::shell::Shell;

/// The compiler for which the bounds hold. Other compilers make other code, so with them the sizes are shown and not
/// compared.
const COMPILER: [&str; 2] = ["release: 1.95.", "host: x86_64-unknown-linux-gnu"];
// Each bound is the size that was reached and a little more. Lower it if a change makes the library smaller.
const RELEASE_BYTES_AT_MOST: u64 = 808_000;
const LTO_BYTES_AT_MOST: u64 = 729_500;
const CALL_BYTES_AT_MOST: u64 = 480;

/// The number of further calls in the program with many calls.
const CALLS: u64 = 200;
const FIRST_CALL: &str = r#"let a = std::env::args().count(); tracer::trace!("hello {} {}", a, "x");"#;

/// A measured size, and its bound.
struct Size {
    what: &'static str,
    bytes: u64,
    at_most: u64,
}

/// Builds the programs, and fails if a size is above its bound.
pub fn run() -> Result<()> {
    let mut shell = Shell::new()?.at("target/weight");
    // The flags and the place are part of the sizes.
    shell.unset("RUSTFLAGS");
    shell.unset("CARGO_TARGET_DIR");
    let manifest =
        "[package]\nname = \"weight\"\nedition = \"2021\"\n[profile.release]\nstrip = true\n[workspace]\n";
    let library = shell.root.join("tracer");
    let dependency = format!("[dependencies]\ntracer = {{ package = \"tracer-lib\", path = {library:?} }}\n");
    shell.write("Cargo.toml", [manifest, &dependency].concat())?;
    shell.copy(shell.root.join("Cargo.lock"), "Cargo.lock")?;
    shell.write("src/bin/without.rs", "fn main() { std::hint::black_box(std::env::args().count()); }\n")?;
    shell.write("src/bin/one.rs", format!("fn main() {{ {FIRST_CALL} }}\n"))?;
    shell.write("src/bin/many.rs", many_calls())?;
    let size = |program: &str| {
        let path = shell.path("release").join(program);
        Ok(std::fs::metadata(&path).named(format_args!("cannot read {}", path.display()))?.len())
    };
    // Both profiles have the same directory, so that cargo compiles the crates of the macros once.
    let build =
        |options: &[&str]| shell.command("cargo build -q --release --target-dir .").args(options).done();
    build(&[])?;
    let (one, many) = (size("one")?, size("many")?);
    let library =
        Size { what: "the library, release", bytes: one - size("without")?, at_most: RELEASE_BYTES_AT_MOST };
    let what = "a further trace! of three arguments, release";
    let call = Size { what, bytes: (many - one) / CALLS, at_most: CALL_BYTES_AT_MOST };
    let lto = ["--config", "profile.release.lto=\"fat\"", "--config", "profile.release.codegen-units=1"];
    build(&[&lto[..], &["--bin", "one", "--bin", "without"]].concat())?;
    let what = "the library, with link-time optimization";
    let lto = Size { what, bytes: size("one")? - size("without")?, at_most: LTO_BYTES_AT_MOST };
    let sizes = [library, call, lto];
    for Size { what, bytes, at_most } in &sizes {
        println!("{what}: {bytes} bytes (at most {at_most})");
    }
    let compiler = shell.command("rustc -vV").done()?;
    if COMPILER.iter().all(|wanted| compiler.text().lines().any(|line| line.starts_with(wanted))) {
        return within_bounds(&sizes);
    }
    println!("LEFT OUT: the comparison, whose bounds are those of another compiler: {COMPILER:?}");
    Ok(())
}

/// Returns the source of a program with a first call and further calls, each of another site.
fn many_calls() -> String {
    let mut program = format!("fn main() {{ {FIRST_CALL} let (b, c) = (a as u32, a as f64);\n");
    for call in 0..CALLS {
        let _ = writeln!(
            program,
            "tracer::trace!(\"message {call} {{}} {{}} {{}}\", a, b, c); std::hint::black_box(a);"
        );
    }
    program + "}\n"
}

/// Fails if one of the sizes is above its bound.
fn within_bounds(sizes: &[Size]) -> Result<()> {
    let above = sizes.iter().find(|size| size.bytes > size.at_most);
    check(above.is_none(), || {
        let what = above.map_or("", |size| size.what);
        format!("{what} has become larger than its bound in {}", file!())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_above_its_bound_fails() {
        let size = |bytes| Size { what: "a call", bytes, at_most: 480 };
        assert!(within_bounds(&[size(480), size(1)]).is_ok());
        assert!(within_bounds(&[size(1), size(481)]).is_err());
    }
}
