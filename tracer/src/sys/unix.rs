//! The functions that all Unix systems share.
#![allow(unsafe_code, reason = "calls of the C library; each argued where it stands")]

use std::ffi::CStr;
use std::io;
use std::mem;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use super::hook::Hook;

/// The number of bytes that this library uses of a page of memory. The system may give more, because it rounds mappings
/// up to its own page size.
pub(super) const PAGE: usize = 4096;

/// The addresses of the pages of memory that this library zeroes in forked children, on systems whose kernel cannot do
/// that. Each entry holds null or the address of one page:
///
/// ```text
/// null ──compare-exchange, Release──► page ──compare-exchange──► null
/// ```
static ZEROED: [AtomicPtr<u8>; 4096] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 4096];
/// Whether [`ZEROED`] has ever held a page.
static ZEROES: AtomicBool = AtomicBool::new(false);

/// Registers a page to be zeroed in forked children. The C library calls a handler for that in each child that its
/// function `fork` makes, but not in a child that a direct system call makes. Returns false if too many pages are
/// registered.
///
/// # Safety
/// [`PAGE`] bytes at `page` may be written until [`stop_zeroing`] is called for it.
pub(super) unsafe fn zero_in_children(page: *mut u8) -> bool {
    unsafe extern "C" fn in_child() {
        // Acquire: the page exists before it is in the list.
        for page in ZEROED.iter().map(|page| page.load(Ordering::Acquire)).filter(|page| !page.is_null()) {
            // SAFETY: the promise of the caller that put it there; a forked child has one thread.
            unsafe { std::ptr::write_bytes(page, 0, PAGE) };
        }
    }
    static ONCE: std::sync::Once = std::sync::Once::new();
    // SAFETY: the handler is a plain function that lives as long as the program.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
    // Relaxed: a thread that gives a page back has learned of the page in a way that orders this store.
    ZEROES.store(true, Ordering::Relaxed);
    let free = std::ptr::null_mut();
    ZEROED.iter().any(|slot| slot.compare_exchange(free, page, Ordering::Release, Ordering::Relaxed).is_ok())
}

/// Removes a page from the list of pages that are zeroed in children, if the page is on the list.
pub(super) fn stop_zeroing(page: *mut u8) {
    if ZEROES.load(Ordering::Relaxed) {
        for slot in &ZEROED {
            // Relaxed: the page is the caller's, and a handler that runs meanwhile is in another process.
            let _ = slot.compare_exchange(page, std::ptr::null_mut(), Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// The `pthread` key whose destructor is called when a thread ends, plus one; 0 before there is a key.
static EXIT_KEY: AtomicU32 = AtomicU32::new(0);

/// The function that is called when a registered thread ends: see `create_exit_key`.
static ON_THREAD_EXIT: Hook = Hook::new();

/// Whether a new thread may be unable to run until the thread that started it has continued. On Unix no new thread is
/// held up in this way.
pub(crate) const THREADS_BEGIN_LATE: bool = false;

/// Returns false: on Unix a new thread can begin to run even while the calling thread waits for it.
#[inline(always)]
pub(crate) fn blocks_new_threads() -> bool {
    false
}

/// Registers the calling thread, so that the function passed to [`create_exit_key`] is called when the thread ends. The
/// function is not called if the thread ends because of `exit`.
///
/// A `pthread` key is used, not a Rust thread-local with a destructor, for two reasons: on Linux a key's destructor
/// runs after the destructors of all thread-locals of Rust and C++, so that what those trace is still recorded; and
/// setting one of the first keys of a process allocates no memory.
pub(crate) fn call_at_thread_exit() {
    let key = EXIT_KEY.load(Ordering::Acquire);
    if key != 0 {
        // SAFETY: the key was created by `create_exit_key` and is never deleted; any value may be set.
        unsafe {
            libc::pthread_setspecific((key - 1) as libc::pthread_key_t, std::ptr::without_provenance(1))
        };
    }
}

/// Whether the function passed to `arm_exit_handler` as `detached` is called when the process ends. It is not called on
/// Unix.
pub(crate) const LAST_THREAD_IS_CALLED: bool = false;

/// Makes the `pthread` key that [`call_at_thread_exit`] sets, once for the process. `handler` is called when a
/// registered thread ends.
pub(crate) fn create_exit_key(handler: fn()) {
    unsafe extern "C" fn at_exit(rounds: *mut libc::c_void) {
        // Other keys' destructors may trace after this one: come back, up to the last of the rounds that POSIX
        // guarantees (`PTHREAD_DESTRUCTOR_ITERATIONS` is at least 4).
        let rounds = rounds.addr();
        let key = EXIT_KEY.load(Ordering::Acquire);
        if rounds < 3 && key != 0 {
            let next = std::ptr::without_provenance(rounds + 1);
            // SAFETY: as in `call_at_thread_exit`.
            unsafe { libc::pthread_setspecific((key - 1) as libc::pthread_key_t, next) };
        } else {
            ON_THREAD_EXIT.call();
        }
    }
    ON_THREAD_EXIT.set(handler);
    if EXIT_KEY.load(Ordering::Acquire) != 0 {
        return;
    }
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: `key` may be written; the destructor is a plain function that lives as long as the program.
    if unsafe { libc::pthread_key_create(&mut key, Some(at_exit)) } == 0 {
        EXIT_KEY.store(key as u32 + 1, Ordering::Release);
    }
}

/// Runs `action` while the calling thread blocks all signals, except those that its own faults raise, such as
/// `SIGSEGV`.
pub(crate) fn without_signals<T>(action: impl FnOnce() -> T) -> T {
    // SAFETY: sets are plain memory that is initialised before it is read.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = action();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

/// The functions by which a thread tells LeakSanitizer and ThreadSanitizer to ignore it. Each is `None` if the program
/// was built without the sanitizer.
#[derive(Clone, Copy)]
struct Sanitizers {
    /// The function of LeakSanitizer that makes it ignore all memory that the calling thread allocates from then on.
    /// LeakSanitizer makes its check while the thread is running; it would report memory as leaked that the thread is
    /// just moving.
    ignore_leaks: Option<extern "C" fn()>,
    /// The functions of ThreadSanitizer that make it ignore the calling thread's reads and writes. ThreadSanitizer does
    /// not know the atomic operations of code that was compiled without it, as this library was, so it would report
    /// races between two threads of the tracer.
    begin: [Option<Annotate>; 2],
    end: [Option<Annotate>; 2],
}

/// A function of ThreadSanitizer. Its arguments are the file and the line of the call.
type Annotate = extern "C" fn(*const libc::c_char, libc::c_int);

impl Sanitizers {
    fn find() -> Sanitizers {
        const NAMES: [&CStr; 5] = [
            c"__lsan_disable",
            c"AnnotateIgnoreReadsBegin",
            c"AnnotateIgnoreWritesBegin",
            c"AnnotateIgnoreWritesEnd",
            c"AnnotateIgnoreReadsEnd",
        ];
        /// The addresses of the sanitizers' functions, in the order of `NAMES`; null for a function that the program
        /// does not have. A forked child does not search for them again, because the search takes the loader's lock.
        static FOUND: [AtomicPtr<libc::c_void>; NAMES.len()] =
            [const { AtomicPtr::new(std::ptr::null_mut()) }; NAMES.len()];
        static IS_SEARCHED: AtomicBool = AtomicBool::new(cfg!(miri));
        if !IS_SEARCHED.load(Ordering::Acquire) {
            for (name, found) in NAMES.iter().zip(&FOUND) {
                // SAFETY: searches a name. The second call clears the error that the first has left for `dlerror`.
                unsafe {
                    let address = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
                    if address.is_null() {
                        libc::dlerror();
                    }
                    found.store(address, Ordering::Relaxed);
                }
            }
            IS_SEARCHED.store(true, Ordering::Release);
        }
        let [ignore_leaks, annotations @ ..] = FOUND.each_ref().map(|found| found.load(Ordering::Relaxed));
        // SAFETY: null, which is `None`, or a function of this type by its name.
        let ignore_leaks =
            unsafe { mem::transmute::<*mut libc::c_void, Option<extern "C" fn()>>(ignore_leaks) };
        // SAFETY: as before.
        let annotation = |address| unsafe { mem::transmute::<*mut libc::c_void, Option<Annotate>>(address) };
        let [reads, writes, end @ ..] = annotations.map(annotation);
        Sanitizers { ignore_leaks, begin: [reads, writes], end }
    }

    /// Makes the sanitizers ignore the calling thread, and calls `body`.
    fn ignore(self, body: impl FnOnce()) {
        let annotate = |annotations: [Option<Annotate>; 2]| {
            annotations.into_iter().flatten().for_each(|annotation| annotation(c"tracer".as_ptr(), 0));
        };
        if let Some(ignore_leaks) = self.ignore_leaks {
            ignore_leaks();
        }
        annotate(self.begin);
        body();
        annotate(self.end);
    }
}

/// Starts a thread that takes no signals, and on which no other code runs before `body`.
///
/// `std::thread` is not used, because it allocates memory on the new thread first. The host's allocator may trace: then
/// the new flusher thread would wait for a ring that only the flusher itself can make.
pub(crate) fn spawn_hidden(body: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    extern "C" fn start(body: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the box was leaked below, and given to this thread alone.
        let body = unsafe { Box::from_raw(body.cast::<Box<dyn FnOnce() + Send>>()) };
        // `body` should not panic; if it does all the same, the panic must not end the process.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(*body));
        std::ptr::null_mut()
    }
    /// The size of the thread's stack in bytes: the same as `std` gives to a thread.
    const STACK: usize = 2 << 20;
    let sanitizers = Sanitizers::find();
    let body: Box<dyn FnOnce() + Send> = Box::new(move || sanitizers.ignore(body));
    let body = Box::into_raw(Box::new(body));
    // SAFETY: attributes, sets and the thread's id are plain memory that is initialised before it is read; the
    // function takes the argument that it gets.
    let error = unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setstacksize(&mut attributes, STACK);
        libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let mut thread: libc::pthread_t = std::mem::zeroed();
        let error = without_signals(|| libc::pthread_create(&mut thread, &attributes, start, body.cast()));
        libc::pthread_attr_destroy(&mut attributes);
        error
    };
    if error == 0 {
        return Ok(());
    }
    // SAFETY: no thread has it.
    drop(unsafe { Box::from_raw(body) });
    Err(io::Error::from_raw_os_error(error))
}

/// Maps `bytes` bytes of zeros, and returns their address, or null on failure. Each page takes memory only once it is
/// written. This function may be called in a signal handler.
pub(crate) fn map_lazily(bytes: usize) -> *mut u8 {
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    let _errno = super::keep_errno();
    // SAFETY: maps new memory, nothing that exists is touched.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    if memory == libc::MAP_FAILED { std::ptr::null_mut() } else { memory.cast() }
}

/// Unmaps memory of [`map_lazily`].
///
/// # Safety
/// `memory` was mapped by [`map_lazily`] with this number of bytes, and is no longer used.
pub(crate) unsafe fn unmap(memory: *mut u8, bytes: usize) {
    // SAFETY: by the caller's promise.
    unsafe { libc::munmap(memory.cast(), bytes) };
}

/// Returns whether the caller runs on an alternate signal stack.
pub(crate) fn on_alternate_stack() -> bool {
    alternate_stack().is_some()
}

/// Returns the lowest address of the alternate signal stack on which the caller runs; `None` if the caller runs on any
/// other stack.
pub(crate) fn alternate_stack() -> Option<usize> {
    // SAFETY: queries only; the result is plain memory.
    unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        let is_one =
            libc::sigaltstack(std::ptr::null(), &mut stack) == 0 && stack.ss_flags & libc::SS_ONSTACK != 0;
        is_one.then_some(stack.ss_sp.addr())
    }
}

/// Writes to stderr without std's lock, which a forked child may find taken for ever, and only if that does not block:
/// stderr may be a pipe that no process reads.
pub(crate) fn write_stderr(text: &[u8]) {
    let mut stderr = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one descriptor to query; the text is valid for its length.
    unsafe {
        if libc::poll(&mut stderr, 1, 0) == 1 && stderr.revents & libc::POLLOUT != 0 {
            // A pipe that is ready takes this many bytes at once (POSIX: PIPE_BUF).
            libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len().min(4096));
        }
    }
}

/// Returns the free space, in bytes, that the file system of `path` has for this user.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: the path is a C string; the result is plain memory, read only if the call succeeded.
    unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut found) == 0)
            .then(|| (found.f_bavail as u64).saturating_mul(found.f_frsize as u64))
    }
}
