//! A test of the package, which calls a function of the library `helper`.
#[test]
fn doubles() {
    assert_eq!(helper::doubled(3), 6);
}
