//! Functions of Rust that are left in ways of which Rust knows nothing: by jumps, on other stacks, in forked children, and in
//! libraries that are unloaded. Those of C and C++ are in `functions.rs`.

use std::process::Command;

use support::Scenario;

use crate::compiled::{calls, counted, tracemerge};
use crate::rust::{Workspace, text};

#[test]
fn each_call_of_rust_is_told_whatever_leaves_the_function() {
    let workspace = Workspace::new();
    for (profile, words) in
        [("debug", &["build", "--workspace"][..]), ("release", &["build", "--workspace", "--release"])]
    {
        for targets in [&[][..], &["--examples"]] {
            let output = workspace.cargo_tracer(&[words, targets].concat());
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
        let program = workspace.built(profile, "examples/moves");
        let plugin = workspace.built(profile, "libplugin.so");
        let plugin = plugin.to_str().expect("a path");
        for how in ["forks", "jumps", "coroutines", "plugins"] {
            let mut untraced = Command::new(&program);
            let untraced =
                untraced.args([how, plugin]).env_remove("TRACER_ENABLE").output().expect("it runs");
            assert!(untraced.status.success(), "{}", text(&untraced.stderr));
            let traced = Scenario::new(&program, &[how, plugin]).run().succeeded();
            assert_eq!((traced.stdout(), traced.stderr()), (text(&untraced.stdout), String::new()), "{how}");
            traced.assert_whole();
            let mut command = tracemerge(traced.runtime.path());
            command
                .args(["--quiet", "--symbols", "-o", "/dev/stdout"])
                .arg(traced.directory.path().join("moves"));
            let merged = command.output().expect("it runs");
            assert!(merged.status.success() && merged.stderr.is_empty(), "{}", text(&merged.stderr));
            let lines: Vec<String> = text(&merged.stdout).lines().map(str::to_owned).collect();
            let entered = calls(&lines).entered;
            let counts = counted(&traced.stdout());
            assert!(!counts.is_empty());
            for (name, count) in counts {
                assert_eq!(entered.get(&name), Some(&count), "{profile} {how} {name}: {entered:?}");
            }
            // Where a library is loaded and unloaded at once, its addresses may be told of no module. Without optimization
            // there are more functions than its two.
            let of_plugin =
                ["of_plugin", "plugin::inside_plugin", ""].iter().filter_map(|name| entered.get(*name));
            let of_plugin: u64 = of_plugin.sum();
            let is_right = if how == "plugins" {
                of_plugin >= 40 && of_plugin.is_multiple_of(20)
            } else {
                of_plugin == 0
            };
            assert!(is_right, "{profile} {how}: {entered:?}");
        }
    }
}
