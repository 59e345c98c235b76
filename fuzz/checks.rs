//! What must hold for any bytes at all: one function for each thing that is read and may be hostile.
//!
//! Shared by the fuzz targets and by `tests/any_bytes_are_read_without_harm.rs`; each function panics where
//! something does not hold.

use std::sync::atomic::Ordering::Relaxed;
use trace_format::escape::{Place, escape_into, unescape};
use trace_format::fields::{MAX_MESSAGE, Plan};
use trace_format::file::Encoding;
use trace_format::line::{Key, Kind, Line, Ticks, parse_ticks};
use trace_format::manifest::Manifest;
use trace_format::meta::{EndReason, Meta};
use trace_format::name::{parse_trace_file_suffix, trace_file_suffix};
use trace_format::plans::Plans;
use trace_format::raw::{self, Decoder, Raw};
use trace_format::record::{PAD_WORD, RecordKind, Records};
use trace_format::render::Renderer;
use trace_format::ring::{Geometry, Header, MIN_CAPACITY, Progress, readable};
use trace_format::sites::{self, Site};
use trace_format::template::Template;

/// Numbers from the front of an input; 0 where it is used up.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    fn half(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    fn short(&mut self) -> usize {
        u16::from_le_bytes(self.bytes()).into()
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let count = N.min(self.0.len());
        out[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        out
    }
}

/// What is put right in a header, so that what comes after it is reached.
mod right {
    pub const IDENTITY: u8 = 1;
    pub const CONSUMED: u8 = 2;
    pub const HEAD: u8 = 4;
    pub const IDLE: u8 = 8;
    pub const TORN: u8 = 16;
}

/// A ring of a dead run becomes lines: what is readable by its header is rendered, in portions, to its end.
///
/// The input: a byte that says what is put right, the header's fields, then the records.
pub fn ring(bytes: &[u8]) {
    let mut input = Input(bytes);
    let flags = input.byte();
    let header = header(&mut input, flags);
    let Ok(geometry) = header.identity.check(Geometry::of(MIN_CAPACITY).file_size()) else { return };
    let _ = header.tenancy.state();
    let progress = header.published();
    let main = readable(&header.main, progress.consumed, geometry.capacity);
    let nested = readable(&header.nested, progress.nested_consumed, geometry.nested_capacity);
    let (Ok(main), Ok(nested)) = (main, nested) else { return };
    let (of_main, of_nested) = input.0.split_at(input.0.len() * 3 / 4);
    let data = Data::new(of_main, main.clone(), geometry.capacity);
    let nested_data = Data::new(of_nested, nested.clone(), geometry.nested_capacity);
    let mut records = Records::new(data.parts(main.clone()), main.start, geometry.block);
    let mut nested_records =
        Records::new(nested_data.parts(nested.clone()), nested.start, geometry.nested_block);

    let tid = header.tenancy.tid.load(Relaxed);
    let idle = flags & right::IDLE != 0;
    let mut renderer = Renderer::new(tid, progress.render, Encoding::Text);
    let plans = Plans::of(&some_sites());
    let mut text = Vec::new();
    if progress.render.in_message {
        // The file ends inside a line of this message.
        let key = Key { ticks: progress.render.last, tid };
        Line { key, kind: Kind::Message, payload: b"" }.write(&mut text);
        text.pop();
    }
    loop {
        let before = (text.len(), records.position(), nested_records.position());
        renderer.records(&mut records, &mut nested_records, idle, &plans, before.0 + 512, &mut text);
        if idle && records.position() == main.end {
            renderer.close_torn(&mut text);
        }
        renderer.losses(&header.losses(), &mut text);
        assert!(records.position() <= main.end && nested_records.position() <= nested.end);
        if (text.len(), records.position(), nested_records.position()) == before {
            break;
        }
    }
    assert!(
        !idle || (records.position(), nested_records.position()) == (main.end, nested.end),
        "all is read"
    );
    renderer.end(EndReason::Killed, &mut text);
    let read = ((main.end - main.start) + (nested.end - nested.start)) as usize;
    assert!(text.len() <= 64 * read + 4096, "{} bytes of text from {read}", text.len());
    are_sorted_lines(&text, progress.render.last, tid, true);
}

/// A raw file becomes lines, whatever it is: as a whole, and stretch of time by stretch of time.
///
/// The input: how many blocks there are, then what is in them; a block is filled with a pad, or is too short.
pub fn raw(bytes: &[u8]) {
    const TID: u64 = 320;
    let mut input = Input(bytes);
    let (blocks, cut) = (usize::from(input.byte() % 3) + 1, input.short());
    let mut file = Vec::new();
    for (number, content) in input.0.chunks(input.0.len().div_ceil(blocks).max(1)).enumerate() {
        file.resize(number * raw::BLOCK as usize, 0);
        file.extend_from_slice(&raw::MAGIC);
        file.extend_from_slice(&TID.to_le_bytes());
        if number % 2 == 0 {
            // What a record may need.
            let mut entries = Vec::new();
            some_sites()[number % 7].write(&mut entries);
            let word = (number as u64 + 1) << 32 | (entries.len() as u64) << 16 | RecordKind::Site as u64;
            file.extend([word, 0].iter().flat_map(|word| word.to_le_bytes()));
            file.extend(entries);
        }
        file.extend_from_slice(content);
        file.resize(file.len().next_multiple_of(8), 0);
        file.extend_from_slice(&PAD_WORD.to_le_bytes());
    }
    file.truncate(file.len() - cut.min(file.len()) % 64);
    let Some(file) = Raw::parse(&file) else { return };
    let _ = (file.first(), file.last(), file.open_message(), file.without_torn_tail());
    let mut decoder = Decoder::new(file.tid());
    let (mut text, mut last) = (Vec::new(), Ticks(0));
    for until in [Some(1), Some(5), Some(1 << 32), None].map(|ticks| ticks.map(Ticks)) {
        let start = text.len();
        decoder.decode_times(file, (last, until), b"f", &mut text);
        if start < text.len() {
            are_sorted_lines(&text[start..], last, TID, false);
            let key = Line::parse(text[..text.len() - 1].rsplit(|b| *b == b'\n').next().unwrap_or_default());
            assert!(until.is_none_or(|until| key.is_ok_and(|line| line.key.ticks < until)));
        }
        last = until.unwrap_or(last);
    }
}

/// Sites of all sorts, with the numbers 1, 2 and so on: what their arguments are, and how they are shown.
fn some_sites() -> Vec<Site> {
    let sites: [(&str, &[u8]); 7] = [
        ("plain", b""),
        ("A number {}", b"y"),
        ("{} {:?}", b"ee"),
        ("{1:#x} {0:e} {2}", b"dmc"),
        ("{:?}", b"Oe"),
        ("{:x?} {}", b"Stb"),
        ("{:?}", b"T\x01\0P\x02\0uA\x03\0\0\0u"),
    ];
    let site = |(id, (format, descriptor)): (u32, (&str, &[u8]))| Site {
        id,
        line: 1,
        column: 1,
        module: String::new(),
        file: String::new(),
        format: format.to_owned(),
        descriptor: descriptor.to_vec(),
    };
    (1..).zip(sites).map(site).collect()
}

/// Every line is one, of this thread, and none goes back; and every `#` line says something that is `known`.
fn are_sorted_lines(text: &[u8], mut last: Ticks, tid: u64, known: bool) {
    let text = text.strip_suffix(b"\n").expect("whole lines");
    for line in text.split(|b| *b == b'\n') {
        let line = Line::parse(line).unwrap_or_else(|e| panic!("{e}: {:?}", String::from_utf8_lossy(line)));
        assert!(line.key.ticks >= last && line.key.tid == tid);
        last = line.key.ticks;
        if line.kind == Kind::Meta && known {
            assert!(Meta::parse(line.payload).is_some(), "{:?}", String::from_utf8_lossy(line.payload));
        }
        let harmless = |text: &str| !text.chars().any(|c| c.is_control() && c != '\t');
        assert!(std::str::from_utf8(line.payload).is_ok_and(harmless), "{:?}", line.payload);
    }
}

/// A header of the numbers in `input`.
fn header(input: &mut Input<'_>, flags: u8) -> Header {
    let header = Header::zeroed();
    let identity = &header.identity;
    if flags & right::IDENTITY != 0 {
        identity.set(&Geometry::of(MIN_CAPACITY), 1, 0, false);
    } else {
        for field in [&identity.magic, &identity.capacity, &identity.nested_capacity] {
            field.store(input.word(), Relaxed);
        }
        for field in [&identity.version, &identity.header_bytes, &identity.block, &identity.nested_block] {
            field.store(input.half(), Relaxed);
        }
    }
    header.tenancy.state.store(u32::from(input.byte()), Relaxed);
    header.tenancy.tid.store(input.word(), Relaxed);
    header.tenancy.set_name(input.bytes());
    for written in [&header.main, &header.nested] {
        let fields =
            [&written.head, &written.committed, &written.lost_full, &written.lost_panic, &written.stall_ns];
        for field in fields {
            field.store(input.word(), Relaxed);
        }
    }
    let mut progress = Progress::default();
    (progress.consumed, progress.nested_consumed) = (input.word(), input.word());
    if flags & right::CONSUMED != 0 {
        (progress.consumed, progress.nested_consumed) =
            (progress.consumed & !7, progress.nested_consumed & !7);
    }
    if flags & right::HEAD != 0 {
        // Near the end of all numbers, there is no head behind it: then there is nothing to read.
        let head = |consumed: u64, bytes: u64| consumed.checked_add(bytes & !7).unwrap_or(consumed);
        header.main.head.store(head(progress.consumed, input.word() % (MIN_CAPACITY + 1)), Relaxed);
        header.nested.head.store(head(progress.nested_consumed, input.word() % 4097), Relaxed);
    }
    let render = &mut progress.render;
    (render.last, render.records, render.stall_ns) = (Ticks(input.word()), input.word(), input.word());
    render.lost = std::array::from_fn(|_| input.word());
    render.in_message = flags & right::TORN != 0;
    render.ended = input.byte() & 1 != 0;
    header.publish(&progress);
    header
}

/// The data of a ring: what is to be read, zeros elsewhere.
struct Data(Vec<u8>);

impl Data {
    fn new(bytes: &[u8], range: std::ops::Range<u64>, capacity: u64) -> Data {
        let mut data = vec![0; capacity as usize];
        for (position, byte) in range.zip(bytes) {
            data[(position % capacity) as usize] = *byte;
        }
        Data(data)
    }

    fn parts(&self, range: std::ops::Range<u64>) -> [&[u8]; 2] {
        let (start, bytes) = (range.start as usize % self.0.len(), (range.end - range.start) as usize);
        let first = bytes.min(self.0.len() - start);
        [&self.0[start..start + first], &self.0[..bytes - first]]
    }
}

/// A trace: what can be read of a line is written again as it was.
pub fn lines(bytes: &[u8]) {
    for line in bytes.split(|b| *b == b'\n') {
        if let Ok(read) = Line::parse(line) {
            assert_eq!(parse_ticks(line), Some(read.key.ticks));
            let mut written = Vec::new();
            read.write(&mut written);
            // An empty payload may stand without the space before it.
            let whole = if read.payload.is_empty() { written[..line.len()].to_vec() } else { line.to_vec() };
            assert_eq!(&written[..whole.len()], &whole[..]);
            assert_eq!(Line::parse(&written[..written.len() - 1]), Ok(read));
        }
        let payload = Line::parse(line).map_or(line, |line| line.payload);
        escapes(payload);
        if let Some(meta) = Meta::parse(payload) {
            let mut written = Vec::new();
            meta.write(&mut written);
            assert_eq!(
                Meta::parse(&written).as_ref(),
                Some(&meta),
                "{:?}",
                String::from_utf8_lossy(&written)
            );
        }
        if let Some((tid, number)) = parse_trace_file_suffix(line) {
            assert_eq!(trace_file_suffix(tid, number).as_bytes(), line);
        }
    }
}

/// Any text can be written so that it is read back, and does no harm in between.
fn escapes(text: &[u8]) {
    assert!(unescape(text).len() <= text.len());
    for (place, also) in [(Place::Line, None), (Place::Quoted, Some(b'"'))] {
        let mut written = Vec::new();
        escape_into(&mut written, text, place);
        assert_eq!(unescape(&written), text);
        assert!(written.len() <= 4 * text.len());
        let harmless = |text: &str| !text.chars().any(|c| c.is_control() && c != '\t');
        assert!(std::str::from_utf8(&written).is_ok_and(harmless));
        assert!(also.is_none_or(|quote| !written.contains(&quote)));
    }
}

/// The other files of a run's directory: what can be read of them is written again so that it reads the same.
pub fn directory(bytes: &[u8]) {
    if let Some(manifest) = Manifest::parse(bytes) {
        assert_eq!(Manifest::parse(&manifest.write()), Some(manifest));
    }
    if let Some(found) = sites::parse(bytes) {
        let texts = |s: &Site| s.module.len() + s.file.len() + s.format.len() + s.descriptor.len();
        let text: usize = found.iter().map(texts).sum();
        assert!(text <= bytes.len(), "no text that is not there");
        assert!(found.len() <= bytes.len() / 8, "no entry without a length");
        let mut entries = Vec::new();
        found.iter().for_each(|site: &Site| site.write(&mut entries));
        let table = [&sites::header((sites::HEADER_BYTES + entries.len()) as u64)[..], &entries].concat();
        let _ = Plans::of(&found);
        assert_eq!(sites::parse(&table), Some(found));
    }
}

/// A site's arguments become text, or an error and nothing.
///
/// The input: the lengths of format string and descriptor, 16 bits each; these; the arguments.
pub fn arguments(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (format, descriptor) = (input.short(), input.short());
    let format = String::from_utf8_lossy(input.take(format)).into_owned();
    let descriptor = input.take(descriptor);
    if let Ok(template) = Template::parse(&format) {
        assert_eq!(Template::parse(&template.to_string()), Ok(template));
    }
    let Ok(plan) = Plan::new(&format, descriptor) else { return };
    let mut text = b"before".to_vec();
    match plan.render(input.0, &mut text) {
        Ok(()) => {
            assert!(text.starts_with(b"before") && std::str::from_utf8(&text).is_ok());
            // It stops behind the argument that is too much.
            assert!(text.len() <= 2 * MAX_MESSAGE, "{} bytes", text.len());
            let mut again = Vec::new();
            assert_eq!(plan.render(input.0, &mut again), Ok(()));
            assert_eq!(again, &text[6..]);
        }
        Err(_) => assert_eq!(text, b"before"),
    }
}
