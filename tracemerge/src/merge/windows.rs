//! The merge of many sorted ranges: their lines are dealt out to buckets by time, and each bucket is sorted alone.
//!
//! If neighbouring lines of the result come from different files, a merge with a tree has to wait for memory at every
//! line, because only that line decides which line comes next. The merge by windows reads each range sequentially for a
//! *window* of time, as caches expect, and knows the addresses of a bucket's lines long before it copies the lines. It
//! is a bucket sort: it is fast if ticks are spread somewhat evenly, and its result is right in any case.
//!
//! First all ranges are dealt out, in groups of neighbours. Then the buckets are passed on, each for all groups
//! together. Both are jobs that threads share. The length of the next window in ticks is estimated from the previous
//! window. A window that turns out to have too many bytes is begun anew and shorter.

use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::file::rendered::{LineSource, RecordNeeds};
use crate::input::findings::Findings;
use crate::input::slice::{SlicePart, TickPeriod};
use crate::input::source::{Content, SortedRange, Source};
use crate::merge::Stop;
use crate::merge::bucket::pass_on;
use crate::merge::group::Group;
use crate::merge::work::{MergeWork, Room, Turn};
use crate::output::sink::Sink;

/// The least number of bytes that the first window is to have. Later windows are larger; the first is small, so that a
/// reader of the output gets the first lines soon.
const FIRST: usize = if cfg!(test) { 64 } else { 1 << 20 };
/// The number of bytes for each range that the first window is to have. Reading this many bytes makes up for the cost
/// of visiting the range.
const PER_RANGE: usize = if cfg!(test) { 1 } else { 1 << 10 };
/// The number of bytes that later windows are to have. Even each of thousands of files has some lines in such a window,
/// so that reading them makes up for the cost of visiting the file.
const USUAL: usize = if cfg!(test) { 512 } else { 64 << 20 };
/// The number of bytes that a bucket has if ticks are spread evenly. With buckets of this size there are so few that a
/// core's cache has room for the end of each bucket, where lines are added.
const BUCKET: usize = if cfg!(test) { 64 } else { 256 << 10 };
/// The greatest distance between neighbouring lines of one stretch. It is measured by the number of bytes, about two
/// lines, that all files together are expected to have in that time. If a file has many lines at once, they become one
/// stretch, and fewer stretches have to be sorted. If lines of different files alternate, they are rarely joined.
const GAP: usize = if cfg!(test) { 40 } else { 256 };
/// The number of buckets whose lines one job sorts and passes on.
const AT_ONCE: usize = if cfg!(test) { 2 } else { 4 };

/// The merge of many sorted ranges, in one window after another.
#[derive(Debug)]
pub(crate) struct Windows<'a> {
    period: TickPeriod,
    window: Window,
    /// The number of bytes that the next window is to have.
    wanted: usize,
    /// The greatest number of ticks of the next window.
    step: u64,
    /// The number of bytes of all ranges.
    bytes: usize,
    sources: &'a [Source],
    /// The renderers of those ranges whose sources are not text and make their lines on demand.
    rendered: Vec<&'a dyn LineSource>,
    stage: Stage<'a>,
}

/// The stage of the work for the current window.
#[derive(Debug)]
enum Stage<'a> {
    /// Threads deal out the window's lines to buckets. `waiting` has the groups that no thread has taken yet, in
    /// reverse order; `away` is the number of groups that threads are dealing out; and `dealt` has the groups that are
    /// dealt out.
    Dealing { waiting: Vec<Group<'a>>, away: usize, dealt: Vec<Group<'a>> },
    /// Threads sort the buckets and pass on their lines. `next` is the first bucket that is in no job yet, and `away`
    /// is the number of jobs that threads are doing.
    Passing { groups: Arc<Vec<Group<'a>>>, next: usize, away: usize },
    /// All windows are passed on; these are the groups.
    Done(Vec<Group<'a>>),
}

/// A window of time, whose lines are dealt out to buckets.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// The first ticks of the window.
    pub since: u64,
    /// The first ticks after the window; `None` if the window has no end.
    pub until: Option<u64>,
    /// A lower bound of the ticks of the first line in the window. The first bucket begins at these ticks.
    first: u64,
    /// The number of buckets.
    pub buckets: usize,
    /// The number of buckets per tick, times two to the power of 64.
    scale: u64,
    /// The greatest difference of ticks between neighbouring lines of a file that go into one stretch.
    pub gap: u64,
    /// The greatest number of bytes that all groups together may deal out in this window.
    pub limit: usize,
    /// The number of bytes that all groups together have dealt out so far.
    bytes: Arc<AtomicUsize>,
}

/// A job of a merge by windows: to deal out the lines of a group, or to sort and pass on the lines of some buckets.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are a few for each window")]
pub(crate) enum WindowJob<'a> {
    /// The job to deal out the lines that a group has in the window.
    Deal(Window, Group<'a>),
    /// The job to sort and pass on a range of buckets, each for all groups.
    Pass(Arc<Vec<Group<'a>>>, Range<usize>),
}

impl<'a> Windows<'a> {
    /// Prepares the merge of the lines of `ranges` in `period` by `threads` threads. The rank of a range is its index
    /// in `ranges`. If `records` are wanted, sources that are not text pass on records.
    #[must_use]
    pub(crate) fn new(
        sources: &'a [Source],
        ranges: &[SortedRange],
        period: TickPeriod,
        records: Option<&'a RecordNeeds>,
        threads: usize,
    ) -> Windows<'a> {
        // Each thread gets a large group, and then a small one, so that no thread waits long for another.
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
            // This window is empty: it only finds the first lines.
            window: Window::new(period.since, period.since, Some(period.since), wanted),
            wanted,
            step: 1 << 20,
            bytes: ranges.iter().map(size).sum(),
            sources,
            rendered: ranges.iter().filter_map(render).collect(),
            stage: Stage::dealing(groups.collect()),
        }
    }

    /// Chooses the next stage after all groups are dealt out: the window is passed on, or begun anew and shorter if it
    /// has too many bytes.
    fn finish_dealing(&mut self, groups: Vec<Group<'a>>) {
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

    /// Returns the number of ticks for the next window: so many that it has the wanted number of bytes if lines
    /// continue at the rate of this window, but at most eight times the ticks of this window. Buckets without lines, as
    /// between two bursts, do not count in the rate.
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

    /// Estimates, for a window that has too many bytes, the number of ticks that have the wanted number of bytes. The
    /// estimate comes from the lines of this window that were dealt out so far.
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
        // If the first bucket alone has too many bytes, the next window divides it further.
        ticks.saturating_mul(buckets.max(1)).clamp(1, (self.window.ticks() / 2).max(1))
    }

    /// Chooses the next stage after all buckets are passed on: the next window is begun, or all is done.
    fn finish_passing(&mut self, mut groups: Vec<Group<'a>>) {
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

    /// Begins a window at the ticks `since`. The first line in the window has the ticks `first` or more.
    fn begin(&mut self, since: u64, first: u64, groups: Vec<Group<'a>>) -> Stage<'a> {
        loop {
            let until = first.checked_add(self.step);
            let until = until.into_iter().chain(self.period.until).min();
            self.window = Window::new(since, first, until, self.wanted);
            if self.bytes_to_render() <= self.window.limit {
                return Stage::dealing(groups);
            }
            self.step = (self.window.ticks() / 4).max(1);
        }
    }

    /// Returns the approximate number of bytes that have to be rendered for the window. It is estimated before the
    /// rendering, because too many rendered bytes would fill the memory.
    fn bytes_to_render(&self) -> usize {
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
                        return Turn::WithoutOutput(WindowJob::Deal(self.window.clone(), group));
                    }
                    if *away > 0 {
                        return Turn::Wait;
                    }
                    let mut groups = mem::take(dealt);
                    groups.sort_by_key(|group| group.number);
                    self.finish_dealing(groups);
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
                    // The jobs that are done have dropped their references to the groups.
                    let Some(groups) = Arc::get_mut(groups).map(mem::take) else { return Turn::Wait };
                    self.finish_passing(groups);
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

    /// Returns the number of ticks from the window's first line to its end.
    fn ticks(&self) -> u64 {
        self.until.unwrap_or(u64::MAX).saturating_sub(self.first)
    }

    /// Returns the approximate number of ticks that one bucket covers.
    fn ticks_of_bucket(&self) -> u64 {
        (self.ticks() / self.buckets as u64).max(1)
    }

    /// Returns the index of the bucket for a line with these `ticks`, which must be in the window.
    #[inline]
    #[must_use]
    pub(crate) fn bucket_of(&self, ticks: u64) -> usize {
        let place = (u128::from(ticks.saturating_sub(self.first)) * u128::from(self.scale)) >> 64;
        usize::try_from(place as u64).unwrap_or(usize::MAX).min(self.buckets - 1)
    }

    /// Adds `bytes` to the number of bytes dealt out. Returns whether that number is still within the window's limit.
    #[must_use]
    pub(crate) fn add(&self, bytes: usize) -> bool {
        self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= self.limit
    }
}
