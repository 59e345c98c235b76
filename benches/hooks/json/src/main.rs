//! Parses and prints a document of 400 KB five times per turn. Prints the median time of a turn in milliseconds, and
//! its median processor time, which other programs on the machine disturb less. The argument is the number of turns.

use std::time::Instant;

use serde_json::{json, Value};

/// Returns a document of some 400 KB: objects with numbers, texts and lists.
fn document() -> String {
    let entries = (0..2200_u64).map(|n| {
        json!({
            "id": n,
            "name": format!("entry \"{n}\" with a text"),
            "ratio": n as f64 / 8.0,
            "is_even": n % 2 == 0,
            "parts": (0..8).map(|part| n * part).collect::<Vec<_>>(),
            "nested": {"none": null, "tab": "a\tb\n", "list": [1, -2, 3.5]},
        })
    });
    Value::from(entries.collect::<Vec<_>>()).to_string()
}

/// The structure `timespec` of the C library.
#[repr(C)]
struct Time {
    seconds: i64,
    nanoseconds: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, time: *mut Time) -> i32;
}

/// Returns the processor time of this thread so far, in milliseconds.
fn of_processor() -> f64 {
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: the function writes one `Time`, to `time`.
    unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.seconds as f64 * 1e3 + time.nanoseconds as f64 / 1e6
}

fn main() {
    let turns = std::env::args().nth(1).and_then(|turns| turns.parse().ok()).unwrap_or(15);
    let text = document();
    let mut times = Vec::new();
    let mut of_processors = Vec::new();
    for _ in 0..turns {
        let (start, begun) = (Instant::now(), of_processor());
        for _ in 0..5 {
            let value: Value = serde_json::from_str(&text).expect("a document");
            assert_eq!(value.to_string().len(), text.len());
        }
        of_processors.push(of_processor() - begun);
        times.push(start.elapsed().as_secs_f64() * 1e3);
        // Meanwhile the flusher writes the records.
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    let [time, of_processor] = [times, of_processors].map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    println!("{time:.1} ms, {of_processor:.1} ms of the processor ({} bytes)", text.len());
}
