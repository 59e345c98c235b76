//! Simulated machines: clocks that drift and step, and messages with delays, some of which are matched wrongly.

use super::super::{Message, WallReading};

/// A generator of random numbers that are the same in each execution of a test.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to 1.
    pub(super) fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(super) fn between(&mut self, from: f64, to: f64) -> f64 {
        from + self.share() * (to - from)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit.max(1) as u64) as usize
    }

    pub(super) fn normal(&mut self) -> f64 {
        (-2.0 * self.share().max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * self.share()).cos()
    }
}

/// The way in which the rates of clocks change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drift {
    Constant,
    Walk,
    /// A random walk, and a wave like that of a room's temperature.
    Temperature,
}

/// Which machines have a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Net {
    Star,
    Chain,
    /// A ring in which all messages go round in one direction.
    Ring,
    Tree,
    Random,
}

/// The parameters of a simulation.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub net: Net,
    pub machines: usize,
    /// The number of messages of a link in a second, both directions together.
    pub rate: f64,
    pub seconds: f64,
    pub drift: Drift,
    /// The share of links that have messages in one direction only.
    pub one_way: f64,
    /// The share of messages that are matched wrongly.
    pub wrong: f64,
    /// The steps of clocks: the machine, the time in seconds, and the size in nanoseconds.
    pub steps: Vec<(usize, f64, f64)>,
    /// The time at which each machine begins to take part, in seconds.
    pub comes: Vec<f64>,
    /// The machines without messages: they have only their wall clocks.
    pub silent: Vec<usize>,
    /// The error that the systems state for the wall clocks, in nanoseconds; `None` if wall clocks are not read.
    pub wall_error: Option<f64>,
}

impl Case {
    pub(super) fn new(net: Net, machines: usize, rate: f64, seconds: f64, drift: Drift) -> Case {
        Case {
            net,
            machines,
            rate,
            seconds,
            drift,
            one_way: 0.0,
            wrong: 0.0,
            steps: Vec::new(),
            comes: vec![0.0; machines],
            silent: Vec::new(),
            wall_error: None,
        }
    }
}

/// A message with the truth about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub from: usize,
    pub to: usize,
    /// The true times of sending and of receiving, in seconds, of the two lines that are matched.
    pub times: (f64, f64),
    pub is_wrong: bool,
}

/// The simulated machines, and their messages.
pub(super) struct World {
    pub case: Case,
    /// The rate of each clock's deviation, in nanoseconds per second, at each second, and the sum of the rates up to
    /// there.
    rates: Vec<Vec<f64>>,
    sums: Vec<Vec<f64>>,
    offsets: Vec<i64>,
    pub sent: Vec<Sent>,
    walls: Vec<(usize, f64, f64)>,
}

impl World {
    pub(super) fn new(case: Case, random: &mut Random) -> World {
        let seconds = case.seconds as usize + 3;
        let (mut rates, mut sums, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..case.machines {
            let base = random.between(-100_000.0, 100_000.0);
            let (mut walk, wave) =
                (0.0, (random.between(500.0, 3000.0), random.between(0.0, std::f64::consts::TAU)));
            let mut own = Vec::new();
            for second in 0..seconds {
                if case.drift != Drift::Constant {
                    walk += random.normal().clamp(-4.0, 4.0);
                }
                let angle = std::f64::consts::TAU * second as f64 / 600.0 + wave.1;
                let wave = if case.drift == Drift::Temperature { wave.0 * angle.sin() } else { 0.0 };
                own.push(base + walk + wave);
            }
            let mut sum = vec![0.0];
            for two in own.windows(2) {
                sum.push(sum.last().unwrap() + f64::midpoint(two[0], two[1]));
            }
            rates.push(own);
            sums.push(sum);
            offsets.push(random.between(0.0, 3.0 * 3.6e12) as i64);
        }
        let mut world = World { case, rates, sums, offsets, sent: Vec::new(), walls: Vec::new() };
        world.send(random);
        if let Some(error) = world.case.wall_error {
            for machine in 0..world.case.machines {
                let mut t = world.case.comes[machine];
                while t < world.case.seconds {
                    // Each wall clock has an error of its own, which changes slowly and not beyond the stated one.
                    let strays = (machine as f64 * 1.7 + t / 200.0).sin() * 0.95 * error;
                    world.walls.push((machine, t, strays));
                    t += 10.0;
                }
            }
        }
        world
    }

    /// Returns a machine's clock at a true time `t` in seconds: its reading in nanoseconds, without its steps.
    fn smooth(&self, machine: usize, t: f64) -> i64 {
        let second = (t.floor().max(0.0) as usize).min(self.rates[machine].len() - 2);
        let part = t - second as f64;
        let (rate, next) = (self.rates[machine][second], self.rates[machine][second + 1]);
        let gained = self.sums[machine][second] + rate * part + (next - rate) * part * part / 2.0;
        self.offsets[machine] + (t * 1e9 + gained).round() as i64
    }

    pub(super) fn clock(&self, machine: usize, t: f64) -> i64 {
        let steps = self.case.steps.iter().filter(|step| step.0 == machine && t >= step.1);
        self.smooth(machine, t) + steps.map(|step| step.2 as i64).sum::<i64>()
    }

    fn links(&self, random: &mut Random) -> Vec<(usize, usize)> {
        let n = self.case.machines;
        match self.case.net {
            Net::Star => (1..n).map(|leaf| (0, leaf)).collect(),
            Net::Chain => (1..n).map(|at| (at - 1, at)).collect(),
            Net::Ring => (0..n).map(|at| (at, (at + 1) % n)).collect(),
            Net::Tree | Net::Random => {
                let mut links: Vec<(usize, usize)> = (1..n).map(|at| (random.below(at), at)).collect();
                let wanted = if self.case.net == Net::Tree { 0 } else { (3 * n).min(n * (n - 1) / 2) };
                while links.len() < wanted {
                    let (a, b) = (random.below(n), random.below(n));
                    if a < b && !links.contains(&(a, b)) {
                        links.push((a, b));
                    }
                }
                links
            }
        }
    }

    fn send(&mut self, random: &mut Random) {
        for (a, b) in self.links(random) {
            if self.case.silent.contains(&a) || self.case.silent.contains(&b) {
                continue;
            }
            let only = match self.case.net {
                Net::Ring => Some(0),
                _ if random.share() < self.case.one_way => Some(random.below(2)),
                _ => None,
            };
            for (direction, (from, to)) in [(a, b), (b, a)].into_iter().enumerate() {
                if only.is_some_and(|only| only != direction) {
                    continue;
                }
                self.send_in_one_direction(from, to, random);
            }
        }
        self.sent.sort_by(|a, b| a.times.1.total_cmp(&b.times.1));
    }

    fn send_in_one_direction(&mut self, from: usize, to: usize, random: &mut Random) {
        let least = random.between(20e-6, 200e-6);
        let mut own = Vec::new();
        let mut t = self.case.comes[from].max(self.case.comes[to]);
        loop {
            t -= random.share().max(1e-12).ln() / (self.case.rate / 2.0);
            if t >= self.case.seconds - 1.0 {
                break;
            }
            let delay = least + 50e-6 * (1.2 * random.normal()).exp();
            own.push(Sent { from, to, times: (t, t + delay), is_wrong: false });
        }
        let true_times: Vec<(f64, f64)> = own.iter().map(|sent| sent.times).collect();
        if own.len() > 10 {
            for at in 0..own.len() {
                if random.share() >= self.case.wrong {
                    continue;
                }
                own[at].is_wrong = true;
                if random.share() < 0.5 {
                    // The receiving of a neighbour.
                    let by = [-3i64, -2, -1, 1, 2, 3][random.below(6)];
                    let other = (at as i64 + by).clamp(0, own.len() as i64 - 1) as usize;
                    own[at].times.1 = true_times[other].1;
                } else {
                    // The receiving of the first copy, with the sending of the second one.
                    own[at].times.0 += random.between(50e-6f64.ln(), 200e-3f64.ln()).exp();
                }
            }
        }
        self.sent.append(&mut own);
    }

    /// Returns the machine of each clock, and the messages. If the readings of a machine are seen to go back, it has
    /// another clock from there on.
    pub(super) fn messages(&self) -> (Vec<usize>, Vec<Message>) {
        let mut events: Vec<(usize, f64, usize, bool)> = Vec::new();
        for (id, sent) in self.sent.iter().enumerate() {
            events.push((sent.from, sent.times.0, id, true));
            events.push((sent.to, sent.times.1, id, false));
        }
        events.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut machines: Vec<usize> = (0..self.case.machines).collect();
        let nothing = Message { from: 0, to: 0, sent: 0, received: 0 };
        let mut messages = vec![nothing; self.sent.len()];
        let (mut clock, mut last, mut machine) = (0, i64::MIN, usize::MAX);
        let mut joins = Vec::new();
        for (own, t, id, is_sending) in events {
            if own != machine {
                (machine, clock, last) = (own, own, i64::MIN);
            }
            let reading = self.clock(own, t);
            if reading < last {
                machines.push(own);
                let next = machines.len() - 1;
                joins.push(Message { from: clock as u32, to: next as u32, sent: last, received: reading });
                clock = next;
            }
            last = reading;
            let message = &mut messages[id];
            if is_sending {
                (message.from, message.sent) = (clock as u32, reading);
            } else {
                (message.to, message.received) = (clock as u32, reading);
            }
        }
        messages.extend(joins);
        (machines, messages)
    }

    /// Returns the readings of all machines' wall clocks.
    pub(super) fn walls(&self) -> Vec<WallReading> {
        let error = self.case.wall_error.unwrap_or(0.0) as i64;
        self.walls
            .iter()
            .map(|&(machine, t, strays)| WallReading {
                clock: machine as u32,
                at: self.clock(machine, t),
                wall: 1_795_000_000_000_000_000 + (t * 1e9 + strays) as i64,
                error: Some(error),
            })
            .collect()
    }
}
