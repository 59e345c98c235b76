//! The plan of a trial, made from its seed alone: settings, faults, processes, the end, and the events after it.

use super::Random;

/// The greatest number of threads of one process.
pub const THREADS: usize = 8;

/// The plan of one trial. Its `Debug` form is the one line that describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialPlan {
    /// The seed that the plan was made from.
    pub seed: u64,
    /// The value of `TRACER_RING_SIZE`, in KiB.
    pub ring_kb: u64,
    /// The value of `TRACER_FULL`.
    pub policy: Policy,
    /// The value of `TRACER_MAX_STALL`, in milliseconds.
    pub max_stall: u64,
    /// Whether `TRACER_FORMAT` is `raw`.
    pub raw: bool,
    /// The value of `TRACER_FLUSH_MS`, in milliseconds.
    pub flush_ms: u64,
    /// Whether `TRACER_CLOCK` is `fast`.
    pub fast: bool,
    /// The value of `TRACER_MAX_BYTES`, in KiB.
    pub max_kb: Option<u64>,
    /// The value of `TRACER_MAX_TOTAL`, in KiB.
    pub total_kb: Option<u64>,
    /// The place of the rings.
    pub runtime: Runtime,
    /// Whether `TRACER_DIR` is missing.
    pub directory_missing: bool,
    /// The size of the trace files' file system, in KiB.
    pub disk_kb: Option<u64>,
    /// The `RLIMIT_NOFILE` of the program.
    pub descriptors: Option<u64>,
    /// The number of threads of the program, including the first one.
    pub threads: usize,
    /// The number of threads that come and go beside these, one after the other, with a few records each.
    pub short_lived: usize,
    /// The greatest number of records of each thread.
    pub records: u64,
    /// The pause after each record, in microseconds.
    pub pause_us: u64,
    /// The longest time that a process goes on, in milliseconds.
    pub run_ms: u64,
    /// The shapes of records in addition to short ones.
    pub shapes: Shapes,
    /// Whether each thread is interrupted a thousand times a second by a handler that traces.
    pub signals: bool,
    /// The size in bytes of the stack that this handler runs on, if it has its own.
    pub signal_stack: Option<u64>,
    /// The size of the stacks of threads that come and go, in KiB, if it is not the usual one.
    pub stack_kb: Option<u64>,
    /// The faults that happen to the program.
    pub faults: Vec<Fault>,
    /// The processes that the program forks.
    pub children: Vec<Child>,
    /// The end of the program.
    pub end: ProgramEnd,
    /// The commands and programs that run beside the program.
    pub beside: Vec<Beside>,
    /// The commands and programs that run after the program, before the last merge.
    pub after: Vec<After>,
    /// The moment at which a trace file is copied beside itself.
    pub copied: Option<CopiedAt>,
}

/// The moment at which a trace file is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopiedAt {
    /// As soon as the program has ended: the copy lacks the records that are recovered later.
    Death,
    /// Before the last merge: the copy has everything that its original has.
    LastMerge,
}

/// The policy of a thread that finds no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The thread waits.
    Block,
    /// The thread drops the record.
    Drop,
    /// The thread overwrites the oldest records.
    Overwrite,
}

/// The place of the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// A directory in `/dev/shm`.
    Memory,
    /// A directory on disk.
    Disk,
    /// A directory that cannot be made, so rings are private.
    Unusable,
}

/// The shapes of records beside short ones; [`super::texts`] has their texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shapes {
    /// Whether there are messages of several lines.
    pub lines: bool,
    /// Whether there are messages longer than a block of the ring.
    pub long: bool,
    /// Whether there are messages longer than the ring.
    pub huge: bool,
    /// Whether there are records by the macro, whose arguments are formatted later.
    pub captured: bool,
    /// Whether there are records by a `Display` that traces.
    pub nested: bool,
    /// Whether there are records by a `Display` that panics.
    pub panics: bool,
    /// Whether there are records by a `Display` that leaves by a jump out of the record, as `longjmp` does.
    pub jumps: bool,
}

/// A fault that thread `who` makes before its record `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The number of the thread.
    pub who: usize,
    /// The number of the record.
    pub at: u64,
    /// The kind of the fault.
    pub what: What,
}

/// A fault that a thread makes to itself, its files or its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The thread deletes its file.
    Delete,
    /// The thread truncates its file to so many percent.
    Cut(u64),
    /// The thread replaces its file by a copy of it, by rename.
    Copy,
    /// The thread gives its file another name.
    Rename,
    /// The thread sets `RLIMIT_FSIZE` to so many KiB.
    FileLimit(u64),
    /// The thread closes all descriptors from 3 on, and opens files of its own in their place.
    CloseAll,
    /// The thread fills the disk.
    Fill,
    /// The thread removes the file that filled the disk.
    Unfill,
    /// The thread removes this part of its run's directory.
    Remove(Removal),
}

/// The part of a run's directory that is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The directory with all its files.
    Directory,
    /// The life file.
    Life,
    /// The files of all rings.
    Rings,
}

/// A process that thread `who` forks before its record `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// The number of the thread.
    pub who: usize,
    /// The number of the record.
    pub at: u64,
    /// Whether the process leaves its session and is forked twice; the process in the middle ends at once.
    pub daemon: bool,
    /// Whether the process closes all descriptors from 3 on after its first record, and opens files of its
    /// own in their place.
    pub closes: bool,
    /// The number of the process's threads.
    pub threads: usize,
    /// The greatest number of records of each of the process's threads.
    pub records: u64,
    /// The end of the process.
    pub end: ChildEnd,
}

/// The end of a forked process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildEnd {
    /// The process calls `exit`, when all is done.
    Exit,
    /// The process calls `_exit`, when all is done.
    ExitAtOnce,
    /// The process kills itself by SIGKILL in the middle of its work.
    Killed,
}

/// The end of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// `main` returns.
    Return,
    /// A thread of this number calls `exit` before its record of this number.
    Exit(usize, u64),
    /// A thread of this number calls `_exit` before its record of this number.
    ExitAtOnce(usize, u64),
    /// A thread of this number calls `abort` before its record of this number.
    Abort(usize, u64),
    /// A thread of this number sends SIGKILL to its process before its record of this number.
    KillsItself(usize, u64),
    /// A thread of this number executes this program anew before its record of this number.
    Exec(usize, u64),
    /// The program is killed after so many microseconds.
    Killed(u64),
    /// The program's whole process group is killed after so many microseconds.
    GroupKilled(u64),
}

/// A command or program that starts beside the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beside {
    /// The time after the program's start, in microseconds.
    pub after_us: u64,
    /// The kind of the command or program.
    pub what: Aside,
}

/// The commands and programs that run beside the program.
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

/// The commands and programs that run after the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// A merge that is killed after so many microseconds.
    KilledMerge(u64),
    /// Three merges at once.
    Race,
    /// The program once more.
    Program,
}

impl TrialPlan {
    /// Returns the plan of this seed.
    #[must_use]
    pub fn new(seed: u64) -> TrialPlan {
        let random = &mut Random::new(seed);
        let policy = random.pick(&[Policy::Block, Policy::Block, Policy::Drop, Policy::Overwrite]);
        let threads = random.below(1, THREADS as u64 + 1) as usize;
        let records = random.magnitude(20, 20_000);
        let disk_kb = random.percent(7).then(|| random.magnitude(64, 2048));
        let mut plan = TrialPlan {
            seed,
            ring_kb: random.pick(&[16, 16, 32, 64, 128, 256, 1024]),
            policy,
            max_stall: random.pick(&[60_000, 60_000, 60_000, 0, 1, 20]),
            raw: random.percent(50),
            flush_ms: random.magnitude(1, 101),
            fast: random.percent(20),
            max_kb: random.percent(15).then(|| random.magnitude(64, 512)),
            total_kb: None,
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
            signal_stack: None,
            stack_kb: None,
            faults: Vec::new(),
            children: Vec::new(),
            end: ProgramEnd::Return,
            beside: Vec::new(),
            after: Vec::new(),
            copied: None,
        };
        if random.percent(10) {
            plan.runtime = Runtime::Unusable;
        }
        plan.add_faults(random);
        plan.add_children(random);
        plan.end = plan.random_end(random);
        plan.add_others(random);
        plan.add_small_stacks(random);
        plan.add_removal(random);
        plan.copied = random.percent(10).then(|| random.pick(&[CopiedAt::Death, CopiedAt::LastMerge]));
        plan.total_kb = random.percent(12).then(|| random.magnitude(256, 2048));
        plan
    }

    /// Returns whether files may lose their older halves.
    #[must_use]
    pub fn rotates(&self) -> bool {
        self.max_kb.is_some() || self.total_kb.is_some()
    }

    /// Returns one thread and one of its records, not among the last of them; early ones are as likely as
    /// late ones.
    fn moment(&self, random: &mut Random) -> (usize, u64) {
        let who = random.below(0, self.threads as u64) as usize;
        // Threads that pause do not reach all of their records.
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
            // The tracer does not watch a file that its thread has left, so it does not report losses there.
            let of_a_file =
                |what: What| matches!(what, What::Delete | What::Cut(_) | What::Copy | What::Rename);
            if !of_a_file(what) || !self.faults.iter().any(|f| f.who == who && of_a_file(f.what)) {
                self.faults.push(Fault { who, at, what });
            }
        }
    }

    fn add_small_stacks(&mut self, random: &mut Random) {
        if random.percent(50) {
            self.signal_stack = Some(random.below(6, 24) * 1024);
        }
        if random.percent(30) {
            self.stack_kb = Some(random.pick(&[32, 48, 64]));
        }
    }

    /// Adds a fault that removes the run's directory, or a part of it, at any moment. In half of these plans, the
    /// program goes on long enough for its flusher to notice.
    fn add_removal(&mut self, random: &mut Random) {
        if !random.percent(15) {
            return;
        }
        let what = random.pick(&[Removal::Directory, Removal::Life, Removal::Rings]);
        if random.percent(50) {
            (self.run_ms, self.pause_us) = (1800, self.pause_us.max(150));
            self.records = self.records.max(random.magnitude(6_000, 12_000));
            let later = random.below(300_000, 1_900_000);
            match &mut self.end {
                ProgramEnd::Killed(after_us) | ProgramEnd::GroupKilled(after_us) => *after_us = later,
                _ => {}
            }
        }
        let (who, at) = self.moment(random);
        // The fault comes early, so that the flusher may notice it.
        self.faults.push(Fault { who, at: at / 4 + 1, what: What::Remove(what) });
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

    fn random_end(&self, random: &mut Random) -> ProgramEnd {
        let (who, at) = self.moment(random);
        match random.below(0, 20) {
            0..5 => ProgramEnd::Return,
            5..7 => ProgramEnd::Exit(who, at),
            7 => ProgramEnd::ExitAtOnce(who, at),
            8 => ProgramEnd::Abort(who, at),
            9..11 => ProgramEnd::KillsItself(who, at),
            11..13 => ProgramEnd::Exec(who, at),
            13..17 => ProgramEnd::Killed(random.magnitude(500, 150_000)),
            _ => ProgramEnd::GroupKilled(random.magnitude(500, 150_000)),
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

    /// Returns whether any fault is of this kind.
    #[must_use]
    pub fn has(&self, is: impl Fn(What) -> bool) -> bool {
        self.faults.iter().any(|fault| is(fault.what))
    }

    /// Returns whether any process closes descriptors that it does not know.
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
