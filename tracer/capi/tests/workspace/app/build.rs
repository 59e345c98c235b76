//! A build script, which uses a crate of the workspace and is not traced.
fn main() {
    println!("cargo:rustc-env=BUILT_WITH={}", helper::doubled(21));
}
