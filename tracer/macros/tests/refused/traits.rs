//! Types that do not have the trait.

use tracer::trace;

struct Plain;

#[derive(Debug)]
struct Shown;

fn generic<T>(value: T) {
    trace!("{value}");
}

fn main() {
    let (plain, shown) = (Plain, Shown);
    trace!("{}", plain);
    trace!("{plain:?}");
    trace!("{} {:?} {}", 1, shown, shown);
    trace!("{name}", name = Some(1));
    trace!("{:x}", 1.5);
    trace!("{:p}", 5);
    trace!("{}", vec![
        1,
        2,
    ]);
    generic(1);
}
