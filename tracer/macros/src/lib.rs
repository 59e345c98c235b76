//! The macros of `tracer`, which exports them: [`trace!`] and [`derive(Capture)`](derive@Capture).
//!
//! Only the compiler runs them. Of `tracer`, the code that they make uses only `::tracer::__macro_support` and
//! `::tracer::Scope`.

mod call;
mod derive;
mod normalize;
mod returned_block;
mod scope;
mod traced;

use proc_macro::TokenStream;

/// Traces a message: takes arguments as [`format!`] does, writes them now and formats them later.
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
/// * On: each argument is evaluated once, in order. Numbers, text, network addresses, pointers and `path.display()` are
///   copied unformatted and, with `{:?}`, also paths, `OsStr`, `Duration`, `SystemTime` (on Unix), atomics, and types
///   composed of all these; the flusher makes the text. A type of the program itself is copied if it has
///   [`derive(Capture)`](derive@Capture).
/// * Any other type is formatted at the call, and with it the whole message; so are messages of more than 64 KiB, and
///   those of a call that the flusher has not registered yet.
///
/// In any case the text is that of `format!`. A format string may also be made by `concat!` and the like; such
/// messages are formatted at the call.
///
/// The compiler decides for each call in the source which types can be copied. So in a generic function an argument
/// of type `T` is formatted at the call, unless the function requires `T: tracer::capture::Capture<..>`. And a
/// variable whose type the compiler learns only *after* the call
/// (`let mut all = Vec::new(); trace!("{all:?}"); all.push(..)`) is taken for one that can be copied: if it turns out
/// not to be, the compiler says that it *cannot be captured raw*. In that case, declare the variable's type.
#[proc_macro]
pub fn trace(input: TokenStream) -> TokenStream {
    call::expand(input.into()).into()
}

/// Traces a message as [`trace!`] does, and after it, with the same time, the call stack of the function that
/// contains the macro.
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
    call::expand_as(call::RecordContent::MessageWithStack, input.into()).into()
}

/// Records that the function that contains the macro is entered, and that it is left when the guard is dropped.
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
/// The compiler provides the name of the function, the file and the line, so no debug information is needed to show
/// them. Arguments are those of [`trace!`]: a message that goes with the entry, with the same time. The filter
/// decides as for `trace!`. Off, this is a load and a branch, and another branch when the guard is dropped; no
/// argument is evaluated. On, entering and leaving read the clock once each.
#[proc_macro]
pub fn scope(input: TokenStream) -> TokenStream {
    scope::expand(input.into()).into()
}

/// Records each call of a function: of the function with this attribute, or of all functions of an `impl`, a `trait` or
/// an inline `mod` with it.
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
/// * `#[traced(args)]`: the arguments by `{:?}`, which go with the entry, and the value that the function returns,
///   which goes with the exit. They are copied as those of [`trace!`] are, and formatted later if possible.
/// * `#[traced(skip(a, b))]`: as `args`, without these; `ret` means the returned value. An argument whose type has no
///   `Debug` must be skipped.
/// * `#[traced(skip)]`: leaves out this function, inside an item that is traced.
///
/// If an item inside has its own `traced` attribute, only that attribute counts for it. On an `impl`, `trait` or `mod`,
/// `skip(a)` leaves out the argument `a` of every function that has one. Functions and closures inside a function are
/// not traced with it.
///
/// An `async fn` is a span: it has an id, and each poll is an entry and an exit, on whichever thread. The last leaving
/// says that the call has ended; if its future is dropped before the end, that is recorded. The same holds for an
/// `async` block that another function returns, as `Box::pin(async move { .. })`, also if `async_trait` has made it; of
/// the arguments, those are recorded that a `move` block uses. If a function returns a future and has no such block,
/// only the making of the future is recorded, and the compiler warns.
///
/// The return value of a `#[track_caller]` function is not recorded, because recording it would hide the caller from
/// the function. An argument with a `#[cfg(..)]` is not recorded, either.
///
/// `const fn`, functions of a foreign ABI (`extern "C"`) and naked ones are left unchanged. Directly on such a
/// function, and on an item of another kind than those above, the attribute is an error. The attribute does not see a
/// function that a macro makes inside an `impl`, `trait` or `mod`.
#[proc_macro_attribute]
pub fn traced(arguments: TokenStream, item: TokenStream) -> TokenStream {
    traced::expand(arguments.into(), item.into()).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// Leaves its item unchanged. It takes the place of [`traced`](macro@traced) if traces are compiled out.
#[proc_macro_attribute]
pub fn untraced(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    item
}

/// Makes [`trace!`] copy values of this type unformatted, for `{:?}`.
///
/// All fields must be of types that can be copied. The text is the one that `derive(Debug)` gives. The type should
/// derive `Debug`, too: messages that are formatted at the call use its `Debug`.
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
/// Unions, and types that contain themselves, cannot derive `Capture`.
#[proc_macro_derive(Capture)]
pub fn derive_capture(input: TokenStream) -> TokenStream {
    match syn::parse(input).and_then(|input| derive::expand(&input)) {
        Ok(tokens) => tokens.into(),
        Err(error) => error.to_compile_error().into(),
    }
}
