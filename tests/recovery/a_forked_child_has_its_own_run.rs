//! `fork`: both processes trace on; the child is a run of its own under the same root, and harms nothing.
#![cfg(unix)]

use support::{Scenario, ThreadTrace};
use trace_format::meta::{Meta, Run};

fn run_line(file: &ThreadTrace) -> &Run {
    let Some(Meta::Run(run)) = file.metas.first() else { panic!("a file begins with its run") };
    run
}

#[test]
fn a_forked_child_traces_on_and_its_parent_loses_nothing() {
    for _ in 0..5 {
        let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["fork"]).run().succeeded();
        let child: u32 = traced.stdout().trim().parse().expect("the child's pid");
        let (children, parents): (Vec<_>, Vec<_>) =
            traced.files.values().partition(|f| run_line(f).pid == child);
        let texts = |files: &[&ThreadTrace]| {
            let mut all: Vec<String> = files.iter().flat_map(|f| f.texts()).map(String::from).collect();
            all.sort();
            all
        };
        assert_eq!(texts(&children), ["child first", "child last", "child thread"]);
        let parent = texts(&parents);
        assert_eq!(parent.len(), 2002, "2,000 of the other thread, two of the main one");
        assert!(parent.contains(&"parent before".into()) && parent.contains(&"parent after".into()));
        traced.assert_whole();
        let (own, root) = (run_line(children[0]), run_line(parents[0]));
        assert_ne!(own.id, root.id);
        assert_eq!((own.root, root.root), (root.id, root.id));
        assert!(traced.left_in_runtime().is_empty(), "{:?}", traced.left_in_runtime());
    }
}
