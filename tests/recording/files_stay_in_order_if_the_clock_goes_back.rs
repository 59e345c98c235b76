//! The processor's counter goes back in the middle of a run, as when a virtual machine is moved: the files
//! stay in order.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use support::Scenario;
use trace_format::meta::{ClockKind, Meta};

#[test]
fn lines_stay_in_order_and_the_jump_is_recorded_once() {
    // Reading the file checks the order.
    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["backward"]).run().succeeded();
    let file = traced.main_thread();
    let Meta::Run(run) = &file.metas[0] else { panic!("{:?}", file.metas) };
    if run.clock == ClockKind::System {
        eprintln!("this machine's counter is not used as the clock; nothing to see");
        return;
    }
    assert_eq!(file.texts(), ["before", "trapped", "behind", "still behind", "caught up"]);
    let back: Vec<u64> = file
        .metas
        .iter()
        .filter_map(|meta| if let Meta::Backward { ticks } = meta { Some(*ticks) } else { None })
        .collect();
    let [back] = back[..] else { panic!("told once: {back:?}") };
    assert!(back > (1 << 40) - (1 << 36) && back < 1 << 40, "{back} ticks: 2^40, less the time between");
    let ticks: Vec<u64> = file.messages.iter().map(|(key, _)| key.ticks.0).collect();
    assert_eq!(ticks[1], ticks[2]);
    assert_eq!(ticks[2], ticks[3]);
    assert!(ticks[4] > ticks[3]);
    assert_eq!(file.end().lost, 0);
}
