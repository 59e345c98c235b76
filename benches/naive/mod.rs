//! Naive writers of formats, for comparison in `formats`. They have all numbers in memory, and need no names of
//! functions, no times of day and no matching of calls. They write the same events with the same fields as `tracemerge`
//! does.

use std::fs::File;
use std::io::Write;
use std::path::Path;

/// A record whose numbers are in memory.
#[derive(Clone, Copy)]
pub struct Known {
    pub thread: u32,
    pub ticks: u64,
    pub what: What,
}

#[derive(Clone, Copy)]
pub enum What {
    Enter(u32),
    Leave(u32),
    Message(i32, u64, f64),
    /// A stall or a loss, with its nanoseconds or its number of records.
    Other(u64),
}

/// A file that is written through a buffer.
struct Sink {
    file: File,
    buffer: Vec<u8>,
}

impl Sink {
    /// The number of bytes from which on the buffer is written to the file.
    const FULL: usize = 256 << 10;

    fn create(path: &Path) -> Sink {
        let file = File::create(path).expect("a file");
        Sink { file, buffer: Vec::with_capacity(2 * Sink::FULL) }
    }

    /// Writes `head` and then the contents of the buffer to the file, and empties the buffer.
    fn write(&mut self, head: &[u8]) {
        self.file.write_all(head).expect("room");
        self.file.write_all(&self.buffer).expect("room");
        self.buffer.clear();
    }
}

/// Writes the records in the Common Trace Format: a stream for each of four threads. The description of the streams is
/// not written.
pub fn ctf(records: &[Known], place: &Path) {
    std::fs::create_dir(place).expect("a directory");
    let mut streams: Vec<Sink> =
        (0..4).map(|thread| Sink::create(&place.join(format!("stream_{thread}")))).collect();
    let head = [0u8; 96];
    for record in records {
        let stream = &mut streams[record.thread as usize];
        let out = &mut stream.buffer;
        let mut event = |class: u32| {
            out.extend_from_slice(&class.to_le_bytes());
            out.extend_from_slice(&record.ticks.to_le_bytes());
        };
        match record.what {
            What::Enter(function) => {
                event(0);
                out.extend_from_slice(&function.to_le_bytes());
                out.extend_from_slice(&0u32.to_le_bytes());
            }
            What::Leave(function) => {
                event(1);
                out.extend_from_slice(&function.to_le_bytes());
                out.extend_from_slice(&[0; 3]);
            }
            What::Message(iteration, int, double) => {
                event(2);
                out.extend_from_slice(&iteration.to_le_bytes());
                out.extend_from_slice(&int.to_le_bytes());
                out.extend_from_slice(&double.to_le_bytes());
            }
            What::Other(number) => {
                event(3);
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        if out.len() >= Sink::FULL {
            stream.write(&head);
        }
    }
    streams.iter_mut().for_each(|stream| stream.write(&head));
}

/// Writes the records as messages of Perfetto: slices with the number of their name, and instants with three
/// annotations. Names and tracks are not written.
pub fn perfetto(records: &[Known], place: &Path) {
    let mut sink = Sink::create(place);
    let (mut packet, mut event, mut annotation) = (Vec::new(), Vec::new(), Vec::new());
    for record in records {
        packet.clear();
        event.clear();
        number(&mut packet, 8, record.ticks);
        number(&mut packet, 10, u64::from(record.thread) + 1);
        let (kind, name) = match record.what {
            What::Enter(function) => (1, function),
            What::Leave(function) => (2, function),
            What::Message(..) => (3, 100),
            What::Other(_) => (3, 101),
        };
        number(&mut event, 9, kind);
        number(&mut event, 11, u64::from(record.thread) + 1);
        if kind != 2 {
            number(&mut event, 10, u64::from(name));
        }
        if let What::Message(iteration, int, double) = record.what {
            for (name, field, value) in [(1, 4, iteration as u64), (2, 3, int), (3, 5, double.to_bits())] {
                annotation.clear();
                number(&mut annotation, 1, name);
                if field == 5 {
                    varint(&mut annotation, field << 3 | 1);
                    annotation.extend_from_slice(&value.to_le_bytes());
                } else {
                    number(&mut annotation, field, value);
                }
                bytes(&mut event, 4, &annotation);
            }
        }
        bytes(&mut packet, 11, &event);
        bytes(&mut sink.buffer, 1, &packet);
        if sink.buffer.len() >= Sink::FULL {
            sink.write(&[]);
        }
    }
    sink.write(&[]);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

fn bytes(out: &mut Vec<u8>, field: u64, content: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}
