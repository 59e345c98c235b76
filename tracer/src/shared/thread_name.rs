//! The name of a thread: the operating system's name or, if Rust's library knows a longer one, the library's name.

use std::thread::Thread;

use crate::sys;

/// A thread's name.
#[derive(Debug)]
pub(crate) struct ThreadName {
    /// The name that the operating system has, truncated to 15 bytes and filled up with zeros.
    pub system: [u8; 16],
    /// The handle of the thread in Rust's library, if the library's name of the thread may be longer than `system`.
    pub thread: Option<Thread>,
    /// The whole name, if the system keeps more of it than the 15 bytes in `system`.
    pub whole: Option<String>,
}

impl ThreadName {
    /// Returns the name of the calling thread, whose id is `tid`.
    ///
    /// Linux keeps 15 bytes of a name. This function asks Rust's library for the whole name only if the system's name
    /// has 15 bytes and the library has set up the thread: otherwise the library would allocate a handle, which a
    /// signal handler must not do. The function does not ask for a process's first thread, whose name is the program's.
    /// Windows keeps the whole name itself.
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
