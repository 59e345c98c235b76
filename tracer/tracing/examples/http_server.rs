//! A small HTTP server on tokio and hyper, under load from clients on the loopback: which request waits for which.
//!
//! Every request is a span. It moves between the runtime's threads, and takes a lock that one of ten requests holds
//! over an await, as servers should not. The clients are in the same process, on threads of their own, and print how
//! many answers came and how long the slowest took.
//!
//! ```text
//! cargo build --release -p tracer-tracing --example http_server
//! TRACER_ENABLE=1 TRACER_FORMAT=raw target/release/examples/http_server
//! tracemerge tree target/release/examples/http_server
//! tracemerge target/release/examples/http_server -o - | grep 'store'
//! ```
//!
//! Only the line with `tracer_tracing` is there for the trace.

#![allow(clippy::print_stdout)]

use std::convert::Infallible;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tracing::{Instrument, info, info_span};

/// The number of clients that send requests at the same time.
const CLIENTS: u32 = 8;
const REQUESTS: u32 = 25;

/// The data that all requests share: the number of requests.
type Store = Arc<Mutex<u64>>;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    tracer_tracing::init()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let serving = tokio::spawn(serve(listener));
        let report = tokio::task::spawn_blocking(move || load(address)).await??;
        serving.abort();
        println!("{report}");
        Ok(())
    })
}

/// Accepts connections without end, and serves one request on each.
async fn serve(listener: TcpListener) -> Outcome<()> {
    let store = Store::default();
    loop {
        let (stream, _) = listener.accept().await?;
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let span = info_span!("request", path = request.uri().path());
                answer(request, Arc::clone(&store)).instrument(span)
            });
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // A client that is gone is not an error of the server.
            let _ = connection.await;
        });
    }
}

/// Answers a request with the number of requests so far.
async fn answer(request: Request<Incoming>, store: Store) -> Result<Response<Full<Bytes>>, Infallible> {
    info!("asks for the store");
    let count = {
        let mut count = store.lock().await;
        info!(count = *count, "has the store");
        *count += 1;
        if request.uri().path().starts_with("/slow") {
            // Requests that come now wait, too.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        info!("gives the store back");
        *count
    };
    let text = format!("{count}\n");
    info!(bytes = text.len(), "answers");
    Ok(Response::new(Full::new(Bytes::from(text))))
}

/// Sends requests from several threads; returns a report.
fn load(address: SocketAddr) -> Outcome<String> {
    let client = move |client: u32| -> Outcome<Duration> {
        let mut slowest = Duration::ZERO;
        for number in 0..REQUESTS {
            let kind = if (client + number) % 10 == 0 { "slow" } else { "quick" };
            let start = Instant::now();
            let mut stream = TcpStream::connect(address)?;
            write!(
                stream,
                "GET /{kind}/{client}.{number} HTTP/1.1\r\nHost: it\r\nConnection: close\r\n\r\n"
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            if !answer.starts_with("HTTP/1.1 200") {
                return Err(format!("request {client}.{number}: {answer:?}").into());
            }
            slowest = slowest.max(start.elapsed());
        }
        Ok(slowest)
    };
    let clients: Vec<_> = (0..CLIENTS).map(|number| thread::spawn(move || client(number))).collect();
    let mut slowest = Duration::ZERO;
    for client in clients {
        slowest = slowest.max(client.join().map_err(|_| "a client has panicked")??);
    }
    Ok(format!("{} answers, the slowest after {} ms", CLIENTS * REQUESTS, slowest.as_millis()))
}
