//! A program that has linked the tracer and loads a plugin that has a copy of its own.

use std::ffi::CString;

use support::scenarios::Scenario;
use tracer::Tracer;

use crate::common_records::say;

pub const SCENARIOS: &[Scenario] = &[("copies", |args| trace_with_both_copies(args.text(0), args.text(1)))];

/// The functions of the plugin.
struct Plugin {
    library: *mut libc::c_void,
    traces: extern "C" fn(u32),
    says: extern "C" fn(u32),
    switches: extern "C" fn(bool) -> bool,
    counts: extern "C" fn() -> u64,
}

impl Plugin {
    fn load(path: &str) -> Plugin {
        let path = CString::new(path).expect("a path without NUL");
        // SAFETY: this is a shared object of this workspace, whose functions have these signatures; it stays loaded.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!library.is_null(), "{:?}", std::ffi::CStr::from_ptr(libc::dlerror()));
            let function = |name: &std::ffi::CStr| {
                let function = libc::dlsym(library, name.as_ptr());
                assert!(!function.is_null(), "the plugin has {name:?}");
                function
            };
            Plugin {
                library,
                traces: std::mem::transmute::<*mut libc::c_void, extern "C" fn(u32)>(function(
                    c"plugin_trace",
                )),
                says: std::mem::transmute::<*mut libc::c_void, extern "C" fn(u32)>(function(c"plugin_says")),
                switches: std::mem::transmute::<*mut libc::c_void, extern "C" fn(bool) -> bool>(function(
                    c"plugin_switches",
                )),
                counts: std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> u64>(function(
                    c"plugin_counts",
                )),
            }
        }
    }
}

impl Plugin {
    fn unload(&self) {
        // SAFETY: no code calls its functions any more.
        assert_eq!(unsafe { libc::dlclose(self.library) }, 0);
    }
}

/// Returns whether a library is loaded.
fn is_loaded(path: &str) -> bool {
    let path = CString::new(path).expect("a path without NUL");
    // SAFETY: nothing is loaded, so no code is run.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        !library.is_null() && libc::dlclose(library) == 0
    }
}

/// Makes the same records in the program and in the plugin; `how` names the course of events.
pub fn trace_with_both_copies(path: &str, how: &str) {
    const COUNT: u32 = 300;
    let plugin = Plugin::load(path);
    let both = || {
        // The plugin is first, so it begins the run.
        (plugin.says)(COUNT);
        say("host", COUNT);
    };
    match how {
        "ends" => {
            both();
            // All sites are registered before the other thread begins, however busy the machine is.
            Tracer::get().flush().expect("all is written");
            let thread = std::thread::Builder::new().name("other".into()).spawn({
                let says = plugin.says;
                move || says(COUNT)
            });
            thread.expect("a thread").join().expect("its end");
            assert_eq!((plugin.counts)(), Tracer::get().stats().records);
        }
        "is-killed" => {
            both();
            // SAFETY: the call ends the process.
            unsafe { libc::raise(libc::SIGKILL) };
        }
        "forks" => {
            both();
            // SAFETY: the child traces, waits for no other thread, and ends.
            let child = unsafe { libc::fork() };
            both();
            if child == 0 {
                std::process::exit(0);
            }
            let mut status = 0;
            // SAFETY: the call waits for a child of this process.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
        }
        "is-switched" => {
            both();
            assert!(!(plugin.switches)(false), "the plugin alone is off");
            (plugin.says)(COUNT);
            say("host", COUNT);
            assert!((plugin.switches)(true));
            Tracer::get().shutdown().expect("all is written");
            both();
            assert!(Tracer::get().startup("TRACER_ENABLE"));
            both();
        }
        "loads-it-again" => {
            // Neither copy traces yet, so the plugin may be unloaded.
            (plugin.traces)(0);
            plugin.unload();
            assert!(!is_loaded(path), "a plugin that has not traced is unloaded");
            // SAFETY: no other thread runs.
            unsafe { std::env::set_var("LATER", "1") };
            assert!(Tracer::get().startup("LATER"), "no guest is notified that has gone");
            say("host", COUNT);
            let plugin = Plugin::load(path);
            (plugin.says)(COUNT);
            plugin.unload();
            assert!(is_loaded(path), "a plugin that has traced stays");
            let plugin = Plugin::load(path);
            (plugin.says)(COUNT);
        }
        how => panic!("nothing is {how:?}"),
    }
}
