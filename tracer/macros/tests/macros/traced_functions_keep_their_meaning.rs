//! `#[traced]` changes nothing in a function except that its calls are recorded: all code that compiles without it
//! compiles with it, and returns the same. Other tests, which read files, check the records.
//!
//! Tracing is off in these tests, and on in one.

#![deny(warnings, clippy::pedantic)]
#![warn(missing_docs, unsafe_op_in_unsafe_fn, rust_2018_idioms)]
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::needless_lifetimes,
    reason = "a test; lifetimes are one of its subjects"
)]

use std::fmt::{Debug, Display};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tracer::traced;

/// A type without `Debug`.
#[derive(Clone, Copy)]
struct Opaque(u8);

/// The same functions under three attributes.
macro_rules! functions {
    ($module:ident, $($attribute:tt)*) => {
        mod $module {
            use super::*;

            /// The documentation stays, and so do attributes.
            #[$($attribute)*]
            #[must_use]
            #[inline]
            pub(crate) fn lifetimes<'a, 'b: 'a>(first: &'a str, second: &'b str) -> &'a str {
                if first.is_empty() { second } else { first }
            }

            #[$($attribute)*]
            pub(crate) fn elided(text: &str) -> Option<&str> {
                let first = text.split(' ').next()?;
                (!first.is_empty()).then_some(first)
            }

            #[$($attribute)*]
            pub(crate) fn hidden(items: &[u8]) -> impl Iterator<Item = u8> + '_ {
                items.iter().map(|item| item + 1)
            }

            #[$($attribute)*]
            pub(crate) fn fails(text: &str) -> Result<u32, Box<dyn std::error::Error>> {
                let number: u32 = text.parse()?;
                if number > 100 {
                    return Err("too large".into());
                }
                Ok(number)
            }

            #[$($attribute)*]
            pub(crate) fn generic<T: Debug + Clone, const N: usize>(value: &T) -> [T; N]
            where
                [T; N]: Debug,
            {
                std::array::from_fn(|_| value.clone())
            }

            #[$($attribute)*]
            pub(crate) fn argument_position(items: impl Iterator<Item = u8> + Debug) -> u32 {
                items.map(u32::from).sum()
            }

            #[$($attribute)*]
            pub(crate) fn never(code: u32) -> ! {
                panic!("code {code}")
            }

            #[$($attribute)*]
            pub(crate) fn diverges_in_part(code: u32) -> u32 {
                if code > 0 {
                    return code;
                }
                never(code)
            }

            #[$($attribute)*]
            pub(crate) fn recursive(n: u64) -> u64 {
                match n {
                    0 | 1 => n,
                    _ => recursive(n - 1) + recursive(n - 2),
                }
            }

            #[$($attribute)*]
            pub(crate) fn patterns((a, [b, ..]): (u8, [u8; 3]), Pair { left, right: (ref r, _) }: Pair, _: u8) -> u32 {
                u32::from(a) + u32::from(b) + left + r
            }

            #[$($attribute)*]
            pub(crate) fn mutable(mut n: u32, mut items: Vec<u32>, out: &mut Vec<u32>) -> Vec<u32> {
                while n > 0 {
                    items.push(n);
                    n -= 1;
                }
                out.extend(&items);
                items
            }

            #[$($attribute)*]
            pub(crate) unsafe fn unsafe_read(from: *const u8) -> u8 {
                // SAFETY: the caller's promise.
                unsafe { from.read() }
            }

            #[$($attribute)*]
            pub(crate) fn unit(out: &mut u32) {
                *out += 1;
                if *out > 10 {
                    return;
                }
                *out += 1;
            }

            #[$($attribute)*]
            pub(crate) fn coerced(n: u32) -> Box<dyn Debug> {
                if n > 10 {
                    return Box::new("many");
                }
                Box::new(n)
            }

            #[$($attribute)*]
            pub(crate) fn with_items(n: u32) -> u32 {
                #![allow(dead_code, reason = "an inner attribute")]
                use std::cmp::max;
                const LEAST: u32 = 3;
                fn inner(n: u32) -> u32 {
                    max(n, LEAST)
                }
                inner(n)
            }

            #[$($attribute)*]
            pub(crate) fn named_as_the_expansion(scope: u32, site: u32, word: u32, ticks: u32) -> u32 {
                let ret = scope + site;
                let (call, body, never, captured) = (1, 2, 3, 4);
                ret + word + ticks + call + body + never + captured
            }

            #[$($attribute)*]
            #[track_caller]
            pub(crate) fn caller() -> &'static std::panic::Location<'static> {
                std::panic::Location::caller()
            }

            #[$($attribute)*]
            pub(crate) fn owned(text: String) -> usize {
                drop(text);
                1
            }

            #[$($attribute)*]
            pub(crate) fn hidden_in_result(n: u32) -> Result<impl Iterator<Item = u32>, std::num::TryFromIntError> {
                let small = u8::try_from(n)?;
                Ok((0..small).map(u32::from))
            }

            #[$($attribute)*]
            pub(crate) fn hidden_in_box(n: u32) -> Option<Box<[impl Display]>> {
                Some(Box::new([n, n + 1]))
            }

            #[derive(Clone, Debug)]
            pub(crate) struct Queue<T> {
                pub(crate) items: Vec<T>,
            }

            impl<T: Debug> Queue<T> {
                #[$($attribute)*]
                pub(crate) fn new() -> Self {
                    Self { items: Vec::new() }
                }

                #[$($attribute)*]
                pub(crate) fn push(&mut self, item: T) -> &mut T {
                    self.items.push(item);
                    let last = self.items.len() - 1;
                    &mut self.items[last]
                }

                #[$($attribute)*]
                pub(crate) fn first(&self) -> Option<&T> {
                    self.items.first()
                }

                #[$($attribute)*]
                pub(crate) fn into_items(mut self) -> Vec<T> {
                    self.items.reverse();
                    self.items
                }

                #[$($attribute)*]
                pub(crate) fn counted(self: Rc<Self>) -> usize {
                    self.items.len()
                }

                #[$($attribute)*]
                pub(crate) fn pinned(mut self: Pin<&mut Self>) -> Pin<&mut Self>
                where
                    T: Unpin,
                {
                    self.as_mut().get_mut().items.clear();
                    self
                }

                #[$($attribute)*]
                pub(crate) async fn count(&self, more: &usize) -> Result<usize, String> {
                    let more = ready(*more).await;
                    if more > 100 {
                        return Err(String::from("too many"));
                    }
                    Ok(self.items.len() + small(more)?)
                }
            }

            fn small(n: usize) -> Result<usize, String> {
                if n < 50 { Ok(n) } else { Err(format!("{n}")) }
            }

            #[$($attribute)*]
            pub(crate) async fn borrows<'a>(text: &'a str, mut n: u32) -> Option<&'a str> {
                n += ready(1).await;
                text.get(usize::try_from(n).ok()?..)
            }

            #[$($attribute)*]
            pub(crate) async fn hides(n: u8) -> impl Iterator<Item = u8> {
                ready(0..n).await
            }

            #[$($attribute)*]
            pub(crate) async fn hides_in_result(n: u32) -> Result<impl Debug, std::num::TryFromIntError> {
                let small = u8::try_from(ready(n).await)?;
                Ok(small + 1)
            }

            #[$($attribute)*]
            pub(crate) async fn returns_nothing(out: &mut u32) {
                *out += 1;
                if ready(*out).await > 10 {
                    return;
                }
                *out += 1;
            }

            #[$($attribute)*]
            pub(crate) async fn never_ready(n: u32) -> ! {
                ready(n).await;
                never(n)
            }

            #[$($attribute)*]
            pub(crate) async fn unsized_into(n: u32) -> Box<dyn Debug + Send> {
                if n > 3 {
                    return Box::new("many");
                }
                Box::new(n)
            }

            #[$($attribute)*]
            pub(crate) async unsafe fn unsafe_async(from: *const u8) -> u8 {
                // SAFETY: the caller's promise.
                unsafe { from.read() }
            }

            #[$($attribute)*]
            pub(crate) fn boxed(n: u32) -> Pin<Box<dyn Future<Output = Result<u32, String>> + Send>> {
                let more = n + 1;
                if n == 0 {
                    return Box::pin(async { Err(String::from("none")) });
                }
                Box::pin(async move {
                    const LEAST: u32 = 2;
                    let more = ready(more).await;
                    small(usize::try_from(n).map_err(|error| error.to_string())?)?;
                    Ok(more.max(LEAST))
                })
            }

            #[$($attribute)*]
            pub(crate) fn by_impl<'a>(text: &'a str, unused: &u32) -> impl Future<Output = &'a str> + Send + use<'a> {
                let from = usize::try_from(*unused).unwrap_or(0);
                async move { ready(&text[from..]).await }
            }

            #[$($attribute)*]
            pub(crate) fn by_name(n: u32) -> Pin<Box<dyn Future<Output = u32>>> {
                let local = Rc::new(n);
                let later = async move { ready(*local).await };
                Box::pin(later)
            }

            #[$($attribute)*]
            pub(crate) fn borrows_in_block(items: &[u8]) -> impl Future<Output = usize> {
                async { ready(items.len()).await }
            }

            #[$($attribute)*]
            pub(crate) fn in_branches(n: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
                match n {
                    0 => Box::pin(async { 0 }),
                    1 => unimplemented!("one"),
                    _ if n > 7 => {
                        let half = n / 2;
                        Box::pin(async move { half })
                    }
                    _ => {
                        if n > 5 { Box::pin(async { 5 }) } else { Box::pin(async move { ready(n).await }) }
                    }
                }
            }

            #[$($attribute)*]
            pub(crate) fn recursive_box(n: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
                Box::pin(async move { if n == 0 { 0 } else { recursive_box(n - 1).await + 1 } })
            }

            pub(crate) trait Counts {
                #[$($attribute)*]
                fn twice(&self) -> usize
                where
                    Self: Debug,
                {
                    2 * self.once()
                }

                fn once(&self) -> usize;

                #[allow(async_fn_in_trait, reason = "a failure in a test fails it")]
                async fn later(&self, n: u32) -> u32;
            }

            impl<T: Debug> Counts for Queue<T> {
                #[$($attribute)*]
                fn once(&self) -> usize {
                    self.items.len()
                }

                #[$($attribute)*]
                async fn later(&self, n: u32) -> u32 {
                    ready(n).await
                }
            }
        }

        #[test]
        fn $module() {
            use $module::{Counts as _, Queue};
            assert_eq!(($module::lifetimes("", "b"), $module::elided("a b")), ("b", Some("a")));
            assert_eq!($module::hidden(&[1, 2]).collect::<Vec<_>>(), [2, 3]);
            assert_eq!($module::fails("7").unwrap(), 7);
            assert!($module::fails("x").is_err() && $module::fails("101").is_err());
            assert_eq!($module::generic::<_, 3>(&'c'), ['c'; 3]);
            assert_eq!($module::argument_position(vec![1, 2].into_iter()), 3);
            assert!(std::panic::catch_unwind(|| $module::never(3)).is_err());
            assert_eq!(($module::diverges_in_part(3), $module::recursive(15)), (3, 610));
            assert_eq!($module::patterns((1, [2, 0, 0]), Pair { left: 3, right: (4, Opaque(0)) }, 0), 10);
            let mut out = vec![];
            assert_eq!($module::mutable(2, vec![9], &mut out), [9, 2, 1]);
            assert_eq!(out, [9, 2, 1]);
            // SAFETY: the pointer is that of a value.
            assert_eq!(unsafe { $module::unsafe_read(&7) }, 7);
            let mut n = 0;
            $module::unit(&mut n);
            assert_eq!((n, $module::with_items(1)), (2, 3));
            assert_eq!(format!("{:?} {:?}", $module::coerced(3), $module::coerced(11)), "3 \"many\"");
            assert_eq!($module::named_as_the_expansion(1, 2, 3, 4), 20);
            let (line, caller) = (line!(), $module::caller());
            assert_eq!((caller.file(), caller.line()), (file!(), line));
            assert_eq!($module::owned("text".into()), 1);
            assert_eq!($module::hidden_in_result(3).unwrap().count(), 3);
            assert!($module::hidden_in_result(300).is_err());
            assert_eq!($module::hidden_in_box(3).unwrap().iter().map(ToString::to_string).collect::<String>(), "34");

            let mut queue = Queue::new();
            *queue.push('a') = 'b';
            assert_eq!((queue.first(), queue.twice(), queue.once()), (Some(&'b'), 2, 1));
            assert_eq!(run(queue.count(&1)), Ok(2));
            assert_eq!((run(queue.count(&60)), run(queue.count(&101)).unwrap_err().len()), (Err("60".into()), 8));
            assert_eq!((run(queue.later(5)), Rc::new(queue.clone()).counted()), (5, 1));
            assert_eq!((queue.clone().into_items(), Pin::new(&mut queue).pinned().items.len()), (vec!['b'], 0));

            assert_eq!(run($module::borrows("text", 1)), Some("xt"));
            assert_eq!(run($module::hides(3)).collect::<Vec<_>>(), [0, 1, 2]);
            assert!(run($module::hides_in_result(3)).is_ok() && run($module::hides_in_result(300)).is_err());
            let mut n = 0;
            run($module::returns_nothing(&mut n));
            assert_eq!((n, format!("{:?}", run($module::unsized_into(2))).as_str()), (2, "2"));
            assert!(std::panic::catch_unwind(|| { let _: () = run(async { $module::never_ready(3).await }); }).is_err());
            // SAFETY: the pointer is that of a value.
            assert_eq!(run(unsafe { $module::unsafe_async(&7) }), 7);
            assert_eq!((run($module::boxed(4)), run($module::boxed(0))), (Ok(5), Err("none".into())));
            assert_eq!(run($module::boxed(60)), Err("60".into()));
            assert_eq!((run($module::by_impl("text", &1)), run($module::by_name(3))), ("ext", 3));
            assert_eq!((run($module::borrows_in_block(&[1, 2])), run($module::recursive_box(4))), (2, 4));
            assert_eq!([0, 2, 6, 8].map(|n| run($module::in_branches(n))), [0, 2, 5, 4]);
            assert!(std::panic::catch_unwind(|| drop($module::in_branches(1))).is_err());
            assert_send(&$module::boxed(2));
            assert_send(&$module::unsized_into(2));
            assert_send(&$module::borrows("text", 1));
        }
    };
}

/// A pattern's type.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    left: u32,
    right: (u32, Opaque),
}

/// Returns `value` at the second poll.
async fn ready<T>(value: T) -> T {
    let mut polled = false;
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    value
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

const fn assert_send(_: &(impl Send + ?Sized)) {}

functions!(entered_and_left, traced);
functions!(with_values, traced(args));
functions!(without_what_is_returned, traced(skip(ret)));

/// A module whose functions are traced, each by its own attribute if it has one.
#[traced]
mod around {
    use super::{Opaque, ready};
    use std::fmt::Debug;
    use tracer::traced;

    pub(super) const fn constant(n: u32) -> u32 {
        n + 1
    }

    pub(super) extern "C" fn foreign(n: u32) -> u32 {
        n + 2
    }

    #[traced(args)]
    pub(super) fn own(n: u32) -> u32 {
        n + 3
    }

    #[traced(skip)]
    pub(super) fn left_out(n: u32) -> u32 {
        n + 4
    }

    pub(super) struct Holder<T>(pub(super) T, pub(super) Opaque);

    #[traced(args, skip(self, opaque))]
    impl<T: Debug> Holder<T> {
        pub(super) const KEPT: u32 = 5;

        pub(super) const fn new(value: T, opaque: Opaque) -> Self
        where
            T: Copy,
        {
            Self(value, opaque)
        }

        pub(super) fn show(&self, prefix: &str) -> String {
            let show = |text: &str| format!("{prefix}{text}{:?}", self.0);
            show(" ")
        }

        pub(super) fn replace(&mut self, value: T, opaque: Opaque) -> T {
            self.1 = opaque;
            std::mem::replace(&mut self.0, value)
        }

        #[traced(skip)]
        pub(super) fn opaque(&self) -> Opaque {
            self.1
        }
    }

    #[traced(args, skip(self))]
    pub(super) trait Named {
        type Name: Debug;
        const LENGTH: usize;

        fn name(&self) -> Self::Name;

        fn length(&self) -> usize {
            Self::LENGTH
        }

        #[allow(async_fn_in_trait, reason = "a failure in a test fails it")]
        async fn later(&self) -> Option<Self::Name> {
            Some(ready(self.name()).await)
        }
    }

    impl Named for u8 {
        type Name = &'static str;
        const LENGTH: usize = 3;

        fn name(&self) -> &'static str {
            "one"
        }
    }

    pub(super) mod inside {
        pub(in super::super) fn deep(n: u32) -> u32 {
            fn nested(n: u32) -> u32 {
                n + 5
            }
            nested(n)
        }

        /// Calls itself, each call in a box.
        pub(in super::super) async fn recursive(n: u32) -> u32 {
            if n == 0 { 0 } else { 1 + Box::pin(recursive(n - 1)).await }
        }
    }
}

#[test]
fn all_functions_of_modules_implementations_and_traits_are_reached() {
    use around::{Holder, Named as _, constant, foreign, inside, left_out, own};
    const CONSTANT: u32 = constant(0);
    assert_eq!((CONSTANT, foreign(0), own(0), left_out(0), inside::deep(0)), (1, 2, 3, 4, 5));
    let mut holder: Holder<u8> = Holder::new(7, Opaque(8));
    assert_eq!((holder.show("a").as_str(), Holder::<u8>::KEPT, holder.opaque().0), ("a 7", 5, 8));
    assert_eq!((holder.replace(1, Opaque(9)), holder.opaque().0), (7, 9));
    assert_eq!((1.name(), 1.length(), run(1.later())), ("one", 3, Some("one")));
    assert_eq!(run(inside::recursive(4)), 4);
    assert_send(&around::inside::recursive(4));
}
