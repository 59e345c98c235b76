//! A plugin, which a program loads while it runs.
use std::hint::black_box;

/// Calls another function of the plugin.
#[no_mangle]
pub extern "C" fn of_plugin(x: i32) -> i32 {
    black_box(inside_plugin(x)) + 1
}

#[inline(never)]
fn inside_plugin(x: i32) -> i32 {
    black_box(i32::wrapping_abs)(x)
}
