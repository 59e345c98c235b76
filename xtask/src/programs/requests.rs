//! A published server whose spans the bridge from `tracing` passes on to the tracer.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::sources::published_crate;
use super::{Tools, clean, spans};
use crate::failure::{Failure, Named, Result, check};
use crate::shell::{Run, Shell, free_port};

/// The line of the server's source that adds its own layer, and the line after it that adds the tracer's layer.
const LAYER: &str = "            .with(tracing_subscriber::fmt::layer())\n";
const ADDED: &str = "            .with(tracer_tracing::layer())\n";
const REQUESTS: usize = 200;
/// The number of the server's files, and of the clients at once.
const FILES: usize = 8;

/// Runs a server of files on axum and tokio that logs by `tracing`. With one more line of source, it also hands its
/// spans and events to the tracer. Under load it must answer as before, and the trace must have a span for each
/// request, from its beginning to its end, and no other spans of requests; some spans are entered on several threads,
/// which the tree shows.
pub fn requests(tools: &Tools) -> Result<()> {
    let shell = &published_crate(tools, "static-file-server", "0.0.3")?;
    shell.command("cargo build -q --release --locked").done()?;
    let (program, plain) = ("target/release/static-file-server", "target/plain");
    shell.copy(program, plain)?;
    let source = shell.read_text("src/startup/server.rs")?;
    let times = source.matches(LAYER).count();
    check(times == 1, || format!("the server adds its own layer {times} times, not once"))?;
    shell.write("src/startup/server.rs", source.replace(LAYER, &[LAYER, ADDED].concat()))?;
    print!("> {ADDED}");
    let bridge = shell.root.join("tracer/tracing");
    let dependency = format!("\n[dependencies.tracer-tracing]\npath = {bridge:?}\n");
    shell.write("Cargo.toml", shell.read_text("Cargo.toml")? + &dependency)?;
    shell.command("cargo build -q --release").done()?;
    for number in 1..=FILES {
        let mut random = std::fs::File::open("/dev/urandom")
            .named("cannot read random bytes")?
            .take(40_000 * (number * number) as u64);
        let mut bytes = Vec::new();
        random.read_to_end(&mut bytes).named("cannot read random bytes")?;
        shell.write(format!("files/{number}"), bytes)?;
    }
    let expected = answers(shell, shell.command(plain))?;
    let wanted: BTreeSet<String> = (1..=REQUESTS).map(uri).collect();
    // The number of rounds until a request moves to another thread depends on the machine.
    for _ in 0..20 {
        let server = shell.command(program).env("TRACER_ENABLE", "1").env("TRACER_FORMAT", "raw");
        check(answers(shell, server)? == expected, || {
            "the server answers something else with the bridge".to_owned()
        })?;
        shell.command("tracemerge check").arg(program).done()?;
        shell.command("tracemerge tree -q -o tree").arg(program).done()?;
        let spans =
            spans::of_tree(&shell.read_text("tree")?).named("the requests of the tree are not right")?;
        // Each request that was made is one span, and there is no other one.
        let uris: BTreeSet<String> = spans.iter().map(|(uri, _, _)| uri.clone()).collect();
        let same = uris == wanted && spans.len() == REQUESTS;
        check(same, || {
            format!("the {} requests in the trace are not those that were made: {spans:?}", spans.len())
        })?;
        shell.command("tracemerge -q --format jsonl -o lines").arg(program).done()?;
        let of_lines = spans::of_lines(&shell.read_text("lines")?).named("a line of JSON cannot be read")?;
        check(of_lines == spans, || {
            format!("the lines of JSON differ from the tree: {:?}", of_lines.symmetric_difference(&spans))
        })?;
        clean(shell, program)?;
        let moved = spans.iter().filter(|(_, _, threads)| *threads > 1).count();
        if moved > 0 {
            let polls: usize = spans.iter().map(|(_, polls, _)| polls).sum();
            println!("{REQUESTS} requests, entered {polls} times, {moved} of them on several threads");
            return Ok(());
        }
    }
    Err(Failure::Failed("in 20 rounds no request was on several threads".to_owned()))
}

/// Returns the URI of the request with this number, which no other request has.
fn uri(number: usize) -> String {
    format!("/{}?{number}", number % FILES + 1)
}

/// Starts a server of the directory `files`, sends requests from several clients at once, and ends the server. Returns
/// the bodies of the answers by their URIs; fails unless each body is the content of the requested file.
fn answers(shell: &Shell, server: Run) -> Result<BTreeMap<String, Vec<u8>>> {
    let port = free_port()?;
    let server = server.args(["--dir", "files", "--port", &port.to_string()]).start(shell.path("printed"))?;
    server.accepts(port)?;
    let client = |first: usize| -> std::io::Result<Vec<(String, Vec<u8>)>> {
        (first..=REQUESTS)
            .step_by(FILES)
            .map(|number| Ok((uri(number), body_of(port, &uri(number))?)))
            .collect()
    };
    let clients: std::io::Result<Vec<_>> = std::thread::scope(|scope| {
        let started: Vec<_> = (1..=FILES).map(|first| scope.spawn(move || client(first))).collect();
        let ended = started
            .into_iter()
            .map(|client| client.join().unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into())));
        ended.collect()
    });
    let answers: BTreeMap<_, _> = clients
        .named(format!("no answer; the server: {}", server.printed()))?
        .into_iter()
        .flatten()
        .collect();
    let id = server.id();
    server.interrupt(shell, id)?;
    for (uri, body) in &answers {
        let file = uri.split('?').next().unwrap_or_default();
        check(*body == shell.read(format!("files{file}"))?, || {
            format!("the answer to {uri} is not the file")
        })?;
    }
    Ok(answers)
}

/// Sends a request for a URI. Returns the body of an answer with the status 200.
fn body_of(port: u16, uri: &str) -> std::io::Result<Vec<u8>> {
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    connection.set_read_timeout(Some(Duration::from_secs(20)))?;
    write!(connection, "GET {uri} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").map(|at| at + 4);
    match end {
        Some(end) if answer.starts_with(b"HTTP/1.1 200 ") => Ok(answer.split_off(end)),
        _ => Err(std::io::Error::other(format!(
            "{uri}: {}",
            String::from_utf8_lossy(&answer[..answer.len().min(200)])
        ))),
    }
}
