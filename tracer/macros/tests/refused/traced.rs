//! `#[traced]` on items that cannot have it, and with unknown options.

use tracer::traced;

#[traced]
const fn constant() {}

#[traced]
extern "C" fn foreign() {}

#[traced]
#[unsafe(naked)]
extern "C" fn naked() {
    std::arch::naked_asm!("ret")
}

#[traced]
struct Fields;

#[traced]
mod elsewhere;

trait Names {
    #[traced]
    fn without_a_body(&self);
}

#[traced(arguments)]
fn unknown() {}

#[traced(skip(y))]
fn skips(x: u32) -> u32 {
    x
}

struct Methods;

#[traced]
impl Methods {
    #[traced]
    const fn constant() {}

    #[traced(skip(y))]
    fn skips(&self) {}

    #[traced(skip = "x")]
    fn unknown() {}
}

fn main() {
    let _scope = tracer::scope!("{}");
}
