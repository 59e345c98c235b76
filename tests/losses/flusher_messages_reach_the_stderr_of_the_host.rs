//! The flusher has descriptors of its own, so a thread with the host's descriptors writes its messages: into a
//! pipe, a socket, after the content of a file; into nothing if stderr is closed; and also when the main thread has
//! left.
#![cfg(target_os = "linux")]

use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use support::{Scenario, read_directory};

/// Panics unless the messages on stderr are there, in their order.
fn assert_said(said: &str) {
    let lines: Vec<&str> = said.lines().collect();
    let [before, told, after] = lines[..] else { panic!("three lines: {said}") };
    assert_eq!((before, after), ("before", "after"));
    assert!(told.starts_with("tracer: cannot create trace files in"), "{told}");
}

/// Returns a program whose trace directory is refused, so that the flusher reports that, and the directory that its
/// files go to.
fn refused(how: &str) -> (Scenario, tempfile::TempDir) {
    let here = tempfile::tempdir().expect("a directory");
    let mut scenario = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["told", how]);
    scenario = scenario.env("TRACER_DIR", "/dev/null/traces");
    scenario.command().current_dir(here.path());
    (scenario, here)
}

fn run(mut scenario: Scenario, stderr: Stdio) {
    let status = scenario.command().stdout(Stdio::null()).stderr(stderr).status().expect("it runs");
    assert!(status.success(), "{status}");
}

#[test]
fn messages_go_into_a_pipe() {
    for how in ["", "main left"] {
        let (mut scenario, here) = refused(how);
        let output = scenario.command().output().expect("it runs");
        assert_said(&String::from_utf8_lossy(&output.stderr));
        assert_eq!(read_directory(here.path()).len(), 1);
    }
}

#[test]
fn messages_go_into_a_socket() {
    let (scenario, _here) = refused("");
    let (mut reader, writer) = std::os::unix::net::UnixStream::pair().expect("sockets");
    run(scenario, Stdio::from(OwnedFd::from(writer)));
    let mut said = String::new();
    reader.read_to_string(&mut said).expect("its end: nobody holds it open");
    assert_said(&said);
}

#[test]
fn messages_are_appended_to_a_file() {
    let (scenario, _here) = refused("");
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(b"from before\n").expect("room");
    run(scenario, Stdio::from(file.try_clone().expect("a copy")));
    let mut said = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut said)).expect("a file");
    assert_said(said.strip_prefix("from before\n").expect("it is not overwritten"));
}

#[test]
fn messages_are_discarded_if_stderr_is_closed() {
    let (mut scenario, here) = refused("");
    let program = scenario.command().get_program().to_owned();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", r#"exec "$0" told 2>&-"#]).arg(program).current_dir(here.path());
    for (name, value) in scenario.command().get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    assert!(shell.stdin(Stdio::null()).stdout(Stdio::null()).status().expect("it runs").code().is_some());
    assert_eq!(read_directory(here.path()).len(), 1, "the record is there, and in a file of traces only");
}
