//! The compiler's messages about wrong calls point at the user's own text: `refused/*.rs`, with the messages
//! about each.
//!
//! After a change: `TRYBUILD=overwrite cargo test -p tracer-macros`, then read the differences.

use std::process::Command;

/// The compiler whose messages were written down. Others have other messages, and are not tested.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn wrong_calls_are_explained_at_their_places() {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("--version").output().expect("a compiler is there").stdout;
    let version = String::from_utf8_lossy(&version);
    if version.starts_with(COMPILER) && !version.contains("nightly") {
        trybuild::TestCases::new().compile_fail("tests/refused/*.rs");
    } else {
        println!("not tested: this is {version}, the messages are those of {COMPILER}");
    }
}
