//! Checks that must hold for any bytes: one function for each input that may be hostile.
//!
//! The fuzz targets and `tests/any_bytes_are_read_without_harm.rs` share them; each function panics if a check fails.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use trace_format::escape::{EscapeContext, escape_into, harmless_prefix, is_harmless, unescape};
use trace_format::fields::{MAX_MESSAGE, SitePlan};
use trace_format::file::Encoding;
use trace_format::line::{Key, Kind, Line, Ticks, parse_ticks};
use trace_format::manifest::Manifest;
use trace_format::meta::{ClockKind, EndReason, FIRST_CHECKED, Meta, Run, RunLine};
use trace_format::name::{parse_trace_file_suffix, trace_file_suffix};
use trace_format::plans::Plans;
use trace_format::raw::{self, Decoder, Raw};
use trace_format::record::{PAD_WORD, RecordKind, Records};
use trace_format::render::{References, Renderer};
use trace_format::ring::{Geometry, Header, MIN_CAPACITY, Progress, readable};
use trace_format::sites::{self, Site};
use trace_format::template::Template;
use trace_format::wall::Wall;

/// A source of numbers, taken from the beginning of an input; after the input's end, all numbers are 0.
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

/// Flags for the fields of a ring's header that get sound values, so that the code behind their checks is reached.
mod right {
    pub const IDENTITY: u8 = 1;
    pub const CONSUMED: u8 = 2;
    pub const HEAD: u8 = 4;
    pub const IDLE: u8 = 8;
    pub const TORN: u8 = 16;
}

/// Checks that a ring of a dead run becomes lines: the records that are readable according to its header are
/// rendered, in portions, to the end.
///
/// The input has a byte of flags for the corrected fields, the header's fields, and then the records.
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
    let mut refer = References::without_modules(&plans);
    let mut text = Vec::new();
    if progress.render.in_message {
        // The file ends inside a line of this message.
        let key = Key { ticks: progress.render.last, tid };
        Line { key, kind: Kind::Message, payload: b"" }.write(&mut text);
        text.pop();
    }
    loop {
        let before = (text.len(), records.position(), nested_records.position());
        renderer.records(&mut records, &mut nested_records, idle, &mut refer, before.0 + 512, &mut text);
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
    renderer.end(EndReason::Killed, None, &mut text);
    let read = ((main.end - main.start) + (nested.end - nested.start)) as usize;
    assert!(text.len() <= 64 * read + 4096, "{} bytes of text from {read}", text.len());
    are_sorted_lines(&text, progress.render.last, tid, true);
}

/// Checks that a raw file becomes lines, whatever its content is, in several periods of ticks one after the other.
///
/// The input has the number of blocks, and then their content; each block ends in a pad, and the file may be too short.
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
            // These are the entries of sites that a record may need.
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

/// Returns sites of all sorts, with the numbers 1, 2 and so on, which differ in their arguments and in how they format
/// these.
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
        format: format.to_owned(),
        descriptor: descriptor.to_vec(),
        ..Site::default()
    };
    (1..).zip(sites).map(site).collect()
}

/// Checks that every line is a line of the thread `tid`, that ticks never go back, and, if `known` is set, that every
/// `#` line is of a known sort.
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

/// Returns a ring's header with the numbers in `input`; `flags` states which of its fields get sound values.
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
        written.publish(input.word() & !7, input.word());
        let fields = [&written.committed, &written.lost_full, &written.lost_panic, &written.stall_ns];
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
        // Near the greatest position no head lies behind it: then nothing is to be read.
        let head = |consumed: u64, bytes: u64| consumed.checked_add(bytes).unwrap_or(consumed) & !7;
        header.main.publish(head(progress.consumed, input.word() % (MIN_CAPACITY + 1)), input.word());
        header.nested.publish(head(progress.nested_consumed, input.word() % 4097), input.word());
    }
    let render = &mut progress.render;
    (render.last, render.records, render.stall_ns) = (Ticks(input.word()), input.word(), input.word());
    render.lost = std::array::from_fn(|_| input.word());
    render.in_message = flags & right::TORN != 0;
    render.ended = input.byte() & 1 != 0;
    header.publish(&progress);
    header
}

/// The data of a ring: the bytes in the range that is to be read, and zeros elsewhere.
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

/// Checks that each line in a trace that can be parsed is written again unchanged.
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

/// Checks that a `# run` line is parsed as it was written, and not at all if one or a few of its bits are changed. If
/// other bytes are parsed as a run, checks that the written form of that run is parsed as the same run.
///
/// The input has a byte for the clock, then version, id, root, pid, ticks and wall; the lengths of executable and boot,
/// 16 bits each, and these two texts; three changes, each an offset (16 bits) and a bit. The rest is a payload of its
/// own.
pub fn run_lines(bytes: &[u8]) {
    let mut input = Input(bytes);
    let clock = [ClockKind::Ordered, ClockKind::Fast, ClockKind::System][usize::from(input.byte() % 3)];
    let version = FIRST_CHECKED + input.half() % 8;
    let [id, root, pid] = [input.half(), input.half(), input.half()];
    let (ticks, wall) = (Ticks(input.word()), Wall(input.word()));
    let (exe, boot) = (input.short() % 500, input.short() % 50);
    let (exe, boot) = (input.take(exe).to_vec(), input.take(boot).to_vec());
    let run = Run { version, id, root, pid, exe, boot, ticks, wall, clock };
    let mut payload = Vec::new();
    Meta::Run(run.clone()).write(&mut payload);
    assert!(is_harmless(&payload));
    assert_eq!(RunLine::parse(&payload), Some(RunLine::Sound(run)));
    // All bits of short lines are changed, some of long ones.
    let step = payload.len() / 200 + 1;
    for (at, bit) in (0..payload.len()).step_by(step).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut changed = payload.clone();
        changed[at] ^= 1 << bit;
        assert_eq!(Meta::parse(&changed), None, "bit {bit} of byte {at}");
    }
    let mut changed = payload.clone();
    for _ in 0..3 {
        let at = input.short() % payload.len();
        changed[at] ^= 1 << (input.byte() % 8);
    }
    if let Some(Meta::Run(read)) = Meta::parse(&changed) {
        assert!(changed == payload || read.version < FIRST_CHECKED, "{}", String::from_utf8_lossy(&changed));
    }
    for payload in [input.0, &[b"run ", input.0].concat()] {
        let mut written = Vec::new();
        match RunLine::parse(payload) {
            Some(RunLine::Sound(run)) => {
                Meta::Run(run.clone()).write(&mut written);
                assert_eq!(RunLine::parse(&written), Some(RunLine::Sound(run)));
            }
            Some(RunLine::Damaged(_)) => assert_eq!(Meta::parse(payload), None),
            None => {}
        }
    }
}

/// The result of merging a directory of traces.
pub struct Merged {
    /// The content of the merged file.
    pub text: Vec<u8>,
    /// The messages of the merge to the user, if they are known.
    pub said: Option<String>,
}

/// The thread ids of the run that has the damaged file, and those of other runs at the same time.
const DAMAGED: std::ops::Range<u64> = 11..15;
const BESIDE: std::ops::Range<u64> = 21..23;

/// Checks a directory of traces, one of which is damaged: the messages of any undamaged thread may be missing from the
/// result of `merge` only if a message to the user names the thread's file. `merge` gets the path of the executable,
/// which does not exist, in `directory`, which must be empty before.
///
/// The input has a byte that decides how the files are written, and one that decides which file is damaged; then up to
/// three changes, as [`change`] reads them.
pub fn traces(bytes: &[u8], directory: &Path, merge: impl FnOnce(&Path) -> Merged) {
    let mut input = Input(bytes);
    let (flags, which) = (input.byte(), u64::from(input.byte()));
    let damaged = DAMAGED.start + which % (DAMAGED.end - DAMAGED.start);
    let app = directory.join("fuzzed-app");
    for tid in DAMAGED.chain(BESIDE).chain([31]) {
        let (pid, start) = if DAMAGED.contains(&tid) { (5, 40) } else { (tid as u32, 41) };
        let start = if tid == 31 { 10 } else { start };
        let is_raw = flags >> (tid % 8) & 1 == 1;
        let mut file = a_trace(tid, pid, start, is_raw);
        if tid == damaged {
            change(&mut file, input.0);
        }
        let name = format!("fuzzed-app{}", trace_file_suffix(tid, 0));
        fs::write(directory.join(name), file).expect("a file can be written");
    }
    let Merged { text, said } = merge(&app);
    let text = String::from_utf8(text).expect("no bytes but UTF-8");
    assert!(!text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')));
    for line in text.lines() {
        Line::parse(line.as_bytes()).unwrap_or_else(|e| panic!("{e}: {line}"));
    }
    for tid in DAMAGED.chain(BESIDE).filter(|tid| *tid != damaged) {
        let is_there = (0..3).all(|n| text.contains(&format!(" : message {n} of {tid}\n")));
        let suffix = format!("{}'", trace_file_suffix(tid, 0));
        let warns = |line: &str| line.contains("warning: ") && line.contains(&suffix);
        let is_named = said.as_ref().is_some_and(|said| said.lines().any(warns));
        assert!(is_there || is_named, "thread {tid} is missing: {said:?}\n{text}");
    }
}

/// Returns the content of a small sound trace file.
fn a_trace(tid: u64, pid: u32, start: u64, is_raw: bool) -> Vec<u8> {
    let run = Run {
        version: trace_format::VERSION,
        id: pid << 8,
        root: pid << 8,
        pid,
        exe: b"/nowhere/fuzzed-app".to_vec(),
        boot: b"6c1e".to_vec(),
        ticks: Ticks(start),
        wall: Wall(1_795_187_462_000_000_000 + start * 1_000_000_000),
        clock: ClockKind::Ordered,
    };
    let messages = (0..3).map(|n| (start + 3 * n + tid % 3, format!("message {n} of {tid}")));
    let mut payload = Vec::new();
    Meta::Run(run).write(&mut payload);
    let mut file = Vec::new();
    if !is_raw {
        Line { key: Key { ticks: Ticks(start), tid }, kind: Kind::Meta, payload: &payload }.write(&mut file);
        for (ticks, text) in messages {
            let key = Key { ticks: Ticks(ticks), tid };
            Line { key, kind: Kind::Message, payload: text.as_bytes() }.write(&mut file);
        }
        return file;
    }
    file.extend_from_slice(&raw::MAGIC);
    file.extend_from_slice(&tid.to_le_bytes());
    let records = [(RecordKind::Meta, start, payload)].into_iter();
    for (kind, ticks, payload) in
        records.chain(messages.map(|(ticks, text)| (RecordKind::Message, ticks, text.into_bytes())))
    {
        file.extend(
            [kind as u64 | (payload.len() as u64) << 16, ticks].iter().flat_map(|word| word.to_le_bytes()),
        );
        file.extend_from_slice(&payload);
        file.resize(file.len().next_multiple_of(8), 0);
    }
    file
}

/// Makes up to three changes to `file` that `bytes` describes: for each change its kind, its offset (16 bits), its
/// length (16 bits), and four bytes. More changes could turn a `# run` line into a sound line of version 1, which has
/// no checksum, of a process that never existed.
pub fn change(file: &mut Vec<u8>, bytes: &[u8]) {
    let mut input = Input(bytes);
    for _ in 0..3 {
        if input.0.is_empty() || file.is_empty() {
            return;
        }
        let (what, at, span) = (input.byte(), input.short() % file.len(), input.short());
        let some: [u8; 4] = input.bytes();
        let end = (at + 1 + span % 64).min(file.len());
        match what % 8 {
            0 | 1 => file[at] ^= 1 << (some[0] % 8),
            2 => file[at] = some[0],
            3 => file[at..end].fill(0),
            4 => file.truncate(at),
            5 => drop(file.drain(at..end)),
            6 => drop(file.splice(at..at, some)),
            _ => {
                let part = file[at..end].to_vec();
                file.splice(at..at, part);
            }
        }
    }
}

/// Checks that any text can be escaped so that unescaping gives it back, and that the escaped form is harmless.
fn escapes(text: &[u8]) {
    assert!(harmless_prefix(text) <= text.len());
    assert!(unescape(text).len() <= text.len());
    for (place, also) in [(EscapeContext::Line, None), (EscapeContext::Quoted, Some(b'"'))] {
        let mut written = Vec::new();
        escape_into(&mut written, text, place);
        assert_eq!(unescape(&written), text);
        assert!(written.len() <= 4 * text.len());
        let harmless = |text: &str| !text.chars().any(|c| c.is_control() && c != '\t');
        assert!(std::str::from_utf8(&written).is_ok_and(harmless) && is_harmless(&written));
        assert!(also.is_none_or(|quote| !written.contains(&quote)));
    }
}

/// Checks the manifest and the site table, the other files of a run's directory: if the bytes can be parsed as one of
/// these files, they are written again in a form that is parsed as the same content.
pub fn directory(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::parse(bytes) {
        assert_eq!(Manifest::parse(&manifest.write()), Ok(manifest));
    }
    if let Ok(found) = sites::parse(bytes) {
        let texts = |s: &Site| s.module.len() + s.file.len() + s.format.len() + s.descriptor.len();
        let text: usize = found.iter().map(texts).sum();
        assert!(text <= bytes.len(), "no text that is not there");
        assert!(found.len() <= bytes.len() / 8, "no entry without a length");
        let mut entries = Vec::new();
        found.iter().for_each(|site: &Site| site.write(&mut entries));
        let table = [&sites::header((sites::HEADER_BYTES + entries.len()) as u64)[..], &entries].concat();
        let _ = Plans::of(&found);
        assert_eq!(sites::parse(&table), Ok(found));
    }
}

/// Checks that a site's arguments become text, or an error without text.
///
/// The input has the lengths of format string and descriptor, 16 bits each, then these two, then the arguments.
pub fn arguments(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (format, descriptor) = (input.short(), input.short());
    let format = String::from_utf8_lossy(input.take(format)).into_owned();
    let descriptor = input.take(descriptor);
    if let Ok(template) = Template::parse(&format) {
        assert_eq!(Template::parse(&template.to_string()), Ok(template));
    }
    let Ok(plan) = SitePlan::new(&format, descriptor) else { return };
    let mut text = b"before".to_vec();
    match plan.render(input.0, &mut text) {
        Ok(()) => {
            assert!(text.starts_with(b"before") && std::str::from_utf8(&text).is_ok());
            // Rendering stops behind the argument that exceeds the limit.
            assert!(text.len() <= 2 * MAX_MESSAGE, "{} bytes", text.len());
            let mut again = Vec::new();
            assert_eq!(plan.render(input.0, &mut again), Ok(()));
            assert_eq!(again, &text[6..]);
        }
        Err(_) => assert_eq!(text, b"before"),
    }
}
