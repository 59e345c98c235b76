//! A sort whose code is short. The sorts of the standard library take some kilobytes of code for each type of items.

/// Sorts `items` with a heap sort; `before` returns whether its first argument comes before the second one. Equal items
/// may change their order.
///
/// Cost: n log n steps for any order.
pub fn sort<T>(items: &mut [T], before: impl Fn(&T, &T) -> bool) {
    let sift = |items: &mut [T], mut parent: usize| {
        loop {
            let child = 2 * parent + 1;
            let right_is_later = matches!((items.get(child), items.get(child + 1)), (Some(left), Some(right)) if before(left, right));
            let child = child + usize::from(right_is_later);
            match (items.get(parent), items.get(child)) {
                (Some(above), Some(below)) if before(above, below) => items.swap(parent, child),
                _ => return,
            }
            parent = child;
        }
    };
    for parent in (0..items.len() / 2).rev() {
        sift(items, parent);
    }
    for end in (1..items.len()).rev() {
        items.swap(0, end);
        sift(items.get_mut(..end).unwrap_or_default(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::sort;

    #[test]
    fn sorting_agrees_with_the_standard_library() {
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        for length in (0..40).chain([100, 1000, 10_007]) {
            for most in [1, 3, length as u64 + 1, u64::MAX] {
                let mut items: Vec<u64> = (0..length)
                    .map(|_| {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        random % most
                    })
                    .collect();
                let mut expected = items.clone();
                expected.sort_unstable();
                sort(&mut items, |a, b| a < b);
                assert_eq!(items, expected, "{length} below {most}");
                sort(&mut items, |a, b| a > b);
                expected.reverse();
                assert_eq!(items, expected, "{length} below {most}");
            }
        }
    }
}
