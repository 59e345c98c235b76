//! Calls of `trace!`: every kind of argument, filtered modules, forked children, a new run.

use crate::host::die;
use std::fmt;
use support::scenarios::Scenario;
use tracer::{Capture, Tracer, trace};

pub const SCENARIOS: &[Scenario] = &[
    ("places", |_| places()),
    ("sites", |_| every_kind()),
    ("sites-filtered", |_| filtered()),
    ("sites-disabled", |_| disabled()),
    ("sites-killed", |_| killed()),
    ("sites-by-builder", |args| by_builder(args.text(0))),
    ("sites-restarted", |args| restarted(args.text(0))),
    #[cfg(unix)]
    ("sites-forked", |_| forked()),
];

/// A type whose values are copied and printed later.
#[derive(Capture, Debug)]
struct Point {
    x: i32,
    y: f64,
}

/// An enum whose values are copied and printed later.
#[derive(Capture, Debug)]
enum Shape {
    Empty,
    Circle(Point, f32),
    Rect { from: Point, to: Point },
}

/// A type that is formatted at the call.
struct Custom(u32);

impl fmt::Display for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "custom {:03}", self.0)
    }
}

/// Traces a message, and prints the output of `format!` for it.
macro_rules! both {
    ($($args:tt)*) => {{
        trace!($($args)*);
        println!("{}", format!($($args)*).escape_debug());
    }};
}

/// Makes each kind of call twice: before its site has a number, and after.
pub fn every_kind() {
    for round in 0..2u8 {
        let (x, y, text) = (-7i64, 2.5f64, String::from("text \u{1b}[31m \\x41\nline"));
        both!("no arguments, {{braces}}");
        both!("x={x} y={y:>8.3} {:?} round {round}", text);
        both!("{} {} {} {}", u8::MAX, i128::MIN, usize::MAX, -1i16);
        both!("{:#x} {:#010b} {:o} {:X} {:e}", 255u8, 5u16, 8i32, u64::MAX, 1234.5f32);
        both!("{0} {1} {0} {name:+}", 1u32, true, name = 4i8);
        both!("{:*^9}|{:<5}|{:>5}|{:^5}|", "mid", 'c', "right", 1u8);
        both!(
            "{:width$.precision$}|{:.*}|",
            0.12345f64,
            2usize,
            9.8765f64,
            width = 10usize,
            precision = 3usize
        );
        both!("{:?} {:?} {:?}", Some(1u8), None::<i32>, Ok::<_, String>(("a", 1.5f64)));
        both!("{:?} {:#?}", [1u8, 2, 3], vec![Some("x"), None]);
        both!("{:?} {:#?}", Point { x: 1, y: -0.0 }, Shape::Circle(Point { x: 2, y: 1e300 }, f32::NAN));
        both!(
            "{:?} {:?}",
            Shape::Empty,
            Shape::Rect { from: Point { x: 0, y: 1.0 }, to: Point { x: 3, y: 4.0 } }
        );
        both!("{} {:>12}", Custom(7), Custom(8));
        both!("{:p} {:?}", std::ptr::null::<u8>(), std::ptr::dangling::<u64>());
        both!("{}", "long ".repeat(1000));
        generic(round);
        generic(if round == 0 { "zero" } else { "one" });
        Tracer::get().flush().expect("sites have their numbers");
    }
}

fn generic<T: fmt::Display>(value: T) {
    both!("of any type: {value}");
}

mod inner {
    pub fn call(evaluated: &mut u32) {
        tracer::trace!("inner {}", {
            *evaluated += 1;
            1
        });
    }

    pub mod deep {
        pub fn call(evaluated: &mut u32) {
            tracer::trace!("deep {}", {
                *evaluated += 1;
                2
            });
        }
    }
}

/// Traces from three modules, twice; prints the number of arguments that were evaluated in each.
pub fn filtered() {
    let mut evaluated = [0; 3];
    for _ in 0..2 {
        trace!("outer {}", {
            evaluated[0] += 1;
            0
        });
        inner::call(&mut evaluated[1]);
        inner::deep::call(&mut evaluated[2]);
        let _ = Tracer::get().flush();
    }
    println!("{evaluated:?}");
}

/// Makes calls with arguments that must not be evaluated.
pub fn disabled() {
    let evaluate = || -> u32 { panic!("tracing is off") };
    for _ in 0..3 {
        trace!("{}", evaluate());
        trace!("{:?} {}", Some(evaluate()), Custom(evaluate()));
    }
}

/// Traces after its site has a number, and is killed.
pub fn killed() {
    let call = |n: u32, name: &str| trace!("killed {n} {name:?} {:5.1}", f64::from(n) / 2.0);
    call(0, "first");
    Tracer::get().flush().expect("the site has its number");
    // The flusher may look once more before it sleeps.
    std::thread::sleep(std::time::Duration::from_millis(50));
    for n in 1..1000 {
        call(n, "in the ring");
    }
    die();
}

/// Forks a child that goes on with sites that its parent has used.
#[cfg(unix)]
pub fn forked() {
    let call = |n: u32| trace!("call {n} of {}", std::process::id());
    call(0);
    Tracer::get().flush().expect("the site has its number");
    call(1);
    // SAFETY: the child only traces, waits for no other thread, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        for n in 2..100 {
            call(n);
            if n == 50 {
                Tracer::get().flush().expect("the site has its number here, too");
            }
        }
        std::process::exit(0);
    }
    call(2);
    let mut status = 0;
    // SAFETY: the call waits for a child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}

/// Traces two messages with the settings of a builder, which chooses text files or no encoding.
pub fn by_builder(format: &str) {
    let builder = Tracer::builder();
    let builder = if format == "text" { builder.format(tracer::Format::Text) } else { builder };
    assert!(builder.enable());
    for n in 0..2 {
        trace!("number {n}");
        // Values are copied once the site has its number.
        Tracer::get().flush().expect("the files");
    }
}

/// Switches tracing off and on again, with another filter and another clock, in another directory.
pub fn restarted(second: &str) {
    let call = |n: u32| trace!("call {n}");
    call(0);
    Tracer::get().flush().expect("the site has its number");
    call(1);
    Tracer::get().shutdown().expect("the end of the first run");
    call(2);
    // SAFETY: no other thread reads the environment now.
    unsafe { std::env::set_var("TRACER_DIR", second) };
    assert!(Tracer::builder().clock(tracer::Clock::Fast).filter("other").enable());
    call(3);
    Tracer::get().shutdown().expect("the end of the second run");
    assert!(Tracer::builder().clock(tracer::Clock::Fast).enable());
    call(4);
    Tracer::get().flush().expect("the site has its number");
    call(5);
}

/// A module for selections by module.
pub mod desk {
    /// Traces that a client has come, and prints the place of the call.
    pub fn welcome(client: u32, weight: u32) {
        println!("{}:{}|scenario::sites::desk|welcome|welcome #", file!(), line!() + 1);
        tracer::trace!("welcome {client} of {weight} kg");
    }
}

/// The name of a thread, which is longer than the system keeps.
pub const ARCHIVIST: &str = "the archivist of the cellar";

/// Traces messages of known places on named threads, a pool of two threads and a thread without a name. Prints each
/// message's `file:line|module|function|beginning`.
pub fn places() {
    fn serve(client: u32) {
        println!("{}:{}|scenario::sites|serve|serves #", file!(), line!() + 1);
        trace!("serves {}", Custom(client));
        println!("{}:{}|scenario::sites|serve|served #", file!(), line!() + 1);
        trace!("served {client}\nin {:?}", Point { x: 1, y: f64::from(client) });
    }
    for client in 0..30 {
        desk::welcome(client, 50 + client % 7);
    }
    for (name, clients) in
        [(Some("clerk"), 0..10), (Some("clerk"), 10..25), (None, 25..28), (Some(ARCHIVIST), 28..30)]
    {
        let thread = std::thread::Builder::new();
        let thread = match name {
            Some(name) => thread.name(String::from(name)),
            None => thread,
        };
        thread.spawn(move || clients.for_each(serve)).expect("a thread").join().expect("no panic");
    }
    Tracer::get().trace(format_args!("closed"));
}
