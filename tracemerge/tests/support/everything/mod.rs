//! A trace with everything in it, and its expected contents, for tests of formats: functions that are never left,
//! panics with their messages and call stacks, losses, stalls, damage, several processes, of which one was killed and
//! one was ended by a panic, odd names and texts, values of several types, and spans that two threads poll by turns.

mod threads;

use std::collections::BTreeMap;

use serde_json::Value;
use trace_format::sites::{Level, Site, SiteKind};

use self::threads::Stack;
use super::{Place, Seeded};

/// The ticks at which all processes began, and the wall clock there. A tick is 250 ns.
pub const FIRST: u64 = 0x1000_0000;
pub const WALL: u64 = 1_795_187_462_000_000_000;
pub const TICK_NS: u64 = 250;

/// The expected contents of a record in the trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    pub ticks: u64,
    pub pid: u32,
    pub tid: u64,
    /// `message`, `enter`, `leave`, `stack`, or the word of a `#` line.
    pub kind: &'static str,
    /// The text of a message or of a call stack.
    pub text: Option<String>,
    /// The name of the function that was entered or left.
    pub function: Option<String>,
    /// The values of a message, if they are known.
    pub values: Option<Value>,
    /// The site of a message or a function, if it is known.
    pub site: Option<u32>,
}

impl Expected {
    pub fn ns(&self) -> u64 {
        WALL + (self.ticks - FIRST) * TICK_NS
    }
}

/// A call, as recorded. Calls that are cut off end with the call around, the thread, or the trace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    pub pid: u32,
    pub tid: u64,
    pub entered: u64,
    pub left: u64,
    pub depth: usize,
    pub function: String,
}

/// The times of all calls of a function, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// The time of the calls that are not inside of another call of the function.
    pub total: u64,
    /// The time without the calls inside.
    pub own: u64,
}

/// The trace, and its contents in no order.
pub struct Everything {
    pub place: Place,
    pub records: Vec<Expected>,
    pub calls: Vec<Call>,
    /// The numbers of calls by the path of functions around them, by process; the outermost function is first.
    pub paths: BTreeMap<(u32, Vec<&'static str>), u64>,
    /// The times of the functions, by name.
    pub times: BTreeMap<&'static str, Times>,
    pub sites: Vec<Site>,
    /// The numbers of losses reported, of stalls, and of leave records without an enter record.
    pub lost: u64,
    pub stalls: u64,
    pub unmatched: u64,
    /// The calls without a leave record: those that end with the call around, and the others.
    pub unseen: u64,
    pub still_open: u64,
    /// The number of leave records because a panic unwinds the stack.
    pub unwinding: u64,
    /// The number of calls of spans, and the number of those that follow another call of the same span.
    pub polls: u64,
    pub joined: u64,
    /// The number of spans that have ended.
    pub ended: u64,
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
        shares_line: false,
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

/// Makes the trace, with `size` records and a few more.
pub fn everything(size: u64) -> Everything {
    let place = Place::new();
    let sites = sites();
    let mut all = Everything {
        place,
        records: Vec::new(),
        calls: Vec::new(),
        paths: BTreeMap::new(),
        times: BTreeMap::new(),
        sites,
        lost: 0,
        stalls: 0,
        unmatched: 0,
        unseen: 0,
        still_open: 0,
        unwinding: 0,
        polls: 0,
        joined: 0,
        ended: 0,
    };
    let mut seeded = Seeded::new(11);
    let mut latest: BTreeMap<u32, u64> = BTreeMap::new();
    let mut open: Vec<(u32, u64, Stack)> = Vec::new();
    let names = ["main one", "w;orker \"é\",\\x", "worker", "worker", "worker"];
    for (number, (pid, tid)) in [(5, 5), (5, 51), (5, 52), (6, 61), (7, 71)].into_iter().enumerate() {
        let (last, stack) = all.raw_thread(pid, tid, names[number], size.div_ceil(5), &mut seeded);
        let latest = latest.entry(pid).or_default();
        *latest = (*latest).max(last);
        open.push((pid, tid, stack));
    }
    latest.entry(5).and_modify(|last| *last = (*last).max(all.text_thread()).max(all.polling_threads()));
    for (pid, tid, stack) in open {
        all.still_open += stack.0.len() as u64;
        all.end_all(pid, tid, stack, 0, latest[&pid]);
    }
    all
}
