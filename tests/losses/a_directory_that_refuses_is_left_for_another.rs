//! If trace files cannot be made in their directory, they go to the current directory, and one message reports
//! that.

use support::{Scenario, names, parse, refused};

#[test]
fn a_directory_that_cannot_be_made_is_replaced_by_the_current_one_and_named_once() {
    let here = tempfile::tempdir().expect("a directory");
    let mut scenario =
        Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["thread-local"]).env("TRACER_DIR", &refused());
    scenario.command().current_dir(here.path());
    let here_name = here.path().file_name().expect("a name").to_string_lossy();
    let traced = scenario.run().succeeded();
    let said = traced.stderr();
    assert_eq!(said.lines().count(), 1, "{said}");
    // The path is shown as Rust shows it, with backslashes doubled.
    assert!(said.contains("Cargo.toml") && said.contains(&*here_name), "{said}");
    let files = names(here.path());
    assert_eq!(files.len(), 3, "one per thread: {files:?}");
    for file in files {
        parse("file", &std::fs::read(file).expect("a file"));
    }
}

#[cfg(unix)]
#[test]
fn nobodys_old_trace_is_touched() {
    // The main thread's id is the process's: a file with that name can be there only before it starts.
    let mut scenario =
        Scenario::new("sh", &["-c", "echo old > $TRACER_DIR/scenario.trace.$$; exec \"$0\" return"]);
    scenario.command().arg(env!("CARGO_BIN_EXE_scenario"));
    let directory = scenario.directory.path().to_path_buf();
    let output = scenario.command().output().expect("sh can be run");
    assert!(output.status.success());
    let files = names(&directory);
    let [old, new] = &files[..] else { panic!("{files:?}") };
    assert_eq!(std::fs::read(old).expect("the old file"), b"old\n");
    assert_eq!(format!("{}.1", old.display()), new.display().to_string());
    parse("new", &std::fs::read(new).expect("the new file"));
}

#[cfg(unix)]
#[test]
fn a_runtime_directory_that_others_can_enter_is_refused_and_rings_are_private() {
    use std::os::unix::fs::PermissionsExt;
    use trace_format::meta::{Meta, RingPlace};
    let scenario = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["return"]);
    std::fs::set_permissions(scenario.runtime.path(), PermissionsExt::from_mode(0o755))
        .expect("a change of mode");
    let traced = scenario.run().succeeded();
    assert!(traced.stderr().contains("only this user can enter"), "{}", traced.stderr());
    let Some(Meta::Thread(thread)) = traced.main_thread().metas.get(1) else { panic!("a `# thread` line") };
    assert_eq!(thread.ring, RingPlace::Private);
    assert!(String::from_utf8_lossy(&thread.why).contains("only this user can enter"));
    assert_eq!(traced.messages(), ["the last words of main"]);
}

#[cfg(unix)]
#[test]
fn files_and_rings_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["killed"]).run();
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).expect("an entry").permissions().mode() & 0o777;
    for file in names(traced.directory.path()) {
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
    let [run] = &traced.left_in_runtime()[..] else { panic!("one run") };
    assert_eq!(mode(run), 0o700);
    for file in names(run) {
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
}
