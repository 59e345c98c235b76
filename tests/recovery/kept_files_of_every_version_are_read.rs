//! A kept file of each released version of the text format is read as that version read it.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used)]

use trace_format::escape::unescape;
use trace_format::kinds::SeparateCounts;
use trace_format::line::{Kind, Line, Ticks};
use trace_format::locks::LockRecord;
use trace_format::meta::{
    Cause, ClockKind, End, EndReason, LossReason, Meta, RingPlace, Run, SystemClocks, Thread, Waited,
};
use trace_format::states::{StateChange, ThreadState};
use trace_format::tally::Tally;
use trace_format::wait::{Wait, WaitCause};
use trace_format::wall::Wall;

#[test]
fn a_file_of_version_1_is_read() {
    assert_is_read_as_before(1, include_bytes!("../kept/version-1.trace"), &[]);
}

/// Reads version 2, in which the `# run` line has a checksum.
#[test]
fn a_file_of_version_2_is_read() {
    assert_is_read_as_before(
        2,
        include_bytes!("../kept/version-2.trace"),
        &[Meta::Credentials { uid: 1000 }],
    );
}

/// Checks that `text` is read as before; the metadata `new` stands before the end.
fn assert_is_read_as_before(version: u32, text: &[u8], new: &[Meta]) {
    let lines: Vec<Line<'_>> =
        text.strip_suffix(b"\n").unwrap().split(|&b| b == b'\n').map(|l| Line::parse(l).unwrap()).collect();
    assert!(lines.iter().all(|line| line.key.tid == 320));
    let metas: Vec<Meta> =
        lines.iter().filter(|l| l.kind == Kind::Meta).map(|l| Meta::parse(l.payload).unwrap()).collect();
    let wall = |ns: u64| Wall(1_795_187_462_000_000_000 + ns);
    let run = Run {
        version,
        id: 0x9f0c_23d1,
        root: 0x9f0c_23d1,
        pid: 800,
        exe: br#"/srv/my "app""#.to_vec(),
        boot: b"6c1e0f52".to_vec(),
        ticks: Ticks(1_275_565_779_000),
        wall: wall(123_456_789),
        clock: ClockKind::Ordered,
    };
    let thread = Thread {
        name: b"worker 3".to_vec(),
        ring: RingPlace::Private,
        why: b"no /dev/shm".to_vec(),
        file: None,
    };
    let mut expected = vec![
        Meta::Run(run),
        Meta::Thread(thread),
        Meta::Lost { records: 12, reason: LossReason::Full },
        Meta::Stall { ns: 31200 },
        Meta::Clock {
            ticks: Ticks(1_275_565_779_100),
            wall: wall(123_456_999),
            system: SystemClocks::default(),
        },
        Meta::End(End {
            records: 3,
            lost: 12,
            reason: EndReason::Exit,
            files: None,
            cause: Cause::default(),
            seen: None,
            apart: SeparateCounts::default(),
            waited: Waited::default(),
        }),
    ];
    expected.splice(5..5, new.iter().cloned());
    assert_eq!(metas, expected);
    let messages: Vec<(Kind, String)> = lines
        .iter()
        .filter(|l| l.kind != Kind::Meta)
        .map(|l| (l.kind, String::from_utf8(unescape(l.payload)).unwrap()))
        .collect();
    let expected = [
        (Kind::Message, "CCameraView::SetOptions() entered"),
        (Kind::Message, "two"),
        (Kind::Continuation, "lines"),
        (Kind::Message, "C:\\tmp \\x41 \x1b[31m größe"),
    ];
    assert_eq!(messages, expected.map(|(kind, text)| (kind, text.to_string())));
}

/// Reads version 3, which has kinds beyond those of version 2, and accepts some that it does not know.
#[test]
fn a_file_of_version_3_is_read() {
    let text = include_bytes!("../kept/version-3.trace");
    let lines: Vec<Line<'_>> =
        text.strip_suffix(b"\n").unwrap().split(|&b| b == b'\n').map(|l| Line::parse(l).unwrap()).collect();
    let of_kind = |kind| lines.iter().filter(move |line| line.kind == kind).map(|line| line.payload);
    let metas: Vec<Meta> = of_kind(Kind::Meta).map(|payload| Meta::parse(payload).unwrap()).collect();
    let (wall, ticks) =
        (|ns: u64| Wall(1_795_187_462_000_000_000 + ns), |n: u64| Ticks(1_275_565_779_000 + n));
    let run = Run {
        version: 3,
        id: 0x9f0c_23d1,
        root: 0x9f0c_23d1,
        pid: 800,
        exe: br#"/srv/my "app""#.to_vec(),
        boot: b"6c1e0f52".to_vec(),
        ticks: ticks(0),
        wall: wall(123_456_789),
        clock: ClockKind::Ordered,
    };
    let (ring, why) = (RingPlace::Private, b"no /dev/shm".to_vec());
    let system = SystemClocks {
        within: Some(130),
        raw: Some(81_204_377),
        since_boot: Some(91_204_377),
        error: Some(16_000_000),
        status: Some(8193),
        state: Some(0),
    };
    let wait = Wait { begin: ticks(9), end: ticks(41), ns: 81_250, what: WaitCause::Room };
    let expected = [
        Meta::Run(run),
        Meta::Thread(Thread { name: b"worker 3".to_vec(), ring, why, file: Some(1) }),
        Meta::Clock { ticks: ticks(50), wall: wall(123_456_889), system },
        Meta::Wait(wait),
        Meta::Name { ticks: ticks(43), name: b"worker 3, renamed".to_vec() },
        Meta::Lost { records: 12, reason: LossReason::Full },
        Meta::Dropped { files: 2 },
        Meta::End(End {
            records: 4,
            lost: 12,
            reason: EndReason::Exit,
            files: Some(3),
            cause: Cause::default(),
            seen: Some(ticks(100)),
            apart: SeparateCounts { others: 1, waits: 1, states: 1 },
            waited: Waited::default(),
        }),
    ];
    assert_eq!(metas, expected);
    let locks: Vec<_> = of_kind(Kind::Lock).map(|text| std::str::from_utf8(text).unwrap()).collect();
    assert_eq!(
        locks.iter().map(|text| LockRecord::parse(text)).collect::<Vec<_>>(),
        [Some(LockRecord::Got { id: 3, ns: 81_250 })]
    );
    let states: Vec<_> = of_kind(Kind::State).map(ThreadState::parse).collect();
    let gap = ThreadState { thread: 0, change: StateChange::Gap, cpu: 1, raw: 81_300_000, lost: 430 };
    assert_eq!(states, [Some(gap)]);
    let others: Vec<_> = of_kind(Kind::from_byte(b'~').unwrap()).collect();
    assert_eq!(others, [b"of a version that is still to come"]);
    let mut tally = Tally::default();
    lines.iter().for_each(|line| tally.line(line));
    assert_eq!(tally.messages(), 4, "a lock counts, what is counted apart does not");
}
