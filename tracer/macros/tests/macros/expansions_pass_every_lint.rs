//! A program may forbid any lint: the code that the macros make has no warnings. Compiling this file shows that, and
//! so does clippy.

#![forbid(unsafe_code, unused, nonstandard_style, let_underscore_drop)]
#![forbid(rust_2018_idioms, missing_debug_implementations, single_use_lifetimes, trivial_casts)]
#![forbid(trivial_numeric_casts, unused_import_braces, unused_lifetimes, unused_qualifications)]
#![forbid(unused_results, variant_size_differences, explicit_outlives_requirements, unreachable_pub)]
#![forbid(clippy::all, clippy::pedantic, clippy::nursery)]
#![forbid(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]
#![forbid(clippy::as_conversions, clippy::absolute_paths, clippy::allow_attributes, clippy::ref_patterns)]
#![forbid(clippy::shadow_unrelated, clippy::shadow_reuse, clippy::shadow_same, clippy::pattern_type_mismatch)]

use std::cmp::max;
use std::fmt;
use std::future::ready;
use tracer::{Capture, scope, trace, traced};

#[derive(Debug, Capture)]
struct Point<'a, T> {
    name: &'a str,
    place: [T; 2],
}

#[derive(Debug, Capture)]
enum Shape {
    Circle(u8),
    Square { side: u16 },
    Nothing,
}

#[derive(Clone, Copy, Debug, Capture)]
#[repr(C, packed)]
struct Packed {
    byte: u8,
    number: u64,
}

struct Foreign;

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        trace!("{}", f.alternate());
        f.write_str("foreign")
    }
}

fn traces(x: u32, text: &str, items: &[Option<u8>]) {
    trace!("nothing");
    trace!("{x} {} {text:?} {:>width$} {items:?}", x, text.len(), width = 7);
    trace!("{} {}", Foreign, x);
    trace!(concat!("{", "}"), x);
    let point = Point { name: "origin", place: [0, 0] };
    for shape in [Shape::Circle(1), Shape::Square { side: 1 }, Shape::Nothing] {
        trace!("{point:?} {shape:?} {:?}", Packed { byte: 1, number: 2 });
    }
}

async fn waits(x: u32) -> u32 {
    trace!("{}", ready(x).await);
    x
}

fn enters(x: u32) -> u32 {
    let _entered = scope();
    let _with_name = scope!();
    let _with_values = scope!("{x} {}", Foreign);
    x
}

#[traced]
fn entered(x: u32) -> u32 {
    use std::cmp::max as greater;
    greater(x, 1)
}

#[traced(args)]
fn returned(x: u32, mut text: String) -> Option<u32> {
    text.push('a');
    let length = u32::try_from(text.len()).ok()?;
    x.checked_add(length)
}

struct Holder<'a>(Point<'a, u8>);

#[traced(args, skip(self))]
impl<'a> Holder<'a> {
    fn name(&self) -> &'a str {
        max(self.0.name, "")
    }

    fn place(&mut self) -> &mut [u8; 2] {
        self.0.place.sort_unstable();
        &mut self.0.place
    }

    async fn later(&self, x: u32) -> Result<u32, fmt::Error> {
        let now = ready(x).await;
        let checked = now.checked_add(1).ok_or(fmt::Error)?;
        Ok(checked)
    }

    async fn nothing(&self) {
        ready(()).await;
    }
}

#[traced]
async fn polled(x: u32) -> u32 {
    ready(x).await
}

#[test]
fn a_strict_program_may_trace() {
    traces(1, "text", &[None, Some(2)]);
    drop(waits(3));
}

#[test]
fn a_strict_program_may_have_its_functions_traced() {
    assert_eq!((enters(1), entered(2), returned(3, String::new())), (1, 2, Some(4)));
    let mut holder = Holder(Point { name: "origin", place: [0, 0] });
    *holder.place() = [1, 2];
    assert_eq!((holder.name(), holder.0.place), ("origin", [1, 2]));
    drop((holder.later(1), holder.nothing()));
    drop(polled(1));
}
