//! The bridge from the crate [`log`] to [`tracer`]: the messages that a program and its libraries write with
//! `log::info!` and the like go into the trace, beside those of `trace!`, at the tracer's cost and with its
//! guarantees.
//!
//! ```
//! # fn main() -> Result<(), log::SetLoggerError> {
//! tracer_log::init()?;
//! log::info!("listening on port {}", 8080);
//! log::warn!(retries = 3, peer = "10.0.0.7"; "slow answer");
//! # Ok(())
//! # }
//! ```
//!
//! Run with `TRACER_ENABLE=1`, the program leaves this trace:
//!
//! ```text
//! INFO my_app::net: listening on port 8080
//! WARN my_app::net: slow answer retries=3 peer=10.0.0.7
//! ```
//!
//! * A message is the level, the target, the text, and the key-values, as `env_logger` writes them. The place (module,
//!   file, line), level and target are in the site table beside the messages, from a place's first message on; raw
//!   files keep them.
//! * Key-values (feature `kv`, on by default) that are integers, floats, `bool`, `char` or strings are copied with
//!   their types and formatted later; others are formatted by their `Display` at the call. The text itself is always
//!   formatted at the call: `log` passes only a finished `fmt::Arguments`. So a value costs less as a key-value than
//!   in the text, and keeps its name and its type.
//! * `TRACER_FILTER` decides by target and level: `warn,my_app::net=debug`. The maximum level of `log` follows it,
//!   and is `Off` while tracing is off: then a call is one load, in `log` itself. If a program sets the maximum level
//!   by [`log::set_max_level`], that holds until tracing is switched the next time.
//! * If a `Display` in the text logs, that makes a message of its own, before the message that it is a part of. A
//!   panic of a `Display` ends in the bridge, and the text has `<panicked>` at that point.
//!
//! A process has one logger. [`init_with`] keeps another logger beside this one, and each gets the records that it
//! wants.
//!
//! [`tracer`]: https://docs.rs/tracer-lib

use std::fmt;
use std::sync::OnceLock;

use log::{LevelFilter, Log, Metadata, Record, SetLoggerError};
use tracer::__bridge::{self as bridge, By, Definition, Field, Values};
use tracer::Tracer;

mod hash;
#[cfg(feature = "kv")]
mod key_values;

use hash::Hash;

/// The logger of the process, once [`init`] or [`init_with`] was called.
static LOGGER: OnceLock<Logger> = OnceLock::new();

/// The logger that passes records to the tracer.
#[derive(Default)]
struct Logger {
    /// Another logger that gets the records, too, and the most detailed level that it wants.
    other: Option<(Box<dyn Log>, LevelFilter)>,
}

impl fmt::Debug for Logger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logger").field("other", &self.other.as_ref().map(|(_, most)| most)).finish()
    }
}

/// Makes the tracer the logger of this process. If it is not decided yet whether the process traces, this call decides
/// it, as a first record does.
///
/// # Errors
/// The process already has a logger; nothing is changed then. If that logger is yours, pass it to [`init_with`].
pub fn init() -> Result<(), SetLoggerError> {
    set(Logger::default())
}

/// Makes the tracer the logger of this process, as [`init`] does, beside `other`, which must not be set as the
/// process's logger itself. `most` is the most detailed level that `other` wants: the level that `other` would pass to
/// [`log::set_max_level`] if it were alone.
///
/// A record up to that level is passed to `other` if its [`enabled`](Log::enabled) returns true. The record is traced
/// before that, so the trace has it even if `other` fails. Whether tracing is on changes nothing for `other`.
///
/// ```
/// # fn main() -> Result<(), log::SetLoggerError> {
/// let logger = env_logger::Builder::from_default_env().build();
/// let most = logger.filter();
/// tracer_log::init_with(Box::new(logger), most)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`init`].
pub fn init_with(other: Box<dyn Log>, most: LevelFilter) -> Result<(), SetLoggerError> {
    set(Logger { other: Some((other, most)) })
}

fn set(logger: Logger) -> Result<(), SetLoggerError> {
    let mut logger = Some(logger);
    let set = LOGGER.get_or_init(|| logger.take().unwrap_or_default());
    log::set_logger(set)?;
    // Decided now, so that the maximum level is right before the first message.
    let _ = Tracer::get().is_enabled();
    bridge::on_switch(|_| log::set_max_level(wanted()));
    Ok(())
}

/// Returns the most detailed level that the tracer or the other logger wants.
fn wanted() -> LevelFilter {
    let traced = match bridge::largest_level() {
        bridge::Level::None => LevelFilter::Off,
        bridge::Level::Error => LevelFilter::Error,
        bridge::Level::Warn => LevelFilter::Warn,
        bridge::Level::Info => LevelFilter::Info,
        bridge::Level::Debug => LevelFilter::Debug,
        bridge::Level::Trace => LevelFilter::Trace,
    };
    let other = LOGGER.get().and_then(|logger| logger.other.as_ref()).map(|(_, most)| *most);
    traced.max(other.unwrap_or(LevelFilter::Off))
}

fn level(level: log::Level) -> bridge::Level {
    match level {
        log::Level::Error => bridge::Level::Error,
        log::Level::Warn => bridge::Level::Warn,
        log::Level::Info => bridge::Level::Info,
        log::Level::Debug => bridge::Level::Debug,
        log::Level::Trace => bridge::Level::Trace,
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_traced(metadata, target_hash(metadata)) || self.other_logger_for(metadata).is_some()
    }

    fn log(&self, record: &Record<'_>) {
        let target = target_hash(record.metadata());
        if is_traced(record.metadata(), target) {
            trace(record, target);
        }
        if let Some(other) = self.other_logger_for(record.metadata()) {
            other.log(record);
        }
    }

    fn flush(&self) {
        // `log` cannot return an error. The flusher tries again to write the records, and the file reports those that
        // are lost.
        let _ = Tracer::get().flush();
        if let Some((other, _)) = &self.other {
            other.flush();
        }
    }
}

impl Logger {
    fn other_logger_for(&self, metadata: &Metadata<'_>) -> Option<&dyn Log> {
        let (other, most) = self.other.as_ref()?;
        (metadata.level() <= *most && other.enabled(metadata)).then_some(&**other)
    }
}

/// Returns the hash of the target and the level of a record.
#[inline]
fn target_hash(metadata: &Metadata<'_>) -> Hash {
    Hash::of(metadata.level() as u64).text(metadata.target())
}

/// Returns whether the tracer wants records of this target and level.
#[inline]
fn is_traced(metadata: &Metadata<'_>, target: Hash) -> bool {
    bridge::is_enabled(target.end(), || Definition {
        level: level(metadata.level()),
        target: metadata.target().to_owned(),
        ..Definition::default()
    })
}

/// Writes a record of `log` into the trace, as a message. `log` has no identifier for a place, so the bridge
/// distinguishes places by all data that `log` has about them; two calls in one line with the same texts are one place.
#[inline]
fn trace(record: &Record<'_>, target: Hash) {
    let mut values = Values::new();
    let mut place = target.number(record.line().unwrap_or(0).into());
    place = match record.file_static() {
        Some(file) => place.address(file),
        None => place.text(record.file().unwrap_or("")),
    };
    place = match record.module_path_static() {
        Some(module) => place.address(module),
        None => place.text(record.module_path().unwrap_or("")),
    };
    let literal = record.args().as_str();
    match literal {
        Some(text) => place = place.address(text),
        None => values.text(0, *record.args()),
    }
    #[cfg(feature = "kv")]
    key_values::add(record, &mut values);
    bridge::message(place.end(), &values, || define(record, literal));
}

/// Returns the description of the place of a record: its texts, its line and its level. `literal` is the text of the
/// record if the text has no arguments.
#[cold]
fn define(record: &Record<'_>, literal: Option<&str>) -> Definition {
    let mut before = format!("{} {}: {}", record.level(), record.target(), literal.unwrap_or(""));
    let mut fields = Vec::new();
    if literal.is_none() {
        let name = "message".to_owned();
        fields.push(Field { before: std::mem::take(&mut before), name, by: By::Display });
    }
    #[cfg(feature = "kv")]
    for name in key_values::names(record) {
        before.push_str(&format!(" {name}="));
        fields.push(Field { before: std::mem::take(&mut before), name, by: By::Display });
    }
    Definition {
        level: level(record.level()),
        target: record.target().to_owned(),
        module: record.module_path().unwrap_or("").to_owned(),
        file: record.file().unwrap_or("").to_owned(),
        line: record.line().unwrap_or(0),
        fields,
        tail: before,
        ..Definition::default()
    }
}
