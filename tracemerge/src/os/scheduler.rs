//! The kernel's records of when the threads of a program leave a processor and come back, without any privileges: one
//! event and one ring for each processor (`perf_event_open(2)`), with all the `unsafe` code that they need.
//!
//! The events are opened for a process that is about to call `exec`, and begin to count at that call. The threads of
//! the process inherit the events; its forks do not. The kernel writes into the rings and this process alone reads
//! them, so the records in them outlive the program, however it ends.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw};
use trace_format::states::{StateChange, ThreadState};

/// The number of memory pages of each ring, not counting the page of its header; fewer if the limit of locked memory
/// requires it.
const PAGES: usize = 64;
/// The longest time for which a program waits, before its `exec`, until this process has opened the events.
const LONGEST_HOLD: Duration = Duration::from_secs(60);

/// Constants of `linux/perf_event.h`.
mod abi {
    pub(super) const TYPE_SOFTWARE: u64 = 1;
    pub(super) const COUNT_SW_DUMMY: u64 = 9;
    /// The number of bytes of `perf_event_attr`, version 7.
    pub(super) const ATTR_BYTES: u64 = 128;
    pub(super) const SAMPLE_TID: u64 = 1 << 1;
    pub(super) const SAMPLE_TIME: u64 = 1 << 2;
    /// The flags of `perf_event_attr` that are set: `disabled`, `inherit`, `exclude_kernel`, `exclude_hv`,
    /// `enable_on_exec`, `task`, `sample_id_all`, `use_clockid`, `context_switch`, `inherit_thread`.
    pub(super) const FLAGS: u64 =
        1 | 1 << 1 | 1 << 5 | 1 << 6 | 1 << 12 | 1 << 13 | 1 << 18 | 1 << 25 | 1 << 26 | 1 << 35;
    pub(super) const FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
    /// The offsets of `data_head` and `data_tail` in the first page of a ring, in bytes.
    pub(super) const DATA_HEAD: usize = 1024;
    pub(super) const DATA_TAIL: usize = 1032;
    pub(super) const RECORD_LOST: u32 = 2;
    pub(super) const RECORD_EXIT: u32 = 4;
    pub(super) const RECORD_FORK: u32 = 7;
    pub(super) const RECORD_SWITCH: u32 = 14;
    pub(super) const MISC_SWITCH_OUT: u16 = 1 << 13;
    pub(super) const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
}

/// Makes the program of `command` wait before its `exec`. Returns this process's end of a connection:
/// [`process_that_waits`] reads the waiting program's process id from it, and the program continues when a byte is
/// written to it.
///
/// # Errors
/// The system has no descriptors left.
pub(crate) fn hold_before_exec(command: &mut Command) -> io::Result<UnixStream> {
    let (ours, childs) = UnixStream::pair()?;
    childs.set_read_timeout(Some(LONGEST_HOLD))?;
    let wait = move || {
        // If this fails, the program continues without events.
        let _ = (&childs).write_all(&std::process::id().to_le_bytes());
        let _ = (&childs).read(&mut [0]);
        Ok(())
    };
    // SAFETY: between fork and exec, the closure makes system calls only: it allocates nothing and takes no lock.
    unsafe { command.pre_exec(wait) };
    Ok(ours)
}

/// Reads the id of the process that [`hold_before_exec`] makes wait at the other end of `held`.
///
/// # Errors
/// There is no such process, because it could not be started.
pub(crate) fn process_that_waits(held: &mut UnixStream) -> io::Result<u32> {
    let mut bytes = [0; 4];
    held.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

/// Returns the id of the current thread.
#[must_use]
pub(crate) fn own_thread_id() -> u64 {
    // SAFETY: `gettid` touches no memory of this process, and cannot fail.
    let id = unsafe { libc::syscall(libc::SYS_gettid) };
    u64::try_from(id).unwrap_or(0)
}

/// The ring into which the kernel writes the records about threads on one processor.
struct Ring {
    cpu: u32,
    /// The kernel's event, which writes into the ring as long as this file is open.
    event: File,
    map: MmapRaw,
}

/// The rings of all processors.
pub(crate) struct Rings(Vec<Ring>);

impl Rings {
    /// Opens the events of the process `pid`, which begin to count at its next `exec`.
    ///
    /// # Errors
    /// The kernel refuses; the text says what it refuses and why.
    pub(crate) fn open(pid: u32) -> Result<Rings, String> {
        Rings::with_pages(pid, PAGES)
    }

    /// Opens the events, each with a ring of `pages` pages, a power of two, or of fewer if the limit of locked memory
    /// requires it.
    fn with_pages(pid: u32, mut pages: usize) -> Result<Rings, String> {
        let mut events = Vec::new();
        for cpu in online_processors() {
            events.push((cpu, open_event(pid, cpu).map_err(|error| refused_event(&error))?));
        }
        let page = page_bytes();
        loop {
            match events
                .iter()
                .map(|(_, event)| map(event, (pages + 1) * page))
                .collect::<io::Result<Vec<_>>>()
            {
                Ok(maps) => {
                    let ring = |((cpu, event), map)| Ring { cpu, event, map };
                    return Ok(Rings(events.into_iter().zip(maps).map(ring).collect()));
                }
                // The limit of locked memory may have room for smaller rings.
                Err(error) if error.raw_os_error() == Some(libc::EPERM) && pages > 1 => pages /= 2,
                Err(error) => {
                    let hint = match error.raw_os_error() {
                        Some(libc::EPERM) => {
                            "; the limit of locked memory is used up, see kernel.perf_event_mlock_kb"
                        }
                        _ => "",
                    };
                    return Err(format!("mmap of a ring of perf_event_open: {error}{hint}"));
                }
            }
        }
    }

    /// Waits until the kernel has filled half of a ring, or until the time `longest` has passed.
    pub(crate) fn wait(&self, longest: Duration) {
        let entry =
            |ring: &Ring| libc::pollfd { fd: ring.event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut entries: Vec<libc::pollfd> = self.0.iter().map(entry).collect();
        let longest = longest.as_millis().try_into().unwrap_or(libc::c_int::MAX);
        // If all threads have ended, the kernel hangs up, and `poll` would return at once.
        let is_over = |entry: &libc::pollfd| entry.revents & libc::POLLIN == 0 && entry.revents != 0;
        // SAFETY: the entries are writable memory for as many `pollfd` as the call is told.
        unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, longest) };
        if entries.iter().any(is_over) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Removes all records from the rings, one processor after the other, and appends the changes of threads' states in
    /// these records to `states`.
    pub(crate) fn take(&mut self, states: &mut Vec<ThreadState>) {
        for ring in &mut self.0 {
            let bytes = ring.take();
            parse(&bytes, ring.cpu, states);
        }
    }
}

impl Ring {
    /// Removes from the ring, and returns, the bytes that the kernel has written into it since the last call.
    fn take(&mut self) -> Vec<u8> {
        let page = page_bytes();
        let size = self.map.len() - page;
        let start = self.map.as_mut_ptr();
        // SAFETY: the map is longer than a page and lives as long as `self`, and the two words are aligned. The kernel
        // writes the head, and only this process writes the tail.
        let (head, tail) = unsafe {
            (&*start.add(abi::DATA_HEAD).cast::<AtomicU64>(), &*start.add(abi::DATA_TAIL).cast::<AtomicU64>())
        };
        let (end, begin) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
        let mut bytes = Vec::new();
        if let Ok(length @ 1..) = usize::try_from(end.wrapping_sub(begin)).map(|length| length.min(size)) {
            bytes.resize(length, 0);
            #[expect(clippy::cast_possible_truncation, reason = "less than the size of the map")]
            let at = (begin % size as u64) as usize;
            let first = length.min(size - at);
            // SAFETY: `at + first <= size` and `length - first <= at`, so both copies read within the data behind the
            // first page; the kernel does not write there before the tail has moved. `bytes` has `length` bytes.
            unsafe {
                let data = start.add(page);
                data.add(at).copy_to_nonoverlapping(bytes.as_mut_ptr(), first);
                data.copy_to_nonoverlapping(bytes.as_mut_ptr().add(first), length - first);
            }
        }
        // The bytes are read before the kernel may overwrite them.
        fence(Ordering::SeqCst);
        tail.store(end, Ordering::Release);
        bytes
    }
}

/// Appends the changes of threads' states that are recorded in `bytes` to `states`. `bytes` are the records of the ring
/// of the processor `cpu`; records of other types are skipped.
fn parse(mut bytes: &[u8], cpu: u32, states: &mut Vec<ThreadState>) {
    let half = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
    };
    let word = |bytes: &[u8], at: usize| u64::from(half(bytes, at)) | u64::from(half(bytes, at + 4)) << 32;
    while let [_, _, _, _, misc_low, misc_high, size_low, size_high, ..] = *bytes {
        let size = usize::from(u16::from_le_bytes([size_low, size_high]));
        let Some((record, rest)) = bytes.split_at_checked(size).filter(|_| size >= 24) else { return };
        bytes = rest;
        let misc = u16::from_le_bytes([misc_low, misc_high]);
        // Each record ends in the thread and the time.
        let (mut thread, raw, mut lost) = (half(record, size - 12), word(record, size - 8), 0);
        let change = match half(record, 0) {
            abi::RECORD_SWITCH if misc & abi::MISC_SWITCH_OUT == 0 => StateChange::On,
            abi::RECORD_SWITCH if misc & abi::MISC_SWITCH_OUT_PREEMPT != 0 => StateChange::Preempted,
            abi::RECORD_SWITCH => StateChange::Left,
            abi::RECORD_FORK => {
                thread = half(record, 16);
                StateChange::Started
            }
            abi::RECORD_EXIT => {
                thread = half(record, 16);
                StateChange::Ended
            }
            abi::RECORD_LOST => {
                (thread, lost) = (0, u32::try_from(word(record, 16)).unwrap_or(u32::MAX));
                StateChange::Gap
            }
            _ => continue,
        };
        states.push(ThreadState { thread: thread.into(), change, cpu, raw, lost });
    }
}

/// Returns the numbers of the processors that are online. A program may be moved to any of them.
fn online_processors() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            all.extend(first..=last);
        }
    }
    if all.is_empty() {
        let known = std::thread::available_parallelism().map_or(1, usize::from);
        all.extend((0..).take(known));
    }
    all
}

fn page_bytes() -> usize {
    // SAFETY: `sysconf` touches no memory of this process.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

fn map(event: &File, bytes: usize) -> io::Result<MmapRaw> {
    MmapOptions::new().len(bytes).map_raw(event)
}

/// Opens the event of the process `pid` on one processor.
fn open_event(pid: u32, cpu: u32) -> io::Result<File> {
    let mut attr = [0u64; abi::ATTR_BYTES as usize / 8];
    attr[0] = abi::TYPE_SOFTWARE | abi::ATTR_BYTES << 32;
    attr[1] = abi::COUNT_SW_DUMMY;
    attr[3] = abi::SAMPLE_TID | abi::SAMPLE_TIME;
    attr[5] = abi::FLAGS;
    // The clock is the upper half of the twelfth word.
    attr[11] = (libc::CLOCK_MONOTONIC_RAW as u64) << 32;
    if cfg!(target_endian = "big") {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let (pid, cpu) = (libc::c_long::from(pid as libc::pid_t), libc::c_long::from(cpu as libc::c_int));
    let no_group: libc::c_long = -1;
    // SAFETY: the kernel reads the 128 bytes that the structure says it has.
    let answer = unsafe {
        libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), pid, cpu, no_group, abi::FLAG_FD_CLOEXEC)
    };
    match libc::c_int::try_from(answer) {
        // SAFETY: the call has returned a new descriptor, which nothing else has.
        Ok(event @ 0..) => Ok(File::from(unsafe { OwnedFd::from_raw_fd(event) })),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the reason why the kernel has refused to open an event, with a remedy if there is one.
fn refused_event(error: &io::Error) -> String {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    format!("perf_event_open: {error}{}", hint(error, paranoid.trim()))
}

/// Returns the cause of the kernel's refusal, or a remedy for it. `paranoid` is the value of the setting
/// `kernel.perf_event_paranoid`; empty if it cannot be read.
fn hint(error: &io::Error, paranoid: &str) -> String {
    let filter = "a filter of system calls forbids it, as in most containers, or a security module";
    match error.raw_os_error() {
        Some(libc::EACCES) if paranoid.parse::<i32>().is_ok_and(|value| value > 2) => {
            format!("; kernel.perf_event_paranoid is {paranoid}, and this kernel needs 2 or less")
        }
        Some(libc::EACCES | libc::EPERM) => format!("; {filter}"),
        Some(libc::ENOSYS | libc::ENODEV) => "; this kernel has no such events, or hides them".to_owned(),
        Some(libc::EINVAL) => "; it needs Linux 5.13 or newer".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a record of the kernel with the fields `own`, followed by the thread 7 of the process 6 and the time 99.
    fn record(kind: u32, misc: u16, own: &[u64]) -> Vec<u8> {
        let size = u16::try_from(8 + 8 * own.len() + 16).expect("a short record");
        let head = [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes()].concat();
        let words = own.iter().copied().chain([6 | 7 << 32, 99]).flat_map(u64::to_le_bytes);
        head.into_iter().chain(words).collect()
    }

    #[test]
    fn a_setting_that_permits_events_is_not_called_the_cause_of_a_refusal() {
        let refused = |paranoid| hint(&io::Error::from_raw_os_error(libc::EACCES), paranoid);
        assert_eq!(refused("3"), "; kernel.perf_event_paranoid is 3, and this kernel needs 2 or less");
        for paranoid in ["2", "-1", ""] {
            let text = refused(paranoid);
            assert!(text.contains("a filter of system calls") && !text.contains("paranoid"), "{text}");
        }
    }

    #[test]
    fn the_records_of_the_kernel_become_states() {
        let bytes = [
            record(abi::RECORD_SWITCH, abi::MISC_SWITCH_OUT, &[]),
            record(abi::RECORD_SWITCH, 0, &[]),
            record(abi::RECORD_SWITCH, abi::MISC_SWITCH_OUT | abi::MISC_SWITCH_OUT_PREEMPT, &[]),
            record(3, 0, &[1]),
            record(abi::RECORD_FORK, 0, &[6 | 6 << 32, 8 | 7 << 32, 99]),
            record(abi::RECORD_EXIT, 0, &[6 | 6 << 32, 8 | 7 << 32, 99]),
            record(abi::RECORD_LOST, 0, &[1, 430]),
        ];
        let state = |change, thread, lost| ThreadState { thread, change, cpu: 3, raw: 99, lost };
        let all = [
            state(StateChange::Left, 7, 0),
            state(StateChange::On, 7, 0),
            state(StateChange::Preempted, 7, 0),
            state(StateChange::Started, 8, 0),
            state(StateChange::Ended, 8, 0),
            state(StateChange::Gap, 0, 430),
        ];
        let mut states = Vec::new();
        parse(&bytes.concat(), 3, &mut states);
        assert_eq!(states, all);
        // A damaged size ends the reading.
        for broken in [&[0, 0, 0, 0, 0, 0, 0, 0][..], &[14, 0, 0, 0, 0, 0, 255, 255]] {
            states.clear();
            parse(broken, 3, &mut states);
            assert!(states.is_empty());
        }
    }

    /// Returns the kernel's two counts of a process: how often it gave up the processor to wait, and how often it was
    /// taken off the processor.
    fn counted(pid: u32) -> (u64, u64) {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
        let count = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a count");
            line.trim().parse::<u64>().expect("a number")
        };
        (count("voluntary_ctxt_switches:"), count("nonvoluntary_ctxt_switches:"))
    }

    fn is_waiting(pid: u32) -> bool {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process lives");
        text.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
    }

    /// Makes this thread, and the programs that it starts, run on a single processor.
    fn stay_on_one_processor() {
        // SAFETY: the set of the processors is one of numbers, and the calls read and write this set alone.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            let size = size_of::<libc::cpu_set_t>();
            assert_eq!(libc::sched_getaffinity(0, size, &raw mut set), 0);
            let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &set));
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(first.expect("a processor"), &mut one);
            assert_eq!(libc::sched_setaffinity(0, size, &raw const one), 0);
        }
    }

    #[test]
    fn the_kernel_counts_the_records_that_found_no_room() {
        // On one processor, so that one ring has all records: twice as many switches as a page has room for records.
        let room = 2 * page_bytes() as u64 / 24;
        stay_on_one_processor();
        let mut command = Command::new("cat");
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut held = hold_before_exec(&mut command).expect("descriptors");
        let opener = std::thread::spawn(move || {
            let pid = process_that_waits(&mut held).expect("a process");
            while !is_waiting(pid) {
                std::thread::yield_now();
            }
            let before = counted(pid);
            let rings = Rings::with_pages(pid, 1);
            let _ = held.write_all(&[1]);
            (before, rings)
        });
        let mut cat = command.spawn().expect("cat");
        drop(command);
        let (before, rings) = opener.join().expect("it has not panicked");
        let (mut to, mut from) = (cat.stdin.take().expect("a pipe"), cat.stdout.take().expect("a pipe"));
        let mut ask = || {
            to.write_all(b"x").expect("cat reads");
            from.read_exact(&mut [0]).expect("cat writes");
        };
        let pid = cat.id();
        let since = |before: (u64, u64)| {
            let now = counted(pid);
            (now.0 - before.0, now.1 - before.1)
        };
        // If this kernel refuses events, the program runs in the same way.
        while since(before).0 < room {
            ask();
        }
        // If the kernel refuses events, only the program is tested.
        if let Ok(mut rings) = rings {
            let mut states = Vec::new();
            rings.take(&mut states);
            // The kernel reports a loss with the next record of the processor that finds room.
            while !states.iter().any(|state| state.change == StateChange::Gap) {
                ask();
                rings.take(&mut states);
            }
            // Afterwards all is read at once, so that only the losses before are still to be reported.
            let far = since(before).0 + room;
            while since(before).0 < far {
                ask();
                rings.take(&mut states);
            }
            let lost: u64 = states.iter().map(|state| u64::from(state.lost)).sum();
            let kept = states.iter().filter(|state| state.change != StateChange::Gap).count() as u64;
            let (waited, preempted) = since(before);
            // Each switch has two records, but for a few: those before the program began, and the last ones.
            let (told, made) = (kept + lost, 2 * (waited + preempted));
            assert!(told <= made && told >= made - made / 20, "{kept} {lost} {waited} {preempted}");
            assert!(lost >= room, "{lost} of {room}");
        }
        drop(to);
        assert!(cat.wait().expect("it ends").success());
    }
}
