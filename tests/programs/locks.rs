//! Programs whose threads wait for locks of `tracer::sync`, and which print the places of the waits on stdout. Each
//! program exists for the locks with the interface of `std` and for those with that of `parking_lot`.

use std::future::Future;
use std::pin::{Pin, pin};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use support::scenarios::Scenario;
use tracer::Tracer;

pub const SCENARIOS: &[Scenario] = &[
    ("locks", |args| of_std::waited_for(args.number(0))),
    ("locks-deadlocked", |_| of_std::deadlocked()),
    ("locks-held-over-an-await", |_| of_std::held_over_an_await()),
    ("locks-notified", |args| of_std::notified(args.number(0))),
    ("parking-lot-locks", |args| of_parking_lot::waited_for(args.number(0))),
    ("parking-lot-locks-deadlocked", |_| of_parking_lot::deadlocked()),
    ("parking-lot-locks-held-over-an-await", |_| of_parking_lot::held_over_an_await()),
    ("parking-lot-locks-notified", |args| of_parking_lot::notified(args.number(0))),
];

/// The shortest time for which a lock is held while another thread waits for it.
const HELD: Duration = Duration::from_millis(10);

/// Prints a value that the test needs, with its name. It is mostly the line of a call.
fn tell(name: &str, value: impl std::fmt::Display) {
    crate::host::say(&format!("{name}={value}"));
}

/// Runs `wait` in a thread called `name` while the calling thread holds `held`. Drops `held` after the other thread
/// has begun and had time to reach the lock.
fn while_held<G>(name: &str, held: G, wait: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let (begun, has_begun) = channel();
        let waiting = move || {
            // This message gives the thread a name in the trace.
            Tracer::get().trace(format_args!("about to wait"));
            let _ = begun.send(());
            wait();
        };
        thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, waiting).expect("a thread");
        has_begun.recv().expect("the thread has begun");
        thread::sleep(HELD);
        drop(held);
    });
}

/// Makes the same programs in two modules, which differ in the locks that they take. Places remain the lines below,
/// because the macro passes the programs on unchanged.
macro_rules! over_both {
    ($($program:item)*) => {
        /// The programs over the locks with the interface of `std`.
        pub mod of_std {
            use super::*;
            use tracer::sync::{Condvar, LockResult, Mutex, MutexGuard, RwLock};

            fn is_free<T>(mutex: &Mutex<T>) -> bool {
                mutex.try_lock().is_ok()
            }

            fn got<G>(guard: LockResult<G>) -> G {
                guard.expect("nobody panics")
            }

            fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
                got(condition.wait(guard))
            }

            fn is_in_time<T>(condition: &Condvar, guard: MutexGuard<'_, T>) -> bool {
                !got(condition.wait_timeout(guard, HELD)).1.timed_out()
            }

            $($program)*
        }

        /// The programs over the locks with the interface of `parking_lot`.
        pub mod of_parking_lot {
            use super::*;
            use tracer::sync::parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

            fn is_free<T>(mutex: &Mutex<T>) -> bool {
                mutex.try_lock().is_some()
            }

            fn got<G>(guard: G) -> G {
                guard
            }

            fn wait<'a, T>(condition: &Condvar, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
                condition.wait(&mut guard);
                guard
            }

            fn is_in_time<T>(condition: &Condvar, mut guard: MutexGuard<'_, T>) -> bool {
                !condition.wait_for(&mut guard, HELD).timed_out()
            }

            $($program)*
        }
    };
}

over_both! {
    /// Makes other threads wait `times` times for a mutex, and once each as a reader and as a writer for an
    /// `RwLock`; the main thread holds these locks. Before and after, takes each lock a thousand times while it is
    /// free.
    pub fn waited_for(times: u64) {
        Tracer::get().trace(format_args!("the main thread has a name"));
        tell("mutex made", line!() + 1);
        let mutex = Mutex::new(0);
        tell("rwlock made", line!() + 1);
        let rwlock = RwLock::new(0);
        let free = || {
            for _ in 0..1000 {
                *got(mutex.lock()) += 1;
                *got(rwlock.write()) += 1;
                assert!(*got(rwlock.read()) > 0);
                assert!(is_free(&mutex));
            }
        };
        free();
        tell("mutex held", line!() + 3);
        tell("mutex waited", line!() + 3);
        for _ in 0..times {
            let held = got(mutex.lock());
            while_held("waiter", held, || *got(mutex.lock()) += 1);
        }
        tell("rwlock written", line!() + 2);
        tell("reader waited", line!() + 2);
        let held = got(rwlock.write());
        while_held("reader", held, || assert!(*got(rwlock.read()) > 0));
        tell("rwlock read", line!() + 2);
        tell("writer waited", line!() + 2);
        let held = got(rwlock.read());
        while_held("writer", held, || *got(rwlock.write()) += 1);
        free();
        assert_eq!(*got(mutex.lock()), 2000 + times);
    }

    /// Deadlocks two threads, which take two mutexes in opposite orders, and then ends the process.
    pub fn deadlocked() {
        let (first, second) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let barrier = Arc::new(std::sync::Barrier::new(2));
        for (name, one, other) in [("left", &first, &second), ("right", &second, &first)] {
            let (one, other, barrier) = (one.clone(), other.clone(), barrier.clone());
            let play = move || {
                Tracer::get().trace(format_args!("{name} begins"));
                let _one = one.lock();
                barrier.wait();
                let _other = other.lock();
            };
            thread::Builder::new().name(name.to_owned()).spawn(play).expect("a thread");
        }
        thread::sleep(Duration::from_millis(300));
        process::exit(0);
    }

    /// A future that is pending at its first poll.
    struct Pause(bool);

    impl Future for Pause {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
        }
    }

    /// Polls two tasks in turn on one thread. The first task holds a mutex over an await, and the second one locks
    /// it meanwhile: the thread waits for itself, and the process ends.
    pub fn held_over_an_await() {
        static ACCOUNT: Mutex<u64> = Mutex::new(0);
        #[allow(clippy::await_holding_lock, reason = "the mistake that is to be found")]
        async fn pay() {
            tell("held", line!() + 1);
            let mut account = got(ACCOUNT.lock());
            Pause(false).await;
            *account += 1;
        }
        async fn look() -> u64 {
            tell("waited", line!() + 1);
            *got(ACCOUNT.lock())
        }
        let executor = || {
            let mut context = Context::from_waker(Waker::noop());
            let (mut pay, mut look) = (pin!(pay()), pin!(look()));
            while pay.as_mut().poll(&mut context).is_pending() {
                let _ = look.as_mut().poll(&mut context);
            }
        };
        thread::Builder::new().name("executor".to_owned()).spawn(executor).expect("a thread");
        thread::sleep(Duration::from_millis(300));
        process::exit(0);
    }

    /// Makes a thread wait for a condition `times` times, each time until the main thread notifies it, and then
    /// once until a timeout. The main thread also notifies once when no thread waits.
    pub fn notified(times: u64) {
        Tracer::get().trace(format_args!("the main thread has a name"));
        let (ready, condition) = (Mutex::new(false), Condvar::new());
        condition.notify_all();
        let (asleep, done) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let sleep = || {
                for _ in 0..times {
                    let mut guard = got(ready.lock());
                    while !*guard {
                        asleep.store(true, Ordering::Release);
                        guard = wait(&condition, guard);
                    }
                    *guard = false;
                    asleep.store(false, Ordering::Release);
                    drop(guard);
                    done.store(true, Ordering::Release);
                }
                let guard = got(ready.lock());
                assert!(!is_in_time(&condition, guard));
            };
            thread::Builder::new().name("sleeper".to_owned()).spawn_scoped(scope, sleep).expect("a thread");
            for _ in 0..times {
                // A thread that is about to wait holds the lock until it waits.
                while !asleep.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                *got(ready.lock()) = true;
                condition.notify_one();
                while !done.swap(false, Ordering::Acquire) {
                    thread::yield_now();
                }
            }
        });
    }
}
