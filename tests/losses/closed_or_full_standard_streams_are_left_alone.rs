//! Standard streams are closed, or full and never read: no file of the tracer takes their place, and no thread
//! waits.
#![cfg(unix)]

use std::io::Read;
use std::process::Stdio;
use support::{Scenario, read_directory};

#[test]
fn no_trace_file_gets_the_descriptor_of_a_closed_stream() {
    let script = r#"exec "$0" panic <&- >&- 2>&-"#;
    let mut scenario = Scenario::new("sh", &["-c", script]);
    scenario.command().arg(env!("CARGO_BIN_EXE_scenario"));
    let traced = scenario.run();
    // The panic message went to descriptor 2, whatever that is; every line of the file is still a trace line.
    let texts = traced.messages();
    assert!(
        texts.len() == 2 && texts[0] == "before the panic" && texts[1].starts_with("panicked at "),
        "{texts:?}"
    );
    traced.assert_whole();
}

#[test]
fn a_full_stderr_does_not_block_the_program() {
    let mut scenario = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["thread-local"])
        .env("TRACER_DIR", "/dev/null/traces")
        .env("TRACER_RUNTIME_DIR", "/nonexistent/rings");
    let here = tempfile::tempdir().expect("a directory");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    fill(&mut writer);
    scenario.command().current_dir(here.path()).stderr(Stdio::from(writer)).stdout(Stdio::null());
    let mut child = scenario.command().spawn().expect("the program starts");
    let start = std::time::Instant::now();
    loop {
        match child.try_wait().expect("a child") {
            Some(status) => break assert!(status.success()),
            None if start.elapsed().as_secs() > 30 => panic!("it waits for stderr"),
            None => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    }
    assert_eq!(read_directory(here.path()).len(), 3);
    drop(reader);
}

/// Fills a pipe up to the last byte.
fn fill(writer: &mut std::io::PipeWriter) {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    // SAFETY: the calls read and set a flag of an open descriptor.
    let flag = |flags: i32| unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, flags) };
    flag(libc::O_NONBLOCK);
    let mut writer = writer.try_clone().expect("a copy");
    while writer.write(b"x").is_ok() {}
    flag(0);
}

#[test]
fn a_filled_pipe_holds_at_least_a_page() {
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    fill(&mut writer);
    drop(writer);
    let mut all = Vec::new();
    reader.read_to_end(&mut all).expect("what was written");
    assert!(all.len() >= 4096);
}
