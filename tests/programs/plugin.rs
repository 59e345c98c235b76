//! A plugin that has linked the tracer itself. If a program that has the tracer, too, loads it, there are two copies.
#![allow(unsafe_code, reason = "a function that is found by its name")]

#[path = "common_records.rs"]
mod common_records;

use tracer::Tracer;

/// Traces a hundred records on the calling thread and, except in the first round, on two threads of its own: `std`
/// does things for threads that would keep the plugin loaded, whatever the tracer does.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_trace(round: u32) {
    let work = move |thread: u32| {
        let _scope = tracer::scope();
        (0..100).for_each(|n| Tracer::get().trace(format_args!("plugin {round} {thread} {n}")));
    };
    let others = if round == 0 { 1..1 } else { 1..3 };
    let threads: Vec<_> = others.map(|thread| std::thread::spawn(move || work(thread))).collect();
    work(0);
    threads.into_iter().for_each(|thread| thread.join().expect("its end"));
}

/// Awaits its own return, which notes `number`. Before it returns, calls `inside`, which may unwind.
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn plugin_awaits(
    number: u64,
    note: extern "C" fn(u64),
    inside: extern "C-unwind" fn(),
) -> f64 {
    if let Err(error) = tracer::on_return!(move || note(number)) {
        panic!("{error}");
    }
    inside();
    std::hint::black_box(number as f64 / 2.0)
}

/// Makes all records of `common_records::say`.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_says(count: u32) {
    common_records::say("plugin", count);
}

/// Switches this copy of the tracer on or off; returns whether it is on afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_switches(on: bool) -> bool {
    if on {
        Tracer::get().startup("TRACER_ENABLE")
    } else {
        Tracer::get().shutdown().expect("all is written");
        Tracer::get().is_enabled()
    }
}

/// Returns the number of records that were made in the process, according to this copy of the tracer.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_counts() -> u64 {
    Tracer::get().flush().expect("all is written");
    Tracer::get().stats().records
}
