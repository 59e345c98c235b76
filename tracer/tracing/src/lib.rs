//! The bridge from the crate [`tracing`] to [`tracer`]: events and spans of a program and its libraries go into the
//! trace, beside the messages of `trace!`, at the tracer's cost and with its guarantees.
//!
//! There are two ways. [`Subscriber`] is for programs that need no other subscriber: it stores nothing for a span that
//! is not cloned, and costs least. [`layer()`] works beside other layers, and behind any filter, on the registry of
//! `tracing-subscriber`.
//!
//! ```
//! tracer_tracing::init().expect("no other subscriber");
//!
//! let request = tracing::info_span!("request", method = "GET", path = "/");
//! let _entered = request.enter();
//! tracing::info!(status = 200, bytes = 5120, "answered");
//! ```
//!
//! Run with `TRACER_ENABLE=1`, the program leaves this trace (without times and threads):
//!
//! ```text
//! : INFO my_app: span=1 request{method="GET" path="/"} new
//! > span=1 request at src/main.rs:3
//! : INFO my_app: answered status=200 bytes=5120
//! < span=1 request at src/main.rs:3
//! : INFO my_app: span=1 request closed
//! ```
//!
//! * An *event* is a message: the level, the target, the text and the fields, as `tracing_subscriber::fmt` writes
//!   them. Integers, floats, `bool` and strings in fields are copied with their types and formatted later; fields
//!   that are recorded by `Debug` or `Display` are formatted at the call. The text itself is always formatted at the
//!   call: `tracing` passes only a finished `fmt::Arguments`. So a value costs less as a field than in the text, and
//!   keeps its name and its type.
//! * A *span* has an id that no other span of the run has, even if the registry reuses its own ids. `tracemerge tree`
//!   and `show` show each entering and leaving under the span's name. A message reports the new span, with its fields
//!   and its parent (`parent=`, if it has one); further messages report the fields that are recorded later, the spans
//!   that it follows from, and its closing: its last handle is dropped, so that it will not be entered again. For a
//!   cancelled task, the closing shows when it ended. The registry keeps a span open as long as there are spans
//!   inside it; [`Subscriber`] does not.
//! * Level, target, module, file, line, and the names and types of fields are in the site table beside the messages,
//!   from the first one on; raw files keep them.
//! * A record of the crate `log` that `tracing-log` passes on (the default `init` of `tracing-subscriber` sets that up)
//!   keeps its own target, module, file and line, and is filtered by these.
//! * If the `Debug` of a field's value uses `tracing` itself, its events are messages of their own, before the message
//!   with the field. If the `Debug` panics, the bridge catches the panic, and the text has `<panicked>` at that point.
//! * Off means off in `tracing` itself: while the process does not trace, this bridge tells `tracing` that it wants no
//!   events and no spans, until tracing is [switched on](tracer::Tracer::startup). Spans that were made while
//!   tracing was off are not recorded, even if they are entered later.
//!
//! # Filters
//!
//! `TRACER_FILTER` decides by target and level, as `RUST_LOG` does: `warn,my_app::net=debug`. It is the only filter of
//! a program with [`Subscriber`]. It does not support directives for spans and their fields. If `RUST_LOG` itself
//! should decide, or any other filter, the program gives the layer that filter:
//!
//! ```
//! # #[cfg(feature = "layer")] {
//! use tracing_subscriber::{EnvFilter, layer::SubscriberExt as _};
//!
//! let filter = EnvFilter::from_default_env();
//! let subscriber = tracing_subscriber::registry().with(tracer_tracing::layer().with_filter(filter));
//! # let _ = subscriber;
//! # }
//! ```
//!
//! A filter of all layers, as in `registry().with(filter).with(layer)`, decides for this one, too. `tracing-subscriber`
//! then keeps every callsite on that the filter lets through, even while tracing is off: values are evaluated, but not
//! formatted.
//!
//! [`tracer`]: https://docs.rs/tracer-lib
//! [`tracing`]: https://docs.rs/tracing

mod clones;
mod entered;
#[cfg(feature = "layer")]
mod layer;
mod logged;
mod patience;
#[cfg(feature = "layer")]
mod recent;
mod said;
mod span;
mod subscriber;
#[cfg(feature = "layer")]
mod switched_layer;

#[cfg(feature = "layer")]
pub use layer::Layer;
pub use subscriber::{SetError, Subscriber, init};
#[cfg(feature = "layer")]
pub use switched_layer::{Switch, SwitchedLayer, layer};
