//! Three threads take one lock in turns, and `main` waits for them by a condition. The step `futexes` traces the waits.
use std::sync::{Condvar, Mutex};
static LOCK: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());
fn hold() { let mut held = LOCK.0.lock().unwrap(); *held += 1; std::thread::sleep(std::time::Duration::from_millis(20)); }
fn main() {
    std::thread::scope(|scope| {
        for name in ["one", "two", "three"] {
            std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, || (0..3).for_each(|_| hold())).unwrap();
        }
        let mut held = LOCK.0.lock().unwrap();
        while *held < 9 { held = LOCK.1.wait_timeout(held, std::time::Duration::from_millis(5)).unwrap().0; }
    });
    println!("{}", LOCK.0.lock().unwrap());
}
