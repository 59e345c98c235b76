//! The settings of a run. The defaults are overridden by what the program sets with the builder, and both by
//! environment variables.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trace_format::duration;
use trace_format::file::Encoding;
use trace_format::meta::ClockKind;
use trace_format::patterns::Patterns;
use trace_format::ring::{MAX_CAPACITY, MIN_CAPACITY};
use trace_store::variables;

use super::filter::Filter;
use super::relay;
use crate::sys;

/// The environment variable that switches tracing on, unless the program names another one.
pub const DEFAULT_VARIABLE: &str = variables::ENABLE;

/// The smallest limit that can be set for the size of each file, in bytes.
pub(crate) const MIN_FILE_LIMIT: u64 = 64 * 1024;
/// The smallest limit that can be set for the size of all files of a run together, in bytes.
pub(crate) const MIN_TOTAL_LIMIT: u64 = 256 * 1024;

/// What happens to a record if its thread's ring is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FullPolicy {
    /// The thread waits for the flusher, at most [`Builder::max_stall`](crate::Builder::max_stall). After that time,
    /// the thread's records are dropped and counted until the ring has room again. A `# wait` line in the thread's file
    /// shows how long the thread has waited.
    #[default]
    Block,
    /// The record is dropped and counted; `# lost` says how many.
    Drop,
    /// The oldest records are overwritten: a flight recorder. Nothing is written to files in normal operation. The
    /// newest records of each thread, as many as its ring holds, are written by
    /// [`Tracer::snapshot`](crate::Tracer::snapshot), by a panic (unless the program later sets a panic hook that does
    /// not call the former one), at the end of the process, whatever its cause, and by `tracemerge snapshot PID` from
    /// outside. In front of them, a line `# lost reason=overwritten` gives the number of older records that were
    /// overwritten. The ring of a thread that has ended is kept until sixteen other threads have ended after it.
    Overwrite,
}

/// The format of a thread's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// The file consists of lines of text.
    #[default]
    Text,
    /// Records are copied to the file in the format that they have in memory. For large volumes this is about three
    /// times as fast as text. `tracemerge` converts the files to text.
    Raw,
}

impl Format {
    pub(crate) fn encoding(self) -> Encoding {
        match self {
            Format::Text => Encoding::Text,
            Format::Raw => Encoding::Raw,
        }
    }
}

/// The clock from which ticks are read, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Clock {
    /// The counter is read in program order: a record that happens after another never has smaller ticks.
    #[default]
    Ordered,
    /// The counter is read without the fence that keeps program order. This is some nanoseconds cheaper, but if one
    /// thread passes data to another, the record of the receiver may have smaller ticks than that of the sender.
    Fast,
    /// The system's monotonic clock in nanoseconds (`CLOCK_MONOTONIC`, `QueryPerformanceCounter`). Reading it is slower
    /// than reading the counter, and on some systems it is coarser (100 ns on Windows), but its times can be compared
    /// with those of other tools. This clock is also used if the system does not trust the counter.
    System,
}

/// The settings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub directory: Option<PathBuf>,
    pub runtime_directory: Option<PathBuf>,
    pub ring_size: u64,
    pub full_policy: FullPolicy,
    pub format: Format,
    pub clock: ClockKind,
    pub flush_interval: Duration,
    pub max_stall: Duration,
    pub max_bytes: u64,
    /// The most bytes that all files of the run may take together.
    pub max_total: u64,
    pub filter: Option<Filter>,
    pub call_sites: bool,
    /// The functions whose calls hooks record; `None`: all.
    pub functions: Option<Patterns>,
    /// The functions that start the recording: hooks begin to record when one of these functions is called for the
    /// first time. `None`: hooks record from the beginning.
    pub trigger: Option<Patterns>,
    /// The greatest nesting depth of calls that hooks record. Only recorded calls count.
    pub max_depth: u32,
    /// The shortest duration of a call that hooks record.
    pub min_duration: Duration,
    /// Whether the run records nothing until another process requests recording.
    pub paused: bool,
    pub own_descriptors: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            directory: None,
            runtime_directory: None,
            ring_size: 1 << 20,
            full_policy: FullPolicy::Block,
            format: Format::Text,
            clock: ClockKind::Ordered,
            flush_interval: Duration::from_millis(100),
            max_stall: Duration::from_secs(1),
            max_bytes: u64::MAX,
            max_total: u64::MAX,
            filter: None,
            call_sites: false,
            functions: None,
            trigger: None,
            max_depth: u32::MAX,
            min_duration: Duration::ZERO,
            paused: false,
            own_descriptors: true,
        }
    }
}

/// Whether every function of the process is recorded, by hooks that the compiler has put into the functions. Relaxed:
/// the flag affects defaults only, and orders no other memory.
static EVERY_FUNCTION: AtomicBool = AtomicBool::new(false);

/// Notes that every function of the process is recorded. From then on, `Config::of_process` returns other defaults.
pub(crate) fn expect_every_function() {
    EVERY_FUNCTION.store(true, Ordering::Relaxed);
}

/// Returns whether every function of the process is recorded, by hooks that the compiler has put into the functions.
pub(crate) fn expects_every_function() -> bool {
    EVERY_FUNCTION.load(Ordering::Relaxed)
}

impl Config {
    /// Returns the default settings, with which the builder of a program begins.
    pub(crate) fn of_program() -> Config {
        let mut config = Config::default();
        read_format(variables::DEFAULT_FORMAT, &mut config.format);
        config
    }

    /// Returns the settings of a process whose program sets none. Environment variables have not overridden them yet.
    pub(crate) fn of_process() -> Config {
        let config = Config::of_program();
        if !expects_every_function() {
            return config;
        }
        // A ring of 1 MiB holds the function calls of half a millisecond. Two clock reads are most of a call's cost.
        Config { ring_size: 4 << 20, format: Format::Raw, clock: ClockKind::Fast, ..config }
    }

    /// Returns whether a run with the settings `self` already has the settings `wanted`. The run's clock counts as
    /// equal also if it is the clock that this machine uses in place of the wanted one.
    pub(crate) fn same_settings(&self, wanted: &Config) -> bool {
        let wanted_clock = trace_store::counter::available(wanted.clock);
        *self == Config { clock: wanted_clock, ..wanted.clone() }
    }

    /// Returns these settings, overridden by the environment variables that are set. If the value of a variable cannot
    /// be understood, reports that on stderr and keeps the former setting.
    pub(crate) fn with_environment(mut self) -> Config {
        if let Some(directory) = variables::value(variables::DIR) {
            self.directory = Some(directory.into());
        }
        if let Some(directory) = variables::value(variables::RUNTIME_DIR) {
            self.runtime_directory = Some(directory.into());
        }
        read(variables::RING_SIZE, "a size from 16K to 1G, such as 4M", &mut self.ring_size, |text| {
            parse_size(text).filter(|size| (MIN_CAPACITY..=MAX_CAPACITY).contains(size))
        });
        read(variables::FULL, "block, drop or overwrite", &mut self.full_policy, |text| match text {
            "block" => Some(FullPolicy::Block),
            "drop" => Some(FullPolicy::Drop),
            "overwrite" => Some(FullPolicy::Overwrite),
            _ => None,
        });
        read_format(variables::FORMAT, &mut self.format);
        read(variables::CLOCK, "ordered, fast or system", &mut self.clock, |text| match text {
            "ordered" => Some(ClockKind::Ordered),
            "fast" => Some(ClockKind::Fast),
            "system" => Some(ClockKind::System),
            _ => None,
        });
        // `tracemerge run` keeps the variable from the program.
        if let Some(Switch::On) = parse_switch(variables::value(variables::SCHED).as_ref()) {
            let name = variables::SCHED;
            relay::say(format_args!("{name} has no effect: only tracemerge run records states of threads"));
        }
        if let Some(filter) = variables::value(variables::FILTER) {
            self.filter = Some(Filter::parse(&filter.to_string_lossy()));
        }
        read(
            variables::CALL_SITES,
            "on (1, true, on, yes) or off (0, false, off, no)",
            &mut self.call_sites,
            |text| match parse_switch(Some(&text.into())) {
                Some(Switch::On) => Some(true),
                Some(Switch::Off) => Some(false),
                Some(Switch::Paused) | None => None,
            },
        );
        let patterns = |name| variables::value(name).map(|text| Patterns::parse(&text.to_string_lossy()));
        self.functions = patterns(variables::FUNCTIONS).or(self.functions);
        self.trigger = patterns(variables::TRIGGER).or(self.trigger);
        read(variables::MAX_DEPTH, "a number of calls from 1 on", &mut self.max_depth, |text| {
            text.parse().ok().filter(|depth| *depth > 0)
        });
        let of_an_hour = "a duration of an hour at most, such as 10us, 1.5ms or 1m30s";
        read(variables::MIN_DURATION, of_an_hour, &mut self.min_duration, parse_duration);
        // Earlier versions read these two as numbers of milliseconds.
        let milliseconds =
            |text: &str| text.parse().ok().map(Duration::from_millis).or_else(|| parse_duration(text));
        let interval = "a duration from 1ms to 60s, such as 100ms";
        for name in [variables::FLUSH_MS, variables::FLUSH_INTERVAL] {
            read(name, interval, &mut self.flush_interval, |text| {
                let parse =
                    if name == variables::FLUSH_MS { milliseconds(text) } else { parse_duration(text) };
                parse.filter(|time| (Duration::from_millis(1)..=Duration::from_secs(60)).contains(time))
            });
        }
        read(variables::MAX_STALL, of_an_hour, &mut self.max_stall, |text| {
            milliseconds(text).filter(|time| *time <= MAX_DURATION)
        });
        read(variables::DESCRIPTORS, "own or shared", &mut self.own_descriptors, |text| match text {
            "own" => Some(true),
            "shared" => Some(false),
            _ => None,
        });
        read(variables::MAX_BYTES, "a size from 64K on, such as 100M", &mut self.max_bytes, |text| {
            parse_size(text).filter(|size| *size >= MIN_FILE_LIMIT)
        });
        read(variables::MAX_TOTAL, "a size from 256K on, such as 1G", &mut self.max_total, |text| {
            parse_size(text).filter(|size| *size >= MIN_TOTAL_LIMIT)
        });
        self
    }
}

/// Sets `format`, the format of the trace files, from an environment variable, if the variable names a format.
fn read_format(variable: &str, format: &mut Format) {
    read(variable, "text or raw", format, |text| match text {
        "text" => Some(Format::Text),
        "raw" => Some(Format::Raw),
        _ => None,
    });
}

/// Returns whether the environment variable `DEFAULT_VARIABLE` requests tracing, either at once or when another process
/// requests it (`paused`). A value without a meaning counts as no request and is not reported.
pub(crate) fn is_tracing_requested() -> bool {
    let switch = parse_switch(variables::value(DEFAULT_VARIABLE).as_ref());
    !sys::privileged() && matches!(switch, Some(Switch::On | Switch::Paused))
}

/// Returns whether the user wants tracing. The answer is no in a process that has more rights than the user who started
/// it (setuid); otherwise it is the value of the environment variable `variable`, or yes if `variable` is `None`.
pub(crate) fn wanted(variable: Option<&str>) -> Switch {
    if !sys::privileged() {
        return variable.map_or(Switch::On, switch_of);
    }
    let asks = |variable| {
        matches!(parse_switch(variables::value(variable).as_ref()), Some(Switch::On | Switch::Paused))
    };
    if let Some(variable) = variable.filter(|variable| asks(variable)) {
        relay::say(format_args!(
            "{variable} is ignored, because this program has more rights than its caller (set-user-ID, set-group-ID or \
             capabilities); a copy of its file that cp makes has no such rights, and can be traced"
        ));
    }
    Switch::Off
}

fn switch_of(variable: &str) -> Switch {
    let value = variables::value(variable);
    parse_switch(value.as_ref()).unwrap_or_else(|| {
        let value = value.unwrap_or_default();
        relay::say(format_args!(
            "{variable}={value:?} is neither on (1, true, on, yes) nor off (0, false, off, no) nor paused; tracing \
             stays off"
        ));
        Switch::Off
    })
}

/// Sets `value` from the environment variable `name`, if `parse` accepts the variable's text. Reports any other text to
/// the user; `expected` describes, in that message, the texts that are accepted.
fn read<T>(name: &str, expected: &str, value: &mut T, parse: impl Fn(&str) -> Option<T>) {
    let Some(text) = variables::value(name) else { return };
    match text.to_str().map(str::trim).and_then(parse) {
        Some(parsed) => *value = parsed,
        None => relay::say(format_args!("{name}={text:?} is not {expected}; it is ignored")),
    }
}

/// Parses a number of bytes, which may end in K, M or G (powers of 1024).
fn parse_size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1u64 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// The longest duration that an environment variable may set.
const MAX_DURATION: Duration = Duration::from_secs(3600);

/// Reads a [duration] of at most an hour.
fn parse_duration(text: &str) -> Option<Duration> {
    duration::parse_ns(text).map(Duration::from_nanos).filter(|duration| *duration <= MAX_DURATION)
}

/// The meaning of the value of an environment variable that switches something on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    On,
    Off,
    /// Tracing is off until another process requests it.
    Paused,
}

/// Parses the value of a switch, in upper or lower case. On: `1`, `true`, `on`, `yes`. Off: `0`, `false`, `off`, `no`,
/// or an empty text. Further: `paused`. Returns `None` for any other text.
fn parse_switch(value: Option<&OsString>) -> Option<Switch> {
    let Some(value) = value else { return Some(Switch::Off) };
    match value.to_str().map(|text| text.trim().to_ascii_lowercase()).as_deref() {
        Some("1" | "true" | "on" | "yes") => Some(Switch::On),
        Some("" | "0" | "false" | "off" | "no") => Some(Switch::Off),
        Some("paused") => Some(Switch::Paused),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_accepts_only_its_words() {
        for text in ["1", "true", "on", "yes", "YES", " 1 "] {
            assert_eq!(parse_switch(Some(&text.into())), Some(Switch::On), "{text}");
        }
        for text in ["0", "false", "off", "no", "", "Off"] {
            assert_eq!(parse_switch(Some(&text.into())), Some(Switch::Off), "{text}");
        }
        assert_eq!(parse_switch(None), Some(Switch::Off));
        assert_eq!(parse_switch(Some(&"Paused".into())), Some(Switch::Paused));
        for text in ["2", "enable", "ja", "01"] {
            assert_eq!(parse_switch(Some(&text.into())), None, "{text}");
        }
    }

    #[test]
    fn a_duration_is_an_hour_at_most() {
        assert_eq!(parse_duration("1.5ms"), Some(Duration::from_micros(1500)));
        assert_eq!(parse_duration("60m"), Some(MAX_DURATION));
        assert_eq!(parse_duration("1h 1ns"), None);
    }

    #[test]
    fn sizes_have_units() {
        let cases = [
            ("65536", Some(65536)),
            ("64K", Some(65536)),
            ("4m", Some(4 << 20)),
            ("1G", Some(1 << 30)),
            ("", None),
            ("K", None),
            ("-1", None),
            ("1T", None),
            ("99999999999999999999", None),
            ("1ä", None),
            ("18446744073709551615G", None),
        ];
        for (text, size) in cases {
            assert_eq!(parse_size(text), size, "{text}");
        }
    }
}
