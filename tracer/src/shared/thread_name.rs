//! The name of a thread: the operating system's, and Rust's where that one is longer.

use std::thread::Thread;

use crate::sys;

/// A thread's name.
#[derive(Debug)]
pub(crate) struct ThreadName {
    /// The name that the operating system has, filled with zeros.
    pub system: [u8; 16],
    /// The handle of the thread, if its name may be longer.
    pub thread: Option<Thread>,
    /// The whole name, where the system has kept more of it.
    pub whole: Option<String>,
}

impl ThreadName {
    /// Gives the name of the calling thread, whose id is `tid`.
    ///
    /// Linux keeps 15 bytes of a name. What Rust's library has is asked for only where the system's name is that
    /// long and the library has set up the thread: otherwise the library would allocate a handle, and this may
    /// be a signal handler. A process's first thread is left out; its name is that of the program. Windows keeps the
    /// whole name itself.
    pub(crate) fn of_this_thread(tid: u64) -> ThreadName {
        let system = sys::thread_name();
        let is_full = system[..15].iter().all(|&byte| byte != 0);
        let is_first = tid == u64::from(sys::process_id());
        let asks = is_full && !is_first && sys::is_inside_of_a_rust_thread();
        let whole = if is_full { sys::whole_thread_name() } else { None };
        ThreadName { system, thread: asks.then(std::thread::current), whole }
    }

    /// Gives the longer name, if there is one that begins as the system's.
    pub(crate) fn longer(&self) -> Option<&str> {
        let name = self.whole.as_deref().or_else(|| self.thread.as_ref()?.name())?;
        (name.len() > 15 && name.as_bytes().starts_with(&self.system[..15])).then_some(name)
    }
}
