//! An example program of the package, which calls a function of the library `helper`.
fn main() {
    println!("{}", helper::doubled(1));
}
