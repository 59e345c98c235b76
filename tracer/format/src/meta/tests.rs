//! Tests of the `#` lines: written lines are read back, and damage is found.

use proptest::prelude::*;

use super::*;
use crate::wait::WaitCause;

pub(crate) fn any_run() -> impl Strategy<Value = Run> {
    let ids = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
    let texts = (any::<Vec<u8>>(), any::<String>());
    let clock = prop::sample::select(vec![ClockKind::Ordered, ClockKind::Fast, ClockKind::System]);
    (ids, texts, any::<u64>(), any::<u64>(), clock).prop_map(
        |((version, id, root, pid), (exe, boot), ticks, wall, clock)| Run {
            version,
            id,
            root,
            pid,
            exe,
            boot: boot.into_bytes(),
            ticks: Ticks(ticks),
            wall: Wall(wall),
            clock,
        },
    )
}

fn any_cause() -> impl Strategy<Value = Cause> {
    let signal = prop::option::of("[!#-~]{1,31}".prop_map(|name| Name::parse(name.as_bytes()).unwrap()));
    (any::<Option<u64>>(), signal, any::<Option<u32>>()).prop_map(|(panic, signal, status)| Cause {
        panic,
        signal,
        status,
    })
}

fn any_clocks() -> impl Strategy<Value = SystemClocks> {
    let numbers = any::<(Option<u64>, Option<u64>, Option<u64>, Option<u64>)>();
    (numbers, any::<(Option<u32>, Option<u32>)>()).prop_map(
        |((within, raw, since_boot, error), (status, state))| SystemClocks {
            within,
            raw,
            since_boot,
            error,
            status,
            state,
        },
    )
}

fn any_meta() -> impl Strategy<Value = Meta> {
    let losses = prop::sample::select(LossReason::NAMES.map(|(v, _)| v).to_vec());
    let ends = prop::sample::select(EndReason::NAMES.map(|(v, _)| v).to_vec());
    let name = || "[!#-~]{1,31}".prop_map(|name| Name::parse(name.as_bytes()).unwrap());
    let unknown = |name: &Name| !LossReason::NAMES.iter().any(|(_, known)| *known == name.as_str());
    let ends = prop_oneof![ends, name().prop_map(|name| EndReason::parse(name.as_str().as_bytes()).unwrap())];
    let rings = prop::sample::select(RingPlace::NAMES.map(|(v, _)| v).to_vec());
    let addresses = || any::<(u64, u64)>().prop_map(|(start, end)| AddressRange { start, end });
    let module = (addresses(), any::<u64>(), any::<Vec<u8>>(), any::<Vec<u8>>())
        .prop_map(|(range, bias, build_id, path)| (range, bias, build_id, path));
    let between =
        || any::<(u64, u64)>().prop_map(|(after, seen)| Between { after: Ticks(after), seen: Ticks(seen) });
    let module = (module, between()).prop_map(|((range, bias, build_id, path), loaded)| Module {
        range,
        bias,
        build_id,
        path,
        loaded,
    });
    prop_oneof![
        any_run().prop_map(Meta::Run),
        module.prop_map(Meta::Module),
        (addresses(), between()).prop_map(|(range, gone)| Meta::Unloaded { range, gone }),
        (any::<u64>(), between()).prop_map(|(modules, there)| Meta::Missed { modules, there }),
        (any::<Vec<u8>>(), rings, any::<Vec<u8>>(), any::<Option<u32>>())
            .prop_map(|(name, ring, why, file)| Meta::Thread(Thread { name, ring, why, file })),
        any::<u32>().prop_map(|uid| Meta::Credentials { uid }),
        (any::<(u64, u64)>(), any_clocks()).prop_map(|((t, w), system)| Meta::Clock {
            ticks: Ticks(t),
            wall: Wall(w),
            system
        }),
        (any::<u64>(), losses).prop_map(|(records, reason)| Meta::Lost { records, reason }),
        (any::<u64>(), name().prop_filter("a known one", unknown))
            .prop_map(|(records, reason)| Meta::LostOtherwise { records, reason }),
        any::<u64>().prop_map(|ns| Meta::Stall { ns }),
        any::<u64>().prop_map(|files| Meta::Dropped { files }),
        any::<(u64, Vec<u8>)>().prop_map(|(ticks, name)| Meta::Name { ticks: Ticks(ticks), name }),
        (any::<(u64, u64, u64)>(), prop::sample::select(WaitCause::NAMES.to_vec())).prop_map(
            |((begin, end, ns), (what, _))| Meta::Wait(Wait {
                begin: Ticks(begin),
                end: Ticks(end),
                ns,
                what
            })
        ),
        any::<u64>().prop_map(|ns| Meta::Start { ns }),
        any::<u64>().prop_map(|ticks| Meta::Backward { ticks }),
        (any::<u64>(), any::<u64>(), ends, any::<Option<u64>>(), any_cause()).prop_map(
            |(records, lost, reason, files, cause)| Meta::End(End {
                records,
                lost,
                reason,
                files,
                cause,
                seen: None,
                apart: SeparateCounts { others: records / 3, waits: lost % 5, states: lost % 3 },
                waited: Waited { ns: records % 7, for_ring_ns: lost % 3 },
            })
        ),
        any::<(Vec<u8>, u64, u64, Vec<u8>)>().prop_map(|(file, offset, bytes, text)| Meta::Damaged {
            file,
            offset,
            bytes,
            text
        }),
    ]
}

#[test]
fn lines_are_written_as_documented() {
    let mut out = Vec::new();
    Meta::Lost { records: 12, reason: LossReason::Full }.write(&mut out);
    assert_eq!(out, b"lost records=12 reason=full");
    out.clear();
    let system = SystemClocks {
        within: Some(130),
        raw: Some(81_204_377),
        since_boot: Some(91_204_377),
        error: Some(16_000_000),
        status: Some(0x2001),
        state: Some(0),
    };
    Meta::Clock { ticks: Ticks(75), wall: Wall(1_795_187_462_123_456_789), system }.write(&mut out);
    let clock = "clock ticks=75 wall=2026-11-20T15:11:02.123456789Z within=130 raw=81204377 since_boot=91204377 \
                 error=16000000 status=8193 state=0";
    assert_eq!(String::from_utf8(out.clone()).unwrap(), clock);
    out.clear();
    Meta::Start { ns: 412_007 }.write(&mut out);
    assert_eq!(out, b"start ns=412007");
    out.clear();
    let wait = Wait { begin: Ticks(7), end: Ticks(12), ns: 81_250, what: WaitCause::Room };
    Meta::Wait(wait).write(&mut out);
    assert_eq!(out, b"wait begin=7 end=12 ns=81250 for=room");
    out.clear();
    let name = br#"worker "3""#.to_vec();
    Meta::Thread(Thread { name, ring: RingPlace::Shared, why: vec![], file: None }).write(&mut out);
    assert_eq!(out, br#"thread name="worker \x223\x22" ring=shared"#);
}

const LOADED: Between = Between { after: Ticks(3), seen: Ticks(5) };

/// The beginning of a line of the module table, up to the part that differs in these tests.
const MAPPED: &str = "module start=00007f1c2a001000 end=00007f1c2a0f4000 bias=00007f1c2a000000";

#[test]
fn the_module_table_is_written_in_hex_digits_of_fixed_width() {
    let range = AddressRange { start: 0x7f1c_2a00_1000, end: 0x7f1c_2a0f_4000 };
    let build_id = vec![0x0b, 0xad, 0xf0, 0x0d];
    let module = Module {
        range,
        bias: 0x7f1c_2a00_0000,
        build_id,
        path: b"/usr/lib/libz.so.1".to_vec(),
        loaded: LOADED,
    };
    let said =
        |build_id: &str| format!("{MAPPED} build_id={build_id} path=\"/usr/lib/libz.so.1\" after=3 seen=5");
    assert_eq!(written(&Meta::Module(module.clone())), said("0badf00d").as_bytes());
    let unnamed = Module { build_id: vec![], ..module };
    assert_eq!(written(&Meta::Module(unnamed.clone())), said("").as_bytes());
    assert_eq!(Meta::parse(said("").as_bytes()), Some(Meta::Module(unnamed)));
    let unloaded = b"unloaded start=00007f1c2a001000 end=00007f1c2a0f4000 after=3 seen=5";
    assert_eq!(written(&Meta::Unloaded { range, gone: LOADED }), unloaded);
    assert_eq!(written(&Meta::Missed { modules: 2, there: LOADED }), b"missed modules=2 after=3 seen=5");
}

#[test]
fn a_module_line_with_damaged_digits_is_rejected() {
    for build_id in ["0", "0BAD", "0bad\"", "0x12", "+1", "\"\""] {
        let line = format!("{MAPPED} build_id={build_id} path=\"/a\" after=3 seen=5");
        assert_eq!(Meta::parse(line.as_bytes()), None, "{line}");
    }
    for start in ["", "7f1c2a001000", "00007f1c2a001000f", "+0007f1c2a001000", "00007F1C2A001000"] {
        let line = format!("unloaded start={start} end=00007f1c2a0f4000 after=3 seen=5");
        assert_eq!(Meta::parse(line.as_bytes()), None, "{line}");
    }
}

#[test]
fn a_range_includes_its_start_and_excludes_its_end() {
    let range = AddressRange { start: 0x1000, end: 0x2000 };
    let is_in = [0xfff, 0x1000, 0x1fff, 0x2000].map(|address| range.contains(address));
    assert_eq!(is_in, [false, true, true, false]);
    assert!(!AddressRange { start: 0x2000, end: 0x1000 }.contains(0x1800), "a damaged range has none");
}

fn written(meta: &Meta) -> Vec<u8> {
    let mut out = Vec::new();
    meta.write(&mut out);
    out
}

fn some_run(version: u32) -> Run {
    Run {
        version,
        id: 0x9f0c_23d1,
        root: 0x9f0c_23d1,
        pid: 800,
        exe: b"/srv/app".to_vec(),
        boot: b"6c1e".to_vec(),
        ticks: Ticks(1_275_565_779_000),
        wall: Wall(1_795_187_462_000_000_000),
        clock: ClockKind::Ordered,
    }
}

#[test]
fn a_run_line_has_a_checksum_from_version_2_on() {
    let said = |version| {
        format!(
            "run version={version} id=9f0c23d1 root=9f0c23d1 pid=800 exe=\"/srv/app\" boot=\"6c1e\" \
             ticks=1275565779000 wall=2026-11-20T15:11:02.000000000Z clock=ordered"
        )
    };
    assert_eq!(written(&Meta::Run(some_run(1))), said(1).as_bytes());
    // The checksum was computed by Python's zlib.
    assert_eq!(written(&Meta::Run(some_run(2))), format!("{} check=93262037", said(2)).as_bytes());
    for payload in [said(2), said(9), format!("{} check=93262037", said(1)), said(1) + " check=1"] {
        let Some(RunLine::Damaged(claim)) = RunLine::parse(payload.as_bytes()) else { panic!("{payload}") };
        assert_eq!((claim.pid, claim.id), (Some(800), Some(0x9f0c_23d1)), "{payload}");
        assert_eq!(Meta::parse(payload.as_bytes()), None, "{payload}");
    }
    assert_eq!(RunLine::parse(b"stall ns=5"), None);
    let why = |payload: &[u8]| match RunLine::parse(payload) {
        Some(RunLine::Damaged(claim)) => claim.why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(b"run version=1 id=9f0c23d1"), RunDamage::Unreadable("root"));
    assert_eq!(why(b"run version=one"), RunDamage::Unreadable("version"));
    assert_eq!(why(said(2).as_bytes()), RunDamage::NoCheck);
}

#[test]
fn a_run_line_with_one_flipped_bit_is_rejected() {
    let payload = written(&Meta::Run(some_run(2)));
    for bit in (0..8 * payload.len()).step_by(if cfg!(miri) { 29 } else { 1 }) {
        let mut changed = payload.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Meta::parse(&changed), None, "{}", String::from_utf8_lossy(&changed));
    }
}

#[test]
fn losses_and_ends_with_unknown_reasons_are_read() {
    let reason = Name::parse(b"of_a_later_version").unwrap();
    let lost = Meta::parse(b"lost records=12 reason=of_a_later_version at=5");
    assert_eq!(lost, Some(Meta::LostOtherwise { records: 12, reason }));
    let end = Meta::parse(b"end records=3 lost=12 reason=of_a_later_version");
    assert_eq!(
        end,
        Some(Meta::End(End {
            records: 3,
            lost: 12,
            reason: EndReason::Other(reason),
            files: None,
            cause: Cause::default(),
            seen: None,
            apart: SeparateCounts::default(),
            waited: Waited::default(),
        }))
    );
    let long = [b"lost records=1 reason=", &[b'x'; 100][..]].concat();
    let Some(Meta::LostOtherwise { records: 1, reason }) = Meta::parse(&long) else { panic!("a loss") };
    assert_eq!(reason.as_str(), "x".repeat(Name::MAX_NAME_BYTES));
    for no_word in ["", "\"x\"", "\u{e9}", "\u{1b}[31m"] {
        assert_eq!(Meta::parse(format!("lost records=1 reason={no_word}").as_bytes()), None, "{no_word}");
    }
}

#[test]
fn an_end_names_the_cause_if_it_is_known() {
    let told = |text: &[u8]| match Meta::parse(text) {
        Some(Meta::End(end)) => (end.reason, end.cause),
        other => panic!("{other:?}"),
    };
    let signal = Name::parse(b"SIGABRT");
    let panic = Cause { panic: Some(77), signal, status: None };
    let text = b"end records=3 lost=0 reason=panic files=2 panic=77 signal=SIGABRT";
    assert_eq!(told(text), (EndReason::Panic, panic));
    let reason = EndReason::Panic;
    assert_eq!(
        written(&Meta::End(End {
            records: 3,
            lost: 0,
            reason,
            files: Some(2),
            cause: panic,
            seen: None,
            apart: SeparateCounts::default(),
            waited: Waited::default(),
        })),
        text
    );
    let status = Cause { status: Some(3), ..Cause::default() };
    assert_eq!(told(b"end records=3 lost=0 reason=killed status=3"), (EndReason::Killed, status));
    // Values that cannot be read are ignored, and the line is an end nevertheless.
    for odd in ["signal=", "signal=\"x\"", "status=-1", "status=4294967296", "panic=main"] {
        let text = format!("end records=3 lost=0 reason=killed {odd}");
        assert_eq!(told(text.as_bytes()), (EndReason::Killed, Cause::default()), "{odd}");
    }
}

#[test]
fn unknown_keys_are_skipped_and_missing_ones_are_an_error() {
    assert_eq!(Meta::parse(b"stall later=\"a b=c\" ns=5 x=y"), Some(Meta::Stall { ns: 5 }));
    for text in [
        "",
        "stall",
        "stall ns=",
        "stall ns=\"5\"",
        "stall ns=-1",
        "stall  ns=5",
        "unknown a=1",
        "stall ns=99999999999999999999",
        "clock ticks=1 wall=yesterday",
        "thread name=\"open ring=shared",
    ] {
        assert_eq!(Meta::parse(text.as_bytes()), None, "{text}");
    }
}

proptest! {
    #[test]
    fn metadata_parses_back(meta in any_meta()) {
        let mut out = Vec::new();
        meta.write(&mut out);
        prop_assert!(!out.contains(&b'\n'));
        prop_assert_eq!(Meta::parse(&out), Some(meta));
    }

    #[test]
    fn a_run_line_with_a_few_flipped_bits_is_rejected(
        run in any_run(), changes in prop::collection::vec((any::<prop::sample::Index>(), 0..8u8), 1..4)
    ) {
        let run = Run { version: run.version.max(FIRST_CHECKED), ..run };
        let payload = written(&Meta::Run(run));
        let mut changed = payload.clone();
        for (at, bit) in &changes {
            changed[at.index(payload.len())] ^= 1 << bit;
        }
        // Two changes may hit one bit; three may turn it into a line of version 1, which has no
        // checksum.
        if changed != payload && !changed.windows(9).any(|part| part.starts_with(b"version=") && part[8] < b'2') {
            prop_assert_eq!(Meta::parse(&changed), None);
        }
    }

    #[test]
    fn any_bytes_are_parsed_without_panic(bytes: Vec<u8>, word in "(run|thread|clock|lost|module|unloaded|missed|end) ") {
        let _ = Meta::parse(&bytes);
        let _ = Meta::parse(&[word.as_bytes(), &bytes].concat());
    }
}
