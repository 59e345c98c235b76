//! The program that the tests trace: it makes events and spans, through the layer or through the subscriber, and
//! prints them on stdout if a test compares them.
//!
//! A process has one subscriber, so the program is run for each scenario.

use std::fmt;
use std::future::Future;
use std::io::Write;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use support::stdout::InPieces;
use support::words::words;
use tracer::Tracer;
use tracing::{
    Instrument, Level, Span, debug, debug_span, error, event, info, info_span, span, trace, trace_span, warn,
};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt as fmt_layer};

#[derive(Debug)]
struct Broken(Option<Box<Broken>>);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "broken" } else { "the cause" })
    }
}

impl std::error::Error for Broken {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.as_ref().map(|source| source as _)
    }
}

/// A value that makes an event while it is formatted.
struct Talks(u32);

impl fmt::Debug for Talks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 0 {
            info!(depth = self.0, value = ?Talks(self.0 - 1), "inside");
        }
        write!(f, "talked {}", self.0)
    }
}

struct Panics;

impl fmt::Debug for Panics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("before ")?;
        panic!("in a Debug")
    }
}

/// A value that prints on stdout when it is formatted.
struct Tells;

impl fmt::Debug for Tells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        say("formatted");
        f.write_str("told")
    }
}

/// Prints on stdout that a callsite is on: `tracing` evaluates its values then, whether any subscriber uses them or
/// not.
fn evaluated<T>(site: &str, value: T) -> T {
    say(&format!("on: {site}"));
    value
}

/// Makes events of many kinds, each twice: before readers know its place, and after that.
fn everything() {
    for round in 0..2u8 {
        error!("a fixed text with {{braces}}");
        warn!("round {round}, {:>8.3} and {:?}", 2.5, "text");
        info!(a = 1, b = -1i64, c = u64::MAX, "integers");
        debug!(big = i128::MIN, bigger = u128::MAX, "large ones: {}", round);
        trace!(x = 0.1, y = f64::INFINITY, z = -0.0, whole = 1.0, "floats");
        info!(yes = true, no = false, "others");
        info!(name = "a \"name\"", owned = String::from("two\nlines"), "texts");
        info!(shown = %"as it is", debugged = ?[1, 2, 3], tuple = ?(round, 'x'), "formatted");
        info!(target: "another::target", n = round, "elsewhere");
        info!(only = "fields", and = 2);
        info!({ http.method = "GET", http.status = 200 }, "dotted");
        info!(r#type = "raw", "names");
        let broken = Broken(Some(Box::new(Broken(Some(Box::new(Broken(None)))))));
        let cause = Broken(None);
        error!(error = &broken as &dyn std::error::Error, "an error");
        error!(error = &cause as &dyn std::error::Error, "an error without a cause");
        info!(long = "x".repeat(5000), "{}", "y".repeat(70_000));
        for value in [Some(1), None, Some(2)] {
            info!(value, other = 3, "perhaps");
        }
        event!(Level::WARN, n = 1u8, "an event");
        let _ = Tracer::get().flush();
    }
}

/// Writes by the crate `log`; `try_init` passes its records on to `tracing`.
fn logged() {
    for round in 0..2 {
        log::info!("round {round} of log");
        log::warn!(target: "elsewhere::net", "a fixed text");
        log::debug!("details");
        let _ = Tracer::get().flush();
    }
}

/// Makes spans inside each other, with other parents, with none; with values that come later; and some that follow
/// from others.
fn spans() {
    for _ in 0..2 {
        let outer = info_span!("outer", a = 1, late = tracing::field::Empty, text = "t");
        let inner = outer.in_scope(|| {
            outer.record("late", "now");
            let inner = debug_span!("inner");
            let _entered = inner.enter();
            info!("in both");
            inner.clone()
        });
        let root = outer.in_scope(|| span!(parent: None, Level::WARN, "root", n = 2.5));
        let child = span!(target: "elsewhere", parent: &outer, Level::ERROR, "child");
        child.follows_from(&inner);
        child.follows_from(&root);
        child.in_scope(|| root.in_scope(|| info!("crossed")));
        // Guards that are dropped in another order than they were made in.
        let first = outer.enter();
        let second = child.enter();
        drop(first);
        info!("still in the second");
        drop(second);
        let _ = Tracer::get().flush();
    }
}

/// Makes many short spans, whose ids the registry reuses.
fn many() {
    for n in 0..3000u64 {
        info_span!("short", n).in_scope(|| ());
    }
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || (0..3000u64).for_each(|n| info_span!("short", thread, n).in_scope(|| ())));
        }
    });
}

/// A future that is polled many times, each time by any thread that takes it, and counts the polls.
struct Wanders {
    left: u32,
    polled: Arc<AtomicU64>,
}

impl Future for Wanders {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.polled.fetch_add(1, Ordering::Relaxed);
        info!(left = self.left, "polled");
        if self.left == 0 {
            return Poll::Ready(());
        }
        self.left -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A future on its way between threads.
struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    /// The thread that has polled it last.
    polled_by: Mutex<Option<ThreadId>>,
    queue: mpsc::Sender<Arc<Task>>,
}

impl Wake for Task {
    fn wake(self: Arc<Task>) {
        let queue = self.queue.clone();
        let _ = queue.send(self);
    }
}

/// Runs futures on four threads, each poll on another thread than the poll before.
fn run_on_threads(futures: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>) {
    let (queue, tasks) = mpsc::channel();
    let left = AtomicU64::new(futures.len() as u64);
    for future in futures {
        let _ = queue.send(Arc::new(Task {
            future: Mutex::new(Some(future)),
            polled_by: Mutex::default(),
            queue: queue.clone(),
        }));
    }
    let tasks = Mutex::new(tasks);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while left.load(Ordering::Acquire) > 0 {
                    let taken = tasks.lock().map(|tasks| tasks.recv_timeout(Duration::from_millis(1)));
                    let Ok(Ok(task)) = taken else { continue };
                    let here = Some(std::thread::current().id());
                    let mut polled_by = task.polled_by.lock().unwrap_or_else(|e| e.into_inner());
                    if std::mem::replace(&mut *polled_by, here) == here {
                        drop(polled_by);
                        task.wake();
                        std::thread::yield_now();
                        continue;
                    }
                    drop(polled_by);
                    let waker = Waker::from(Arc::clone(&task));
                    let mut slot = task.future.lock().unwrap_or_else(|e| e.into_inner());
                    let Some(mut future) = slot.take() else { continue };
                    match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                        Poll::Pending => *slot = Some(future),
                        Poll::Ready(()) => {
                            left.fetch_sub(1, Ordering::Release);
                        }
                    }
                    // So that the other threads get some, too.
                    std::thread::yield_now();
                }
            });
        }
    });
}

/// Runs futures in spans, on an executor of our own; prints for each how often it was polled.
fn futures() {
    let counts: Vec<_> = (0..20).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let wander = |(task, polled): (usize, &Arc<AtomicU64>)| {
        let future = Wanders { left: 10 + task as u32, polled: Arc::clone(polled) };
        let inside = async move {
            future.instrument(debug_span!("inner", task)).await;
        };
        Box::pin(inside.instrument(info_span!("task", task))) as Pin<Box<dyn Future<Output = ()> + Send>>
    };
    run_on_threads(counts.iter().enumerate().map(wander).collect());
    for (task, polled) in counts.iter().enumerate() {
        say(&format!("{task} {}", polled.load(Ordering::Relaxed)));
    }
}

/// Runs tasks of tokio in spans that move between its threads; prints how many steps they have made.
fn tokio_tasks() {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build()
    else {
        die(&"no runtime")
    };
    static MOVED: AtomicBool = AtomicBool::new(false);
    static STEPS: AtomicU64 = AtomicU64::new(0);
    runtime.block_on(async {
        let work = |task: u64| async move {
            let first = std::thread::current().id();
            let end = Instant::now() + Duration::from_secs(20);
            let mut step = 0u64;
            // Until some task has moved: how soon depends on the machine.
            while step < 20 || (!MOVED.load(Ordering::Relaxed) && Instant::now() < end) {
                if step % 7 == 0 {
                    tokio::time::sleep(Duration::from_micros(200)).await;
                } else {
                    tokio::task::yield_now().await;
                }
                if std::thread::current().id() != first {
                    MOVED.store(true, Ordering::Relaxed);
                }
                info!(task, step, "stepped");
                step += 1;
            }
            STEPS.fetch_add(step, Ordering::Relaxed);
        };
        let spawn = |task| tokio::spawn(work(task).instrument(info_span!("task", task)));
        for task in (0..50).map(spawn).collect::<Vec<_>>() {
            let _ = task.await;
        }
    });
    say(&STEPS.load(Ordering::Relaxed).to_string());
}

/// Runs two threads that make events in spans, and count them in a shared file.
fn stress(path: &str) {
    let committed = words(Path::new(path), 2);
    let end = Instant::now() + Duration::from_secs(10);
    std::thread::scope(|scope| {
        for (thread, committed) in committed.iter().enumerate() {
            scope.spawn(move || {
                for n in 0u64.. {
                    let span = info_span!("work", thread, n);
                    let entered = span.enter();
                    info!(thread, n, "said");
                    drop(entered);
                    committed.store(n + 1, Ordering::Release);
                    if n % 1000 == 0 && Instant::now() > end {
                        return;
                    }
                }
            });
        }
    });
}

/// Makes the same events at three levels and in three targets, and two spans. Each prints on stdout that it is on.
fn levels() {
    macro_rules! texts {
        ($target:literal) => {
            error!(target: $target, "{}", evaluated(concat!("ERROR ", $target, ": error"), "error"));
            info!(target: $target, "{}", evaluated(concat!("INFO ", $target, ": info"), "info"));
            debug!(target: $target, value = ?evaluated(concat!("DEBUG ", $target, ": debug"), Tells), "debug");
        };
    }
    texts!("app");
    texts!("app::net");
    texts!("other");
    trace_span!(target: "app", "detail", n = evaluated("TRACE app: detail", 1)).in_scope(|| ());
    info_span!(target: "other", "span", n = evaluated("INFO other: span", 1)).in_scope(|| ());
}

/// Switches tracing on and off while the program runs, with events of the same callsites.
fn switched() {
    let round = |name: &str| {
        say(name);
        info!(name, value = ?evaluated("said", Tells), "said");
        debug!(name, value = ?evaluated("too detailed", Tells), "too detailed");
        info_span!("span", name, value = ?evaluated("span", Tells)).in_scope(|| ());
    };
    let early = info_span!("early");
    round("off");
    Tracer::get().startup("SPEAKER_ENABLE");
    round("on");
    early.in_scope(|| ());
    let left_later = info_span!("left later");
    let entered = left_later.enter();
    let _ = Tracer::get().shutdown();
    drop(entered);
    round("off again");
    Tracer::get().startup("SPEAKER_ENABLE");
    round("on again");
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn die(error: &dyn fmt::Display) -> ! {
    let _ = writeln!(std::io::stderr(), "tracing_speaker: {error}");
    std::process::exit(2)
}

/// Makes a layer that prints the same on stdout, by the formatter of `tracing-subscriber`, without the time. Its type
/// depends on its position among the layers.
macro_rules! oracle {
    () => {
        fmt_layer::layer().without_time().with_ansi(false).with_writer(|| InPieces)
    };
}

/// Sets the subscriber up in one of several ways.
fn set_up(way: &str) {
    let done = match way {
        "subscriber" => return tracer_tracing::init().unwrap_or_else(|e| die(&e)),
        "layer" => tracing_subscriber::registry().with(tracer_tracing::layer()).try_init(),
        // Two layers that want everything.
        "beside" => tracing_subscriber::registry().with(tracer_tracing::layer()).with(oracle!()).try_init(),
        // The layer without its filter.
        "plain" => {
            tracing_subscriber::registry().with(tracer_tracing::Layer::default()).with(oracle!()).try_init()
        }
        // The user's filter for this layer alone.
        "filtered" => {
            let filter = EnvFilter::from_default_env();
            tracing_subscriber::registry()
                .with(tracer_tracing::layer().with_filter(filter))
                .with(oracle!())
                .try_init()
        }
        // The user's filter for this layer, and no other layer.
        "filtered-alone" => {
            let filter = EnvFilter::from_default_env();
            tracing_subscriber::registry().with(tracer_tracing::layer().with_filter(filter)).try_init()
        }
        // Another layer with a filter of its own.
        "beside-filtered" => {
            let other = oracle!().with_filter(EnvFilter::from_default_env());
            tracing_subscriber::registry().with(tracer_tracing::layer()).with(other).try_init()
        }
        // The user's filter for all.
        "global" => {
            let filter = EnvFilter::from_default_env();
            tracing_subscriber::registry().with(tracer_tracing::layer()).with(filter).try_init()
        }
        // The user's filter before our subscriber.
        "filtered-subscriber" => {
            let subscriber = tracer_tracing::Subscriber::new().with(EnvFilter::from_default_env());
            return tracing::subscriber::set_global_default(subscriber).unwrap_or_else(|e| die(&e));
        }
        other => die(&format!("no way {other:?}")),
    };
    done.unwrap_or_else(|e| die(&e));
}

/// A value that enters and leaves a span when it is dropped.
struct EntersWhenDropped;

impl Drop for EntersWhenDropped {
    fn drop(&mut self) {
        info_span!("dropped").in_scope(|| info!("in the destructor"));
    }
}

/// Enters spans in destructors of variables of a thread: of one that is made before the thread's first span, so that it
/// is dropped after all others, and of one that is made after it.
fn destructors() {
    thread_local! {
        static FIRST: EntersWhenDropped = const { EntersWhenDropped };
        static LAST: EntersWhenDropped = const { EntersWhenDropped };
    }
    let thread = std::thread::spawn(|| {
        FIRST.with(|_| ());
        info_span!("before").in_scope(|| info!("in the thread"));
        LAST.with(|_| ());
    });
    thread.join().unwrap_or(());
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [scenario, way] = [0, 1].map(|at| args.get(at).map_or("", String::as_str));
    if scenario == "tracemerge" {
        std::process::exit(i32::from(tracemerge::main(std::env::args_os().skip(1))));
    }
    set_up(way);
    match scenario {
        "everything" => everything(),
        "logged" => logged(),
        "spans" => spans(),
        "many" => many(),
        "futures" => futures(),
        "tokio" => tokio_tasks(),
        "nested" => {
            for _ in 0..2 {
                info!(value = ?Talks(2), "outside");
                let _ = Tracer::get().flush();
            }
        }
        "panics" => {
            std::panic::set_hook(Box::new(|_| {}));
            info!(value = ?Panics, after = 1, "it");
            info!("going on");
        }
        "levels" => levels(),
        "switched" => switched(),
        "current" => {
            let outer = info_span!("outer");
            outer.in_scope(|| {
                let current = Span::current();
                say(current.metadata().map_or("none", |metadata| metadata.name()));
                std::thread::spawn(move || current.in_scope(|| info!("elsewhere"))).join().unwrap_or(());
            });
            say(Span::current().metadata().map_or("none", |metadata| metadata.name()));
            say(&format!("{}", tracer_tracing::init().is_err()));
        }
        "destructors" => destructors(),
        "stress" => stress(args.get(2).map_or("", String::as_str)),
        other => die(&format!("no scenario {other:?}")),
    }
}
