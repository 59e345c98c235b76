//! Tests of the ring's header.

use super::*;

fn header() -> Box<Header> {
    Box::new(Header::zeroed())
}

#[test]
fn a_ring_is_identified_and_impossible_ones_are_refused() {
    let header = header();
    let geometry = Geometry::of(1 << 20);
    assert_eq!((geometry.block, geometry.nested_capacity, geometry.nested_block), (65_536, 65_536, 8192));
    assert_eq!(header.identity.check(u64::MAX), Err(RingError::NotARing));
    header.identity.set(&geometry, 7, 3, false);
    assert_eq!(header.identity.check(geometry.file_size()), Ok(geometry));
    assert_eq!(header.identity.check(geometry.file_size() - 1), Err(RingError::Geometry));
    header.identity.block.store(12, Ordering::Relaxed);
    assert_eq!(header.identity.check(u64::MAX), Err(RingError::Geometry));
    header.identity.set(&geometry, 7, 3, false);
    for version in [0, 1, LAYOUT_VERSION + 1, 9, u32::MAX] {
        header.identity.version.store(version, Ordering::Relaxed);
        assert_eq!(header.identity.check(u64::MAX), Err(RingError::Version(version)));
    }
    for version in OLDEST_LAYOUT..=LAYOUT_VERSION {
        header.identity.version.store(version, Ordering::Relaxed);
        assert_eq!(header.identity.check(u64::MAX), Ok(geometry));
    }
}

#[test]
fn a_producer_stopped_between_its_two_stores_has_published_the_count() {
    let header = header();
    let written = &header.main;
    for messages in 0..40u64 {
        // `Lane::commit` does the same.
        written.publish((messages + 1) * 24, messages + 1);
        assert_eq!(written.end(3), CommittedEnd { position: (messages + 1) * 24, messages: messages + 1 });
        assert_eq!(written.end(2).messages, messages, "layout 2 has but the counter");
        // A piece of the next message may be published now.
        written.committed.store(messages + 1, Ordering::Release);
        assert_eq!(written.end(3), CommittedEnd { position: (messages + 1) * 24, messages: messages + 1 });
        assert_eq!((written.end(2).messages, written.head()), (messages + 1, (messages + 1) * 24));
    }
    written.clear_counters();
    assert_eq!(written.end(3), CommittedEnd { position: 40 * 24, messages: 0 });
    // The head's number contradicts the counter, so the counter is the result.
    written.publish(8, 5);
    assert_eq!(written.end(3), CommittedEnd { position: 8, messages: 0 });
}

#[test]
fn hostile_capacities_are_refused_without_overflow() {
    let header = header();
    for capacity in [0, 1, 3 << 20, u64::MAX, 1 << 63, MAX_CAPACITY * 2] {
        header.identity.set(&Geometry::of(1 << 20), 7, 3, false);
        header.identity.capacity.store(capacity, Ordering::Relaxed);
        assert_eq!(header.identity.check(u64::MAX), Err(RingError::Geometry), "{capacity}");
    }
}

#[test]
fn positions_that_contradict_each_other_are_refused() {
    let header = header();
    header.main.publish(4096, 3);
    assert_eq!(readable(&header.main, 4000, 16384), Ok(4000..4096));
    for (consumed, capacity) in [(4104, 16384), (4095, 16384), (0, 4088), (u64::MAX - 7, 16384)] {
        assert_eq!(readable(&header.main, consumed, capacity), Err(RingError::Positions));
    }
}

#[test]
fn the_inactive_slot_is_filled_and_then_becomes_active() {
    let header = header();
    for n in 1..5u64 {
        let render = RenderState {
            last: Ticks(n),
            in_message: n % 2 == 0,
            in_lost: n > 2,
            ended: n % 3 == 0,
            waits: 3,
            records: n,
            lost: [n; LossReason::COUNT],
            stall_ns: n,
            behind: n % 2 == 1,
            in_earlier_files: FileTotals {
                records: n + 1,
                lost: [n + 2; LossReason::COUNT],
                stall_ns: n + 3,
                bytes: n + 4,
            },
        };
        let progress = Progress {
            consumed: n * 8,
            nested_consumed: n,
            file_length: n,
            device: n,
            inode: n,
            file_number: 3,
            render,
        };
        let before = header.published();
        header.slots[usize::from(header.selected.count.load(Ordering::Relaxed) & 1 == 0)].store(&progress);
        assert_eq!(header.published(), before, "a half-done publication changes nothing");
        header.publish(&progress);
        assert_eq!(header.published(), progress);
        assert_eq!(header.read_published(), Some((n, progress)));
    }
}

#[test]
fn overwritten_bytes_are_left_out_up_to_a_block_boundary() {
    let header = header();
    let survivors_from = |head: u64, reserve: u64, consumed: u64| {
        header.main.publish(head, 5);
        header.main.reserve.store(reserve, Ordering::Relaxed);
        survivors(&header.main, header.main.head(), consumed, 1024, 128)
    };
    assert_eq!(survivors_from(0, 0, 0), Ok(0..0));
    assert_eq!(survivors_from(1000, 1024, 0), Ok(0..1000));
    assert_eq!(survivors_from(1032, 1152, 0), Ok(128..1032));
    assert_eq!(survivors_from(1032, 1152, 1000), Ok(1000..1032));
    // A message that is not finished has overwritten everything.
    assert_eq!(survivors_from(1032, 2304, 0), Ok(1032..1032));
    // These positions are impossible.
    assert_eq!(survivors_from(2048, 0, 0), Ok(1024..2048));
    assert_eq!(survivors_from(2048, u64::MAX, 0), Ok(2048..2048));
    assert_eq!(survivors_from(1032, 1152, 1), Err(RingError::Positions));
    assert_eq!(survivors_from(1032, 1152, 1040), Err(RingError::Positions));
}

#[test]
fn a_name_of_sixteen_bytes_is_kept_whole() {
    let header = header();
    header.tenancy.set_name(*b"sixteen bytes ok");
    assert_eq!(header.tenancy.name(), b"sixteen bytes ok");
    header.tenancy.set_name(*b"main\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(header.tenancy.name(), b"main");
}

#[test]
fn a_longer_name_is_truncated_to_the_available_room() {
    let header = header();
    let long = "a worker of the pool with a long name";
    for (longer, expected) in [
        (Some(long), long.to_owned()),
        (None, "a worker of the".to_owned()),
        (Some(&*"\u{e4}".repeat(200)), "\u{e4}".repeat(MAX_NAME / 2)),
        (Some(&*format!("x{}", "\u{e4}".repeat(200))), format!("x{}", "\u{e4}".repeat(MAX_NAME / 2 - 1))),
        (Some(&long[..17]), long[..17].to_owned()),
    ] {
        header.set_thread_name(*b"a worker of the\0", longer);
        assert_eq!(String::from_utf8(header.thread_name()).unwrap(), expected);
    }
    header.long_name.length.store(u64::MAX, Ordering::Relaxed);
    assert_eq!(header.thread_name(), b"a worker of the");
}
