//! The bridge from the crate [`tracing`] to [`tracer`]: events and spans of a program and its libraries go into the
//! trace, beside what they say by `trace!`, at the tracer's cost and with its guarantees.
//!
//! There are two ways. [`Subscriber`] is for programs that want nothing else: it keeps nothing for a span, and costs
//! least. [`layer()`] stands beside other layers, and behind any filter, on the registry of `tracing-subscriber`.
//!
//! ```
//! tracer_tracing::init().expect("no other subscriber");
//!
//! let request = tracing::info_span!("request", method = "GET", path = "/");
//! let _entered = request.enter();
//! tracing::info!(status = 200, bytes = 5120, "answered");
//! ```
//!
//! Run with `TRACER_ENABLE=1`, the trace says, without times and threads:
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
//!   them. Fields are copied as they are and formatted later: integers, floats, `bool` and strings by their types;
//!   what is recorded by `Debug` or `Display`, at the call. The text itself is always formatted at the call: `tracing`
//!   hands over nothing but a finished `fmt::Arguments`. So a value as a field is cheaper than in the text, and keeps
//!   its name and its type.
//! * A *span* has an id that no other span of the run has, whatever the registry does with its own. `tracemerge tree`
//!   and `show` have each entering and leaving under its name. A message tells of the new span: its fields and
//!   its parent (`parent=`, where it has one); others tell what is recorded later, what it follows from, and that it is
//!   closed: that its last handle is dropped, so that it will not be entered again. A task that was cancelled shows by that
//!   when it ended. The registry keeps a span open as long as there are spans inside of it; [`Subscriber`] does not.
//! * Level, target, module, file, line, and the names and types of fields are in the site table beside the messages,
//!   from the first one on; raw files keep them.
//! * What a `Debug` of a field says by `tracing` is a message of its own, before the one that it is a part of. A panic
//!   of a `Debug` ends in the bridge, and the text says `<panicked>` where it was.
//! * Off means off in `tracing` itself: while the process does not trace, the callsites are off as far as this
//!   bridge is concerned, also when tracing is [switched](tracer::Tracer::startup) later. Spans that were made while it
//!   was off are not recorded, also when they are entered later.
//!
//! # Filters
//!
//! `TRACER_FILTER` decides by target and level, as `RUST_LOG` does: `warn,my_app::net=debug`. It is what a program
//! with [`Subscriber`] has. Directives for spans and their fields are not understood. Where `RUST_LOG` itself is to
//! decide, or anything that a filter can ask, the program gives the layer a filter:
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
//! A filter of all layers, as in `registry().with(filter).with(layer)`, decides for this one, too. `tracing-subscriber` then
//! has every callsite on that the filter lets through, also while tracing is off: values are evaluated, and not formatted.
//!
//! [`tracer`]: https://docs.rs/tracer-lib
//! [`tracing`]: https://docs.rs/tracing

mod clones;
mod entered;
#[cfg(feature = "layer")]
mod layer;
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
