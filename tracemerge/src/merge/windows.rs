//! The merge of many sorted ranges: their lines are dealt out to buckets by time, and each bucket is sorted
//! by itself.
//!
//! Where each line is of another file than the one before, a tree waits for memory at every turn: which line
//! is looked at next depends on this one. Here each range is read on from where it stands, for a *window* of
//! time, which is what caches are made for; and where a bucket's lines are is known long before they are
//! copied. So this is a bucket sort: it is as fast as that where ticks come somewhat evenly, and right
//! anyhow.
//!
//! First all ranges are dealt out, in groups of neighbours; then the buckets are passed on, each for all
//! groups together. Both are jobs that threads share. The ticks of the next window are guessed from the one
//! before; a window that turns out to have too many bytes is begun anew, shorter.

use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::file::rendered::{LineSource, Wanted};
use crate::input::findings::Findings;
use crate::input::slice::{SlicePart, TickPeriod};
use crate::input::source::{Content, SortedRange, Source};
use crate::merge::Stop;
use crate::merge::bucket::pass_on;
use crate::merge::group::Group;
use crate::merge::work::{MergeWork, Room, Turn};
use crate::output::sink::Sink;

/// The number of bytes that the first window is to have at least: fewer than later ones, so that a reader
/// waits for less.
const FIRST: usize = if cfg!(test) { 64 } else { 1 << 20 };
/// The number of bytes that the first window is to have for each range, to make up for going there.
const PER_RANGE: usize = if cfg!(test) { 1 } else { 1 << 10 };
/// The number of bytes that later windows are to have: of thousands of files each has some lines in one,
/// which make up for going there.
const USUAL: usize = if cfg!(test) { 512 } else { 64 << 20 };
/// The number of bytes that a bucket is to have where ticks come evenly. Buckets are few enough that a core's
/// cache has room for the end of each, where lines are added.
const BUCKET: usize = if cfg!(test) { 64 } else { 256 << 10 };
/// The number of bytes within which neighbouring lines of a file are kept together, if no more are expected
/// between them: about two lines. Where files have their lines one by one that is rare, and where a file has
/// many at once there is less to sort.
const GAP: usize = if cfg!(test) { 40 } else { 256 };
/// The number of buckets that one job passes on.
const AT_ONCE: usize = if cfg!(test) { 2 } else { 4 };

/// The windows of a merge, one after the other.
#[derive(Debug)]
pub struct Windows<'a> {
    period: TickPeriod,
    window: Window,
    /// The number of bytes that the next window is to have.
    wanted: usize,
    /// The number of ticks that the next window may have.
    step: u64,
    /// The number of bytes of all ranges.
    bytes: usize,
    sources: &'a [Source],
    /// The renderers of those ranges that are no text.
    rendered: Vec<&'a dyn LineSource>,
    stage: Stage<'a>,
}

/// The work that is being done for a window.
#[derive(Debug)]
enum Stage<'a> {
    /// The window is dealt out: `waiting` are the groups that no thread has taken yet, in reverse order;
    /// `away` is the number of those that a thread has; `dealt` are those that are done.
    Dealing { waiting: Vec<Group<'a>>, away: usize, dealt: Vec<Group<'a>> },
    /// The window is passed on: `next` is the next bucket, and `away` the number of jobs that threads have.
    Passing { groups: Arc<Vec<Group<'a>>>, next: usize, away: usize },
    /// There are no more windows.
    Done(Vec<Group<'a>>),
}

/// A window of time.
#[derive(Clone, Debug)]
pub struct Window {
    /// The first ticks of the window.
    pub since: u64,
    /// The first ticks behind the window; `None` where it has no end.
    pub until: Option<u64>,
    /// The ticks of the first line in the window, or fewer.
    first: u64,
    /// The number of buckets.
    pub buckets: usize,
    /// The number of buckets in a tick, times two to the power of 64.
    scale: u64,
    /// The ticks within which neighbouring lines are kept together.
    pub gap: u64,
    /// The most bytes that all groups together may deal out.
    pub limit: usize,
    /// The number of bytes that all groups have dealt out.
    bytes: Arc<AtomicUsize>,
}

/// A job of a merge by windows.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are a few for each window")]
pub enum WindowJob<'a> {
    /// Deal out a group.
    Deal(Window, Group<'a>),
    /// Pass on a range of buckets.
    Pass(Arc<Vec<Group<'a>>>, Range<usize>),
}

impl<'a> Windows<'a> {
    /// Prepares the merge of `ranges` by so many `threads`; the rank of a range is its place among them. If `records`
    /// are wanted, those of sources that are no text are passed on as such.
    #[must_use]
    pub fn new(
        sources: &'a [Source],
        ranges: &[SortedRange],
        period: TickPeriod,
        records: Option<&'a Wanted>,
        threads: usize,
    ) -> Windows<'a> {
        // Each thread gets a large group, and then a small one, so that none waits long for another.
        let threads = threads.max(1);
        let (most, few) = ranges.split_at(ranges.len() * 3 / 4);
        let share = |ranges: &[SortedRange]| ranges.len().div_ceil(threads).max(1);
        let parts = most.chunks(share(most)).chain(few.chunks(share(few)));
        let groups = parts.zip(0..).map(|(ranges, number)| Group::new(number, ranges, period, records));
        let size = |range: &SortedRange| match sources[range.source].content() {
            Content::Text(_) => range.end - range.start,
            Content::Rendered(_) => sources[range.source].size(),
        };
        let render = |range: &SortedRange| match sources[range.source].content() {
            Content::Text(_) => None,
            Content::Rendered(render) => Some(render),
        };
        let wanted = (ranges.len() * PER_RANGE).clamp(FIRST, USUAL);
        Windows {
            period,
            // This window has nothing in it: only the first lines are found.
            window: Window::new(period.since, period.since, Some(period.since), wanted),
            wanted,
            step: 1 << 20,
            bytes: ranges.iter().map(size).sum(),
            sources,
            rendered: ranges.iter().filter_map(render).collect(),
            stage: Stage::dealing(groups.collect()),
        }
    }

    /// Goes on when all groups are dealt out.
    fn all_are_dealt(&mut self, groups: Vec<Group<'a>>) {
        let bytes = self.window.bytes.load(Ordering::Relaxed);
        self.stage = if bytes > self.window.limit {
            self.step = self.ticks_that_fit(&groups);
            let (since, first) = (self.window.since, self.window.first);
            self.begin(since, first, groups)
        } else {
            let ticks = self.window.ticks();
            if ticks > 0 {
                self.step = self.next_step(&groups, bytes);
            }
            Stage::Passing { groups: Arc::new(groups), next: 0, away: 0 }
        };
    }

    /// The ticks that the next window would take if lines went on at this rate, within reason. Buckets
    /// without lines, as between two bursts, do not count.
    fn next_step(&self, groups: &[Group<'a>], bytes: usize) -> u64 {
        let most = self.window.ticks().saturating_mul(8);
        if bytes == 0 {
            return most;
        }
        let is_used = |bucket: &usize| groups.iter().any(|group| group.is_in(*bucket));
        let used = (0..self.window.buckets).filter(is_used).count() as u128;
        let ticks = used * u128::from(self.window.ticks_of_bucket());
        let step = u64::try_from(ticks * self.wanted as u128 / bytes as u128);
        step.unwrap_or(u64::MAX).clamp(1, most)
    }

    /// The ticks that have the wanted bytes, judged by what was dealt out of a window that has too many.
    fn ticks_that_fit(&self, groups: &[Group<'a>]) -> u64 {
        let ranges: usize = groups.iter().map(Group::ranges).sum();
        let dealt: usize = groups.iter().map(|group| group.ranges_dealt).sum();
        let share = self.wanted as u128 * dealt as u128 / ranges.max(1) as u128;
        let mut bytes = 0;
        let fits = |bucket: &usize| {
            bytes += groups.iter().map(|group| group.bytes_in(*bucket) as u128).sum::<u128>();
            bytes <= share
        };
        let buckets = (0..self.window.buckets).take_while(fits).count() as u64;
        let ticks = self.window.ticks_of_bucket();
        // If the first bucket alone has too much, it is looked at more closely.
        ticks.saturating_mul(buckets.max(1)).clamp(1, (self.window.ticks() / 2).max(1))
    }

    /// Goes on when all buckets are passed on.
    fn all_is_passed_on(&mut self, mut groups: Vec<Group<'a>>) {
        groups.iter_mut().for_each(|group| group.end_window(self.sources));
        let next = groups.iter().filter_map(|group| group.next).min();
        let next = next.filter(|next| self.period.until.is_none_or(|until| *next < until));
        self.stage = match (next, self.window.until) {
            (Some(next), Some(until)) => {
                if self.window.ticks() > 0 && self.wanted < USUAL {
                    (self.wanted, self.step) = ((2 * self.wanted).min(USUAL), self.step.saturating_mul(2));
                }
                self.begin(until, next, groups)
            }
            _ => Stage::Done(groups),
        };
    }

    /// Begins a window that has its first line at `first` or later.
    fn begin(&mut self, since: u64, first: u64, groups: Vec<Group<'a>>) -> Stage<'a> {
        loop {
            let until = first.checked_add(self.step);
            let until = until.into_iter().chain(self.period.until).min();
            self.window = Window::new(since, first, until, self.wanted);
            if self.to_be_rendered() <= self.window.limit {
                return Stage::dealing(groups);
            }
            self.step = (self.window.ticks() / 4).max(1);
        }
    }

    /// About how many bytes of the window are to be rendered: it would be late to find them too many when
    /// they are.
    fn to_be_rendered(&self) -> usize {
        let Window { since, until, .. } = self.window;
        let until = until.unwrap_or(u64::MAX);
        let bytes =
            |render: &&dyn LineSource| render.bytes_before(until).saturating_sub(render.bytes_before(since));
        let bytes = self.rendered.iter().map(bytes).fold(0, u64::saturating_add);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

impl<'a> Stage<'a> {
    fn dealing(mut groups: Vec<Group<'a>>) -> Stage<'a> {
        let dealt = Vec::with_capacity(groups.len());
        groups.reverse();
        Stage::Dealing { waiting: groups, away: 0, dealt }
    }
}

impl<'a> MergeWork<'a> for Windows<'a> {
    type Job = WindowJob<'a>;

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn next(&mut self) -> Turn<WindowJob<'a>> {
        loop {
            match &mut self.stage {
                Stage::Dealing { waiting, away, dealt } => {
                    if let Some(group) = waiting.pop() {
                        *away += 1;
                        return Turn::Silent(WindowJob::Deal(self.window.clone(), group));
                    }
                    if *away > 0 {
                        return Turn::Wait;
                    }
                    let mut groups = mem::take(dealt);
                    groups.sort_by_key(|group| group.number);
                    self.all_are_dealt(groups);
                }
                Stage::Passing { groups, next, away } => {
                    if *next < self.window.buckets {
                        let range = *next..(*next + AT_ONCE).min(self.window.buckets);
                        (*next, *away) = (range.end, *away + 1);
                        return Turn::Lines(WindowJob::Pass(groups.clone(), range));
                    }
                    if *away > 0 {
                        return Turn::Wait;
                    }
                    // The jobs that are done have given their shares of the groups back.
                    let Some(groups) = Arc::get_mut(groups).map(mem::take) else { return Turn::Wait };
                    self.all_is_passed_on(groups);
                }
                Stage::Done(_) => return Turn::End,
            }
        }
    }

    fn run<S: Sink>(
        sources: &'a [Source],
        job: &mut WindowJob<'a>,
        room: &mut Room,
        out: &mut S,
    ) -> Result<(), Stop> {
        match job {
            WindowJob::Deal(window, group) => group.deal(sources, window, &mut room.text),
            WindowJob::Pass(groups, range) => {
                let (mut stretches, order) = (Vec::new(), &mut room.order);
                range
                    .clone()
                    .try_for_each(|bucket| pass_on(sources, groups, bucket, &mut stretches, order, out))?;
                Ok(())
            }
        }
    }

    fn done(&mut self, job: WindowJob<'a>) -> Vec<SlicePart> {
        match (job, &mut self.stage) {
            (WindowJob::Deal(_, group), Stage::Dealing { away, dealt, .. }) => {
                *away -= 1;
                dealt.push(group);
            }
            (WindowJob::Pass(..), Stage::Passing { away, .. }) => *away -= 1,
            // The other stage has no jobs left.
            _ => {}
        }
        Vec::new()
    }

    fn findings(self) -> Findings {
        let mut all = Findings::default();
        if let Stage::Done(groups) = self.stage {
            groups.into_iter().for_each(|group| all.append(group.findings()));
        }
        all
    }
}

impl Window {
    fn new(since: u64, first: u64, until: Option<u64>, wanted: usize) -> Window {
        let mut window = Window {
            since,
            until,
            first,
            buckets: 1,
            scale: 0,
            gap: 0,
            limit: usize::MAX,
            bytes: Arc::default(),
        };
        let ticks = window.ticks();
        if ticks > 1 {
            window.buckets = (wanted / BUCKET).max(1);
            let scale = ((window.buckets as u128) << 64) / u128::from(ticks);
            window.scale = u64::try_from(scale).unwrap_or(u64::MAX);
            let gap = u128::from(ticks) * GAP as u128 / wanted as u128;
            window.gap = u64::try_from(gap).unwrap_or(u64::MAX);
            // A window of one tick cannot be shorter.
            window.limit = 2 * wanted;
        }
        window
    }

    /// The number of ticks from the first line on.
    fn ticks(&self) -> u64 {
        self.until.unwrap_or(u64::MAX).saturating_sub(self.first)
    }

    /// About how many ticks belong to a bucket.
    fn ticks_of_bucket(&self) -> u64 {
        (self.ticks() / self.buckets as u64).max(1)
    }

    /// The bucket to which `ticks` belong, which are in the window.
    #[inline]
    #[must_use]
    pub fn bucket_of(&self, ticks: u64) -> usize {
        let place = (u128::from(ticks.saturating_sub(self.first)) * u128::from(self.scale)) >> 64;
        usize::try_from(place as u64).unwrap_or(usize::MAX).min(self.buckets - 1)
    }

    /// Adds the number of bytes that were dealt out; returns whether there is room for more.
    #[must_use]
    pub fn add(&self, bytes: usize) -> bool {
        self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= self.limit
    }
}
