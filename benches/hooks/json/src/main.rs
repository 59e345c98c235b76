//! Parses and prints a document of 400 KB five times; prints the median time of that in milliseconds, of as many turns as the
//! argument says.

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

fn main() {
    let turns = std::env::args().nth(1).and_then(|turns| turns.parse().ok()).unwrap_or(15);
    let text = document();
    let mut times: Vec<f64> = (0..turns)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..5 {
                let value: Value = serde_json::from_str(&text).expect("a document");
                assert_eq!(value.to_string().len(), text.len());
            }
            // What is traced is written meanwhile.
            let took = start.elapsed().as_secs_f64() * 1e3;
            std::thread::sleep(std::time::Duration::from_millis(300));
            took
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{:.1} ms ({} bytes)", times[times.len() / 2], text.len());
}
