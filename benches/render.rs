//! Measures rendering alone, without a mapped ring, a file or threads: from the bytes of a ring to lines of text, as
//! the flusher does it; from the bytes of a ring to the records of a raw file; and from the records of a raw file to
//! lines, as `tracemerge` does it.
//!
//! The command is `cargo bench --bench render`; as a test: `cargo test --bench render`. Instructions can be
//! counted instead of time: `valgrind --tool=callgrind --toggle-collect='*Renderer*records*'` with `--test`
//! after the name of a case.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Duration;
use trace_format::capture::{Capture, Cursor, by};
use trace_format::file::Encoding;
use trace_format::plans::Plans;
use trace_format::raw::{self, Decoder, Raw};
use trace_format::record::{ALIGN, Flags, HEADER, PAD_WORD, Records, captured_word, message_word};
use trace_format::render::{References, RenderState, Renderer};
use trace_format::sites::Site;

const TID: u64 = 320;
/// The number of records of a case.
const RECORDS: u64 = 100_000;
/// The number of bytes of a block, as in a ring of the default size.
const BLOCK: usize = 64 * 1024;
/// The number of bytes that are rendered at once, as in the flusher.
const PORTION: usize = 256 * 1024;

/// The bytes of a ring that has room for all records, and the descriptor of its only site.
#[derive(Default)]
struct Ring {
    bytes: Vec<u8>,
    descriptor: Vec<u8>,
}

impl Ring {
    /// Appends a record, with padding as a producer makes it.
    fn push(&mut self, word: u64, ticks: u64, payload: &[u8]) {
        let room = BLOCK - self.bytes.len() % BLOCK;
        if HEADER + payload.len() > room {
            self.bytes.extend(PAD_WORD.to_le_bytes());
            self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), 0);
        }
        self.bytes.extend(word.to_le_bytes());
        self.bytes.extend(ticks.to_le_bytes());
        self.bytes.extend(payload);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
    }

    fn capture<By, T: Capture<By> + ?Sized>(&mut self, payload: &mut Vec<u8>, value: &T) {
        let start = payload.len();
        payload.resize(start + value.size(), 0);
        value.write(&mut Cursor::new(&mut payload[start..]));
        if self.bytes.is_empty() {
            T::describe(&mut self.descriptor);
        }
    }
}

/// Returns the ticks of the record with the number `i`. Two records are as many ticks apart as fast calls.
fn ticks(i: u64) -> u64 {
    0x0128_fd9f_283f + i * 50
}

/// Makes the ring of a case, whose only site has this `format` string, and the plans for that site. `arguments` appends
/// the arguments of the record with a number to its payload.
fn captured(format: &str, mut arguments: impl FnMut(&mut Ring, &mut Vec<u8>, u64)) -> (Ring, Plans) {
    let mut ring = Ring::default();
    let mut payload = Vec::new();
    for i in 0..RECORDS {
        payload.clear();
        arguments(&mut ring, &mut payload, i);
        ring.push(captured_word(1, payload.len()), ticks(i), &payload);
    }
    let descriptor = ring.descriptor.clone();
    let site = Site { id: 1, format: format.to_owned(), descriptor, ..Site::default() };
    (ring, Plans::of(&[site]))
}

fn numbers(double: impl Fn(u64) -> f64) -> (Ring, Plans) {
    captured("Iteration: {} int: {} double: {}", |ring, payload, i| {
        ring.capture::<by::Display, _>(payload, &i);
        ring.capture::<by::Display, _>(payload, &(i as i32 + 7));
        ring.capture::<by::Display, _>(payload, &double(i));
    })
}

fn cases() -> [(&'static str, (Ring, Plans)); 5] {
    let text = "a string of exactly forty bytes, no more";
    let mut formatted = Ring::default();
    for i in 0..RECORDS {
        let text = format!("Iteration: {i} int: {} double: {}", i + 7, i as f64 / 3.0);
        formatted.push(message_word(0, Flags::NONE, text.len()), ticks(i), text.as_bytes());
    }
    [
        ("int int double", numbers(|i| i as f64 / 3.0)),
        ("int int short double", numbers(|i| i as f64 / 4.0)),
        ("fixed string", captured("a fixed string", |_, _, _| {})),
        ("40-byte string", captured("{}", |ring, payload, _| ring.capture::<by::Display, _>(payload, text))),
        ("formatted at the call", (formatted, Plans::default())),
    ]
}

/// Renders all records of a ring in portions, and passes each portion to `written`.
fn render(ring: &Ring, plans: &Plans, encoding: Encoding, out: &mut Vec<u8>, mut written: impl FnMut(&[u8])) {
    let mut renderer = Renderer::new(TID, RenderState::default(), encoding);
    let mut main = Records::new([&ring.bytes, &[]], 0, BLOCK as u64);
    let mut nested = Records::empty(0, BLOCK as u64);
    loop {
        out.clear();
        let mut refer = References::without_modules(plans);
        renderer.records(&mut main, &mut nested, true, &mut refer, PORTION, out);
        if out.is_empty() {
            return;
        }
        renderer.written(out.len());
        written(out);
    }
}

fn rendering(c: &mut Criterion) {
    let mut group = c.benchmark_group("render");
    group.throughput(Throughput::Elements(RECORDS));
    let mut out = Vec::new();
    let seen = |portion: &[u8]| {
        black_box(portion);
    };
    for (name, (ring, plans)) in cases() {
        for (form, encoding) in [("lines", Encoding::Text), ("raw", Encoding::Raw)] {
            group.bench_function(format!("{name}/ring to {form}"), |b| {
                let once = |()| render(&ring, &plans, encoding, &mut out, seen);
                b.iter_batched(|| (), once, BatchSize::PerIteration);
            });
        }
        let mut file = Vec::new();
        render(&ring, &plans, Encoding::Raw, &mut out, |portion| file.extend_from_slice(portion));
        group.bench_function(format!("{name}/raw to lines"), |b| {
            let once = |()| {
                let Some(raw) = Raw::parse(&file) else { return };
                for block in (0..file.len()).step_by(raw::BLOCK as usize) {
                    out.clear();
                    let end = file.len().min(block + raw::BLOCK as usize);
                    Decoder::new(TID).decode(raw, block..end, b"file", &mut out);
                    black_box(&out[..]);
                }
            };
            b.iter_batched(|| (), once, BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group! {
    name = all;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1));
    targets = rendering
}
criterion_main!(all);
