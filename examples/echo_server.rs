//! An echo server on the loopback device, and clients that measure how long its answers take.
//!
//! Without options it is both: a server and four clients with 50 requests each, in one process. `--serve`
//! runs the server alone, for half a minute, and prints its address; `--connect ADDRESS` runs the clients.
//! Each request has an id that both sides trace.
//!
//! ```text
//! cargo build --release --example echo_server
//! TRACER_ENABLE=1 target/release/examples/echo_server
//! tracemerge target/release/examples/echo_server -o - | grep 'request 2.17:'
//! ```
//!
//! Look at the four records of one request, and at the records between them in the merged trace if its latency is an
//! outlier. If server and clients are two traced processes, their traces are merged in the same way, because ticks of
//! one machine can be compared.

#![allow(clippy::print_stdout)]

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};
use tracer::Tracer;

/// The number of clients that run at the same time.
const CLIENTS: u32 = 4;
/// The number of requests of each client.
const REQUESTS: u32 = 50;
/// The length of the largest text that the server takes, in bytes.
const MAX_TEXT: usize = 4096;
/// The longest time that any read, write or connect may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time for which a server waits for clients.
const SERVING: Duration = Duration::from_secs(30);
/// The time between two checks of the server for a new client.
const LOOK: Duration = Duration::from_millis(2);

/// The id of a request, `client.number`, which client and server trace.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RequestId {
    client: u32,
    number: u32,
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.client, self.number)
    }
}

/// A request or a reply. On the wire it has the client, the number and the length of the text, each in four bytes, and
/// then the text.
#[derive(PartialEq, Eq)]
struct Message {
    id: RequestId,
    text: Vec<u8>,
}

impl Message {
    fn send(&self, stream: &mut impl Write) -> io::Result<()> {
        let length = u32::try_from(self.text.len()).map_err(io::Error::other)?;
        let header = [self.id.client, self.id.number, length].map(u32::to_be_bytes);
        stream.write_all(&[header.as_flattened(), &self.text].concat())
    }

    /// Reads a message; `None` if the other side has closed the connection.
    fn receive(stream: &mut impl Read) -> io::Result<Option<Message>> {
        let mut header = [[0; 4]; 3];
        match stream.read_exact(header.as_flattened_mut()) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            result => result?,
        }
        let [client, number, length] = header.map(u32::from_be_bytes);
        let length = usize::try_from(length).map_err(io::Error::other)?;
        if length > MAX_TEXT {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a text of {length} bytes")));
        }
        let mut text = vec![0; length];
        stream.read_exact(&mut text)?;
        Ok(Some(Message { id: RequestId { client, number }, text }))
    }
}

fn with_timeouts(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Answers one client until it closes the connection. A reply is traced before it is sent, because otherwise the
/// client's record of the reply might come first.
fn answer(stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
    Tracer::get().trace(format_args!("connection from {peer} accepted"));
    stream.set_nonblocking(false)?;
    let mut stream = with_timeouts(stream)?;
    while let Some(message) = Message::receive(&mut stream)? {
        let (id, bytes, start) = (message.id, message.text.len(), Instant::now());
        Tracer::get().trace(format_args!("request {id}: received, {bytes} bytes from {peer}"));
        let latency = start.elapsed();
        Tracer::get().trace(format_args!("request {id}: replied, {bytes} bytes after {latency:?}"));
        message.send(&mut stream)?;
    }
    Tracer::get().trace(format_args!("connection from {peer} closed"));
    Ok(())
}

/// Accepts clients until `stop` is set or [`SERVING`] has passed, and starts a thread for each client.
fn serve<'scope>(
    scope: &'scope Scope<'scope, '_>,
    listener: TcpListener,
    stop: &'scope AtomicBool,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) && start.elapsed() < SERVING {
        match listener.accept() {
            Ok((stream, peer)) => {
                let named = thread::Builder::new().name(format!("from {}", peer.port()));
                named.spawn_scoped(scope, move || report(answer(stream, peer)))?;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(LOOK),
            Err(error) => return Err(error),
        }
    }
    Tracer::get().trace(format_args!("no more connections are accepted"));
    Ok(())
}

/// Sends all requests of one client. Returns the longest latency of a reply.
fn request_all(address: SocketAddr, client: u32) -> io::Result<Duration> {
    let mut stream = with_timeouts(TcpStream::connect_timeout(&address, TIMEOUT)?)?;
    Tracer::get().trace(format_args!("client {client} connected from {}", stream.local_addr()?));
    let mut longest = Duration::ZERO;
    for number in 1..=REQUESTS {
        let text = format!("request {number} of client {client}").repeat((number % 7 + 1) as usize);
        let message = Message { id: RequestId { client, number }, text: text.into_bytes() };
        longest = longest.max(request(&mut stream, &message)?);
    }
    Ok(longest)
}

/// Sends one request and waits for its reply. Returns the latency of the reply.
fn request(stream: &mut TcpStream, message: &Message) -> io::Result<Duration> {
    let (id, start) = (message.id, Instant::now());
    Tracer::get().trace(format_args!("request {id}: sent, {} bytes", message.text.len()));
    message.send(stream)?;
    let reply = Message::receive(stream)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let latency = start.elapsed();
    let bytes = reply.text.len();
    Tracer::get().trace(format_args!("request {id}: answered, {bytes} bytes after {latency:?}"));
    if reply != *message {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("the reply to {id} is no echo")));
    }
    Ok(latency)
}

/// Runs all clients to their ends. Returns the longest latency of a reply, or the first error.
fn run_clients(address: SocketAddr) -> io::Result<Duration> {
    thread::scope(|scope| {
        let start = |client| {
            let named = thread::Builder::new().name(format!("client {client}"));
            named.spawn_scoped(scope, move || request_all(address, client))
        };
        let clients = (1..=CLIENTS).map(start).collect::<io::Result<Vec<_>>>()?;
        let latencies = clients.into_iter().map(joined).collect::<io::Result<Vec<_>>>()?;
        Ok(latencies.into_iter().max().unwrap_or_default())
    })
}

fn joined<T>(thread: ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
}

fn report(result: io::Result<()>) {
    if let Err(error) = result {
        Tracer::get().trace(format_args!("connection lost: {error}"));
        eprintln!("echo_server: connection lost: {error}");
    }
}

fn listen() -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    Tracer::get().trace(format_args!("listening on {address}"));
    Ok((listener, address))
}

/// Runs the server alone.
fn serve_alone() -> io::Result<()> {
    let (listener, address) = listen()?;
    println!("{address}");
    let never = AtomicBool::new(false);
    thread::scope(|scope| serve(scope, listener, &never))
}

/// Runs the clients alone.
fn connect(address: SocketAddr) -> io::Result<()> {
    let longest = run_clients(address)?;
    println!("{} replies, the slowest after {longest:?}", CLIENTS * REQUESTS);
    Ok(())
}

/// Runs server and clients in one process.
fn serve_and_connect() -> io::Result<()> {
    let (listener, address) = listen()?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let named = thread::Builder::new().name("acceptor".to_owned());
        let server = named.spawn_scoped(scope, || serve(scope, listener, &stop))?;
        let result = connect(address);
        stop.store(true, Ordering::Relaxed);
        result.and(joined(server))
    })
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        [] => serve_and_connect(),
        ["--serve"] => serve_alone(),
        ["--connect", address] => {
            address.parse().map_err(|e| io::Error::other(format!("{address}: {e}"))).and_then(connect)
        }
        _ => {
            eprintln!("usage: echo_server [--serve | --connect ADDRESS]");
            return ExitCode::from(2);
        }
    };
    if let Err(error) = result {
        eprintln!("echo_server: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
