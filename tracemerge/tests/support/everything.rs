//! A trace with everything in it, and what is in it, for tests of formats: functions that are cut off,
//! panics, losses, stalls, damage, several processes, a killed one, odd names and texts, and values of each
//! type.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trace_format::line::{Key, Kind, Line, Ticks};
use trace_format::meta::{Cause, ClockKind, End, EndReason, LossReason, Meta, RingPlace, Run, Thread};
use trace_format::sites::{Level, Site, SiteKind};
use trace_format::wall::Wall;

use super::{Place, Seeded};

/// The ticks at which both processes began, and the wall clock there. A tick is 250 ns.
pub const FIRST: u64 = 0x1000_0000;
pub const WALL: u64 = 1_795_187_462_000_000_000;
pub const TICK_NS: u64 = 250;

/// What is known of a record that the trace has.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    pub ticks: u64,
    pub pid: u32,
    pub tid: u64,
    /// `message`, `enter`, `leave`, or the word of a `#` line.
    pub kind: &'static str,
    /// The text of a message.
    pub text: Option<String>,
    /// The name of the function that was entered or left.
    pub function: Option<String>,
    /// The values of a message of which they are known.
    pub values: Option<Value>,
    /// The site of a message or a function, where that is known.
    pub site: Option<u32>,
}

impl Expected {
    pub fn ns(&self) -> u64 {
        WALL + (self.ticks - FIRST) * TICK_NS
    }
}

/// A call, as the records tell it. Those that are cut off end with the call around, the thread, or the trace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    pub pid: u32,
    pub tid: u64,
    pub entered: u64,
    pub left: u64,
    pub depth: usize,
    pub function: String,
}

/// The trace: what is in it, in no order.
pub struct Everything {
    pub place: Place,
    pub records: Vec<Expected>,
    pub calls: Vec<Call>,
    pub sites: Vec<Site>,
    /// The numbers of losses reported, of stalls, of leavings without an entering.
    pub lost: u64,
    pub stalls: u64,
    pub unmatched: u64,
}

/// The names of the functions, from site 10 on.
pub const FUNCTIONS: [&str; 5] = [
    "app::main",
    "<app::Queue<T> as app::Put<\"x\", 7>>::put",
    "app::odd::{{closure}}#1;é,\"q\"",
    "app::async_run",
    "app::leaf",
];
const SPAN: usize = 3;

fn sites() -> Vec<Site> {
    let site = |id, line, template: &str, descriptor: &[u8], names: &[&str]| Site {
        id,
        line,
        column: 5,
        module: "app::net".to_owned(),
        file: "src/net \"q\", é.rs".to_owned(),
        format: template.to_owned(),
        descriptor: descriptor.to_vec(),
        kind: SiteKind::Message,
        level: [Level::None, Level::Error, Level::Info][id as usize % 3],
        target: if id == 2 { "wire,\"2\"".to_owned() } else { String::new() },
        function: "app::net::send".to_owned(),
        template: template.to_owned(),
        names: names.iter().map(|&name| name.to_owned()).collect(),
    };
    let mut sites = vec![
        site(1, 12, "sent {0} of {1} at {2}", b"lyd", &["bytes", "total", "rate"]),
        site(2, 13, "peer {0} said {1} and {2:?}", b"ebOh", &["peer", "ok", ""]),
        site(3, 14, "fixed text, 100 % {{}}", b"", &[]),
    ];
    for (number, function) in (10..).zip(FUNCTIONS) {
        let kind = if number as usize - 10 == SPAN { SiteKind::Span } else { SiteKind::Function };
        sites.push(Site {
            id: number,
            line: number,
            module: "app".to_owned(),
            file: "src/main.rs".to_owned(),
            kind,
            function: function.to_owned(),
            ..Site::default()
        });
    }
    sites
}

/// The writer of one raw file.
struct Raw<'a> {
    bytes: Vec<u8>,
    tid: u64,
    sites: &'a [Site],
    /// Whether the block has defined the sites.
    is_defined: bool,
}

impl Raw<'_> {
    const BLOCK: usize = 256 << 10;

    /// Puts a record with this first half of word 0.
    fn put(&mut self, kind: u64, flags: u64, site: u32, ticks: u64, payload: &[u8]) {
        let length = 16 + payload.len().next_multiple_of(8);
        if self.bytes.len() % Self::BLOCK != 0 && self.bytes.len() % Self::BLOCK + length > Self::BLOCK {
            self.bytes.extend_from_slice(&1u64.to_le_bytes());
            self.bytes.resize(self.bytes.len().next_multiple_of(Self::BLOCK), 0);
        }
        if self.bytes.len() % Self::BLOCK == 0 {
            self.bytes.extend_from_slice(b"TRCRAW1\n");
            self.bytes.extend_from_slice(&self.tid.to_le_bytes());
            self.is_defined = false;
        }
        if site > 0 && kind != 8 && !std::mem::replace(&mut self.is_defined, true) {
            for site in self.sites {
                let mut entry = Vec::new();
                site.write(&mut entry);
                self.put(8, 0, site.id, 0, &entry);
            }
            return self.put(kind, flags, site, ticks, payload);
        }
        let word = kind | flags << 8 | (payload.len() as u64) << 16 | u64::from(site) << 32;
        self.bytes.extend_from_slice(&word.to_le_bytes());
        self.bytes.extend_from_slice(&ticks.to_le_bytes());
        self.bytes.extend_from_slice(payload);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    fn meta(&mut self, ticks: u64, meta: &Meta) {
        let mut payload = Vec::new();
        meta.write(&mut payload);
        self.put(7, 0, 0, ticks, &payload);
    }
}

fn run(pid: u32) -> Run {
    Run {
        version: trace_format::VERSION,
        id: pid * 16,
        root: 5 * 16,
        pid,
        exe: b"/nowhere/odd; \"app\"".to_vec(),
        boot: b"6c1e".to_vec(),
        ticks: Ticks(FIRST),
        wall: Wall(WALL),
        clock: ClockKind::Ordered,
    }
}

fn thread(name: &str) -> Meta {
    Meta::Thread(Thread { name: name.into(), ring: RingPlace::Shared, why: Vec::new(), file: None })
}

/// What a thread of a raw file has open, by function and span.
struct Stack(Vec<(usize, Option<u64>, u64)>);

/// Makes the trace, with about `size` records.
pub fn everything(size: u64) -> Everything {
    let place = Place::new();
    let sites = sites();
    let mut all =
        Everything { place, records: Vec::new(), calls: Vec::new(), sites, lost: 0, stalls: 0, unmatched: 0 };
    let mut seeded = Seeded::new(11);
    let mut latest: BTreeMap<u32, u64> = BTreeMap::new();
    let mut open: Vec<(u32, u64, Stack)> = Vec::new();
    let names = ["main one", "w;orker \"é\",\\x", "worker", "worker"];
    for (number, (pid, tid)) in [(5, 5), (5, 51), (5, 52), (6, 61)].into_iter().enumerate() {
        let (last, stack) = all.raw_thread(pid, tid, names[number], size / 4, &mut seeded);
        let latest = latest.entry(pid).or_default();
        *latest = (*latest).max(last);
        open.push((pid, tid, stack));
    }
    latest.entry(5).and_modify(|last| *last = (*last).max(all.text_thread()));
    for (pid, tid, stack) in open {
        all.end_all(pid, tid, stack, 0, latest[&pid]);
    }
    all
}

impl Everything {
    fn expect(&mut self, ticks: u64, pid: u32, tid: u64, kind: &'static str) -> &mut Expected {
        let (text, function, values, site) = (None, None, None, None);
        self.records.push(Expected { ticks, pid, tid, kind, text, function, values, site });
        self.records.last_mut().unwrap()
    }

    /// Ends the calls of a thread beyond `left`.
    fn end_all(&mut self, pid: u32, tid: u64, mut stack: Stack, left: usize, now: u64) -> Stack {
        while stack.0.len() > left {
            let (function, _, entered) = stack.0.pop().unwrap();
            let (depth, function) = (stack.0.len(), FUNCTIONS[function].to_owned());
            self.calls.push(Call { pid, tid, entered, left: now, depth, function });
        }
        stack
    }

    /// Makes the raw file of a thread; returns its last ticks and what is open then.
    fn raw_thread(&mut self, pid: u32, tid: u64, name: &str, size: u64, seeded: &mut Seeded) -> (u64, Stack) {
        let sites = self.sites.clone();
        let mut raw = Raw { bytes: Vec::new(), tid, sites: &sites, is_defined: false };
        let mut now = FIRST + tid;
        raw.meta(now, &Meta::Run(run(pid)));
        raw.meta(now, &thread(name));
        self.expect(now, pid, tid, "run");
        self.expect(now, pid, tid, "thread");
        let mut stack = Stack(Vec::new());
        // A function that was entered before the file begins, as behind a rotation.
        raw.put(9, 4, 14, now, &[]);
        let left = self.expect(now, pid, tid, "leave");
        (left.function, left.site) = (Some(FUNCTIONS[4].to_owned()), Some(14));
        self.unmatched += 1;
        let mut records = 1;
        for n in 0..size {
            now += seeded.below(9);
            match seeded.below(100) {
                0..=29 => {
                    let function = seeded.below(FUNCTIONS.len() as u64) as usize;
                    if stack.0.len() >= 20 {
                        continue;
                    }
                    // No other span of the run has it.
                    let span = (function == SPAN).then_some(tid << 32 | (n + 1));
                    let payload = span.map_or_else(Vec::new, |span| span.to_le_bytes().to_vec());
                    let site = 10 + function as u32;
                    raw.put(9, if span.is_some() { 8 } else { 0 }, site, now, &payload);
                    let entered = self.expect(now, pid, tid, "enter");
                    (entered.function, entered.site) = (Some(FUNCTIONS[function].to_owned()), Some(site));
                    stack.0.push((function, span, now));
                    records += 1;
                }
                30..=59 => {
                    // Now and then the leavings of the innermost calls are missing, as behind a longjmp.
                    let missing = usize::from(seeded.below(20) == 0);
                    let Some(at) = stack.0.len().checked_sub(1 + missing) else { continue };
                    let (function, span, _) = stack.0[at];
                    // A call of the same function further in would be taken for it.
                    if missing > 0
                        && stack.0[at + 1..].iter().any(|inner| inner.0 == function && inner.1 == span)
                    {
                        continue;
                    }
                    let unwinds = if seeded.below(50) == 0 { 16 } else { 0 };
                    let payload = span.map_or_else(Vec::new, |span| span.to_le_bytes().to_vec());
                    let ended = if span.is_some() { 8 | 64 } else { 0 };
                    raw.put(9, 4 | unwinds | ended, 10 + function as u32, now, &payload);
                    let left = self.expect(now, pid, tid, "leave");
                    left.function = Some(FUNCTIONS[function].to_owned());
                    left.site = Some(10 + function as u32);
                    stack = self.end_all(pid, tid, stack, at, now);
                    records += 1;
                }
                60..=79 => {
                    let (bytes, total, rate) =
                        (seeded.below(1 << 20) as i32 - 500, u64::MAX - n, n as f64 / 7.0);
                    let payload =
                        [&bytes.to_le_bytes()[..], &total.to_le_bytes(), &rate.to_le_bytes()].concat();
                    raw.put(3, 0, 1, now, &payload);
                    let message = self.expect(now, pid, tid, "message");
                    message.text = Some(format!("sent {bytes} of {total} at {rate}"));
                    message.values = Some(json!({"bytes": bytes, "total": total, "rate": rate}));
                    message.site = Some(1);
                    records += 1;
                }
                80..=89 => {
                    let peer =
                        ["a and b", "said,\"x\"", "line\nfeed", "\u{1}é\\x41", ""][seeded.below(5) as usize];
                    let ok = seeded.below(2);
                    let mut payload = (peer.len() as u16).to_le_bytes().to_vec();
                    payload.extend_from_slice(peer.as_bytes());
                    payload.extend_from_slice(&[ok as u8, 1, n as u8]);
                    raw.put(3, 0, 2, now, &payload);
                    let some = format!("Some({})", n as u8);
                    let message = self.expect(now, pid, tid, "message");
                    message.text = Some(format!("peer {peer} said {} and {some}", ok == 1));
                    message.values = Some(json!({"peer": peer, "ok": ok == 1, "2": some}));
                    message.site = Some(2);
                    records += 1;
                }
                90..=94 => {
                    raw.put(3, 0, 3, now, &[]);
                    let message = self.expect(now, pid, tid, "message");
                    message.text = Some("fixed text, 100 % {}".to_owned());
                    (message.values, message.site) = (Some(json!({})), Some(3));
                    records += 1;
                }
                95..=97 => {
                    // Formatted by its thread: the values are not known.
                    let text = format!("sent {n} of 2 at 0.5");
                    raw.put(2, 0, 1, now, text.as_bytes());
                    let message = self.expect(now, pid, tid, "message");
                    (message.text, message.site) = (Some(text), Some(1));
                    records += 1;
                }
                98 => {
                    let lost = seeded.below(50) + 1;
                    raw.meta(now, &Meta::Lost { records: lost, reason: LossReason::Overwritten });
                    self.expect(now, pid, tid, "lost");
                    self.lost += lost;
                }
                _ => {
                    raw.meta(now, &Meta::Stall { ns: seeded.below(10_000) });
                    self.expect(now, pid, tid, "stall");
                    self.stalls += 1;
                }
            }
        }
        raw.meta(now, &Meta::Clock { ticks: Ticks(now), wall: Wall(WALL + (now - FIRST) * TICK_NS) });
        self.expect(now, pid, tid, "clock");
        let reason = match (pid, tid) {
            (6, _) => EndReason::Killed,
            (_, 52) => EndReason::Thread,
            _ => EndReason::Exit,
        };
        let end = End { records, lost: 0, reason, files: None, cause: Cause::default() };
        raw.meta(now, &Meta::End(end));
        self.expect(now, pid, tid, "end");
        if reason == EndReason::Thread {
            stack = self.end_all(pid, tid, stack, 0, now);
        }
        self.place.write(format!("app.trace.{tid}"), &raw.bytes);
        (now, stack)
    }

    /// Makes the text file of a thread with odd messages, and with bytes that are no lines.
    fn text_thread(&mut self) -> u64 {
        let (pid, tid) = (5, 53);
        let mut now = FIRST + 7;
        let mut out = Vec::new();
        let put = |now: u64, kind, payload: &[u8], out: &mut Vec<u8>| {
            Line { key: Key { ticks: Ticks(now), tid }, kind, payload }.write(out);
        };
        let meta = |now: u64, meta: &Meta, out: &mut Vec<u8>| {
            let mut payload = Vec::new();
            meta.write(&mut payload);
            put(now, Kind::Meta, &payload, out);
        };
        meta(now, &Meta::Run(run(pid)), &mut out);
        meta(now, &thread("text"), &mut out);
        self.expect(now, pid, tid, "run");
        self.expect(now, pid, tid, "thread");
        for text in [
            "{\"json\": [1, 2]}",
            "a,\"b\",\tc; 'd'",
            "",
            "ends\n",
            "two\nlines",
            "bell \u{7} and \\x41",
            "\u{fffd} é 中",
        ] {
            now += 1000;
            let mut lines = text.split('\n');
            let mut escaped = Vec::new();
            for (number, line) in lines.by_ref().enumerate() {
                escaped.clear();
                trace_format::escape::escape_into(
                    &mut escaped,
                    line.as_bytes(),
                    trace_format::escape::EscapeContext::Line,
                );
                put(now, if number == 0 { Kind::Message } else { Kind::Continuation }, &escaped, &mut out);
            }
            self.expect(now, pid, tid, "message").text = Some(text.to_owned());
        }
        now += 1000;
        put(now, Kind::Message, b"no \\xff text", &mut out);
        self.expect(now, pid, tid, "message").text = Some("no \\xff text".to_owned());
        self.expect(now, pid, tid, "damaged");
        out.extend_from_slice(b"these bytes are no line\n");
        now += 1000;
        put(now, Kind::Message, b"the last one", &mut out);
        self.expect(now, pid, tid, "message").text = Some("the last one".to_owned());
        self.place.write("app.trace.53", &out);
        now
    }
}
