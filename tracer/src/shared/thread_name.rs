//! The name of a thread: the one that the operating system has or, if it is longer, the one that Rust's library has.

use std::thread::Thread;

use crate::sys;

/// A thread's name.
#[derive(Debug)]
pub(crate) struct ThreadName {
    /// The name that the operating system has, filled with zeros.
    pub system: [u8; 16],
    /// The handle of the thread in Rust's library, if its name there may be longer than `system`.
    pub thread: Option<Thread>,
    /// The whole name, if the system has kept more than the 15 bytes in `system`.
    pub whole: Option<String>,
}

impl ThreadName {
    /// Returns the name of the calling thread, whose id is `tid`.
    ///
    /// Linux keeps 15 bytes of a name. This asks Rust's library for the name only if the system's name is that long
    /// and the library has set up the thread: otherwise the library would allocate a handle, and this may run in a
    /// signal handler. It does not ask for a process's first thread, whose name is that of the program. Windows keeps
    /// the whole name itself.
    pub(crate) fn of_this_thread(tid: u64) -> ThreadName {
        let system = sys::thread_name();
        let is_full = system[..15].iter().all(|&byte| byte != 0);
        let is_first = tid == u64::from(sys::process_id());
        let asks = is_full && !is_first && sys::is_in_rust_thread();
        let whole = if is_full { sys::full_thread_name() } else { None };
        ThreadName { system, thread: asks.then(std::thread::current), whole }
    }

    /// Returns the thread's whole name, if it is longer than `system` and begins with it.
    pub(crate) fn longer(&self) -> Option<&str> {
        let name = self.whole.as_deref().or_else(|| self.thread.as_ref()?.name())?;
        (name.len() > 15 && name.as_bytes().starts_with(&self.system[..15])).then_some(name)
    }
}
