//! The analytic centre: of all offsets that satisfy the limits, those for which the product of the distances from the
//! limits is largest. The centre averages over parallel paths, while the middle of an interval depends on the narrowest
//! path only.

use super::graph::Graph;

/// The greatest number of steps of Newton's method.
const NEWTON_STEPS: usize = 15;
/// The largest and the least distance, in nanoseconds, that is tried while offsets far from all limits are searched:
/// Newton's method begins at these offsets.
const BEGINNING_NS: (f64, f64) = (64_000.0, 250.0);
/// The relative accuracy with which the equations of one step of Newton's method are solved.
const ACCURACY: f64 = 1e-4;

/// Returns the analytic centre of the offsets that satisfy the limits of all edges, `weights`. The offset of `root` is
/// 0. `near` is an estimate of the centre. If there is no room between the limits, returns offsets that satisfy them;
/// if no offsets satisfy them, returns the estimate.
pub(super) fn centre(graph: &Graph, weights: &[f64], root: usize, near: &[f64]) -> Vec<f64> {
    let mut x = near.to_vec();
    let is_inside = |x: &[f64], least: f64| {
        graph.edges.iter().zip(weights).all(|(edge, weight)| slack(x, *edge, *weight) > least)
    };
    if !is_inside(&x, BEGINNING_NS.1) {
        match beginning(graph, weights, root) {
            Some(begin) => x = begin,
            None => return x,
        }
        if !is_inside(&x, 0.0) {
            return x;
        }
    }
    let nodes = graph.nodes;
    let (mut gradient, mut diagonal) = (vec![0.0; nodes], vec![0.0; nodes]);
    let mut rigid = vec![0.0; weights.len()];
    for _ in 0..NEWTON_STEPS {
        gradient.fill(0.0);
        diagonal.fill(0.0);
        for (edge, weight) in weights.iter().enumerate() {
            let (from, to) = graph.edges[edge];
            let inverse = 1.0 / slack(&x, (from, to), *weight);
            gradient[to as usize] += inverse;
            gradient[from as usize] -= inverse;
            rigid[edge] = inverse * inverse;
            diagonal[to as usize] += rigid[edge];
            diagonal[from as usize] += rigid[edge];
        }
        let step = solve(graph, &rigid, &diagonal, &gradient, root);
        let decrease: f64 = -gradient.iter().zip(&step).map(|(a, b)| a * b).sum::<f64>();
        let mut fastest: f64 = 0.0;
        for (&(from, to), weight) in graph.edges.iter().zip(weights) {
            let closer = step[to as usize] - step[from as usize];
            fastest = fastest.max(closer / slack(&x, (from, to), *weight));
        }
        let length = if fastest > 0.9 { 0.9 / fastest } else { 1.0 };
        x.iter_mut().zip(&step).for_each(|(x, step)| *x += length * step);
        if decrease < 1e-4 {
            break;
        }
    }
    x
}

#[inline]
fn slack(x: &[f64], (from, to): (u32, u32), weight: f64) -> f64 {
    weight - (x[to as usize] - x[from as usize])
}

/// Returns offsets that keep a distance from all limits, as large as is easily found; `None` if no offsets satisfy the
/// limits.
fn beginning(graph: &Graph, weights: &[f64], root: usize) -> Option<Vec<f64>> {
    let mut distance = 0.0;
    let mut best = graph.middle(weights, root)?;
    let mut more = BEGINNING_NS.0;
    while more >= BEGINNING_NS.1 {
        let tighter: Vec<f64> = weights.iter().map(|weight| weight - distance - more).collect();
        if let Some(found) = graph.middle(&tighter, root) {
            best = found;
            distance += more;
        }
        more /= 2.0;
    }
    Some(best)
}

/// Solves `H d = -g` for `d` by the method of conjugate gradients, with 0 for `root`. `H` is the graph's Laplacian
/// matrix with `rigid` as the weights of the edges and `diagonal` on its diagonal, and `g` is `gradient`.
fn solve(graph: &Graph, rigid: &[f64], diagonal: &[f64], gradient: &[f64], root: usize) -> Vec<f64> {
    let nodes = graph.nodes;
    let mut d = vec![0.0; nodes];
    let mut rest: Vec<f64> = gradient.iter().map(|g| -g).collect();
    rest[root] = 0.0;
    let scaled = |rest: &[f64]| -> Vec<f64> {
        rest.iter().zip(diagonal).map(|(r, d)| if *d > 0.0 { r / d } else { 0.0 }).collect()
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut z = scaled(&rest);
    let mut p = z.clone();
    let mut product = dot(&rest, &z);
    let enough = product * ACCURACY * ACCURACY;
    let mut of_p = vec![0.0; nodes];
    for _ in 0..2 * nodes + 10 {
        if product <= enough {
            break;
        }
        for (value, (p, d)) in of_p.iter_mut().zip(p.iter().zip(diagonal)) {
            *value = p * d;
        }
        for (&(from, to), rigid) in graph.edges.iter().zip(rigid) {
            of_p[to as usize] -= rigid * p[from as usize];
            of_p[from as usize] -= rigid * p[to as usize];
        }
        of_p[root] = 0.0;
        let alpha = product / dot(&p, &of_p);
        if !alpha.is_finite() {
            break;
        }
        for at in 0..nodes {
            d[at] += alpha * p[at];
            rest[at] -= alpha * of_p[at];
        }
        z = scaled(&rest);
        let next = dot(&rest, &z);
        let beta = next / product;
        product = next;
        for (p, z) in p.iter_mut().zip(&z) {
            *p = z + beta * *p;
        }
    }
    d
}
