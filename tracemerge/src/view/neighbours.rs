//! Compares records of two machines that follow each other in a merge, to find out whether the intervals of their
//! times decide the order of the records.

use trace_format::line::Ticks;

use crate::input::align::Scale;
use crate::input::inputs::Origin;
use crate::ui::messages::Grouped;

/// A comparison of the time of each record with that of the record before it, if the two are of different machines.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    before: Option<Before>,
    /// The number of pairs of neighbouring records that are of different machines.
    pairs: u64,
    /// The number of these pairs whose order is undecided, because the intervals of their times overlap.
    undecided: u64,
}

/// The record that was taken last.
#[derive(Debug)]
struct Before {
    boot: Vec<u8>,
    ticks: Ticks,
    /// The conversion of the record's times to those of the reference machine; `None` if the record is of that machine.
    foreign: Option<Scale>,
}

impl Neighbours {
    /// Takes the next record, and compares its time with that of the record before it. Returns whether that earlier
    /// record is of another machine and may in fact have been made later.
    pub(crate) fn take(&mut self, origin: &Origin, ticks: Ticks) -> bool {
        // Logs of other programs, and files that do not name their run, belong to no known machine.
        let Some(run) = origin.run.as_ref() else { return false };
        let Some(before) = &mut self.before else {
            self.before = Some(Before { boot: run.boot.clone(), ticks, foreign: origin.foreign.clone() });
            return false;
        };
        if before.boot == run.boot {
            before.ticks = ticks;
            return false;
        }
        // If neither record has a converted time, the boot of the later record was started later.
        let scale = origin.foreign.as_ref().or(before.foreign.as_ref());
        let is_undecided = scale.is_some_and(|scale| {
            let limits = |foreign: Option<&Scale>, ticks| match foreign {
                Some(own) => own.limits(ticks),
                None => (Some(scale.time(ticks)), Some(scale.time(ticks))),
            };
            let (latest, earliest) =
                (limits(before.foreign.as_ref(), before.ticks).1, limits(origin.foreign.as_ref(), ticks).0);
            latest.zip(earliest).is_none_or(|(latest, earliest)| latest >= earliest)
        });
        self.pairs += 1;
        self.undecided += u64::from(is_undecided);
        before.boot.clone_from(&run.boot);
        before.foreign.clone_from(&origin.foreign);
        before.ticks = ticks;
        is_undecided
    }

    /// Returns a sentence with the number of pairs and of undecided pairs; `None` if there are no pairs.
    pub(crate) fn in_words(&self) -> Option<String> {
        let (undecided, pairs) = (Grouped(self.undecided), Grouped(self.pairs));
        (self.pairs > 0).then(|| {
            format!(
                "{undecided} of {pairs} pairs of neighbouring records from two machines have times whose intervals \
                 overlap, so it is unknown which record was made first"
            )
        })
    }
}
