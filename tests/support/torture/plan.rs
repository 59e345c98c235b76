//! What a trial does, made from its seed alone: settings, faults, processes, how it ends, what comes then.

use super::Random;

/// The most threads of one process.
pub const THREADS: usize = 8;

/// All of one trial. Its `Debug` form is the one line that describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What it was made from.
    pub seed: u64,
    /// `TRACER_RING_SIZE`, in KiB.
    pub ring_kb: u64,
    /// `TRACER_FULL`.
    pub policy: Policy,
    /// `TRACER_MAX_STALL`, in milliseconds.
    pub max_stall: u64,
    /// `TRACER_FORMAT` is `raw`.
    pub raw: bool,
    /// `TRACER_FLUSH_MS`.
    pub flush_ms: u64,
    /// `TRACER_CLOCK` is `fast`.
    pub fast: bool,
    /// `TRACER_MAX_BYTES`, in KiB.
    pub max_kb: Option<u64>,
    /// Where rings are.
    pub runtime: Runtime,
    /// `TRACER_DIR` is not there.
    pub directory_missing: bool,
    /// The trace files' file system has so many KiB.
    pub disk_kb: Option<u64>,
    /// `RLIMIT_NOFILE` of the program.
    pub descriptors: Option<u64>,
    /// Threads of the program, the first one counted.
    pub threads: usize,
    /// Threads that come and go beside these, one after the other, with a few records each.
    pub short_lived: usize,
    /// The most records of each thread ...
    pub records: u64,
    /// ... the pause after each, in microseconds ...
    pub pause_us: u64,
    /// ... and how long a process goes on at most, in milliseconds.
    pub run_ms: u64,
    /// Which records there are beside short ones.
    pub shapes: Shapes,
    /// Each thread is interrupted a thousand times a second by a handler that traces.
    pub signals: bool,
    /// What happens to the program.
    pub faults: Vec<Fault>,
    /// The processes that it forks.
    pub children: Vec<Child>,
    /// How it ends.
    pub end: End,
    /// What runs beside it.
    pub beside: Vec<Beside>,
    /// What comes after it, before the last merge.
    pub after: Vec<After>,
}

/// What a thread does that finds no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// It waits.
    Block,
    /// It drops the record.
    Drop,
    /// It overwrites the oldest.
    Overwrite,
}

/// Where rings are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// In `/dev/shm`.
    Memory,
    /// In a directory on disk.
    Disk,
    /// Nowhere: the directory cannot be made, so rings are private.
    Unusable,
}

/// Which records there are beside short ones; [`super::texts`] has their texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shapes {
    /// Messages of several lines.
    pub lines: bool,
    /// Longer than a block of the ring.
    pub long: bool,
    /// Longer than the ring.
    pub huge: bool,
    /// By the macro, whose arguments are formatted later.
    pub captured: bool,
    /// By a `Display` that traces.
    pub nested: bool,
    /// By a `Display` that panics.
    pub panics: bool,
    /// By a `Display` that leaves by a jump out of the record, as `longjmp` does.
    pub jumps: bool,
}

/// Something that thread `who` does before its record `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The thread.
    pub who: usize,
    /// The record.
    pub at: u64,
    /// What it does.
    pub what: What,
}

/// What a thread does to itself, its files and its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Deletes its file.
    Delete,
    /// Cuts its file to so many percent.
    Cut(u64),
    /// Replaces its file by a copy of it, by rename.
    Copy,
    /// Gives its file another name.
    Rename,
    /// Sets `RLIMIT_FSIZE` to so many KiB.
    FileLimit(u64),
    /// Closes all descriptors from 3 on, and opens files of its own in their place.
    CloseAll,
    /// Fills the disk.
    Fill,
    /// Removes what it was filled with.
    Unfill,
}

/// A process that thread `who` forks before its record `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// The thread.
    pub who: usize,
    /// The record.
    pub at: u64,
    /// It leaves its session and is forked twice; whoever stays in the middle ends at once.
    pub daemon: bool,
    /// After its first record it closes all descriptors from 3 on, and opens files of its own in their place.
    pub closes: bool,
    /// Its threads.
    pub threads: usize,
    /// The most records of each of them.
    pub records: u64,
    /// How it ends.
    pub end: ChildEnd,
}

/// How a forked process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildEnd {
    /// By `exit`, when all is done.
    Exit,
    /// By `_exit`, when all is done.
    ExitAtOnce,
    /// By SIGKILL in the middle.
    Killed,
}

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// `main` returns.
    Return,
    /// A thread calls `exit` before this record of its own.
    Exit(usize, u64),
    /// A thread calls `_exit`.
    ExitAtOnce(usize, u64),
    /// A thread calls `abort`.
    Abort(usize, u64),
    /// A thread sends SIGKILL to its process.
    KillsItself(usize, u64),
    /// A thread has the process become this program anew.
    Exec(usize, u64),
    /// It is killed after so many microseconds.
    Killed(u64),
    /// So is its whole process group.
    GroupKilled(u64),
}

/// Something that is begun so many microseconds after the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beside {
    /// When.
    pub after_us: u64,
    /// What.
    pub what: Aside,
}

/// What runs beside the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aside {
    /// `tracemerge`, into a file of its own.
    Merge,
    /// `tracemerge --follow`.
    Follow,
    /// `tracemerge check`.
    Check,
    /// `tracemerge snapshot`.
    Snapshot,
    /// The program once more.
    Program,
}

/// What comes after the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// A merge that is killed after so many microseconds.
    KilledMerge(u64),
    /// Three merges at once.
    Race,
    /// The program once more.
    Program,
}

impl Plan {
    /// The plan of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Plan {
        let random = &mut Random::new(seed);
        let policy = random.pick(&[Policy::Block, Policy::Block, Policy::Drop, Policy::Overwrite]);
        let threads = random.below(1, THREADS as u64 + 1) as usize;
        let records = random.magnitude(20, 20_000);
        let disk_kb = random.percent(7).then(|| random.magnitude(64, 2048));
        let mut plan = Plan {
            seed,
            ring_kb: random.pick(&[16, 16, 32, 64, 128, 256, 1024]),
            policy,
            max_stall: random.pick(&[60_000, 60_000, 60_000, 0, 1, 20]),
            raw: random.percent(50),
            flush_ms: random.magnitude(1, 101),
            fast: random.percent(20),
            max_kb: random.percent(15).then(|| random.magnitude(64, 512)),
            runtime: random.pick(&[Runtime::Memory, Runtime::Memory, Runtime::Disk]),
            directory_missing: disk_kb.is_none() && random.percent(7),
            disk_kb,
            descriptors: random.percent(8).then(|| random.magnitude(6, 24)),
            threads,
            short_lived: if random.percent(25) { random.magnitude(1, 48) as usize } else { 0 },
            records,
            pause_us: if random.percent(35) { random.magnitude(1, 300) } else { 0 },
            run_ms: random.below(20, 250),
            shapes: Shapes::random(random),
            signals: random.percent(20),
            faults: Vec::new(),
            children: Vec::new(),
            end: End::Return,
            beside: Vec::new(),
            after: Vec::new(),
        };
        if random.percent(10) {
            plan.runtime = Runtime::Unusable;
        }
        plan.add_faults(random);
        plan.add_children(random);
        plan.end = plan.random_end(random);
        plan.add_others(random);
        plan
    }

    /// One thread and one of its records, not among the last of them; early ones are as likely as late ones.
    fn moment(&self, random: &mut Random) -> (usize, u64) {
        let who = random.below(0, self.threads as u64) as usize;
        // Where threads pause, they do not come to all of them.
        let most = match self.pause_us {
            0 => self.records,
            pause => self.records.min(self.run_ms * 1000 / (pause + 60)).max(4),
        };
        let at = if random.percent(60) {
            random.below(1, most * 3 / 4 + 1)
        } else {
            random.magnitude(1, most * 3 / 4 + 1)
        };
        (who, at)
    }

    fn add_faults(&mut self, random: &mut Random) {
        if self.disk_kb.is_some() && random.percent(70) {
            let (who, at) = self.moment(random);
            self.faults.push(Fault { who, at, what: What::Fill });
            if random.percent(60) {
                let later = random.below(1, self.records / 4 + 2);
                self.faults.push(Fault { who, at: at + later, what: What::Unfill });
            }
        }
        for _ in 0..random.pick(&[0, 0, 1, 1, 1, 2, 3]) {
            let (who, at) = self.moment(random);
            let what = match random.below(0, 18) {
                0..3 => What::Delete,
                3..5 => What::Cut(0),
                5..7 => What::Cut(random.below(1, 100)),
                7..10 => What::Copy,
                10..13 => What::Rename,
                13..15 => What::FileLimit(random.magnitude(4, 400)),
                _ => What::CloseAll,
            };
            // A file that its thread has left is nobody's: what happens to it is told by nobody.
            let of_a_file =
                |what: What| matches!(what, What::Delete | What::Cut(_) | What::Copy | What::Rename);
            if !of_a_file(what) || !self.faults.iter().any(|f| f.who == who && of_a_file(f.what)) {
                self.faults.push(Fault { who, at, what });
            }
        }
    }

    fn add_children(&mut self, random: &mut Random) {
        for _ in 0..random.pick(&[0, 0, 0, 0, 1, 1, 2, 3]) {
            let (who, at) = self.moment(random);
            let daemon = random.percent(40);
            self.children.push(Child {
                who,
                at,
                daemon,
                closes: daemon && random.percent(70),
                threads: random.below(1, 4) as usize,
                records: random.magnitude(2, self.records),
                end: random.pick(&[ChildEnd::Exit, ChildEnd::Exit, ChildEnd::ExitAtOnce, ChildEnd::Killed]),
            });
        }
    }

    fn random_end(&self, random: &mut Random) -> End {
        let (who, at) = self.moment(random);
        match random.below(0, 20) {
            0..5 => End::Return,
            5..7 => End::Exit(who, at),
            7 => End::ExitAtOnce(who, at),
            8 => End::Abort(who, at),
            9..11 => End::KillsItself(who, at),
            11..13 => End::Exec(who, at),
            13..17 => End::Killed(random.magnitude(500, 150_000)),
            _ => End::GroupKilled(random.magnitude(500, 150_000)),
        }
    }

    fn add_others(&mut self, random: &mut Random) {
        for _ in 0..random.pick(&[0, 0, 1, 2]) {
            let what = random.pick(&[
                Aside::Merge,
                Aside::Merge,
                Aside::Follow,
                Aside::Check,
                Aside::Snapshot,
                Aside::Program,
            ]);
            let twice = what == Aside::Program && self.beside.iter().any(|b| b.what == what);
            if !twice {
                self.beside.push(Beside { after_us: random.magnitude(1000, 80_000), what });
            }
        }
        for _ in 0..random.pick(&[0, 1, 1, 2, 3]) {
            let what = match random.below(0, 10) {
                0..5 => After::KilledMerge(random.magnitude(300, 15_000)),
                5..8 => After::Race,
                _ => After::Program,
            };
            if what != After::Program || !self.after.contains(&what) {
                self.after.push(what);
            }
        }
    }

    /// Whether some fault is of this kind.
    #[must_use]
    pub fn has(&self, is: impl Fn(What) -> bool) -> bool {
        self.faults.iter().any(|fault| is(fault.what))
    }

    /// Whether some process closes descriptors that it does not know.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.has(|what| what == What::CloseAll) || self.children.iter().any(|child| child.closes)
    }
}

impl Shapes {
    fn random(random: &mut Random) -> Shapes {
        Shapes {
            lines: random.percent(60),
            long: random.percent(50),
            huge: random.percent(25),
            captured: random.percent(50),
            nested: random.percent(30),
            panics: random.percent(25),
            jumps: random.percent(15),
        }
    }
}
