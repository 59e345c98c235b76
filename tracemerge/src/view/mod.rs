//! Views: the stages behind *choose* in a row, for output that is a part of the traces, or looks otherwise than they do.
//!
//! *range* cuts the files, *merge* puts the lines in order, *records* puts them together, *select* leaves some out,
//! *export* writes. A merge without any option of a view goes past all this.

pub mod breaks;
pub mod export;
pub mod options;
pub mod plan;
pub mod range;
pub mod records;
pub mod select;

use std::io::{self, Write};
use std::path::PathBuf;

use crate::find::choose::Chosen;
use crate::input::findings::Findings;
use crate::input::source::SortedRange;
use crate::merge::{Stop, merge};
use crate::output::pager::Pager;
use crate::output::progress::{Counted, Progress};
use crate::output::target::{Output, Target};
use crate::ui::colour::{Palette, stdout_is_terminal};
use crate::ui::error::Error;
use crate::ui::messages::{Messages, count, shown};
use crate::view::export::text::{Look, Text};
use crate::view::export::{Export, Exporting};
use crate::view::options::View;
use crate::view::plan::{Opened, Plan};
use crate::view::records::Records;
use crate::view::select::{Amount, Select, Selection, is_enough};

/// So many first or last records are kept until all are known to be in order; for more, the files are looked through
/// beforehand.
const KEPT: usize = 1 << 16;

impl View {
    /// Whether lines pass as they are, all of them, to where no person reads.
    #[must_use]
    pub fn is_plain(&self, target: &Target) -> bool {
        !self.is_asked_for() && !self.colours(target) && !self.pages(target)
    }

    /// Whether lines are shown in colours there.
    #[must_use]
    pub fn colours(&self, target: &Target) -> bool {
        self.color.is_now(is_terminal(target))
    }

    fn pages(&self, target: &Target) -> bool {
        !self.no_pager && is_terminal(target)
    }

    /// Which records are shown.
    #[must_use]
    pub fn selection(&self) -> Selection {
        let amount = match (self.head, self.last) {
            (Some(wanted), _) => Amount::First(wanted),
            (None, Some(wanted)) => Amount::Last(wanted),
            (None, None) => Amount::All,
        };
        Selection { pattern: self.grep.clone(), invert: self.invert, amount }
    }
}

fn is_terminal(target: &Target) -> bool {
    matches!(target, Target::Stdout) && stdout_is_terminal()
}

/// Shows what `view` says of the chosen files, and of the logs `with`.
///
/// # Errors
/// Where nothing can be read or written, or there is no such thread, process or time.
pub fn show(
    view: &View,
    with: &[PathBuf],
    chosen: &Chosen,
    target: &Target,
    messages: &mut Messages,
) -> Result<(), Error> {
    let mut opened = Opened::new(chosen, with, messages)?;
    let pieces = opened.plan(view, messages)?;
    let selection = view.selection();
    let look = Look {
        time: view.time,
        first: opened.span.first,
        zone: opened.zone.clone(),
        palette: view.colours(target).then(Palette::colours),
        found: selection.pattern.clone().filter(|_| !selection.invert),
    };
    let mut show = Show { opened: &mut opened, view, pieces, selection, paged: view.pages(target), target };
    let Some((lines, findings)) = show.write(&|| Box::new(Text::new(look.clone())))? else { return Ok(()) };
    opened.boots.iter().zip(&findings).for_each(|(files, found)| found.tell(files, messages));
    if !is_terminal(target) {
        let (lines, runs) = (count(lines, "line"), count(chosen.runs as u64, "run"));
        messages.done(format_args!("selected {lines} of {runs} into {}", target.name()));
    }
    Ok(())
}

/// The parts of a view, from the traces to the screen.
struct Show<'a> {
    opened: &'a mut Opened,
    view: &'a View,
    /// The parts of each file that are wanted.
    pieces: Plan,
    selection: Selection,
    paged: bool,
    target: &'a Target,
}

/// Lines that were shown, and by boot what was found on the way.
type Shown = (u64, Vec<Findings>);

impl Show<'_> {
    /// Writes it all; `None` where the reader went away.
    fn write(&mut self, format: &dyn Fn() -> Box<dyn Export>) -> Result<Option<Shown>, Error> {
        let kept = match self.selection.amount {
            Amount::First(wanted) | Amount::Last(wanted) => wanted <= KEPT,
            Amount::All => false,
        };
        // Where bytes cannot be taken back, the files are looked through before the first is written.
        let mut looked = !kept && (self.paged || !self.target.can_restart());
        if looked {
            self.opened.look_through(self.view, &mut self.pieces)?;
        }
        loop {
            let stop = match self.once(kept, &mut *format())? {
                Ok(shown) => return Ok(Some(shown)),
                Err(stop) => stop,
            };
            match stop {
                Stop::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(None),
                Stop::Write(error) => return Err(self.target.error(error)),
                Stop::Backward { .. } if !looked => {
                    looked = true;
                    self.opened.look_through(self.view, &mut self.pieces)?;
                }
                Stop::Backward { path } => {
                    return Err(Error::plain(format!("{} was changed while it was read", shown(&path))));
                }
            }
        }
    }

    fn once(&self, kept: bool, format: &mut dyn Export) -> Result<Result<Shown, Stop>, Error> {
        let mut text = Vec::new();
        let before = if kept { Some(self.attempt(format, &mut text)) } else { None };
        if let Some(Err(stop)) = before {
            return Ok(Err(stop));
        }
        let mut screen = Screen::begin(self.paged, self.target)?;
        let shown = match before {
            Some(shown) => shown.and_then(|shown| Ok(screen.writer().write_all(&text).map(|()| shown)?)),
            None => self.attempt(format, screen.writer()),
        };
        Ok(match shown {
            Ok(shown) => screen.finish(self.target).map(|()| shown).map_err(Stop::Write),
            Err(stop) => {
                screen.abandon();
                Err(stop)
            }
        })
    }

    /// Merges boot after boot.
    fn attempt(&self, format: &mut dyn Export, out: &mut dyn Write) -> Result<Shown, Stop> {
        let bytes = self.pieces.iter().flatten().map(|piece| (piece.end - piece.start) as u64).sum();
        let mut progress = Progress::is_wanted(self.target).then(|| Progress::new(bytes));
        let exporting = Exporting::begin(format, &self.opened.origins, out)?;
        let mut records = Records::new(Select::new(&self.selection, exporting));
        let (mut all, mut at) = (Vec::new(), 0);
        for (sources, range) in self.opened.boots.iter().zip(&self.opened.ranges) {
            let mut findings = Findings::default();
            self.opened.tell_breaks(at, sources, &mut findings);
            let pieces: Vec<SortedRange> =
                self.pieces[at..at + sources.len()].iter().flatten().copied().collect();
            let merged = records.boot(at).map_err(Stop::Write).and_then(|()| {
                let mut sink = Counted { sink: &mut records, progress: progress.as_mut() };
                merge(sources, &pieces, *range, &mut sink, &mut findings)
            });
            at += sources.len();
            all.push(findings);
            match merged {
                Err(Stop::Write(error)) if is_enough(&error) => break,
                merged => merged?,
            }
        }
        match records.end() {
            Err(error) if !is_enough(&error) => return Err(Stop::Write(error)),
            _ => {}
        }
        Ok((records.into_next().finish()?.finish()?, all))
    }
}

/// The places that a view may be written to.
enum Screen {
    Pager(Pager),
    Output(Output),
}

impl Screen {
    fn begin(paged: bool, target: &Target) -> Result<Screen, Error> {
        match if paged { Pager::start() } else { None } {
            Some(pager) => Ok(Screen::Pager(pager)),
            None => Ok(Screen::Output(target.begin()?)),
        }
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Screen::Pager(pager) => pager,
            Screen::Output(output) => output,
        }
    }

    fn finish(self, target: &Target) -> io::Result<()> {
        match self {
            Screen::Pager(pager) => pager.finish(),
            Screen::Output(output) => target.finish(output),
        }
    }

    fn abandon(self) {
        match self {
            Screen::Pager(pager) => pager.abandon(),
            Screen::Output(output) => output.abandon(),
        }
    }
}
