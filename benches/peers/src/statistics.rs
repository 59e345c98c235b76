//! Quantiles and medians.

/// Returns the value that a `share` of the values does not exceed; 0 if there are no values. Sorts the values for this.
pub fn quantile(values: &mut [u64], share: f64) -> u64 {
    values.sort_unstable();
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * share) as usize).copied().unwrap_or_default()
}

/// Returns the value in the middle of the sorted values, or the mean of the two values there; `None` if there are no
/// values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get((sorted.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quantiles_are_right() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(quantile(&mut [], 0.5), 0);
        assert_eq!(quantile(&mut [5, 1, 3], 0.5), 3);
        assert_eq!(quantile(&mut [5, 1, 3], 1.0), 5);
    }
}
