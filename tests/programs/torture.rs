//! The program that is tortured: it follows the plan that is made from its seed, and counts its records in memory that
//! survives a kill. The test's side is `tests/support/torture`.

use std::cell::Cell;
use std::ffi::CString;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use support::scenarios::Scenario;
use support::torture::counters::{
    AGAIN, CHILD, Counters, EXECUTED, OTHER, SHORT_LIVED, SlotCounters, handler, inside, slot,
};
use support::torture::oracle::count_records_of_ended_file;
use support::torture::plan::{Child, ChildEnd, ProgramEnd, Removal, THREADS, TrialPlan, What};
use support::torture::texts::{FILLING, Shape, closing};
use support::torture::trial::own_content;
use tracer::Tracer;

pub const SCENARIOS: &[Scenario] = &[("torture", |args| torture(args.text(0), args.text(1), args.text(2)))];

/// One process: its plan, and its number among the processes of the trial.
struct Host {
    plan: TrialPlan,
    counters: Counters,
    process: usize,
    start: Instant,
}

/// The counters, for handlers.
static COUNTERS: OnceLock<Counters> = OnceLock::new();
/// The ids of the program's threads that get signals, by number; 0 for none.
static INTERRUPTED: [AtomicI32; THREADS] = [const { AtomicI32::new(0) }; THREADS];
/// The children to wait for.
static CHILDREN: [AtomicI32; 3] = [const { AtomicI32::new(0) }; 3];
/// A lock that is held during a fault, so that no fault closes descriptors that another one has open.
static FAULTS: Mutex<()> = Mutex::new(());

thread_local! {
    /// The slot of this thread's signal handler.
    static HANDLER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Follows the plan of `seed`; `role` names this program among those of the trial.
pub fn torture(seed: &str, counters: &str, role: &str) {
    // A panic on purpose is not reported.
    std::panic::set_hook(Box::new(|info| {
        if info.payload().downcast_ref::<&str>().is_none_or(|text| *text != ON_PURPOSE) {
            eprintln!("{info}");
        }
    }));
    let plan = TrialPlan::new(seed.parse().expect("a seed"));
    let mapped = Counters::map(Path::new(counters));
    let _ = COUNTERS.set(mapped);
    let process = match role {
        "first" => 0,
        "executed" => EXECUTED,
        "again" => AGAIN,
        "other" => OTHER,
        other => panic!("no role {other:?}"),
    };
    let host = Host { plan, counters: mapped, process, start: Instant::now() };
    // SAFETY: the calls set limits and the handling of signals, before there is a second thread.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        set_limit(libc::RLIMIT_CORE, 0);
        if let Some(descriptors) = host.plan.descriptors.filter(|_| process == 0) {
            set_limit(libc::RLIMIT_NOFILE, descriptors);
        }
    }
    let host = Arc::new(host);
    if process == 0 {
        host.run_all();
    } else {
        host.run(2.min(host.plan.threads), host.plan.records / 4 + 1);
    }
    host.exits();
}

/// The payload of a panic in a `Display`.
const ON_PURPOSE: &str = "on purpose";

/// Sets a limit of this process.
fn set_limit(limit: libc::__rlimit_resource_t, value: u64) {
    let both = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: the argument is plain memory.
    let _ = unsafe { libc::setrlimit(limit, &both) };
}

/// A thread of the C library. A thread of `std` takes locks of `std` when it starts; a fork in another thread would
/// leave them locked in the child for ever.
struct CThread(libc::pthread_t);

impl CThread {
    fn spawn(work: impl FnOnce() + Send + 'static) -> CThread {
        CThread::with_stack(None, work)
    }

    /// Starts a thread with a stack of `stack_kb` KiB, or of the usual size.
    fn with_stack(stack_kb: Option<u64>, work: impl FnOnce() + Send + 'static) -> CThread {
        extern "C" fn run(work: *mut libc::c_void) -> *mut libc::c_void {
            // SAFETY: this is the box that was leaked below, once.
            let work = unsafe { Box::from_raw(work.cast::<Box<dyn FnOnce() + Send>>()) };
            work();
            std::ptr::null_mut()
        }
        let work: Box<Box<dyn FnOnce() + Send>> = Box::new(Box::new(work));
        let work = Box::into_raw(work).cast();
        let (mut thread, start) = (0, Instant::now());
        // SAFETY: plain memory, which the call initialises.
        let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
        // SAFETY: the attributes are this function's.
        unsafe {
            libc::pthread_attr_init(&mut attributes);
            if let Some(kb) = stack_kb {
                assert_eq!(libc::pthread_attr_setstacksize(&mut attributes, kb as usize * 1024), 0);
            }
        }
        let error = loop {
            // SAFETY: the function takes the box that is given to it, which is its own from here on, if there is a
            // thread.
            let error = unsafe { libc::pthread_create(&mut thread, &attributes, run, work) };
            // Linux makes no thread while another one replaces the program by `exec`.
            if error != libc::EAGAIN || start.elapsed() > Duration::from_secs(5) {
                break error;
            }
            std::thread::yield_now();
        };
        assert_eq!(error, 0, "a thread");
        CThread(thread)
    }

    /// Waits for the whole end of the thread.
    fn join(self) {
        // SAFETY: no other call waits for the thread, because `self` is consumed here.
        assert_eq!(unsafe { libc::pthread_join(self.0, std::ptr::null_mut()) }, 0);
    }
}

impl Host {
    /// Runs the program: long-lived and short-lived threads, and signals; then waits for its children.
    fn run_all(self: &Arc<Host>) {
        if self.plan.signals {
            handle_signals(self.plan.signal_stack.is_some());
            let host = self.clone();
            CThread::spawn(move || host.interrupt());
        }
        let short_lived = (self.plan.short_lived > 0).then(|| {
            let host = self.clone();
            CThread::spawn(move || host.run_short_lived_threads())
        });
        self.run(self.plan.threads, self.plan.records);
        short_lived.into_iter().for_each(CThread::join);
        for child in &CHILDREN {
            let pid = child.load(Ordering::Acquire);
            if pid > 0 {
                let mut status = 0;
                // SAFETY: the process is our own child; the result is plain memory.
                unsafe { libc::waitpid(pid, &mut status, 0) };
            }
        }
    }

    /// Traces on `threads` threads, including this one, and waits for their end.
    fn run(self: &Arc<Host>, threads: usize, records: u64) {
        self.counters.process(self.process).begins();
        let start = |thread: usize| {
            let host = self.clone();
            CThread::spawn(move || host.work(thread, records))
        };
        let others: Vec<_> = (1..threads).map(start).collect();
        self.work(0, records);
        others.into_iter().for_each(CThread::join);
    }

    fn is_over(&self) -> bool {
        self.start.elapsed() > Duration::from_millis(self.plan.run_ms) || self.counters.is_stopped()
    }

    /// Runs the life of one thread.
    fn work(self: &Arc<Host>, thread: usize, records: u64) {
        let slot = slot(self.process, thread);
        let words = self.counters.slot(slot);
        [slot, inside(slot), handler(slot)].iter().for_each(|slot| self.counters.slot(*slot).begins());
        let signals = self.plan.signals && self.process == 0;
        if signals {
            if let Some(bytes) = self.plan.signal_stack {
                set_signal_stack(bytes as usize);
            }
            HANDLER.set(Some(handler(slot)));
            // SAFETY: the call only returns an id, and touches no memory.
            INTERRUPTED[thread].store(unsafe { libc::gettid() }, Ordering::Release);
        }
        for n in 0..records {
            if (self.plan.pause_us > 0 || n.is_multiple_of(16)) && self.is_over() {
                break;
            }
            self.events(thread, n, records);
            self.record(slot, words);
            if self.plan.pause_us > 0 {
                std::thread::sleep(Duration::from_micros(self.plan.pause_us));
            }
        }
        INTERRUPTED[thread].store(0, Ordering::Release);
        close_with(slot, words);
    }

    /// Causes the faults and ends that the plan has before record `n` of a thread.
    fn events(self: &Arc<Host>, thread: usize, n: u64, records: u64) {
        match self.process {
            0 => {}
            CHILD..EXECUTED if thread == 0 => return self.events_of_child(n, records),
            _ => return,
        }
        for fault in self.plan.faults.iter().filter(|fault| (fault.who, fault.at) == (thread, n)) {
            let _held = FAULTS.lock().expect("nobody panics");
            self.fault(thread, fault.what);
        }
        for (index, child) in self.plan.children.iter().enumerate() {
            if (child.who, child.at) == (thread, n) {
                // The child inherits the lock, which its only thread holds.
                let _held = FAULTS.lock().expect("nobody panics");
                self.fork(index, *child);
            }
        }
        let here = |who: usize, at: u64| (who, at) == (thread, n);
        match self.plan.end {
            ProgramEnd::Exit(who, at) if here(who, at) => {
                // A process that is forked in the middle of an `exit` cannot exit any more.
                let _held = FAULTS.lock().expect("nobody panics");
                self.exits();
                std::process::exit(0);
            }
            // SAFETY: the calls end the process, each in its own way.
            ProgramEnd::ExitAtOnce(who, at) if here(who, at) => unsafe { libc::_exit(0) },
            // SAFETY: the reason is the same as above.
            ProgramEnd::Abort(who, at) if here(who, at) => unsafe { libc::abort() },
            ProgramEnd::KillsItself(who, at) if here(who, at) => kill_itself(),
            ProgramEnd::Exec(who, at) if here(who, at) => execute_again(),
            _ => {}
        }
    }

    fn events_of_child(&self, n: u64, records: u64) {
        let child = self.plan.children[self.process - CHILD];
        if child.closes && n == 1 {
            self.close_all();
        }
        if child.end == ChildEnd::Killed && n == records / 2 {
            kill_itself();
        }
    }

    /// Notes that an exit begins: the records up to now must be kept.
    fn exits(&self) {
        let own = slot(self.process, 0)..slot(self.process + 1, 0);
        let short_lived =
            SHORT_LIVED..SHORT_LIVED + if self.process == 0 { self.plan.short_lived } else { 0 };
        own.chain(short_lived).for_each(|slot| self.counters.slot(slot).exits());
        self.counters.process(self.process).ends();
    }

    /// Makes the next record of a slot.
    fn record(&self, slot: usize, words: SlotCounters) {
        let n = words.call();
        let shape = self.plan.shape(slot, n);
        let tracer = Tracer::get();
        match shape {
            Shape::Short => tracer.trace(format_args!("{slot} {n}")),
            Shape::Lines => tracer.trace(format_args!("{slot} {n} \nand more\n")),
            Shape::Long | Shape::Huge => {
                tracer.trace(format_args!("{slot} {n} {}", Filling(self.plan.filling(shape))));
            }
            Shape::Captured => tracer::trace!("{slot} {n} {:?} {:.3} {}", n as f64 / 8.0, slot as f64, "é"),
            Shape::Nested => {
                let inner = Inside(inside(slot), self.counters.slot(inside(slot)));
                tracer.trace(format_args!("{slot} {n} {inner}"));
            }
            Shape::Panics => tracer.trace(format_args!("{slot} {n} {Panics}")),
            Shape::Jumps => {
                if left_by_jump(&|way_out| tracer.trace(format_args!("{slot} {n} {}", Leaves(way_out)))) {
                    // The tracer notices that at the next call, and counts the record as lost.
                    return;
                }
            }
        }
        words.returned();
    }

    /// Runs threads that come and go, each with a few records.
    fn run_short_lived_threads(self: Arc<Host>) {
        for index in 0..self.plan.short_lived {
            if self.is_over() {
                return;
            }
            let host = self.clone();
            let thread = CThread::with_stack(self.plan.stack_kb, move || {
                let slot = SHORT_LIVED + index;
                let words = host.counters.slot(slot);
                words.begins();
                (0..index as u64 % 40).for_each(|_| host.record(slot, words));
                close_with(slot, words);
            });
            thread.join();
        }
    }

    /// Sends each thread a signal a thousand times a second.
    fn interrupt(&self) {
        loop {
            std::thread::sleep(Duration::from_millis(1));
            for thread in &INTERRUPTED {
                let tid = thread.load(Ordering::Acquire);
                if tid != 0 {
                    // SAFETY: the call touches no memory. The thread is one of this process, or has ended.
                    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, libc::SIGURG) };
                }
            }
        }
    }

    /// Causes a fault of one thread; skips one that cannot be caused.
    fn fault(&self, thread: usize, what: What) {
        match what {
            What::Delete => {
                drop(own_file().filter(|path| self.note_removed_file(thread, path)).map(std::fs::remove_file))
            }
            What::Cut(percent) => {
                let cut = |path: PathBuf| -> std::io::Result<()> {
                    let file = File::options().write(true).open(path)?;
                    file.set_len(file.metadata()?.len() * percent / 100)
                };
                let _ = own_file().filter(|path| self.note_removed_file(thread, path)).map(cut);
            }
            What::Copy => {
                let replace = |path: PathBuf| -> std::io::Result<()> {
                    let copy = path.with_file_name(format!("copy of {}", std::process::id()));
                    match std::fs::copy(&path, &copy) {
                        Ok(_) => std::fs::rename(copy, path),
                        Err(_) => std::fs::remove_file(copy),
                    }
                };
                let _ = own_file().map(replace);
            }
            What::Rename => {
                // No thread has such an id.
                // SAFETY: the call only returns an id, and touches no memory.
                let number = 10_000_000 + unsafe { libc::gettid() };
                let name = |path: &Path| path.with_file_name(format!("scenario.trace.{number}"));
                let free = |path: &PathBuf| !name(path).exists();
                drop(own_file().filter(free).map(|path| std::fs::rename(&path, name(&path))));
            }
            What::FileLimit(kb) => set_limit(libc::RLIMIT_FSIZE, kb * 1024),
            What::CloseAll => self.close_all(),
            What::Fill if std::env::var_os("TORTURE_SMALL_DISK").is_some() => {
                if let Ok(mut file) = File::create(filler()) {
                    for block in [vec![0; 64 * 1024], vec![0; 512], vec![0]] {
                        while file.write(&block).is_ok_and(|written| written > 0) {}
                    }
                }
            }
            What::Unfill if std::env::var_os("TORTURE_SMALL_DISK").is_some() => {
                drop(std::fs::remove_file(filler()));
            }
            What::Fill | What::Unfill => {}
            What::Remove(what) => remove(what),
        }
    }

    /// Notes the records in a thread's file that a fault takes away now, if the tracer has ended that file: the
    /// thread's ring was closed, and the thread has another one, so the tracer does not notice. Returns false if
    /// the file cannot be read.
    fn note_removed_file(&self, thread: usize, path: &Path) -> bool {
        let Ok(bytes) = std::fs::read(path) else { return false };
        self.counters
            .slot(slot(self.process, thread))
            .note_removed_records(count_records_of_ended_file(&bytes));
        true
    }

    /// Closes all descriptors that may be the tracer's, and opens files of its own, which get their numbers and
    /// stay open.
    fn close_all(&self) {
        let directory = PathBuf::from(std::env::var_os("TORTURE_OWN").expect("the test sets it"));
        // SAFETY: this process has no descriptor of its own open while the lock of faults is held.
        unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
        for n in 0..24 {
            let Ok(mut file) = File::create(directory.join(format!("{}-{n}", self.process))) else { return };
            let _ = file.write_all(&own_content(n));
            let _ = file.into_raw_fd();
        }
    }

    /// Forks. The child does not return.
    fn fork(self: &Arc<Host>, index: usize, child: Child) {
        // SAFETY: the child traces, starts threads and ends, which the tracer and the C library make
        // possible.
        let pid = unsafe { libc::fork() };
        if pid != 0 {
            if child.daemon && pid > 0 {
                let mut status = 0;
                // SAFETY: the child is our own and ends at once; the result is plain memory.
                unsafe { libc::waitpid(pid, &mut status, 0) };
            } else {
                CHILDREN[index].store(pid, Ordering::Release);
            }
            return;
        }
        HANDLER.set(None);
        if child.daemon {
            // SAFETY: the process in the middle ends without its exit handlers.
            unsafe {
                libc::setsid();
                if libc::fork() != 0 {
                    libc::_exit(0);
                }
            }
        }
        let host = Host {
            plan: self.plan.clone(),
            counters: self.counters,
            process: CHILD + index,
            start: Instant::now(),
        };
        let host = Arc::new(host);
        host.run(child.threads, child.records);
        match child.end {
            ChildEnd::Exit => {
                host.exits();
                // SAFETY: the call runs the exit handlers; `std` would first take locks of its own, which a fork
                // may have left locked.
                unsafe { libc::exit(0) }
            }
            // SAFETY: the call ends the process.
            ChildEnd::ExitAtOnce => unsafe { libc::_exit(0) },
            ChildEnd::Killed => kill_itself(),
        }
    }
}

/// Makes the last record of a thread.
fn close_with(slot: usize, words: SlotCounters) {
    let n = words.call();
    Tracer::get().trace(format_args!("{}", closing(slot, n)));
    words.returned();
    words.ends();
}

fn kill_itself() -> ! {
    // SAFETY: the call touches no memory; the process ends here.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    loop {
        std::thread::park();
    }
}

/// Executes this program anew, in another role.
fn execute_again() {
    let words: Vec<CString> = std::env::args_os()
        .take(4)
        .map(|word| CString::new(word.as_bytes()).expect("no zero in it"))
        .chain([c"executed".into()])
        .collect();
    let mut pointers: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: the strings end in zero, the array in null.
    unsafe { libc::execv(words[0].as_ptr(), pointers.as_ptr()) };
    panic!("exec: {}", std::io::Error::last_os_error());
}

/// Removes the directories of this process's runs, or some of their files.
fn remove(what: Removal) {
    let Some(runtime) = std::env::var_os("TRACER_RUNTIME_DIR") else { return };
    let own = format!("{}-", std::process::id());
    let names = |path: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let begins = |path: &PathBuf, with: &str| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(with))
    };
    for run in names(Path::new(&runtime)).into_iter().filter(|path| begins(path, &own)) {
        let prefix = match what {
            Removal::Directory => {
                let _ = std::fs::remove_dir_all(&run);
                continue;
            }
            Removal::Life => "life",
            Removal::Rings => "ring-",
        };
        for file in names(&run).into_iter().filter(|path| begins(path, prefix)) {
            let _ = std::fs::remove_file(file);
        }
    }
}

fn filler() -> PathBuf {
    PathBuf::from(std::env::var_os("TRACER_DIR").expect("the test sets it")).join("filler")
}

/// Returns the newest of the calling thread's files.
fn own_file() -> Option<PathBuf> {
    // SAFETY: the call only returns an id, and touches no memory.
    let tid = unsafe { libc::gettid() };
    let own = format!("scenario.trace.{tid}");
    let number = |path: &PathBuf| -> Option<u64> {
        let rest = path.file_name()?.to_str()?.strip_prefix(&own)?;
        if rest.is_empty() { Some(0) } else { rest.strip_prefix('.')?.parse().ok() }
    };
    let places = [PathBuf::from(std::env::var_os("TRACER_DIR")?), std::env::current_dir().ok()?];
    let files = places.iter().filter_map(|place| std::fs::read_dir(place).ok()).flatten();
    let files = files.filter_map(Result::ok).map(|entry| entry.path());
    files.filter_map(|path| Some((number(&path)?, path))).max().map(|(_, path)| path)
}

/// Gives the calling thread a signal stack of so many bytes, with pages below it that cannot be accessed.
fn set_signal_stack(bytes: usize) {
    const PAGE: usize = 4096;
    let pages = bytes.div_ceil(PAGE) * PAGE;
    // SAFETY: the memory is new, and stays mapped for good; the stack is its upper end.
    unsafe {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let memory = libc::mmap(std::ptr::null_mut(), pages + 4 * PAGE, access, kind, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(memory, 4 * PAGE, libc::PROT_NONE), 0);
        let ss_sp = memory.add(pages + 4 * PAGE - bytes);
        let stack = libc::stack_t { ss_sp, ss_flags: 0, ss_size: bytes };
        // If the system refuses the size, the thread keeps its own stack.
        libc::sigaltstack(&stack, std::ptr::null_mut());
    }
}

fn handle_signals(on_own_stack: bool) {
    extern "C" fn traces(_: libc::c_int) {
        let (Some(slot), Some(counters)) = (HANDLER.get(), COUNTERS.get()) else { return };
        let words = counters.slot(slot);
        let n = words.call();
        Tracer::get().trace(format_args!("{slot} {n} handler"));
        words.returned();
    }
    // SAFETY: the handler traces, reads a thread-local without a destructor and stores to atomics.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = traces as *const () as usize;
        action.sa_flags = libc::SA_RESTART | if on_own_stack { libc::SA_ONSTACK } else { 0 };
        assert_eq!(libc::sigaction(libc::SIGURG, &action, std::ptr::null_mut()), 0);
    }
}

struct Filling(usize);

impl fmt::Display for Filling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.0).try_for_each(|_| f.write_str(FILLING))
    }
}

/// A value that traces while it is formatted.
struct Inside(usize, SlotCounters);

impl fmt::Display for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.1.call();
        Tracer::get().trace(format_args!("{} {n} inside", self.0));
        self.1.returned();
        f.write_str("outside")
    }
}

struct Panics;

impl fmt::Display for Panics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("half of it")?;
        std::panic::panic_any(ON_PURPOSE)
    }
}

/// A value whose formatting leaves the record by a jump.
struct Leaves<'a>(&'a WayOut);

/// The stack pointer to which [`left_by_jump`] returns.
#[derive(Default)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "there a panic takes the place of a jump"))]
struct WayOut(AtomicU64);

impl fmt::Display for Leaves<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("half of it")?;
        leave(self.0)
    }
}

type Work<'a> = &'a dyn Fn(&WayOut);

/// Calls `work`; returns true if [`leave`] left it. The frames between have nothing to drop, or leak it.
#[cfg(target_arch = "x86_64")]
fn left_by_jump(work: Work<'_>) -> bool {
    unsafe extern "C" {
        fn torture_call(
            stack: *mut u64,
            work: extern "C" fn(*mut libc::c_void),
            with: *mut libc::c_void,
        ) -> i32;
    }
    struct Call<'a>(Work<'a>, WayOut);
    extern "C" fn calls(call: *mut libc::c_void) {
        // SAFETY: this is the pointer that is given below, which lives as long as the call.
        let call = unsafe { &*call.cast::<Call<'_>>() };
        (call.0)(&call.1);
    }
    let mut call = Call(work, WayOut::default());
    let stack = call.1.0.as_ptr();
    let with = (&raw mut call).cast();
    // SAFETY: the code saves the caller's registers on the stack and the stack pointer in the word, and calls; both
    // ways back restore them.
    unsafe { torture_call(stack, calls, with) != 0 }
}

#[cfg(target_arch = "x86_64")]
fn leave(way_out: &WayOut) -> ! {
    unsafe extern "C" {
        fn torture_leave(stack: u64) -> !;
    }
    // SAFETY: the call of `torture_call` that has set it has not returned.
    unsafe { torture_leave(way_out.0.load(Ordering::Relaxed)) }
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    "torture_call:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    "mov [rdi], rsp",
    "mov rdi, rdx",
    "call rsi",
    "xor eax, eax",
    "2:",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    "torture_leave:",
    "mov rsp, rdi",
    "mov eax, 1",
    "jmp 2b",
);

/// Calls `work`, which panics here instead of jumping: a panic ends a record as well.
#[cfg(not(target_arch = "x86_64"))]
fn left_by_jump(work: Work<'_>) -> bool {
    work(&WayOut::default());
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn leave(_: &WayOut) -> ! {
    std::panic::panic_any(ON_PURPOSE)
}
