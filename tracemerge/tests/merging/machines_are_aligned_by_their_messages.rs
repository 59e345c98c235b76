//! Messages between machines put their traces in order, whatever their wall clocks say.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;

use crate::support::{Place, Ran, Seeded, header, line, meta, run, sorted};
use trace_format::line::Ticks;
use trace_format::meta::{Meta, Run, SystemClocks};
use trace_format::wall::Wall;

const NS: u64 = 1_000_000_000;
/// The wall time of the true start, in nanoseconds.
const START: u64 = 1_795_187_462 * NS;
const SYNC: [&str; 3] = ["--sync", r"sent (\S+)", r"got \1"];

/// A machine: its clock has `first` ticks at the true start, `rate` ticks a nanosecond, and gains `gain_ppm` millionths.
/// Its wall clock is `ahead` nanoseconds ahead; its system states `error`.
#[derive(Clone, Copy)]
struct Machine {
    boot: &'static str,
    tid: u64,
    first: u64,
    rate: u64,
    gain_ppm: u64,
    ahead: u64,
    error: Option<u64>,
}

const CLIENT: Machine =
    Machine { boot: "one", tid: 8, first: 900_000, rate: 1, gain_ppm: 0, ahead: 0, error: Some(1_000_000) };
const SERVER: Machine =
    Machine { boot: "two", tid: 9, first: 17, rate: 2, gain_ppm: 70, ahead: 7200 * NS, error: None };

impl Machine {
    /// Returns the time of the machine's own steady clock at a true time since the start.
    fn own(&self, t: u64) -> u64 {
        t + t / 1_000_000 * self.gain_ppm
    }

    fn ticks(&self, t: u64) -> u64 {
        self.first + self.own(t) * self.rate
    }

    /// Returns the trace of messages at true times, which ascend.
    fn trace(&self, messages: &[(u64, String)]) -> Vec<u8> {
        let pid = u32::try_from(self.tid).unwrap();
        let wall = |t: u64| Wall(START + self.ahead + self.own(t));
        let run = Run { boot: self.boot.into(), ticks: Ticks(self.first), wall: wall(0), ..run(pid, 0) };
        let mut text = header(&run, self.tid);
        let clock = |t: u64| {
            let system = SystemClocks {
                within: Some(1),
                raw: Some(5 * NS + self.own(t)),
                error: self.error,
                ..SystemClocks::default()
            };
            let ticks = Ticks(self.ticks(t));
            meta(ticks.0, self.tid, &Meta::Clock { ticks, wall: wall(t), system })
        };
        let mut next = 0;
        for (t, message) in messages {
            while next <= *t {
                text.extend(clock(next));
                next += 10 * NS;
            }
            text.extend(line(self.ticks(*t), self.tid, message));
        }
        let last = messages.last().map_or(0, |message| message.0) + 1;
        text.extend(clock(last));
        text
    }
}

/// Returns the messages of both machines: requests of the client and answers of the server, with delays of 100 to
/// 500 us, for 40 seconds.
fn talk(prefix: &str) -> [Vec<(u64, String)>; 2] {
    let (mut client, mut server) = (Vec::new(), Vec::new());
    let random = &mut Seeded::new(7);
    for n in 0..400 {
        let t = NS + n * 100_000_000 + random.below(10_000_000);
        let mut delay = || 100_000 + random.below(20) * random.below(20) * 1000;
        let (at_server, thinks) = (t + delay(), 300_000);
        let back = at_server + thinks + delay();
        client.push((t, format!("{t} {prefix}sent q{n}")));
        server.push((at_server, format!("{at_server} {prefix}got q{n}")));
        server.push((at_server + thinks, format!("{} {prefix}sent a{n}", at_server + thinks)));
        client.push((back, format!("{back} {prefix}got a{n}")));
    }
    [client, server]
}

/// Writes the traces of some machines.
fn written(machines: &[(Machine, Vec<(u64, String)>)]) -> Place {
    let place = Place::new();
    fs::create_dir(place.path("dir")).unwrap();
    for (machine, messages) in machines {
        place.write(format!("dir/app.trace.{}", machine.tid), machine.trace(messages));
    }
    place
}

/// Returns the true times of the merged messages, with the ticks that they have in the merge.
fn times(ran: &Ran) -> Vec<(u64, u64)> {
    let text = String::from_utf8(ran.out.clone()).unwrap();
    let lines = text.lines().filter_map(|line| {
        let (key, message) = line.split_once(" : ")?;
        Some((message.split(' ').next()?.parse().ok()?, u64::from_str_radix(&key[..16], 16).ok()?))
    });
    lines.collect()
}

/// Returns the nanoseconds after `±` behind `boot NAME`.
fn certainty(err: &str, boot: &str) -> f64 {
    let text = err.split(&format!("boot {boot} ±")).nth(1).unwrap_or_else(|| panic!("no ± of {boot}: {err}"));
    let mut words = text.split([' ', ',', '\n']);
    let number: f64 = words.next().unwrap().parse().unwrap();
    let unit = match words.next().unwrap() {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        unit => panic!("{unit}: {err}"),
    };
    number * unit
}

#[test]
fn lines_are_in_the_order_of_their_messages_and_the_error_is_within_the_shown_one() {
    let [client, server] = talk("");
    let place = written(&[(CLIENT, client), (SERVER, server)]);
    let merged = place.merge(["dir", "-o", "-"].iter().chain(&SYNC));
    assert_eq!(merged.status, Some(0), "{}", merged.err);
    let times = times(&merged);
    assert_eq!(times.len(), 1600);
    // No request, answer or their receiving changes places with one of the same exchange.
    for exchange in times.chunks(4) {
        assert!(exchange.is_sorted_by_key(|(truth, _)| *truth), "{exchange:?}");
    }
    // The reference is the first boot, whose ticks are nanoseconds.
    let shown = certainty(&merged.err, "two");
    assert!((50e3..400e3).contains(&shown), "{shown} {}", merged.err);
    let errors = times.iter().map(|(truth, ticks)| (truth + CLIENT.first).abs_diff(*ticks));
    let largest = errors.max().unwrap();
    assert!((largest as f64) < shown * 1.2, "{largest} ns, but ±{shown}");
    assert!(largest > 1000, "delays that differ leave an error");
    // The merge is a sorted trace.
    place.write("merged", &merged.out);
    assert_eq!(sorted(&place, ["merged"]), merged.out);
    // Times of day and selections are those of the first machine.
    let part = place.merge(["dir", "-o", "-", "--since", "20s", "--until", "21s"].iter().chain(&SYNC));
    let part: Vec<u64> = self::times(&part).iter().map(|(truth, _)| *truth).collect();
    assert!(part.iter().all(|truth| (19_999_000_000..21_001_000_000).contains(truth)), "{part:?}");
    assert_eq!(part.len(), 40);
}

#[test]
fn a_machine_without_messages_has_the_certainty_of_its_wall_clock() {
    let [client, server] = talk("");
    let third = Machine {
        boot: "three",
        tid: 10,
        first: 5000,
        rate: 3,
        gain_ppm: 20,
        ahead: 1_500_000,
        error: Some(2_000_000),
    };
    let alone: Vec<(u64, String)> = (1..40).map(|n| (n * NS, format!("{} alone", n * NS))).collect();
    let place = written(&[(CLIENT, client), (SERVER, server), (third, alone)]);
    let merged = place.merge(["dir", "-o", "-"].iter().chain(&SYNC));
    assert_eq!(merged.status, Some(0), "{}", merged.err);
    let shown = certainty(&merged.err, "three");
    assert!((2e6..6e6).contains(&shown), "{}", merged.err);
    for (truth, ticks) in times(&merged) {
        assert!((((truth + CLIENT.first).abs_diff(ticks)) as f64) < shown * 1.2, "{truth} {}", merged.err);
    }
}

#[test]
fn matches_that_contradict_the_others_are_named() {
    let [client, mut server] = talk("");
    // One answer claims to be for another request: it was sent long after it was received.
    for (_, text) in &mut server {
        *text = text
            .replace("got q100", "got q-100")
            .replace("got q300", "got q100")
            .replace("got q-100", "got q300");
    }
    let place = written(&[(CLIENT, client), (SERVER, server)]);
    let merged = place.merge(["dir", "-o", "-"].iter().chain(&SYNC));
    assert_eq!(merged.status, Some(1), "{}", merged.err);
    assert!(merged.err.contains("1 matched message of --sync between the boots"), "{}", merged.err);
    let times = times(&merged);
    assert!(times.chunks(4).all(|exchange| exchange.is_sorted_by_key(|(truth, _)| *truth)));
}

#[test]
fn patterns_that_find_nothing_are_reported() {
    let [client, server] = talk("");
    let place = written(&[(CLIENT, client), (Machine { ahead: 0, ..SERVER }, server)]);
    let merged = place.merge(["dir", "-o", "-", "--sync", "left (.*)", "came (.*)"]);
    assert_eq!(merged.status, Some(1), "{}", merged.err);
    assert!(merged.err.contains("no message of --sync"), "{}", merged.err);
    assert_eq!(times(&merged).len(), 1600);
    for patterns in [["sent", "got"], ["sent (", "got"], ["sent (.)", r"got \2"]] {
        let refused = place.merge(["dir", "-o", "-", "--sync", patterns[0], patterns[1]]);
        assert_eq!(refused.status, Some(2), "{}", refused.err);
        assert!(refused.err.contains("--sync"), "{}", refused.err);
    }
}
