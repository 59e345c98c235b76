//! Times of a real run that `tracemerge --time utc` shows lie between the readings of the clock before it and after
//! it.
#![cfg(unix)]

use std::time::{SystemTime, UNIX_EPOCH};
use support::{Scenario, tracemerge};
use trace_format::wall::Wall;

fn now() -> Wall {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is set");
    Wall(u64::try_from(since.as_nanos()).expect("a year below 2554"))
}

#[test]
fn views_of_a_forking_program_have_true_times_and_name_its_processes() {
    let before = now();
    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["fork"]).run().succeeded();
    let after = now();
    let child: u32 = traced.stdout().trim().parse().expect("the child's pid");
    let (directory, to) = (traced.directory.path(), traced.directory.path().join("view"));
    let view = |args: &[&str]| {
        let words = args.iter().map(AsRef::as_ref);
        let options = ["-q", "-o"].iter().map(AsRef::as_ref);
        let all: Vec<_> = words.chain(options).chain([to.as_ref(), directory.as_ref()]).collect();
        assert_eq!(tracemerge(&all), 0);
        std::fs::read_to_string(&to).expect("a view")
    };
    let lines = view(&["--time", "utc", "--grep", ""]);
    assert_eq!(lines.lines().count(), traced.messages().len());
    let mut last = before;
    for line in lines.lines() {
        let time = line.split(' ').next().and_then(|time| Wall::parse(time.as_bytes()));
        let time = time.expect("a time in each line");
        assert!(last <= time && time <= after, "{line}: between {last} and {after}");
        last = time;
    }
    let of_child = lines.lines().filter(|line| line.contains(&format!(" {child}/")));
    assert_eq!(of_child.count(), 3, "{lines}");
    // A process that is shown alone needs no pid in its lines.
    let alone = view(&["--process", &child.to_string(), "--time", "offset", "--grep", "^child"]);
    assert_eq!(alone.lines().count(), 3, "{alone}");
    assert!(!alone.contains('/'), "{alone}");
}
