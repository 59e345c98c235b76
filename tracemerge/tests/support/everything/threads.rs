//! The functions that make the files, with the contents of each thread of the trace.

use serde_json::json;
use trace_format::kinds::SeparateCounts;
use trace_format::line::{Key, Kind, Line, Ticks};
use trace_format::meta::{
    Cause, ClockKind, End, EndReason, LossReason, Meta, RingPlace, Run, SystemClocks, Thread, Waited,
};
use trace_format::sites::Site;
use trace_format::wall::Wall;

use super::{Call, Everything, Expected, FIRST, FUNCTIONS, SPAN, TICK_NS, WALL};
use crate::support::Seeded;

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

    /// Puts a record with these parts in the first half of word 0.
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

/// A call that is open.
pub struct OpenCall {
    function: usize,
    span: Option<u64>,
    entered: u64,
    /// The nanoseconds that calls inside of it took.
    inside: u64,
}

/// The open calls of a thread of a raw file.
pub struct Stack(pub Vec<OpenCall>);

impl Everything {
    fn expect(&mut self, ticks: u64, pid: u32, tid: u64, kind: &'static str) -> &mut Expected {
        let (text, function, values, site) = (None, None, None, None);
        self.records.push(Expected { ticks, pid, tid, kind, text, function, values, site });
        self.records.last_mut().unwrap()
    }

    /// Ends the calls of a thread beyond `left`.
    pub fn end_all(&mut self, pid: u32, tid: u64, mut stack: Stack, left: usize, now: u64) -> Stack {
        while stack.0.len() > left {
            let OpenCall { function, entered, inside, .. } = stack.0.pop().unwrap();
            let (name, took) = (FUNCTIONS[function], (now - entered) * TICK_NS);
            let times = self.times.entry(name).or_default();
            times.own += took - inside;
            if stack.0.iter().all(|around| around.function != function) {
                times.total += took;
            }
            if let Some(around) = stack.0.last_mut() {
                around.inside += took;
            }
            let (depth, function) = (stack.0.len(), name.to_owned());
            self.calls.push(Call { pid, tid, entered, left: now, depth, function });
        }
        stack
    }

    /// Makes the raw file of a thread; returns its last ticks and the calls that are open then.
    pub fn raw_thread(
        &mut self,
        pid: u32,
        tid: u64,
        name: &str,
        size: u64,
        seeded: &mut Seeded,
    ) -> (u64, Stack) {
        let sites = self.sites.clone();
        let mut raw = Raw { bytes: Vec::new(), tid, sites: &sites, is_defined: false };
        let mut now = FIRST + tid;
        raw.meta(now, &Meta::Run(run(pid)));
        raw.meta(now, &thread(name));
        self.expect(now, pid, tid, "run");
        self.expect(now, pid, tid, "thread");
        let mut stack = Stack(Vec::new());
        // This function was entered before the file begins, as after a rotation.
        raw.put(9, 4, 14, now, &[]);
        let left = self.expect(now, pid, tid, "leave");
        (left.function, left.site) = (Some(FUNCTIONS[4].to_owned()), Some(14));
        self.unmatched += 1;
        let (mut records, first) = (1, self.records.len() as u64);
        let mut n = 0;
        while self.records.len() as u64 - first < size {
            n += 1;
            now += seeded.below(9);
            if n == size / 2 {
                // This panic is caught: the calls that are left next may be unwinding or not.
                self.panic(&mut raw, (pid, tid), now, "as the test wants");
                records += 2;
            }
            match seeded.below(100) {
                0..=29 => {
                    let function = seeded.below(FUNCTIONS.len() as u64) as usize;
                    if stack.0.len() >= 20 {
                        continue;
                    }
                    // No other span of the run has this id.
                    let span = (function == SPAN).then_some(tid << 32 | n);
                    self.polls += u64::from(span.is_some());
                    let payload = span.map_or_else(Vec::new, |span| span.to_le_bytes().to_vec());
                    let site = 10 + function as u32;
                    raw.put(9, if span.is_some() { 8 } else { 0 }, site, now, &payload);
                    let entered = self.expect(now, pid, tid, "enter");
                    (entered.function, entered.site) = (Some(FUNCTIONS[function].to_owned()), Some(site));
                    stack.0.push(OpenCall { function, span, entered: now, inside: 0 });
                    let path = stack.0.iter().map(|call| FUNCTIONS[call.function]).collect();
                    *self.paths.entry((pid, path)).or_default() += 1;
                    records += 1;
                }
                30..=59 => {
                    // Now and then the leave records of the innermost calls were lost.
                    let missing = usize::from(seeded.below(20) == 0);
                    let Some(at) = stack.0.len().checked_sub(1 + missing) else { continue };
                    let OpenCall { function, span, .. } = stack.0[at];
                    // A reader would mistake a call of the same function further in for it.
                    if missing > 0
                        && stack.0[at + 1..]
                            .iter()
                            .any(|inner| inner.function == function && inner.span == span)
                    {
                        continue;
                    }
                    if missing > 0 {
                        raw.meta(now, &Meta::Lost { records: 1, reason: LossReason::Overwritten });
                        self.expect(now, pid, tid, "lost");
                        self.lost += 1;
                    }
                    let unwinds = if seeded.below(50) == 0 { 16 } else { 0 };
                    self.unwinding += u64::from(unwinds > 0);
                    self.unseen += missing as u64;
                    self.ended += u64::from(span.is_some());
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
                    // Its thread formatted this message, so the values are not known.
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
        if pid == 7 {
            // No code catches this panic: nothing is left any more.
            self.panic(&mut raw, (pid, tid), now, "of which the process dies\nin two lines");
            records += 2;
        }
        raw.meta(
            now,
            &Meta::Clock {
                ticks: Ticks(now),
                wall: Wall(WALL + (now - FIRST) * TICK_NS),
                system: SystemClocks::default(),
            },
        );
        self.expect(now, pid, tid, "clock");
        let reason = match (pid, tid) {
            (6, _) => EndReason::Killed,
            (7, _) => EndReason::Panic,
            (_, 52) => EndReason::Thread,
            _ => EndReason::Exit,
        };
        let cause = Cause { panic: (pid == 7).then_some(tid), ..Cause::default() };
        let end = End {
            records,
            lost: 0,
            reason,
            files: None,
            cause,
            seen: None,
            apart: SeparateCounts::default(),
            waited: Waited::default(),
        };
        raw.meta(now, &Meta::End(end));
        self.expect(now, pid, tid, "end");
        if reason == EndReason::Thread {
            self.still_open += stack.0.len() as u64;
            stack = self.end_all(pid, tid, stack, 0, now);
        }
        self.place.write(format!("app.trace.{tid}"), &raw.bytes);
        (now, stack)
    }

    /// Puts the message of a panic, and the call stack that belongs to it.
    fn panic(&mut self, raw: &mut Raw<'_>, (pid, tid): (u32, u64), now: u64, why: &str) {
        let text = format!("panicked at src/net \"q\", é.rs:14:5: {why}");
        raw.put(2, 0, 0, now, text.as_bytes());
        self.expect(now, pid, tid, "message").text = Some(text);
        let addresses: [u64; 3] = [0x5000_1000, 0x5000_2040, 0x5000_30ff];
        raw.put(6, 0, 0, now, &addresses.map(u64::to_le_bytes).concat());
        // The stack does not reach the beginning of the thread.
        let text = addresses.map(|address| format!("{address:#x}")).join(" ") + " ...";
        self.expect(now, pid, tid, "stack").text = Some(text);
    }

    /// Makes the raw files of two threads that poll the same spans by turns; returns their last ticks.
    pub fn polling_threads(&mut self) -> u64 {
        const SPANS: u64 = 50;
        const POLLS: u64 = 12;
        let (pid, tids) = (5, [54, 55]);
        let sites = self.sites.clone();
        let mut files = tids.map(|tid| Raw { bytes: Vec::new(), tid, sites: &sites, is_defined: false });
        let mut now = FIRST + 11;
        for (file, name) in files.iter_mut().zip(["poll one", "poll two"]) {
            file.meta(now, &Meta::Run(run(pid)));
            file.meta(now, &thread(name));
            self.expect(now, pid, file.tid, "run");
            self.expect(now, pid, file.tid, "thread");
        }
        let mut seeded = Seeded::new(13);
        for poll in 0..POLLS {
            for span in 1..=SPANS {
                // No thread of the run has such a number.
                let payload = (1 << 48 | span).to_le_bytes();
                let file = &mut files[seeded.below(2) as usize];
                let tid = file.tid;
                let entered = now + 1 + seeded.below(5);
                now = entered + 1 + seeded.below(5);
                let ended = if poll == POLLS - 1 { 64 } else { 0 };
                for (ticks, kind, flags) in [(entered, "enter", 8), (now, "leave", 4 | 8 | ended)] {
                    file.put(9, flags, 10 + SPAN as u32, ticks, &payload);
                    let call = self.expect(ticks, pid, tid, kind);
                    (call.function, call.site) = (Some(FUNCTIONS[SPAN].to_owned()), Some(10 + SPAN as u32));
                }
                let function = FUNCTIONS[SPAN].to_owned();
                self.calls.push(Call { pid, tid, entered, left: now, depth: 0, function });
                let (times, took) =
                    (self.times.entry(FUNCTIONS[SPAN]).or_default(), (now - entered) * TICK_NS);
                (times.own, times.total) = (times.own + took, times.total + took);
            }
        }
        self.polls += SPANS * POLLS;
        *self.paths.entry((pid, vec![FUNCTIONS[SPAN]])).or_default() += SPANS * POLLS;
        self.joined += SPANS * (POLLS - 1);
        self.ended += SPANS;
        for file in files {
            self.place.write(format!("app.trace.{}", file.tid), &file.bytes);
        }
        now
    }

    /// Makes the text file of a thread with odd messages, and with bytes that are not lines.
    pub fn text_thread(&mut self) -> u64 {
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
