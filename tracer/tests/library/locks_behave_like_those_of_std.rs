//! The locks of `tracer::sync` return, print and poison as those of `std` do, and those of
//! `tracer::sync::parking_lot` as those of that crate do: the test uses each in the same way, and compares the
//! results.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Uses the locks of a module with the interface of `std`, and lists the results.
macro_rules! seen_of_std {
    ($locks:path) => {{
        use $locks as locks;
        let mut seen = Vec::new();
        let mutex = locks::Mutex::new(vec![1]);
        mutex.lock().unwrap().push(2);
        let held = mutex.lock().unwrap();
        seen.push(format!("{mutex:?} {held:?} {:?}", mutex.try_lock().map(|guard| guard.len())));
        drop(held);
        seen.push(format!("{mutex:?} {:?}", mutex.try_lock().map(|guard| guard.len())));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _held = mutex.lock().unwrap();
            panic!("while the mutex is held");
        }));
        seen.push(format!("{} {} {mutex:?}", panicked.is_err(), mutex.is_poisoned()));
        seen.push(format!("{:?}", mutex.lock().map(|guard| guard.len()).map_err(|e| e.into_inner().len())));
        seen.push(format!("{:?}", mutex.try_lock().map(|guard| guard.len())));
        mutex.clear_poison();
        seen.push(format!("{:?}", mutex.into_inner()));

        let mut rwlock = locks::RwLock::from("text".to_owned());
        *rwlock.get_mut().unwrap() += "!";
        let (one, other) = (rwlock.read().unwrap(), rwlock.read().unwrap());
        seen.push(format!("{one} {other:?} {}", rwlock.try_write().is_err()));
        drop((one, other));
        let written = rwlock.write().unwrap();
        seen.push(format!("{written} {} {}", rwlock.try_write().is_err(), rwlock.try_read().is_err()));
        drop(written);
        seen.push(format!("{:?} {rwlock:?}", rwlock.try_read().map(|text| text.len())));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _held = rwlock.write().unwrap();
            panic!("while the lock is held");
        }));
        seen.push(format!("{} {}", panicked.is_err(), rwlock.is_poisoned()));
        seen.push(format!("{:?}", rwlock.read().map(|text| text.len()).map_err(|e| e.into_inner().len())));
        rwlock.clear_poison();
        seen.push(format!("{:?}", rwlock.into_inner()));
        seen.push(format!("{:?}", locks::Mutex::<u8>::default()));

        let (mutex, condition) = (locks::Mutex::new(0), locks::Condvar::new());
        let short = Duration::from_millis(2);
        let (guard, timeout) = condition.wait_timeout(mutex.lock().unwrap(), short).unwrap();
        seen.push(format!("{guard:?} {}", timeout.timed_out()));
        let (guard, timeout) = condition.wait_timeout_while(guard, short, |value| *value == 0).unwrap();
        seen.push(format!("{guard:?} {}", timeout.timed_out()));
        let (guard, timeout) = condition.wait_timeout_while(guard, Duration::ZERO, |_| false).unwrap();
        seen.push(format!("{guard:?} {}", timeout.timed_out()));
        drop(guard);
        thread::scope(|scope| {
            let waiting: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| *condition.wait_while(mutex.lock().unwrap(), |value| *value == 0).unwrap())
                })
                .collect();
            *mutex.lock().unwrap() = 7;
            condition.notify_one();
            condition.notify_all();
            seen.extend(waiting.into_iter().map(|thread| format!("{}", thread.join().unwrap())));
        });
        let sum = locks::Mutex::new(0u64);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..5000).for_each(|_| *sum.lock().unwrap() += 1));
            }
        });
        seen.push(format!("{sum:?}"));
        seen
    }};
}

#[test]
fn locks_with_the_interface_of_std_behave_like_those_of_std() {
    assert_eq!(seen_of_std!(tracer::sync), seen_of_std!(std::sync));
}

#[test]
fn a_lock_may_be_a_static_and_hold_an_unsized_value() {
    static COUNT: tracer::sync::Mutex<u64> = tracer::sync::Mutex::new(1);
    *COUNT.lock().unwrap() += 1;
    assert_eq!(*COUNT.lock().unwrap(), 2);
    let unsized_value: &tracer::sync::RwLock<[u8]> = &tracer::sync::RwLock::new([1, 2]);
    assert_eq!(unsized_value.read().unwrap().len(), 2);
}

/// Uses the locks of a module with the interface of `parking_lot`, and lists the results.
#[cfg(feature = "parking_lot")]
macro_rules! seen_of_parking_lot {
    ($locks:path) => {{
        use $locks as locks;
        let mut seen = Vec::new();
        let short = Duration::from_millis(2);
        let mutex = locks::Mutex::new(vec![1]);
        mutex.lock().push(2);
        let held = mutex.lock();
        seen.push(format!("{mutex:?} {held:?} {:?} {:?}", mutex.try_lock(), mutex.try_lock_for(short)));
        let first = locks::MutexGuard::map(held, |values| &mut values[0]);
        seen.push(format!("{first:?} {}", mutex.is_locked()));
        drop(first);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _held = mutex.lock();
            panic!("while the mutex is held");
        }));
        seen.push(format!("{} {mutex:?} {:?}", panicked.is_err(), mutex.try_lock()));
        let rwlock = locks::RwLock::new(5);
        let (one, other) = (rwlock.read(), rwlock.read_recursive());
        seen.push(format!("{one} {other:?} {:?}", rwlock.try_write_for(short)));
        drop((one, other));
        let upgradable = rwlock.upgradable_read();
        seen.push(format!("{upgradable} {:?} {:?}", rwlock.try_read(), rwlock.try_write()));
        let mut written = locks::RwLockUpgradableReadGuard::upgrade(upgradable);
        *written += 1;
        seen.push(format!("{written} {:?}", rwlock.try_read_for(short)));
        let read = locks::RwLockWriteGuard::downgrade(written);
        seen.push(format!("{read} {:?} {:?}", rwlock.try_read(), rwlock.try_write()));
        drop(read);
        let condition = locks::Condvar::new();
        let mut guard = mutex.lock();
        seen.push(format!("{} {}", condition.notify_one(), condition.notify_all()));
        seen.push(format!("{}", condition.wait_for(&mut guard, short).timed_out()));
        seen.push(format!("{}", condition.wait_while_for(&mut guard, |_| true, short).timed_out()));
        seen.push(format!("{}", condition.wait_while_for(&mut guard, |_| false, short).timed_out()));
        drop(guard);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut guard = mutex.lock();
                condition.wait_while(&mut guard, |values| values.len() < 3);
                guard.len()
            });
            mutex.lock().push(3);
            condition.notify_all();
            seen.push(format!("{:?}", waiting.join().unwrap()));
        });
        seen
    }};
}

#[cfg(feature = "parking_lot")]
#[test]
fn locks_with_the_interface_of_parking_lot_behave_like_its_locks() {
    assert_eq!(seen_of_parking_lot!(tracer::sync::parking_lot), seen_of_parking_lot!(::parking_lot));
}

#[test]
fn contended_locks_lose_no_step() {
    let (taken, shared) = (AtomicU64::new(0), tracer::sync::RwLock::new(0u64));
    thread::scope(|scope| {
        for number in 0..4 {
            let (taken, shared) = (&taken, &shared);
            scope.spawn(move || {
                for step in 0..2000u64 {
                    if (step + number) % 4 == 0 {
                        *shared.write().unwrap() += 1;
                        taken.fetch_add(1, Ordering::Relaxed);
                    } else {
                        assert!(*shared.read().unwrap() <= 2000);
                    }
                }
            });
        }
    });
    assert_eq!(*shared.read().unwrap(), taken.load(Ordering::Relaxed));
}
