//! Tests of the open calls of a thread.

use super::*;
use proptest::prelude::*;

const NO_WAITS: WorkTime = WorkTime::WITHOUT_WAITS;

fn enter(calls: &mut OpenCalls, function: FunctionId, span: Option<u64>, now: u64) {
    calls.enter(CallPlace::Site(function, 0), function, span, now);
}

fn enter_frame(calls: &mut OpenCalls, function: FunctionId, now: u64) {
    calls.enter(CallPlace::Frame(u64::from(function)), function, None, now);
}

fn leave_frame(calls: &mut OpenCalls, function: FunctionId) -> Option<usize> {
    calls.leave(CallPlace::Frame(u64::from(function)), function, None)
}

fn leave(calls: &mut OpenCalls, function: FunctionId, span: Option<u64>) -> Option<usize> {
    calls.leave(CallPlace::Site(function, 0), function, span)
}

#[test]
fn a_call_that_is_named_while_open_ends_under_that_name() {
    let mut calls = OpenCalls::default();
    calls.enter(CallPlace::Address(0x1f), 1, None, 10);
    assert_eq!(calls.leave(CallPlace::Address(0x2f), 1, None), None);
    assert_eq!(calls.leave(CallPlace::Address(0x1f), 2, None), Some(0));
    assert_eq!([1, 2, 3].map(|function| calls.has_open(function)), [false, true, false]);
    assert_eq!(calls.pop(0, 20, &NO_WAITS).map(|(call, how)| (call.function, how)), Some((2, Ending::Left)));
    assert!(!calls.has_open(2));
}

#[test]
fn calls_without_a_leave_record_end_with_their_caller() {
    let mut calls = OpenCalls::default();
    enter_frame(&mut calls, 1, 10);
    enter_frame(&mut calls, 2, 20);
    enter_frame(&mut calls, 3, 30);
    assert_eq!(leave_frame(&mut calls, 9), None, "nobody has entered it");
    let left = leave_frame(&mut calls, 1).expect("it is open");
    let mut told = Vec::new();
    while let Some((call, how)) = calls.pop(left, 50, &NO_WAITS) {
        told.push((calls.open().len(), call.function, call.taken(50, &NO_WAITS), how));
    }
    use Ending::{Left, Unseen};
    assert_eq!(told, [(2, 3, (20, 20), Unseen), (1, 2, (30, 10), Unseen), (0, 1, (40, 10), Left)]);
    assert_eq!((calls.open().len(), calls.unmatched), (0, 1));
}

#[test]
fn calls_nested_too_deeply_are_folded_and_keep_their_times() {
    let mut calls = OpenCalls::default();
    for function in 0..5 {
        enter_frame(&mut calls, function % 2, u64::from(function) * 10);
    }
    let left = leave_frame(&mut calls, 1).expect("it is open");
    assert!(
        calls.pop_shown(left, (50, &NO_WAITS), 2, 0).is_none(),
        "what is left is inside of what is folded"
    );
    let left = leave_frame(&mut calls, 0).expect("it is open");
    let ended =
        calls.pop_shown(left, (60, &NO_WAITS), 2, 0).expect("the outermost of the folded ones is left");
    assert_eq!((ended.call.entered, ended.ending), (20, Ending::Left));
    let text = ended.folded.map(|folded| folded.text(|function| if function == 0 { "f" } else { "g" }));
    assert_eq!(text.as_deref(), Some("\u{2026} 3 more calls (2 of f)"));
    let left = leave_frame(&mut calls, 0).expect("it is open");
    let ended: Vec<_> = std::iter::from_fn(|| calls.pop_shown(left, (100, &NO_WAITS), 2, 0)).collect();
    let told = ended.iter().map(|ended| (ended.call.taken(100, &NO_WAITS), ended.folded.is_some()));
    assert_eq!(told.collect::<Vec<_>>(), [((90, 50), false), ((100, 10), false)]);
}

#[test]
fn unmatched_leave_records_are_handled_fast_at_any_depth() {
    let mut calls = OpenCalls::default();
    for now in 0..200_000 {
        enter(&mut calls, 1, None, now);
    }
    for _ in 0..200_000 {
        assert_eq!(leave(&mut calls, 2, None), None);
    }
    enter(&mut calls, 2, None, 200_000);
    assert_eq!(leave(&mut calls, 2, None), Some(200_000));
    assert_eq!(calls.unmatched, 200_000);
}

#[test]
fn spans_of_one_function_are_distinguished() {
    let mut calls = OpenCalls::default();
    enter(&mut calls, 1, Some(7), 1);
    enter(&mut calls, 1, Some(8), 2);
    assert_eq!(leave(&mut calls, 1, Some(7)), Some(1), "the other one outlives it");
    assert_eq!(calls.pop(1, 3, &NO_WAITS).and_then(|(call, _)| call.span), Some(7));
    assert_eq!(leave(&mut calls, 1, Some(8)), Some(0));
}

#[test]
fn a_leave_record_without_a_function_ends_the_innermost_call() {
    let mut calls = OpenCalls::default();
    calls.enter(CallPlace::Frame(0x1f), 1, None, 10);
    calls.enter(CallPlace::Frame(0x2f), 2, None, 20);
    enter(&mut calls, 3, None, 25);
    assert_eq!(
        calls.leave(CallPlace::Last, 9, None),
        Some(2),
        "the guard is no frame, and outlives this one"
    );
    assert_eq!(calls.pop(2, 30, &NO_WAITS).map(|(call, _)| call.function), Some(2));
    assert_eq!(leave(&mut calls, 3, None), Some(1));
    assert_eq!(calls.pop(1, 30, &NO_WAITS).map(|(call, _)| call.function), Some(3));
    assert_eq!(calls.leave(CallPlace::Last, 9, None), Some(0));
    assert_eq!(calls.pop(0, 40, &NO_WAITS).map(|(call, how)| (call.function, how)), Some((1, Ending::Left)));
    assert_eq!((calls.leave(CallPlace::Last, 9, None), calls.unmatched), (None, 1));
}

#[test]
fn guards_outlive_the_frame_around_them_unless_records_were_lost() {
    for is_lossy in [false, true] {
        let mut calls = OpenCalls::default();
        enter_frame(&mut calls, 1, 0);
        enter_frame(&mut calls, 2, 10);
        enter_frame(&mut calls, 3, 20);
        enter(&mut calls, 4, Some(8), 30);
        if is_lossy {
            calls.note_loss();
        }
        let mut values = ["1", "2", "3", "4"];
        let mut told = Vec::new();
        for (function, span, now) in [(2, None, 40), (4, Some(8), 90), (1, None, 100)] {
            let left = match span {
                Some(_) => leave(&mut calls, function, span),
                None => leave_frame(&mut calls, function),
            };
            let Some(left) = left else { continue };
            calls.reorder(left, &mut values[..calls.open().len()]);
            calls.count_overlaps(left, now, &NO_WAITS);
            while let Some((call, how)) = calls.pop(left, now, &NO_WAITS) {
                told.push((call.function, call.taken(now, &NO_WAITS), how, call.outlives));
            }
        }
        use Ending::{Left, Unseen};
        // Function 3 has no leave record. The span of function 4 is inside functions 3 and 2 for 10 ns.
        let expected = match is_lossy {
            false => [
                (3, (20, 10), Unseen, false),
                (2, (30, 10), Left, false),
                (4, (60, 60), Left, true),
                (1, (100, 20), Left, false),
            ],
            true => [
                (4, (10, 10), Unseen, false),
                (3, (20, 10), Unseen, false),
                (2, (30, 10), Left, false),
                (1, (100, 70), Left, false),
            ],
        };
        assert_eq!(told, expected);
        assert_eq!(values, if is_lossy { ["1", "2", "3", "4"] } else { ["1", "4", "2", "3"] });
        assert_eq!(calls.unmatched, u64::from(is_lossy));
    }
}

#[test]
fn a_guard_known_by_its_address_outlives_one_call_at_most() {
    let guard = |calls: &mut OpenCalls, address| {
        calls.enter(CallPlace::Address(address), 1, None, 0);
    };
    let leave = |calls: &mut OpenCalls, address| {
        let left = calls.leave(CallPlace::Address(address), 1, None).expect("it is open");
        while calls.pop(left, 0, &NO_WAITS).is_some() {}
        calls.open().iter().map(|call| call.place).collect::<Vec<_>>()
    };
    let mut calls = OpenCalls::default();
    [1, 2, 3].into_iter().for_each(|address| guard(&mut calls, address));
    let third = [CallPlace::Address(1), CallPlace::Address(3)];
    assert_eq!(leave(&mut calls, 2), third);
    // A `longjmp` has skipped the leave record of guard 3, as its second enter record shows, so no guard of this
    // place outlives another call.
    [2, 3].into_iter().for_each(|address| guard(&mut calls, address));
    assert_eq!(leave(&mut calls, 2), third);
    assert_eq!(leave(&mut calls, 1), []);
}

#[test]
fn a_frame_outlives_guards_that_are_dropped_in_it_but_no_frame() {
    let mut calls = OpenCalls::default();
    enter_frame(&mut calls, 1, 0);
    enter(&mut calls, 2, None, 10);
    enter_frame(&mut calls, 3, 20);
    // Guard 2 was moved into frame 3, which drops it.
    let left = leave(&mut calls, 2, None).expect("it is open");
    while calls.pop(left, 30, &NO_WAITS).is_some() {}
    assert_eq!(calls.open().iter().map(|call| call.function).collect::<Vec<_>>(), [1, 3]);
    // A `longjmp` has left frame 3.
    assert_eq!(leave_frame(&mut calls, 1), Some(0));
}

proptest! {
    #[test]
    fn lost_records_do_not_end_the_outermost_call_early(
        steps in prop::collection::vec((0u32..4, any::<bool>(), 0u8..8), 0..200)
    ) {
        let (mut calls, mut truth, mut now) = (OpenCalls::default(), Vec::new(), 0);
        enter(&mut calls, 99, None, 0);
        for (function, enters, lost) in steps {
            now += 1;
            if enters {
                truth.push(function);
                if lost > 0 {
                    enter(&mut calls, function, None, now);
                } else {
                    calls.note_loss();
                }
            } else if let Some(function) = truth.pop() {
                if lost == 0 {
                    calls.note_loss();
                }
                let left = if lost > 0 { leave(&mut calls, function, None) } else { None };
                while left.is_some_and(|left| calls.pop(left, now, &NO_WAITS).is_some()) {}
            }
            prop_assert!(!calls.open().is_empty(), "the outermost call is left by its own leaving only");
        }
        calls.note_loss();
        prop_assert_eq!(leave(&mut calls, 99, None), Some(0));
    }
}
