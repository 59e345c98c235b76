//! A test.
#[test]
fn doubles() {
    assert_eq!(helper::doubled(3), 6);
}
