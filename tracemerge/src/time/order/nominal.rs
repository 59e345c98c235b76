//! Nominal clocks: for each clock, a straight line that converts its readings to a time near that of the first clock.
//! The line need not be exact. It keeps the offsets between clocks small, so that computing with them is exact and they
//! change slowly.

use super::filter::Direction;
use super::pairs::{Epoch, Fit, Messages, Pair};

/// The rank by which a pair of epochs is chosen: whether neither epoch is soft, one whose pairs are used last; whether
/// the rate of the pair is known; the number of messages in the rarer direction; and the number of all messages.
type Rank = (bool, bool, usize, usize);

/// Sets the nominal line of each epoch, which converts readings to nominal time. Begins with the epoch `root`, and
/// proceeds along pairs of epochs, the pair with the best rank first. Epochs that no pair connects with `root` keep
/// their own time. `is_soft` returns whether the pairs of an epoch are used last.
pub(super) fn set_nominal(
    epochs: &mut [Epoch],
    messages: &Messages,
    pairs: &[Pair],
    root: usize,
    is_soft: impl Fn(u32) -> bool,
) {
    // At first, the line of each epoch is that of its own readings.
    for epoch in &mut *epochs {
        (epoch.shift, epoch.rate) = (0.0, 1.0);
    }
    let mut fits: Vec<(usize, usize, Fit, Rank)> = pairs
        .iter()
        .map(|pair| {
            let points: Vec<(Direction, f64, f64, u32)> = messages.points(pair, epochs).collect();
            let fit = Fit::through(&points);
            let [forth, back] = fit.counts;
            let is_hard = !is_soft(pair.a) && !is_soft(pair.b);
            let rank = (is_hard, fit.slope_range < super::pairs::RATES_APART, forth.min(back), forth + back);
            (pair.a as usize, pair.b as usize, fit, rank)
        })
        .collect();
    fits.sort_by_key(|fit| std::cmp::Reverse(fit.3));
    let mut known = vec![false; epochs.len()];
    known[root] = true;
    while let Some((a, b, fit)) =
        fits.iter().find(|(a, b, _, _)| known[*a] != known[*b]).map(|(a, b, fit, _)| (*a, *b, *fit))
    {
        let faster = 1.0 + fit.slope * 1e-9;
        if known[a] {
            let of_a = epochs[a];
            let rate = of_a.rate / faster;
            (epochs[b].rate, epochs[b].shift) = (rate, of_a.shift - rate * fit.offset);
            known[b] = true;
        } else {
            let of_b = epochs[b];
            (epochs[a].rate, epochs[a].shift) = (of_b.rate * faster, of_b.shift + of_b.rate * fit.offset);
            known[a] = true;
        }
    }
}
