//! The macros of `tracer`, which exports them: [`trace!`] and [`derive(Capture)`](derive@Capture).
//!
//! They are run by the compiler only. The code that they make calls `::tracer::__macro_support` and nothing
//! else.

mod call;
mod derive;
mod normalize;
mod scope;
mod traced;

use proc_macro::TokenStream;

/// Traces a message: arguments as for [`format!`], written now, formatted later.
///
/// ```
/// # use tracer::trace;
/// # let (x, y, items) = (1, 2.5, [1, 2, 3]);
/// trace!("a text");
/// trace!("x={x} y={:>8.3} {:?}", y, items);
/// trace!("{what}: {0:#x}", x, what = "flags");
/// ```
///
/// * Off, by `TRACER_ENABLE` or by the filter: the call is a load and a branch; no argument is evaluated.
/// * On: each argument is evaluated once, in order. Numbers, text, pointers and, by `{:?}`, what consists of
///   them are copied as they are; the flusher makes the text. A type of the program's own is copied where it
///   has [`derive(Capture)`](derive@Capture).
/// * Any other type is formatted at the call, and with it the whole message; so are messages of more than 64
///   KiB, and those of a call before the flusher has taken note of it.
///
/// The text is that of `format!` in any case. A format string may also be made by `concat!` and the like;
/// such messages are formatted at the call.
///
/// Which types can be copied is found out where the call is compiled. So in a generic function an argument of
/// type `T` is formatted at the call, unless the function requires `T: tracer::capture::Capture<..>`. And a
/// variable whose type the compiler learns only *after* the call
/// (`let mut all = Vec::new(); trace!("{all:?}"); all.push(..)`) is taken for one that can be copied: if it
/// turns out not to be, the compiler says that it *cannot be captured raw*. Give the variable its type, then.
#[proc_macro]
pub fn trace(input: TokenStream) -> TokenStream {
    call::expand(input.into()).into()
}

/// Traces a message as [`trace!`] does, and behind it, with the same time, the call stack of the function in
/// which this stands.
///
/// ```
/// # use tracer::trace_stack;
/// # let waited = 3;
/// trace_stack!("who waits {waited} s?");
/// ```
///
/// The stack is that of `Tracer::stack`, with its costs and its limits.
#[proc_macro]
pub fn trace_stack(input: TokenStream) -> TokenStream {
    call::expand_as(call::RecordOf::MessageWithStack, input.into()).into()
}

/// Records that the function is entered in which this stands, and that it is left when the guard is dropped.
///
/// ```
/// # use tracer::scope;
/// fn parse(id: u32) {
///     let _scope = scope!("parsing {id}");
/// }
///
/// fn check() {
///     let _scope = scope!();
/// }
/// # parse(1);
/// # check();
/// ```
///
/// The name of the function, the file and the line are those that the compiler knows, so no debug information
/// is needed to show them. Arguments are those of [`trace!`]: a message that goes with the entering, with the
/// same time. The filter decides as for `trace!`. Off, this is a load and a branch, and another branch where
/// the guard is dropped; no argument is evaluated. On, entering and leaving read the clock once each.
#[proc_macro]
pub fn scope(input: TokenStream) -> TokenStream {
    scope::expand(input.into()).into()
}

/// Has each call of a function recorded: of the function that this stands before, or of all functions of an
/// `impl`, a `trait` or an inline `mod`.
///
/// ```
/// # use tracer::traced;
/// #[traced]
/// fn parse(text: &str) -> usize {
///     text.len()
/// }
///
/// struct Queue(Vec<u32>);
///
/// #[traced]
/// impl Queue {
///     #[traced(args, skip(self))]
///     fn push(&mut self, value: u32) -> usize {
///         self.0.push(value);
///         self.0.len()
///     }
///
///     #[traced(skip)]
///     fn is_empty(&self) -> bool {
///         self.0.is_empty()
///     }
/// }
/// # assert_eq!(parse("abc"), 3);
/// # let mut queue = Queue(Vec::new());
/// # assert!(queue.is_empty());
/// # assert_eq!(queue.push(7), 1);
/// ```
///
/// * `#[traced]`: entering and leaving, as by [`scope!`]; the same costs.
/// * `#[traced(args)]`: the arguments by `{:?}`, which go with the entering, and the value that the function
///   returns, which goes with the leaving. They are copied as those of [`trace!`] are, and formatted later
///   where that can be.
/// * `#[traced(skip(a, b))]`: as `args`, without these; `ret` stands for the value that is returned. An
///   argument whose type has no `Debug` must be skipped.
/// * `#[traced(skip)]`: nothing of this function, inside of something that is traced.
///
/// What has an attribute of its own follows that one. Before an `impl`, `trait` or `mod`, `skip(a)` leaves out
/// the argument `a` of every function that has one. Functions and closures inside of a function are not traced
/// with it.
///
/// An `async fn` is a span: it has an id, and each poll is an entering and a leaving, on whichever thread. The
/// last one says that it has ended; where it was given up before, that is recorded when it is dropped.
///
/// The value that a `#[track_caller]` function returns is not recorded, so that it knows its caller still; nor is
/// an argument with a `#[cfg(..)]`.
///
/// `const fn`, functions of a foreign ABI (`extern "C"`) and naked ones are left as they are. On such a
/// function itself, and on what is none of the items above, the attribute is an error. A function that a macro
/// makes inside of an `impl`, `trait` or `mod` is not seen.
#[proc_macro_attribute]
pub fn traced(arguments: TokenStream, item: TokenStream) -> TokenStream {
    traced::expand(arguments.into(), item.into()).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// Leaves its item as it is: [`traced`](macro@traced) where traces are compiled out.
#[proc_macro_attribute]
pub fn untraced(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    item
}

/// Has [`trace!`] copy values of this type as they are, for `{:?}`.
///
/// All fields must be of types that can be copied. The text is the one that `derive(Debug)` gives, so the
/// type should have that, too: it is what messages that are formatted at the call use.
///
/// ```
/// # use tracer::{Capture, trace};
/// #[derive(Debug, Capture)]
/// enum Step {
///     Waiting,
///     At { place: u32, speed: f64 },
/// }
///
/// let steps = [Step::Waiting, Step::At { place: 7, speed: 0.5 }];
/// trace!("{steps:?}");
/// ```
///
/// Unions cannot derive it, nor can types that contain themselves.
#[proc_macro_derive(Capture)]
pub fn derive_capture(input: TokenStream) -> TokenStream {
    match syn::parse(input).and_then(|input| derive::expand(&input)) {
        Ok(tokens) => tokens.into(),
        Err(error) => error.to_compile_error().into(),
    }
}
