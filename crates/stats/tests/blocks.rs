//! Quantile intervals over blocks: the same as the bootstrap over clusters, by a shorter way.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use goodput_stats::bootstrap::clustered_quantile;
use goodput_stats::{Blocks, Interval, Method, Resampling, Samples, Sorted};
use proptest::prelude::*;

const HOW: Resampling = Resampling { resamples: 200, confidence: 0.95, seed: 5 };

fn counted(clusters: &[Vec<f64>]) -> (Blocks, Sorted) {
    let mut blocks = Blocks::new(clusters.len());
    for (block, values) in clusters.iter().enumerate() {
        values.iter().for_each(|value| blocks.push_n(block, *value, 1));
    }
    (blocks, clusters.iter().flatten().copied().collect::<Samples>().freeze())
}

/// The interval of the bootstrap over clusters, widened to hold its own value.
fn by_clusters(clusters: &[Vec<f64>], p: f64, method: Method, how: &Resampling) -> Interval {
    let found = clustered_quantile(clusters, p, method, how).unwrap();
    Interval { low: found.low.min(found.value), high: found.high.max(found.value) }
}

fn method() -> impl Strategy<Value = Method> {
    prop::sample::select(&Method::ALL[..])
}

fn clusters(value: impl Strategy<Value = f64>) -> impl Strategy<Value = Vec<Vec<f64>>> {
    prop::collection::vec(prop::collection::vec(value, 1..12), 1..14)
}

proptest! {
    /// Blocks that were counted apart and merged are the blocks counted together.
    #[test]
    fn merged_blocks_are_those_counted_together(samples in prop::collection::vec((0_usize..6, 0.0..1e3_f64, 0_usize..3), 1..60)) {
        let mut parts = vec![Blocks::new(6); 3];
        let mut whole = Blocks::new(6);
        for (block, value, part) in &samples {
            parts[*part].push_n(*block, *value, 1);
            whole.push_n(*block, *value, 1);
        }
        let mut merged = Blocks::new(6);
        parts.iter().rev().for_each(|part| merged.merge(part));
        let sorted = samples.iter().map(|sample| sample.1).collect::<Samples>().freeze();
        let intervals = |blocks: &Blocks| blocks.quantile_intervals(&sorted, &[0.1, 0.5, 0.99], Method::Linear, &HOW);
        prop_assert_eq!(merged.occupied(), whole.occupied());
        prop_assert_eq!(intervals(&merged), intervals(&whole));
    }

    /// Where every bin holds one value there is no difference at all.
    #[test]
    fn counts_give_the_interval_of_the_samples(clusters in clusters((0_u32..1_000).prop_map(f64::from)),
                                               p in 0.0..=1.0, method in method(), seed: u64) {
        let how = Resampling { resamples: 40, confidence: 0.9, seed };
        let (blocks, sorted) = counted(&clusters);
        let found = blocks.quantile_intervals(&sorted, &[p], method, &how);
        prop_assert_eq!(found, [Some(by_clusters(&clusters, p, method, &how))]);
    }

    /// Elsewhere both lie within a bin of each other.
    #[test]
    fn a_bin_is_the_most_that_is_lost(clusters in clusters(1e-3..1e6_f64), p in 0.0..=1.0, seed: u64) {
        let how = Resampling { resamples: 40, confidence: 0.9, seed };
        let (blocks, sorted) = counted(&clusters);
        let found = blocks.quantile_intervals(&sorted, &[p], Method::InverseCdf, &how)[0].unwrap();
        let exact = by_clusters(&clusters, p, Method::InverseCdf, &how);
        for (found, exact) in [(found.low, exact.low), (found.high, exact.high)] {
            prop_assert!((found / exact - 1.0).abs() <= 2f64.powi(-9), "{} {}", found, exact);
        }
    }
}

#[test]
fn samples_that_hang_together_make_it_wider() {
    // Each block has its own level: 40 blocks of 50 are worth 40 samples.
    let clusters: Vec<Vec<f64>> = (0..40).map(|i| vec![100.0 + f64::from(i * 17 % 40); 50]).collect();
    let (blocks, sorted) = counted(&clusters);
    let found = blocks.quantile_intervals(&sorted, &[0.5], Method::Linear, &HOW)[0].unwrap();
    let (low, high) = sorted.quantile_interval(0.5, HOW.confidence);
    assert!(found.low < low.unwrap() && high.unwrap() < found.high, "{found:?} {low:?} {high:?}");
    assert!(found.contains(sorted.quantile(0.5, Method::Linear).unwrap()));
}

#[test]
fn empty_blocks_are_not_drawn() {
    let (full, sorted) = counted(&[vec![1.0, 2.0], vec![3.0]]);
    let mut gappy = Blocks::new(7);
    gappy.push_n(1, 1.0, 1);
    gappy.push_n(1, 2.0, 1);
    gappy.push_n(4, 3.0, 1);
    assert_eq!((full.occupied(), gappy.occupied()), (2, 2));
    let intervals = |blocks: &Blocks| blocks.quantile_intervals(&sorted, &[0.1, 0.9], Method::Linear, &HOW);
    assert_eq!(intervals(&full), intervals(&gappy));
}

#[test]
fn what_has_no_interval() {
    let (blocks, sorted) = counted(&[vec![1.0], vec![2.0]]);
    let ask = |level, how: &Resampling| blocks.quantile_intervals(&sorted, &[level], Method::Linear, how)[0];
    assert!(ask(0.5, &HOW).is_some());
    assert_eq!(ask(1.5, &HOW), None);
    assert_eq!(ask(0.5, &Resampling { confidence: 1.0, ..HOW }), None);
    assert_eq!(ask(0.5, &Resampling { resamples: 0, ..HOW }), None);
    let others = [1.0, 2.0, 3.0].into_iter().collect::<Samples>().freeze();
    assert_eq!(blocks.quantile_intervals(&others, &[0.5], Method::Linear, &HOW), [None], "other samples");
    let nothing = Samples::new().freeze();
    assert_eq!(Blocks::new(3).quantile_intervals(&nothing, &[0.5], Method::Linear, &HOW), [None]);
    assert_eq!(Blocks::new(3).occupied(), 0);
}

#[test]
fn values_beyond_the_bins_keep_their_order() {
    let far = [-5.0, 0.0, 1e-300, 1e-9, 1.0, 1e13, 1e15, 1e300];
    let clusters: Vec<Vec<f64>> = far.iter().map(|value| vec![*value]).collect();
    let (blocks, sorted) = counted(&clusters);
    let found = blocks.quantile_intervals(&sorted, &[0.0, 1.0], Method::InverseCdf, &HOW);
    assert_eq!((found[0].unwrap().low, found[1].unwrap().high), (-5.0, 1e300));
}
