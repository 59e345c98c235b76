//! The macros of `tracer`, which exports them: [`trace!`] and [`derive(Capture)`](derive@Capture).
//!
//! They are run by the compiler only. The code that they make calls `::tracer::__macro_support` and nothing
//! else.

mod call;
mod derive;
mod normalize;

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
