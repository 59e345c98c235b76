//! `derive(Capture)` on types that cannot have it.

use tracer::Capture;

#[derive(Debug)]
struct Foreign;

#[derive(Debug, Capture)]
struct Fields {
    number: u32,
    foreign: Foreign,
}

#[derive(Debug, Capture)]
enum Variants {
    First(u32, Option<Foreign>),
}

#[derive(Capture)]
union Either {
    a: u32,
    b: f32,
}

#[derive(Capture)]
struct List {
    next: Option<Box<List>>,
}

#[derive(Capture)]
enum Tree {
    Leaf,
    Node(Vec<Self>),
}

fn main() {}
