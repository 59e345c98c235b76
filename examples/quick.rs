//! try
use tracer::Tracer;
#[inline(never)]
fn burst(n: u64, text: bool) -> f64 {
    let t = std::time::Instant::now();
    if text { for _ in 0..n { Tracer::get().trace(format_args!("a fixed string")); } }
    else { for i in 0..n { Tracer::get().trace(format_args!("A number {}", i)); } }
    t.elapsed().as_nanos() as f64 / n as f64
}
fn main() {
    let n: u64 = std::env::args().nth(1).map_or(10, |a| a.parse().unwrap());
    let rounds: u64 = std::env::args().nth(2).map_or(10, |a| a.parse().unwrap());
    let text = std::env::args().nth(3).is_some();
    burst(1, text);
    let mut all: Vec<f64> = (0..rounds).map(|_| { let b = burst(n, text); let _ = Tracer::get().flush(); b }).collect();
    eprintln!("first {:?}", &all[..all.len().min(5)]);
    all.sort_by(f64::total_cmp);
    eprintln!("median {} min {}", all[all.len()/2], all[0]);
}
