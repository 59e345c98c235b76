//! Values of calls that cannot be recorded, because they have no `Debug`.

use tracer::traced;

struct Opaque;

#[traced(args)]
fn takes(opaque: Opaque, number: u32) {}

#[traced(args)]
fn returns(number: u32) -> Opaque {
    Opaque
}

#[traced(args)]
async fn returns_later<T>(value: T) -> T {
    value
}

#[traced(skip(opaque, ret))]
fn leaves_out(opaque: Opaque) -> Opaque {
    opaque
}

fn moves_threads(scope: tracer::Scope) {
    std::thread::spawn(move || drop(scope));
}

fn main() {}
