//! Every form of call compiles wherever `format!` does, and gives the same text: formatted at the call as well as
//! captured, described and rendered.
//!
//! The calls of this file use a site that does both and compares, instead of the tracer's. So this is a test program
//! of its own: within a crate, the name `tracer` has one meaning.

#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

extern crate self as tracer;
extern crate tracer as real;

/// The names that the macros call, with another `Site`.
#[allow(missing_docs)]
pub mod __macro_support {
    pub use real::__macro_support::*;
    use std::cell::{Cell, RefCell};
    use std::fmt;
    use trace_format::fields::SitePlan;
    use trace_format::record::MAX_PAYLOAD;

    thread_local! {
        static OFF: Cell<bool> = const { Cell::new(false) };
        static SAID: RefCell<Vec<Said>> = const { RefCell::new(Vec::new()) };
    }

    /// Switches the calls of this thread off, or on again.
    pub fn switch_off(off: bool) {
        OFF.set(off);
    }

    /// Removes and returns the calls that this thread has made since this function was last called.
    pub fn said() -> Vec<Said> {
        SAID.take()
    }

    /// The text and the place of one call.
    #[derive(Debug)]
    pub struct Said {
        pub text: String,
        pub was_captured: bool,
        pub line: u32,
        pub module: &'static str,
        pub function: &'static str,
        pub template: &'static str,
        pub names: Vec<&'static str>,
    }

    pub struct Site {
        place: Place,
        call: Call,
    }

    pub struct Place {
        pub texts: &'static str,
        pub module_len: u32,
        pub line: u32,
        pub column: u32,
        pub here: fn() -> &'static str,
    }

    pub struct Call {
        pub kind: SiteKind,
        pub texts: &'static str,
        pub format_lens: [u32; 2],
    }

    impl Call {
        /// Returns the two format strings, and the names.
        fn parts(&self) -> (&'static str, &'static str, Vec<&'static str>) {
            let (template, rest) = self.texts.split_at(self.format_lens[0] as usize);
            let (format, names) = rest.split_at(self.format_lens[1] as usize);
            (template, format, names.split_terminator('\0').collect())
        }
    }

    impl Site {
        pub const fn new(place: Place, call: Call) -> Site {
            Site { place, call }
        }

        pub fn word(&self) -> u64 {
            assert!(self.place.texts.ends_with(".rs") && self.place.column > 0);
            u64::from(!OFF.get())
        }

        pub fn is_on(&'static self, word: u64) -> bool {
            word != 0
        }

        /// Renders the captured arguments. Always returns false, so that `format` can compare.
        pub fn record<A: Arguments>(&self, _: u64, arguments: &A) -> bool {
            if A::CAPTURED && arguments.size() <= MAX_PAYLOAD {
                assert!(A::SIGNATURE != 0 && A::SIGNATURE != u32::MAX);
                let mut payload = vec![0; arguments.size()];
                let mut cursor = Cursor::new(&mut payload);
                arguments.write(&mut cursor);
                assert!(!cursor.is_full() && cursor.remaining() == 0, "{}", self.call.texts);
                let mut descriptor = Vec::new();
                A::describe(&mut descriptor);
                let mut text = Vec::new();
                SitePlan::new(self.call.parts().1, &descriptor).unwrap().render(&payload, &mut text).unwrap();
                self.say(String::from_utf8(text).unwrap(), true);
            }
            false
        }

        pub fn format<A: Arguments>(&'static self, arguments: &A, message: fmt::Arguments<'_>) {
            if A::CAPTURED && arguments.size() <= MAX_PAYLOAD {
                let rendered = SAID.with_borrow(|said| said.last().unwrap().text.clone());
                assert_eq!(rendered, message.to_string(), "{}", self.call.texts);
            } else {
                self.say(message.to_string(), false);
            }
        }

        fn say(&self, text: String, was_captured: bool) {
            let Site { place, call } = self;
            let (template, _, names) = call.parts();
            let said = Said {
                text,
                was_captured,
                line: place.line,
                module: &place.texts[..place.module_len as usize],
                function: (place.here)().strip_suffix("::__here").unwrap(),
                template,
                names,
            };
            SAID.with_borrow_mut(|all| all.push(said));
        }
    }
}

use __macro_support::{said, switch_off};
use real::capture::{Capture, by};
use real::{Capture, trace};
use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Debug, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::num::NonZero;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI8, AtomicU32};
use std::sync::{Arc, Mutex};
use std::time::Duration;
#[cfg(unix)]
use std::time::SystemTime;

/// Returns the text of the one call since the last time, and whether it was captured.
#[track_caller]
fn one() -> (String, bool) {
    let mut said = said();
    assert_eq!(said.len(), 1, "{said:?}");
    let said = said.remove(0);
    (said.text, said.was_captured)
}

/// Checks a call that is captured and gives the text of `format!`.
macro_rules! captured {
    ($($call:tt)*) => {{
        trace!($($call)*);
        assert_eq!(one(), (format!($($call)*), true));
    }};
}

/// Checks a call that is formatted at once.
macro_rules! formatted {
    ($($call:tt)*) => {{
        trace!($($call)*);
        assert_eq!(one(), (format!($($call)*), false));
    }};
}

/// A type that cannot be captured.
#[derive(Clone, Copy, Debug)]
struct Foreign;

impl Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("foreign")
    }
}

#[test]
fn texts_without_arguments_are_captured() {
    captured!("");
    captured!("",);
    captured!("a text");
    captured!(
        "{{}} }}{{ {{0}} \n\t\"\\ \u{1f980} \
        and a line that goes on"
    );
    captured!(r"raw \n {{x}}");
    captured!(r#"raw "quoted""#);
    trace! { "braces" }
    trace!["brackets"];
    assert_eq!(said().len(), 2);
}

#[test]
fn arguments_are_found_by_order_number_and_name() {
    let (x, y, text) = (-7, 2.5, "text");
    captured!("{}", x);
    captured!("{}", x,);
    captured!("{} {} {}", x, y, text);
    captured!("{2} {0} {1} {0} {} {}", x, y, text);
    captured!("x={x} y={y:>8.3} {text:?}");
    captured!("{x}{x}{x}");
    captured!("{x} {} {y}", text);
    captured!("{x} {}", text, x = y);
    captured!("{a} {b:?} {} {a:#?}", 1, a = x + 1, b = [y, 2.0],);
    captured!("{r} {type} {}", 1, r = 2, r#type = 3);
    let r#fn = 5;
    captured!("{fn} {0}", r#fn);
    captured!("{größe} {größe:x}", größe = 300);
    captured!("{0 } {x } {0:? } {0: }", x);
}

#[test]
fn counts_are_arguments_too() {
    let (x, y, width, precision) = (-7, 2.0 / 3.0, 9, 4);
    captured!("[{:1$}] {} [{:<1$}]", x, width, y);
    captured!("[{x:width$}] [{y:>width$.precision$}]");
    captured!("[{:.*}] [{:>w$.*}]", 2, y, precision, y, w = width);
    captured!("[{:>w$}] {w} {w:?}", "a", w = 5);
    captured!("[{0:0$}]", width);
    captured!("[{:>1$?}] [{:1$?}]", "\"", 12);
    captured!("[{y:.prec$e}]", prec = 1 + 1);
}

#[test]
fn every_trait_and_flag_is_rendered_as_by_format() {
    let (x, y, c, s, p) = (-7i16, 1.5f32, 'ß', "tëxt", &12u8);
    captured!("{x} {x:?} {x:x} {x:X} {x:o} {x:b} {x:e} {x:E} {x:#x} {x:#010b} {x:+} {x:x?} {x:#X?}");
    captured!("{y} {y:?} {y:e} {y:E} {y:+.3} {y:08.2} {y:*^12}");
    captured!("{c} {c:?} {c:-<5} {s} {s:?} {s:.2} {s:_^10.3} {:?} {}", true, false);
    captured!("{p:p} {p} {:p} {:?}", std::ptr::from_ref(p), std::ptr::from_ref(p).cast_mut());
    captured!("{x:5?}|{y:<9?}|{s:.^9?}|{:02?}|{:>4?}", 3, ());
    captured!("{:?} {:#?} {:.1?} {:+?}", Some(1), (1, "a"), [1.25, 0.5], vec![Ok::<i8, ()>(1), Err(())]);
}

#[test]
fn types_of_std_are_captured() {
    let (path, name) = (Path::new("a dir/größe"), OsStr::new("a \"name\""));
    captured!(
        "{} {:>20}| {:^9} {path:?} {:?} {name:?}",
        path.display(),
        path.display(),
        path.display(),
        path.to_owned()
    );
    captured!("{:?} {:?} {:?}", Cow::Borrowed(path), Some(name), [OsString::from("x")]);
    captured!(
        "{} {:?} {} {}",
        Cow::Borrowed("a"),
        Arc::<str>::from("b"),
        Rc::<str>::from("c"),
        Box::<str>::from("d")
    );
    let duration = Duration::from_nanos(1_234_567);
    captured!("{duration:?} {duration:.1?} {duration:>12.2?}| {:#?}", (duration, Some(duration)));
    let ip = IpAddr::from([127, 0, 0, 1]);
    captured!("{ip} {ip:?} {ip:>20}| {ip:.3} {} {:?}", Ipv6Addr::LOCALHOST, Ipv4Addr::BROADCAST);
    captured!("{} {:?}", SocketAddr::from((ip, 80)), SocketAddrV6::new(Ipv6Addr::LOCALHOST, 8080, 1, 2));
    captured!("{} {:?} {:#x}", NonZero::new(7u8).unwrap(), NonZero::new(-7i64), NonZero::new(7u32).unwrap());
    captured!("{:?} {:5?} {:?}", AtomicU32::new(7), AtomicI8::new(-7), [AtomicBool::new(true)]);
    captured!("{:?} {:?} {:?} {:?}", Some(1.5), &[1u8, 2][..], [(); 2], (1, "a", Some(ip)));
    #[cfg(unix)]
    {
        let now = SystemTime::now();
        captured!("{now:?} {:#?}", SystemTime::UNIX_EPOCH - duration);
    }
}

#[test]
fn paths_that_versions_of_std_print_differently_are_formatted_at_the_call() {
    let path = Path::new("it's");
    captured!("{}", path.display());
    formatted!("{path:?}");
    formatted!("{:.2}", path.display());
    formatted!("{}", Path::new(&"x".repeat(257)).display());
    captured!("{}", Path::new(&"x".repeat(256)).display());
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(OsStr::from_bytes(b"a\xff\xfeb"));
        formatted!("{:>9}", path.display());
        formatted!("{path:?}");
    }
}

#[test]
fn types_that_cannot_be_captured_are_formatted_at_the_call() {
    formatted!("{} {Foreign}", Foreign);
    formatted!("{:>9}|{:?}", Foreign, 1);
    formatted!("{} {}", 1, &Foreign as &dyn Display);
    formatted!("{:?}", Some(Foreign));
    formatted!("{:?} {}", format_args!("{}", 1), format_args!("a"));
    // Widths apply to these composites part by part.
    formatted!("{:5?} {:05?}", Some(1), [1]);
    formatted!("{:?}", Cell::new(1));
    // This text is longer than any record.
    formatted!("{}", "x".repeat(70_000));
}

#[test]
fn values_may_be_unsized_borrowed_or_temporary() {
    let text = String::from("text");
    let (slice, mutex) = ([1, 2, 3], Mutex::new(5));
    let mut number = 1;
    let reference = &mut number;
    captured!("{} {:?} {:?}", &*text, &slice[1..], *"a".as_bytes().first_chunk::<1>().unwrap());
    captured!("{} {}", &&&text, &mut *reference);
    captured!("{text} {} {:?}", text.clone() + "!", text.to_uppercase().as_bytes().to_vec());
    captured!("{} {}", *mutex.lock().unwrap(), mutex.try_lock().is_err());
    captured!("{} {:?} {}", Box::new(1), Rc::new(Some("a")), std::borrow::Cow::Borrowed("b"));
    *reference += 1;
    drop(text);
}

#[test]
fn a_temporary_in_the_last_call_of_a_function_ends_before_the_variables() {
    fn lock() {
        let mutex = Mutex::new(5);
        trace!("{}", *mutex.lock().unwrap())
    }
    lock();
    assert_eq!(one(), ("5".to_owned(), true));
}

#[test]
fn any_number_of_arguments_is_accepted() {
    captured!("{} {} {} {} {} {} {} {} {} {} {} {}", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    captured!("{} {} {} {} {} {} {} {} {} {} {} {} {}", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, "12");
    captured!(
        "{a} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {a:?}",
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        11,
        "12",
        13,
        14,
        15,
        16,
        17,
        18,
        19,
        20,
        21,
        22,
        23,
        24,
        25.5,
        'c',
        a = true,
    );
    formatted!("{} {} {} {} {} {} {} {} {} {} {} {} {}", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, Foreign);
    // Makes tuples of tuples of tuples.
    macro_rules! thirteen_times {
        ($format:literal, $($a:expr),*) => {
            captured!(
                $format, $($a,)* $($a,)* $($a,)* $($a,)* $($a,)* $($a,)* $($a,)* $($a,)* $($a,)* $($a,)* $($a,)*
                $($a,)* $($a,)*
            );
        };
    }
    thirteen_times!(
        "{} {} {} {} {} {} {} {} {} {} {} {} {} \
         {} {} {} {} {} {} {} {} {} {} {} {} {} \
         {} {} {} {} {} {} {} {} {} {} {} {} {} \
         {} {} {} {} {} {} {} {} {} {} {} {} {} \
         {} {} {} {} {} {} {} {} {} {} {} {} {} \
         {} {} {} {} {} {} {} {} {} {} {} {} {} \
         {} {} {} {} {} {} {} {} {} {} {} {} {} \
         {} {} {} {} {} {} {} {} {} {} {} {} {} \
         {} {} {} {} {} {} {} {} {} {} {} {} {} \
         {} {} {} {} {} {} {} {} {} {} {} {} {} \
         {} {} {} {} {} {} {} {} {} {} {} {} {} \
         {} {} {} {} {} {} {} {} {} {} {} {} {} ",
        1,
        2u8,
        3u64,
        4i8,
        5.5,
        'c',
        "text",
        true,
        "",
        &7,
        0,
        1.0f32
    );
}

#[test]
fn each_argument_is_evaluated_once_and_in_order() {
    let order = Cell::new(0);
    let next = |expected: usize| {
        assert_eq!(order.replace(expected + 1), expected);
        expected
    };
    trace!("{b} {1} {0} {a:c$} {a} {0:?} {:>1$}", next(0), next(1), b = next(2), a = next(3), c = next(4));
    assert_eq!(order.get(), 5);
    assert_eq!(one(), ("2 1 0    3 3 0 0".to_owned(), true));
    trace!("{} {a} {}", next(5), (next(6), Foreign).1, a = next(7));
    trace!(concat!("{} {a}", " {}"), next(8), next(9), a = next(10));
    assert_eq!(order.get(), 11);
    assert_eq!(said().len(), 2);
}

#[test]
fn nothing_is_evaluated_if_the_site_is_off() {
    fn never() -> u8 {
        panic!("evaluated")
    }
    switch_off(true);
    trace!("{} {a}", never(), a = never());
    trace!("{} {}", never(), Foreign);
    trace!(concat!("{", "}"), never());
    switch_off(false);
    assert!(said().is_empty());
}

#[test]
#[allow(clippy::just_underscores_and_digits, reason = "the names of the expansion")]
fn names_in_the_expansion_do_not_clash_with_those_around_it() {
    /// A trait that a program may have for every type, with methods of any names.
    #[allow(unused)]
    trait Everything {
        fn capture(&self) -> ! {
            panic!("the wrong method")
        }
        fn word(&self) -> ! {
            panic!("the wrong method")
        }
        fn is_on(&self, _: u64) -> ! {
            panic!("the wrong method")
        }
        fn record(&self) -> ! {
            panic!("the wrong method")
        }
        fn format(&self) -> ! {
            panic!("the wrong method")
        }
    }
    impl<T: ?Sized> Everything for T {}
    #[allow(unused)]
    mod core {}
    #[allow(unused)]
    mod std {}
    #[allow(unused)]
    struct Site;
    #[allow(unused, non_camel_case_types)]
    type u64 = ();
    #[allow(unused)]
    macro_rules! format_args {
        () => {};
    }
    const SITE: i32 = 1;
    let (site, word, captured, record, __0, __1) = (2, 3, 4, 5, 6, 7);
    captured!("{SITE} {site} {word} {captured} {record} {__0} {__1} {}", __1 + site);
    captured!("{} {} {} {} {} {}", SITE, site, word, captured, __1, __0);
    captured!("{__0} {site} {SITE}", __0 = __1, site = word, SITE = captured);
    formatted!("{SITE} {site} {word} {captured} {__0} {}", Foreign);
}

#[test]
fn calls_are_allowed_wherever_expressions_are() {
    let nothing: () = trace!("a value");
    match 1 {
        1 => trace!("arm {}", 1),
        _ => trace!("other"),
    }
    if true {
        trace!("then {nothing:?}")
    } else {
        trace!("else")
    };
    let closure = |x: i32| trace!("closure {x} {}", x + 1);
    closure(1);
    let moved = String::from("a");
    let moving = move || trace!("{moved}");
    moving();
    fn expression(x: u8) {
        trace!("{x}")
    }
    expression(1);
    trace!("outer {}", {
        trace!("inner");
        3
    });
    let texts: Vec<_> = said().into_iter().map(|said| said.text).collect();
    assert_eq!(texts, ["a value", "arm 1", "then ()", "closure 1 2", "a", "1", "inner", "outer 3"]);
}

#[test]
fn an_argument_may_leave_the_function() {
    fn leave(result: Result<i32, String>) -> Result<(), String> {
        trace!("{} {}", 1, result?);
        Ok(())
    }
    assert!(leave(Err("left".to_owned())).is_err());
    assert!(said().is_empty());
    assert!(leave(Ok(2)).is_ok());
    assert_eq!(one().0, "1 2");
    for i in 0..3 {
        trace!("{}", if i == 1 { continue } else { i });
    }
    assert_eq!(said().len(), 2);
}

#[test]
fn futures_that_trace_can_be_sent() {
    async fn value(x: u32) -> u32 {
        x
    }
    async fn calls(text: &str) {
        trace!("{} {text}", value(1).await);
        trace!("{text} {} {}", value(2).await, Foreign);
    }
    fn run(future: impl Future<Output = ()> + Send) {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(std::pin::pin!(future).poll(&mut context).is_ready());
    }
    run(calls("a"));
    let texts: Vec<_> = said().into_iter().map(|said| said.text).collect();
    assert_eq!(texts, ["1 a", "a 2 foreign"]);
}

#[test]
fn generic_functions_capture_values_if_their_bounds_allow_it() {
    fn shown<T: Display + ?Sized, const N: usize>(value: &T) {
        trace!("{value} {}", N);
    }
    fn promised<T: Debug + Capture<by::Debug>>(value: T, values: &[T]) {
        trace!("{value:?} {values:?}");
    }
    struct Holder<T>(T);
    impl<T: Display> Display for Holder<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            trace!("{}", self.0);
            trace!("{}", f.alternate());
            self.0.fmt(f)
        }
    }
    shown::<_, 3>("text");
    assert_eq!(one(), ("text 3".to_owned(), false));
    shown::<_, 4>(&5);
    assert_eq!(one(), ("5 4".to_owned(), false));
    promised(5, &[6]);
    assert_eq!(one(), ("5 [6]".to_owned(), true));
    promised("5", &["6"]);
    assert_eq!(one(), ("\"5\" [\"6\"]".to_owned(), true));
    assert_eq!(Holder(1).to_string(), "1");
    assert_eq!(said().len(), 2);
}

#[test]
fn methods_may_trace_self() {
    #[derive(Debug, Capture)]
    struct Counter {
        count: u32,
    }
    impl Counter {
        fn add(&mut self) {
            self.count += 1;
            trace!("{self:?} {}", self.count);
        }
        fn end(self) {
            trace!("{self:?} {0:?}", self);
        }
    }
    let mut counter = Counter { count: 0 };
    counter.add();
    assert_eq!(one(), ("Counter { count: 1 } 1".to_owned(), true));
    counter.end();
    assert_eq!(one(), ("Counter { count: 1 } Counter { count: 1 }".to_owned(), true));
}

#[test]
fn other_macros_pass_calls_on() {
    macro_rules! literal {
        ($format:literal $(, $argument:expr)* $(,)?) => { trace!($format $(, $argument)*) };
    }
    macro_rules! tokens {
        ($($tokens:tt)*) => { trace!($($tokens)*) };
    }
    macro_rules! expression {
        ($format:expr, $($name:ident = $argument:expr),*) => { trace!($format, $($name = $argument),*) };
    }
    macro_rules! own_name {
        ($value:expr) => {{
            let value = $value + 1;
            trace!("{value} {}", $value);
        }};
    }
    macro_rules! prefixed {
        ($format:literal $($rest:tt)*) => { trace!(concat!("prefix ", $format) $($rest)*) };
    }
    let value = 1;
    literal!("{value} {}", value + 1);
    assert_eq!(one(), ("1 2".to_owned(), true));
    literal!("{} {}", 1 + 1, &value as *const i32 == &value);
    assert_eq!(one(), ("2 true".to_owned(), true));
    tokens!("{value:>0$} {}", 2, value = 3);
    assert_eq!(one(), (" 3 2".to_owned(), true));
    expression!("{a}", a = value * 2);
    assert_eq!(one(), ("2".to_owned(), true));
    own_name!(value);
    assert_eq!(one(), ("2 1".to_owned(), true));
    prefixed!("{}", value);
    assert_eq!(one(), ("prefix 1".to_owned(), false));
}

#[test]
fn format_strings_made_by_macros_are_formatted_at_the_call() {
    macro_rules! constant {
        () => {
            "constant {}"
        };
    }
    formatted!(concat!("a", 1, "{} {b}"), 2, b = 3);
    formatted!(stringify!(a b));
    formatted!(constant!(), 1);
    formatted!(env!("CARGO_PKG_NAME"));
}

#[test]
fn a_site_knows_its_place() {
    trace!("here");
    let here = line!() - 1;
    macro_rules! elsewhere {
        () => {
            trace!("{}", 1)
        };
    }
    elsewhere!();
    mod inner {
        pub(super) fn call() {
            real::trace!("inner");
        }
    }
    inner::call();
    let said = said();
    assert_eq!(said[0].line, here);
    // As with `line!`, this is the line where the outermost macro was called.
    assert_eq!(said[1].line, here + 7);
    assert_eq!(said[0].module, module_path!());
    assert_eq!(said[2].module, concat!(module_path!(), "::inner"));
}

#[test]
fn a_type_that_is_inferred_later_is_captured() {
    let mut all = Vec::new();
    trace!("{all:?} {:?}", 7);
    all.push(1u8);
    let none = None;
    trace!("{none:?}");
    let _: Option<&str> = none;
    let parsed = "5".parse().unwrap();
    trace!("{parsed}");
    let _: u64 = parsed;
    assert!(said().iter().all(|said| said.was_captured));
}

#[test]
fn a_site_knows_its_template_function_and_value_names() {
    struct Job {
        id: u32,
    }
    impl Job {
        fn run(&self, items: &[u8]) {
            let sort = 'x';
            trace!("job {} {sort} of {total:>4} {:?} {}", self.id, &items, self.id + 1, total = items.len());
        }
    }
    let waits = || trace!("waits {} {0:?}", Job { id: 8 }.id);
    Job { id: 7 }.run(&[1, 2]);
    waits();
    trace!("{}", Unknown);
    let said = said();
    assert_eq!(said[0].template, "job {} {sort} of {total:>4} {:?} {}");
    assert_eq!(said[0].names, ["self.id", "items", "", "total", "sort"]);
    assert!(said[0].function.ends_with("::run"), "{}", said[0].function);
    assert_eq!(said[1].names, ["", ""]);
    // The compiler chooses the path of a function, so closures may be named or not.
    assert!(said[1].function.contains("::a_site_knows_its_template_"), "{}", said[1].function);
    assert_eq!((said[2].template, said[2].was_captured), ("{}", false));

    struct Unknown;
    impl Display for Unknown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("unknown")
        }
    }
}
