//! If trace files cannot be made in the directory that is set for them, they go to the current directory, and one
//! message reports that.

use support::{Scenario, names, parse, refused};

#[test]
fn traces_go_to_the_current_directory_if_theirs_cannot_be_created() {
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
fn an_existing_trace_file_is_not_changed() {
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
fn rings_are_private_if_others_can_enter_the_runtime_directory() {
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
fn only_the_owner_can_access_files_and_rings() {
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
