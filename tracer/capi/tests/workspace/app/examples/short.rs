//! An example.
fn main() {
    println!("{}", helper::doubled(1));
}
