//! Widths and precisions of other types than `usize`.

use tracer::trace;

fn main() {
    let width = 5u8;
    trace!("{:1$}", 1, width);
    trace!("{:width$}", 1);
    trace!("{:w$.p$}", 1.5, w = 5, p = "1");
    trace!("{:.*}", -1, 1.5);
}
