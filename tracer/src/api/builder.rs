//! Settings made by the program itself: [`Builder`].

use std::path::PathBuf;
use std::time::Duration;

use trace_format::meta::ClockKind;
use trace_format::ring::{MAX_CAPACITY, MIN_CAPACITY};

use crate::traced::decision;
use crate::user::config::{Clock, Config, Format, FullPolicy, MIN_FILE_LIMIT, MIN_TOTAL_LIMIT};
use crate::user::filter::Filter;

/// Settings for a program that does not want the defaults. [`Tracer::builder`](crate::Tracer::builder) makes a
/// builder, [`startup`](Builder::startup) applies its settings.
///
/// The environment overrides every setting, so that the user who runs the program has the last word; see the table in
/// the crate's documentation.
#[derive(Clone, Debug)]
#[must_use = "settings have no effect until `startup` or `enable` is called"]
pub struct Builder {
    config: Config,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder { config: Config::of_program() }
    }
}

impl Builder {
    /// Sets the directory of the trace files; the default is the executable's directory. `TRACER_DIR` overrides it.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Builder {
        self.config.directory = Some(directory.into());
        self
    }

    /// Sets the size of each thread's ring in bytes, 16 KiB to 1 GiB, rounded up to a power of two; 1 MiB by
    /// default. `TRACER_RING_SIZE` overrides it.
    pub fn ring_size(mut self, bytes: usize) -> Builder {
        self.config.ring_size = (bytes as u64).clamp(MIN_CAPACITY, MAX_CAPACITY);
        self
    }

    /// Sets the policy for a record that finds its thread's ring full; [`FullPolicy::Block`] by default. `TRACER_FULL`
    /// overrides it.
    pub fn full_policy(mut self, policy: FullPolicy) -> Builder {
        self.config.full_policy = policy;
        self
    }

    /// Sets the format of the trace files. `TRACER_FORMAT` overrides it.
    pub fn format(mut self, format: Format) -> Builder {
        self.config.format = format;
        self
    }

    /// Sets the clock from which records get their ticks. `TRACER_CLOCK` overrides it.
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.config.clock = match clock {
            Clock::Ordered => ClockKind::Ordered,
            Clock::Fast => ClockKind::Fast,
            Clock::System => ClockKind::System,
        };
        self
    }

    /// Sets the longest time from a record to the flusher's next look at its ring, 1 ms to 1 min; 100 ms by default.
    /// `TRACER_FLUSH_INTERVAL` overrides it.
    pub fn flush_interval(mut self, interval: Duration) -> Builder {
        self.config.flush_interval = interval.clamp(Duration::from_millis(1), Duration::from_secs(60));
        self
    }

    /// Sets how long a thread waits for room in its ring under [`FullPolicy::Block`], at most 1 h; 1 s by default.
    /// `TRACER_MAX_STALL` overrides it.
    pub fn max_stall(mut self, longest: Duration) -> Builder {
        self.config.max_stall = longest.min(Duration::from_secs(3600));
        self
    }

    /// Sets the largest size of each thread's file, in bytes, at least 64 KiB; without limit by default.
    ///
    /// A file that grows longer loses its older half, cut between two messages, and reports how many records it lost
    /// (`# lost reason=rotated`). During this cut, the file takes up to one and a half times its limit on the disk; the
    /// message that a thread is writing is never cut. `TRACER_MAX_BYTES` overrides it.
    pub fn max_bytes(mut self, bytes: u64) -> Builder {
        self.config.max_bytes = bytes.max(MIN_FILE_LIMIT);
        self
    }

    /// Sets the largest size of all files of this process together, in bytes, at least 256 KiB; without limit by
    /// default. A forked child has a limit of its own.
    ///
    /// If the limit is reached, the tracer drops the oldest files of threads that have ended; if there are none, the
    /// longest file loses its older half. The records in dropped files are counted, and reported when the run ends
    /// (`# dropped`, `# lost reason=dropped`). Each living thread keeps a file of up to 16 KiB, so many living threads
    /// may together exceed the limit. `TRACER_MAX_TOTAL` overrides it.
    pub fn max_total(mut self, bytes: u64) -> Builder {
        self.config.max_total = bytes.max(MIN_TOTAL_LIMIT);
        self
    }

    /// Sets which calls of [`trace!`](crate::trace) are on, by module: `my::module=off,other`. `TRACER_FILTER`, which
    /// has the same grammar (that of `RUST_LOG`), overrides it.
    pub fn filter(mut self, directives: &str) -> Builder {
        self.config.filter = Some(Filter::parse(directives));
        self
    }

    /// Sets whether each function entry also records its call site; off by default. `TRACER_CALL_SITES` overrides it.
    ///
    /// The call sites are found in the same way as by [`Tracer::stack`](crate::Tracer::stack): exactly with the feature
    /// `unwind`. Without the feature, they are found by frame pointers, with which the whole program must then be
    /// compiled.
    pub fn call_sites(mut self, wanted: bool) -> Builder {
        self.config.call_sites = wanted;
        self
    }

    /// Sets whether the flusher has its own table of descriptors, which the program cannot close; on by default.
    /// Switch it off in a sandbox (seccomp) that kills a process for calling `close_range`, `unshare` or `fork`.
    /// `TRACER_DESCRIPTORS` overrides it.
    pub fn own_descriptors(mut self, own: bool) -> Builder {
        self.config.own_descriptors = own;
        self
    }

    /// Decides by the environment variable `variable` whether this program traces, with these settings.
    ///
    /// Returns whether the program traces. See [`Tracer::startup`](crate::Tracer::startup).
    pub fn startup(self, variable: &str) -> bool {
        decision::decide_again(Some(variable), self.config)
    }

    /// Switches tracing on, whatever the environment says about that, with these settings (which the environment may
    /// override).
    ///
    /// Returns whether this program traces: false if it is setuid, or if no flusher could be started.
    pub fn enable(self) -> bool {
        decision::decide_again(None, self.config)
    }
}
