//! A traced program that ends in the given way, on every system. Called again, it checks whether the merged trace has
//! all that it has traced.
//!
//! `endings <way> <counts> [<milliseconds>]` ends in that way, or another process of the program kills it (`kill-`).
//! Each of its voices counts its records in the file `<counts>`, which is new and mapped, so that the counts outlive
//! the process however it ends. `endings verify <counts> <merged>` reads the merged trace and compares: each record
//! once, in order, and none missing.
#![allow(unsafe_code, reason = "maps a file, and ends the process by functions of C")]
#![allow(clippy::print_stdout, reason = "says what it has found")]

use std::cell::Cell;
use std::error::Error;
use std::fs::File;
use std::process::{Command, ExitCode};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use memmap2::MmapRaw;
use tracer::trace;

/// The greatest number of voices.
const VOICES: usize = 512;
/// The number of records of a voice that ends.
const RECORDS: usize = 1000;

static COUNTS: OnceLock<&'static [AtomicU64; VOICES]> = OnceLock::new();

/// Maps the file of the counts.
fn counts_in(file: &File) -> Result<&'static [AtomicU64; VOICES], Box<dyn Error>> {
    let map: &'static MmapRaw = Box::leak(Box::new(MmapRaw::map_raw(file)?));
    if map.len() < VOICES * 8 {
        return Err("the file of counts is too short".into());
    }
    // SAFETY: the mapping is long enough, aligned, and never unmapped; any bytes are valid atomics.
    Ok(unsafe { &*map.as_ptr().cast() })
}

/// Traces the next record of a voice, and then counts it. Only one thread at a time has a voice.
fn say(voice: usize) {
    let Some(count) = COUNTS.get().map(|counts| &counts[voice]) else { return };
    let number = count.load(Ordering::Relaxed);
    trace!("voice {voice} says {number}");
    count.store(number + 1, Ordering::Release);
}

fn say_all(voice: usize) {
    (0..RECORDS).for_each(|_| say(voice));
}

/// A thread's variable that traces when the thread ends.
struct LastWord(Cell<usize>);

impl Drop for LastWord {
    fn drop(&mut self) {
        say(self.0.get());
    }
}

thread_local! {
    static LAST_WORD: LastWord = const { LastWord(Cell::new(0)) };
}

/// The voices of threads that trace as long as the process lives.
const ENDLESS: [usize; 3] = [100, 101, 102];

/// Starts threads that trace as long as the process lives, and waits until each has traced something.
fn start_endless() {
    for voice in ENDLESS {
        thread::spawn(move || {
            loop {
                say(voice);
            }
        });
    }
    while ENDLESS.into_iter().any(|voice| counted(voice) < 100) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs `body` on threads, each with a voice, and waits for them.
fn on_threads(number: usize, body: fn(usize)) {
    let threads: Vec<_> = (1..=number).map(|voice| thread::spawn(move || body(voice))).collect();
    threads.into_iter().for_each(|thread| _ = thread.join());
}

unsafe extern "C" {
    fn exit(status: i32) -> !;
    fn atexit(handler: extern "C" fn()) -> i32;
}

extern "C" fn say_at_exit() {
    say(10);
}

/// Returns the count of the voice of this number.
fn counted(voice: usize) -> u64 {
    COUNTS.get().map_or(0, |counts| counts[voice].load(Ordering::Acquire))
}

/// Starts this program again, which traces for ever, and kills it when it traces and `patience` is over. This
/// process itself traces nothing.
fn kill_another(way: &str, counts: &str, patience: Duration) -> Result<(), Box<dyn Error>> {
    let mut child = Command::new(std::env::current_exe()?).args([way, counts]).spawn()?;
    while counted(0) < RECORDS as u64
        || (way == "busy" && ENDLESS.into_iter().any(|voice| counted(voice) < 100))
    {
        if let Some(status) = child.try_wait()? {
            return Err(format!("it has ended before it was killed: {status}").into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(patience);
    child.kill()?;
    child.wait()?;
    Ok(())
}

fn wait_for_ever() -> ! {
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

fn crash() {
    // SAFETY: none; this is what ends the process.
    unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) };
}

/// Waits until Ctrl-C ends it, with a status of its own.
#[cfg(windows)]
fn wait_for_interrupt() -> ! {
    #[link(name = "kernel32", kind = "raw-dylib")]
    unsafe extern "system" {
        fn SetConsoleCtrlHandler(handler: extern "system" fn(u32) -> i32, add: i32) -> i32;
    }
    extern "system" fn interrupt(_event: u32) -> i32 {
        say_all(1);
        std::process::exit(5)
    }
    // SAFETY: the function lives as long as the process and may be called on any thread.
    unsafe { SetConsoleCtrlHandler(interrupt, 1) };
    say(2);
    wait_for_ever()
}

/// Notifies the process that has started this one, and this one, that their console is closed. Like the system, it
/// starts a new thread in each, which runs the system's own routine for that. Ends this process with the status 9
/// if that fails.
#[cfg(windows)]
fn close_console() {
    use std::ffi::c_void;

    /// The kernel's data of a process; the last word is the pid of the process that has started it.
    type Basics = [usize; 6];
    #[link(name = "kernel32", kind = "raw-dylib")]
    unsafe extern "system" {
        fn GetModuleHandleA(name: *const u8) -> *mut c_void;
        fn GetProcAddress(module: *mut c_void, name: *const u8) -> *const c_void;
        fn GetCurrentProcess() -> *mut c_void;
        fn OpenProcess(access: u32, inherit: i32, pid: u32) -> *mut c_void;
        fn CreateRemoteThread(
            process: *mut c_void,
            attributes: *const c_void,
            stack: usize,
            start: *const c_void,
            argument: *const c_void,
            flags: u32,
            id: *mut u32,
        ) -> *mut c_void;
    }
    #[link(name = "ntdll", kind = "raw-dylib")]
    unsafe extern "system" {
        fn NtQueryInformationProcess(
            process: *mut c_void,
            class: u32,
            basics: *mut Basics,
            length: u32,
            needed: *mut u32,
        ) -> i32;
    }
    const MAY_DO_ALL: u32 = 0x1f_ffff;
    const CLOSE: usize = 2;
    let mut basics: Basics = [0; 6];
    // SAFETY: the results are plain memory of the given lengths. The routine is at the same address in all
    // processes, because they share the library that has it, and takes the event itself as its argument. Without
    // the routine or a process, no thread is started.
    let closed = unsafe {
        let own = GetCurrentProcess();
        let routine = GetProcAddress(
            GetModuleHandleA(c"kernelbase.dll".as_ptr().cast()),
            c"CtrlRoutine".as_ptr().cast(),
        );
        NtQueryInformationProcess(own, 0, &raw mut basics, size_of::<Basics>() as u32, std::ptr::null_mut());
        let parent = OpenProcess(MAY_DO_ALL, 0, basics[5] as u32);
        let event = std::ptr::without_provenance(CLOSE);
        let close = |process| {
            !CreateRemoteThread(process, std::ptr::null(), 0, routine, event, 0, std::ptr::null_mut())
                .is_null()
        };
        !routine.is_null() && !parent.is_null() && close(parent) && close(own)
    };
    if !closed {
        std::process::exit(9);
    }
}

/// Ends the process in the way of this name; returns if that is a return from `main`.
fn end(way: &str, patience: Duration) -> Result<(), Box<dyn Error>> {
    // SAFETY: these functions may be called at any time; the handler lives as long as the program.
    let call_exit = || unsafe { exit(3) };
    say_all(0);
    let way = match way.strip_prefix("running-") {
        Some(way) => {
            start_endless();
            thread::sleep(patience);
            way
        }
        None => way,
    };
    match way {
        "return" => {}
        "panic" => std::panic::panic_any("this is how it ends"),
        "exit" => call_exit(),
        "exit-on-thread" => on_threads(1, |voice| {
            say_all(voice);
            // SAFETY: as above.
            unsafe { exit(3) }
        }),
        "process-exit" => std::process::exit(3),
        "process-exit-on-thread" => on_threads(1, |voice| {
            say_all(voice);
            std::process::exit(3);
        }),
        // SAFETY: as above.
        "atexit" => _ = unsafe { atexit(say_at_exit) },
        "threads" => on_threads(200, |voice| (0..10).for_each(|_| say(voice))),
        "last-words" => on_threads(20, |voice| {
            LAST_WORD.with(|last| last.0.set(200 + voice));
            say_all(voice);
        }),
        "last-word-of-main" => LAST_WORD.with(|last| last.0.set(200)),
        "abort" => std::process::abort(),
        "crash" => crash(),
        #[cfg(windows)]
        "interrupt" => wait_for_interrupt(),
        #[cfg(windows)]
        "close" => {
            close_console();
            wait_for_ever();
        }
        "quiet" => wait_for_ever(),
        "busy" => {
            start_endless();
            wait_for_ever();
        }
        _ => return Err(format!("there is no way {way:?} to end").into()),
    }
    Ok(())
}

/// Returns the voice and the number of a record in a line.
fn record_in(line: &str) -> Option<(usize, u64)> {
    let (_, rest) = line.split_once("voice ")?;
    let (voice, number) = rest.split_once(" says ")?;
    Some((voice.parse().ok()?, number.trim_end().parse().ok()?))
}

/// Checks that the merged trace has the counted records. It may also have a record whose thread was ended before it
/// could count it.
fn verify(counts: &[AtomicU64; VOICES], merged: &str) -> Result<u64, String> {
    let mut next = [0; VOICES];
    for (voice, number) in merged.lines().filter_map(record_in) {
        let expected = next.get_mut(voice).ok_or_else(|| format!("there is no voice {voice}"))?;
        if number != *expected {
            return Err(format!("voice {voice} says {number} where {expected} was to come"));
        }
        *expected += 1;
    }
    for (voice, (found, counted)) in next.iter().zip(counts).enumerate() {
        let counted = counted.load(Ordering::Acquire);
        if ![counted, counted + 1].contains(found) {
            return Err(format!("of voice {voice} there are {found} records, and {counted} were counted"));
        }
    }
    Ok(next.iter().sum())
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["verify", counts, merged] => {
            let file = File::options().read(true).write(true).open(counts)?;
            match verify(counts_in(&file)?, &std::fs::read_to_string(merged)?) {
                Ok(records) => println!("{records} records, each once"),
                Err(why) => {
                    println!("{why}");
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
        [way, counts, ref patience @ ..] => {
            let file = File::options().read(true).write(true).create(true).truncate(false).open(counts)?;
            // The process that kills this one has mapped it, and not every system changes the length of a mapped
            // file.
            if file.metadata()?.len() < VOICES as u64 * 8 {
                file.set_len(VOICES as u64 * 8)?;
            }
            let _ = COUNTS.set(counts_in(&file)?);
            let patience = Duration::from_millis(patience.first().map_or(Ok(0), |text| text.parse())?);
            match way {
                "kill-quiet" => kill_another("quiet", counts, patience)?,
                "kill-busy" => kill_another("busy", counts, patience)?,
                way => end(way, patience)?,
            }
        }
        _ => return Err("usage: endings <way> <counts> [<milliseconds>] | verify <counts> <merged>".into()),
    }
    Ok(ExitCode::SUCCESS)
}
