//! `#[traced]` on functions that return a future without an `async` block that it can find: a warning, which is an error
//! here.
#![deny(warnings)]

use std::future::{Future, Ready, ready};
use std::pin::Pin;
use tracer::traced;

#[traced]
fn passed_on(n: u32) -> impl Future<Output = u32> {
    ready(n)
}

#[traced]
fn in_part(n: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
    match n {
        0 => Box::pin(ready(0)),
        _ => Box::pin(async move { n }),
    }
}

struct Methods;

#[traced]
impl Methods {
    fn method(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(self.other())
    }

    async fn other(&self) {}

    #[allow(deprecated)]
    fn silent(&self) -> Pin<Box<dyn Future<Output = u32>>> {
        Box::pin(ready(2))
    }

    #[traced(skip)]
    fn left_out(&self) -> Pin<Box<dyn Future<Output = u32>>> {
        Box::pin(ready(2))
    }

    fn named(&self) -> Ready<u32> {
        ready(3)
    }
}

fn main() {
    let methods = Methods;
    drop((passed_on(1), in_part(1), methods.method(), methods.silent(), methods.left_out(), methods.named()));
}
