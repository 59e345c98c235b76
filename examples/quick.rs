//! try
use tracer::Tracer;
fn main() {
    let n: u64 = std::env::args().nth(1).map_or(10, |a| a.parse().unwrap());
    let t = std::time::Instant::now();
    for i in 0..n { Tracer::get().trace(format_args!("A number {}", i)); }
    eprintln!("{:?} per call", t.elapsed() / n as u32);
    std::thread::Builder::new().name("worker".into()).spawn(|| Tracer::get().trace(format_args!("hi\nthere"))).unwrap().join().unwrap();
    let s = Tracer::get().stats(); eprintln!("{s:?}");
}
