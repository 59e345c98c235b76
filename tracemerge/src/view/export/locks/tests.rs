//! Tests of the text about locks against handwritten texts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use proptest::prelude::{prop_assert_eq, proptest};
use trace_format::line::Ticks;
use trace_format::meta::{ClockKind, Run};
use trace_format::wall::Wall;

use super::waits::Awaited;
use super::*;
use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::symbols::Settings;
use crate::time::anchor::Anchor;
use crate::time::clocks::TickClock;
use crate::view::function_names::FunctionNames;
use crate::view::thread_labels::Label;
use crate::view::thread_states::{Off, ThreadStates};
use crate::view::threads::Threads;
use trace_format::locks::LockWait;

fn origin_of(tid: u64, version: Option<u32>) -> Origin {
    let clock = Arc::new(TickClock::of(ClockKind::System, [Anchor::new(Ticks(0), Wall(0))]));
    let name = Vec::new();
    let run = version.map(|version| Run {
        version,
        id: 1,
        root: 1,
        pid: 1,
        exe: b"app".to_vec(),
        boot: Vec::new(),
        ticks: Ticks(0),
        wall: Wall(0),
        clock: ClockKind::System,
    });
    Origin {
        run,
        tid,
        name,
        clock,
        is_shown: true,
        is_log: false,
        has_sites: true,
        waited: None,
        foreign: None,
    }
}

/// Returns the text for these lines: ticks in nanoseconds, the id of the thread, and the rest of the line.
fn told(lines: &[(u64, u64, &str)], rows: usize) -> String {
    told_by(None, lines, rows).0
}

/// Returns the result of [`told`] for lines of a trace of this version, and the notes about the trace.
fn told_by(version: Option<u32>, lines: &[(u64, u64, &str)], rows: usize) -> (String, Vec<String>) {
    told_with(version, lines, rows, ThreadStates::default())
}

/// Returns the result of [`told_by`] for a trace with these states of threads.
fn told_with(
    version: Option<u32>,
    lines: &[(u64, u64, &str)],
    rows: usize,
    states: ThreadStates,
) -> (String, Vec<String>) {
    let names = Arc::new(Mutex::new(FunctionNames::new(Settings::default())));
    let labels = ["a", "b", "c", "d"].map(|label| Label::from(label.to_owned()));
    let threads = Threads::new(names, labels.to_vec()).with_states(Arc::new(states));
    let mut format =
        EventExport::new(LocksFormat::new(LocksLayout { rows }), Depth::All, threads, Arc::default());
    let (origins, mut out) = ([1, 2, 3, 4].map(|tid| origin_of(tid, version)), Vec::new());
    format.begin(&origins, &mut out);
    for (ticks, tid, text) in lines {
        let line = format!("{ticks:016x}-{tid:08} {text}\n");
        let number = *tid as usize - 1;
        format.record(&origins[number], &RecordText::new(number, line.as_bytes()), &mut out);
    }
    format.finish(&mut out);
    (String::from_utf8(out).unwrap(), format.omissions())
}

#[test]
fn lock_text_in_messages_is_not_a_lock_record_from_version_3_on() {
    let wait = r#"lock wait id=1 for=lock made="m:1" at="a:7" holder=2 since="b:3""#;
    let lines = |mark: char| [format!("{mark} {wait}"), format!("{mark} lock got id=1 ns=8000")];
    let told = |version: u32, mark: char| {
        let [wait, got] = lines(mark);
        told_by(Some(version), &[(1_000, 1, &wait), (9_000, 1, &got)], 5)
    };
    let (text, said) = told(3, ':');
    assert!(text.starts_with("no lock was waited for") && said.is_empty(), "{text}{said:?}");
    let (text, said) = told(3, '!');
    assert!(text.starts_with("1 lock waited for") && said.is_empty(), "{text}{said:?}");
    for version in [1, 2] {
        let (text, said) = told(version, ':');
        assert!(text.starts_with("1 lock waited for"), "{text}");
        assert!(said.len() == 1 && said[0].starts_with("2 lock records read from the text"), "{said:?}");
    }
}

#[test]
fn waits_are_counted_by_holder_and_chains_are_reported() {
    let lines = [
        (
            1_000,
            2,
            r#": lock wait id=2 for=write made="src/m.rs:2" at="src/b.rs:9" holder=3 since="src/c.rs:5""#,
        ),
        (
            2_000,
            1,
            r#": lock wait id=1 for=lock made="src/m.rs:1" at="src/a.rs:7" holder=2 since="src/b.rs:3""#,
        ),
        (9_000, 2, ": lock got id=2 ns=8000"),
        (12_000, 1, ": lock got id=1 ns=10000"),
        (13_000, 1, r#": lock wait id=1 for=lock made="src/m.rs:1" at="src/a.rs:7" holder=77 since="?:0""#),
        (14_000, 1, ": lock got id=1 ns=1000"),
        (15_000, 4, r#": lock wait id=1 for=lock made="src/m.rs:1" at="src/d.rs:1" holder=0 since="?:0""#),
        (15_500, 4, ": lock gave_up id=1 ns=500"),
        (16_000, 4, ": work"),
    ];
    let expected = "\
2 locks waited for

lock 1 (src/m.rs:1): 3 waits, 11.5 us, 10.0 us at most; 1 given up
  waits    total      max  waited at   behind     which had it since
      1  10.0 us  10.0 us  src/a.rs:7  b          src/b.rs:3
      1  1.00 us  1.00 us  src/a.rs:7  thread 77  ?
      1   500 ns   500 ns  src/d.rs:1  ?          ?

lock 2 (src/m.rs:2): 1 wait, 8.00 us
  waits    total      max  waited at   behind    which had it since
      1  8.00 us  8.00 us  src/b.rs:9  thread 3  src/c.rs:5

longest chains
  2 waits in a row, 1 wait, 10.0 us
    a for lock 1 (src/m.rs:1) at src/a.rs:7, behind b since src/b.rs:3
    b for lock 2 (src/m.rs:2) at src/b.rs:9, behind thread 3 since src/c.rs:5
";
    assert_eq!(told(&lines, 20), expected);
}

#[test]
fn waits_show_for_how_long_the_holder_was_off_the_processor() {
    let wait = |id: u64, holder: u64| {
        format!(
            r#"! lock wait id={id} for=lock made="src/m.rs:{id}" at="src/a.rs:7" holder={holder} since="src/b.rs:3""#
        )
    };
    let (one, two) = (wait(1, 2), wait(2, 77));
    let lines = [
        // Threads a and c wait for b, which gives the lock to a; then a gives it to c.
        (1_000, 1, &one[..]),
        (2_000, 3, &one[..]),
        (9_000, 1, "! lock got id=1 ns=8000"),
        (15_000, 3, "! lock got id=1 ns=13000"),
        (15_000, 2, &two[..]),
        (15_500, 2, "! lock got id=2 ns=500"),
        (16_000, 4, &wait(1, 1)[..]),
        (20_000, 3, ": the last record"),
    ]
    .map(|(ticks, tid, line)| (ticks, tid, line.to_owned()));
    let lines: Vec<(u64, u64, &str)> =
        lines.iter().map(|(ticks, tid, line)| (*ticks, *tid, &line[..])).collect();
    let run = origin_of(1, Some(trace_format::VERSION)).run.unwrap();
    let a = [(10_000, 14_000, Off::Preempted), (17_000, u64::MAX, Off::Waiting)];
    let states = ThreadStates::made(&run, &[(1, &a), (2, &[(3_000, 7_000, Off::Waiting)])]);
    let text = told_with(Some(trace_format::VERSION), &lines, 20, states).0;
    // b was off for 4 us of both waits, and a for 4 us of the second one, and for 3 us of the one that has not ended.
    let expected = "\
2 locks waited for; 1 wait has not ended

waits that have not ended
  d: 4.00 us for lock 1 (src/m.rs:1), at src/a.rs:7
    held by a since src/b.rs:3
    the holder was off the processor for 3.00 us of the wait (waiting 3.00 us)

lock 1 (src/m.rs:1): 3 waits, 25.0 us, 13.0 us at most; the holder was off the processor for 15.0 us of that time (waiting 11.0 us, preempted 4.00 us)
  waits    total      max  holder off  waited at   behind  which had it since
      2  21.0 us  13.0 us     12.0 us  src/a.rs:7  b       src/b.rs:3
      1  4.00 us  4.00 us     3.00 us  src/a.rs:7  a       src/b.rs:3

lock 2 (src/m.rs:2): 1 wait, 500 ns
  waits   total     max  holder off  waited at   behind     which had it since
      1  500 ns  500 ns           -  src/a.rs:7  thread 77  src/b.rs:3

times off the processor are those of the kernel, \u{b1}0 ns
";
    assert_eq!(text, expected);
}

#[test]
fn deadlocks_and_lost_wakeups_are_reported() {
    let lines = [
        (1_000, 1, r#": condvar wait id=9 lock=1 made="src/q.rs:4" at="src/q.rs:20""#),
        (2_000, 2, r#": condvar notify id=9 to=one first=1 wakes=1 made="src/q.rs:4" at="src/q.rs:30""#),
        (6_000, 1, ": condvar woken id=9 by=1 ns=5000"),
        (6_000, 2, r#": condvar notify id=9 to=one first=0 wakes=0 made="src/q.rs:4" at="src/q.rs:30""#),
        (7_000, 1, r#": condvar wait id=9 lock=1 made="src/q.rs:4" at="src/q.rs:20""#),
        (
            8_000,
            2,
            r#": lock wait id=2 for=lock made="src/m.rs:2" at="src/b.rs:9" holder=3 since="src/c.rs:5""#,
        ),
        (
            9_000,
            3,
            r#": lock wait id=1 for=lock made="src/m.rs:1" at="src/c.rs:7" holder=2 since="src/b.rs:8""#,
        ),
        (
            10_000,
            4,
            r#": lock wait id=3 for=lock made="src/m.rs:3" at="src/d.rs:2" holder=4 since="src/d.rs:1""#,
        ),
        (10_000, 4, ": a signal"),
    ];
    let text = told(&lines, 20);
    let open = "\
3 locks and 1 condition waited for; 4 waits have not ended

waits that have not ended
  a: 3.00 us for condition 9 (src/q.rs:4), at src/q.rs:20
    the last notification (b at src/q.rs:30, 1.00 us before the wait began) found nobody waiting: it is lost if the thread had already decided to wait
  b: 2.00 us for lock 2 (src/m.rs:2), at src/b.rs:9
    held by c since src/c.rs:5
  c: 1.00 us for lock 1 (src/m.rs:1), at src/c.rs:7
    held by b since src/b.rs:8
  d: 0 ns for lock 3 (src/m.rs:3), at src/d.rs:2
    held by the thread itself since src/d.rs:1: locked twice, or held across an await
    the thread has traced since: in a signal handler, or the wait's end was lost
  deadlock: b -> c -> b
  deadlock: d waits for itself
";
    assert!(text.starts_with(open), "{text}");
    let condition = "\
condition 9 (src/q.rs:4): 2 waits, 8.00 us, 5.00 us at most; 2 notifications, 1 found nobody waiting; woken after 4.00 us on average, 4.00 us at most
  waits    total      max  waited at    woken by  which notified at
      1  5.00 us  5.00 us  src/q.rs:20  b         src/q.rs:30
      1  3.00 us  3.00 us  src/q.rs:20  nobody
";
    assert!(text.contains(condition), "{text}");
    // Both threads of the ring have a chain; the chain of the first is the longer one.
    assert!(text.contains("2 waits in a row"), "{text}");
    assert!(told(&lines, 1).contains("and 2 more locks (--rows)"));
}

#[test]
fn a_notification_between_the_record_of_a_wait_and_the_wait_is_explained() {
    let lines = [
        (1_000, 1, r#": condvar wait id=9 lock=1 made="src/q.rs:4" at="src/q.rs:20""#),
        (2_000, 2, r#": condvar notify id=9 to=one first=0 wakes=0 made="src/q.rs:4" at="src/q.rs:30""#),
    ];
    let why = "1.00 us after the wait began) found nobody waiting: it is lost because a thread records its wait just \
               before it begins to listen\n";
    assert!(told(&lines, 20).contains(why), "{}", told(&lines, 20));
}

#[test]
fn futex_waits_are_reported_at_call_sites_of_the_program() {
    let stack = "^ 0x1 (tracer_capi::futex::futex at tracer/capi/src/futex.rs:93) 0x2 (lock<(u8)> at \
        /rustc/59807616/library/std/src/sync/poison/mutex.rs:492) (app::hold<(u8, u8)> at /home/me/app.rs:3) 0x3 \
        (app::main at /home/me/app.rs:9) ...";
    let lines = [
        (1_000, 1, ": futex wait address=0x7f10"),
        (1_000, 1, stack),
        (4_000, 2, ": futex wake address=0x7f10 most=1"),
        (5_000, 2, ": futex wake address=0x9990 most=1"),
        (6_000, 1, ": futex woken address=0x7f10 ns=5000 result=0"),
        (7_000, 1, ": futex wait address=0x7f10"),
        (7_000, 1, stack),
        (7_100, 1, ": futex woken address=0x7f10 ns=100 result=-11"),
        (8_000, 1, ": futex wait address=0x7f10"),
        (8_000, 1, stack),
        (9_000, 1, ": futex woken address=0x7f10 ns=1000 result=-110"),
    ];
    let expected = "\
1 word waited for

word 0x7f10 (/home/me/app.rs:3): 2 waits, 6.00 us, 5.00 us at most, 1 timed out; 1 notification; woken after 2.00 us on average, 2.00 us at most
  waits    total      max  waited at          woken by  which notified at
      1  5.00 us  5.00 us  /home/me/app.rs:3  b         ?
      1  1.00 us  1.00 us  /home/me/app.rs:3  nobody
";
    assert_eq!(told(&lines, 20), expected);
}

#[test]
fn incomplete_waits_are_reported() {
    let lines = [
        // A wait whose end was lost, and an end whose wait was lost.
        (
            1_000,
            1,
            r#": lock wait id=1 for=lock made="src/m.rs:1" at="src/a.rs:7" holder=2 since="src/b.rs:3""#,
        ),
        (
            2_000,
            1,
            r#": lock wait id=1 for=lock made="src/m.rs:1" at="src/a.rs:8" holder=2 since="src/b.rs:3""#,
        ),
        (3_000, 1, ": lock got id=1 ns=1000"),
        (3_000, 2, ": lock got id=1 ns=1000"),
        // Tracing is switched off while a thread waits.
        (
            4_000,
            3,
            r#": lock wait id=1 for=lock made="src/m.rs:1" at="src/a.rs:9" holder=2 since="src/b.rs:3""#,
        ),
        (6_000, 3, "# off ticks=5000"),
    ];
    let text = told(&lines, 20);
    assert!(text.starts_with("1 lock waited for; 2 waits without a record of the end\n"), "{text}");
    assert!(text.contains("lock 1 (src/m.rs:1): 3 waits, 3.00 us, 1.00 us at most\n"), "{text}");
    assert_eq!(told(&[(1, 1, ": hello")], 20), "no lock was waited for, as far as tracer::sync recorded\n");
}

fn wait(id: u64, holder: u64) -> LockRecord<'static> {
    let (made, at, since) = ("m.rs:1", "a.rs:2", "b.rs:3");
    LockRecord::Wait(LockWait { id, wanted_access: "lock", made, at, holder, since })
}

#[test]
fn each_of_a_hundred_thousand_threads_in_a_row_gets_the_lock() {
    const THREADS: u64 = 100_000;
    let (mut waits, mut places) = (Waits::default(), Places::default());
    for thread in 1..=THREADS {
        waits.take(&wait(7, THREADS + 1), thread, thread, &mut places);
    }
    for thread in 1..=THREADS {
        waits.take(&LockRecord::Got { id: 7, ns: 5 }, thread, THREADS + thread, &mut places);
        let next = waits.open.get(&(thread + 1)).map(|waiting| waits.holder(waiting).map(|of| of.thread));
        assert_eq!(next, (thread < THREADS).then_some(Some(thread)));
    }
    assert_eq!((waits.locks[&7].sum.waits, waits.unseen, waits.open.len()), (THREADS, 0, 0));
}

proptest! {
    #[test]
    fn every_wait_is_for_the_recorded_or_the_latest_holder(
        steps in proptest::collection::vec((0..3_u8, 1..6_u64, 1..3_u64, 0..6_u64), 0..60)
    ) {
        let (mut waits, mut places) = (Waits::default(), Places::default());
        // The lock that each thread waits for, and its holder.
        let mut expected: BTreeMap<u64, (u64, Option<u64>)> = BTreeMap::new();
        for (step, thread, id, holder) in steps {
            if step == 0 {
                waits.take(&wait(id, holder), thread, 1, &mut places);
                expected.insert(thread, (id, (holder != 0).then_some(holder)));
            } else {
                waits.take(&LockRecord::Got { id, ns: 1 }, thread, 1, &mut places);
                let ends = expected.get(&thread).is_some_and(|(awaited, _)| *awaited == id);
                if ends {
                    expected.remove(&thread);
                }
                for (awaited, now) in expected.values_mut() {
                    if *awaited == id {
                        *now = ends.then_some(thread);
                    }
                }
            }
            let found = waits.open.iter().map(|(thread, waiting)| {
                let Awaited::Lock(id) = waiting.awaited else { unreachable!("a lock") };
                (*thread, (id, waits.holder(waiting).map(|of| of.thread)))
            });
            prop_assert_eq!(found.collect::<BTreeMap<_, _>>(), expected.clone());
        }
    }
}
