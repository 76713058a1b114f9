//! Laws that hold for every sample: order, equivariance, independence of order and split, nesting.

use goodput_stats::bootstrap::{block, clustered, clustered_quantile, plain};
use goodput_stats::compare::difference;
use goodput_stats::gof::ks_p_value;
use goodput_stats::interval::{student_t_mean, wilson};
use goodput_stats::pool::pool;
use goodput_stats::{Method, Resampling, Samples, Sorted, order_statistic_ranks, quantile};
use proptest::prelude::*;

/// Values with ties, both signs and zero.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![4 => -1e6..1e6_f64, 2 => (-20_i32..20).prop_map(f64::from), 1 => Just(0.0), 1 => 1e-9..1e12_f64]
}

fn values(most: usize) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(value(), 1..most)
}

fn method() -> impl Strategy<Value = Method> {
    prop::sample::select(Method::ALL.to_vec())
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// A few units in the last place of the largest magnitude in play.
fn slack(values: &[f64]) -> f64 {
    8.0 * f64::EPSILON * values.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()))
}

fn mean(values: &mut [f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn limited(values: &[f64], limit: usize) -> Samples {
    let mut samples = Samples::with_distinct_limit(limit);
    samples.extend(values.iter().copied());
    samples
}

/// Everything that can be asked.
fn answers(sorted: &Sorted) -> (u64, u64, Vec<Option<f64>>, Option<f64>, Option<f64>) {
    let statistics = (1..=sorted.n()).map(|rank| sorted.order_statistic(rank)).collect();
    (sorted.n(), sorted.relative_error().to_bits(), statistics, sorted.min(), sorted.max())
}

proptest! {
    #[test]
    fn quantiles_rise_with_the_level_and_stay_inside(values in values(60), method in method(),
                                                     a in 0.0..=1.0, b in 0.0..=1.0) {
        let sorted = sorted(values);
        let slack = slack(&sorted);
        let (low, high) = (f64::min(a, b), f64::max(a, b));
        let (lower, upper) =
            (quantile(&sorted, low, method).unwrap(), quantile(&sorted, high, method).unwrap());
        prop_assert!(lower <= upper + slack);
        prop_assert!(sorted[0] <= lower && upper <= sorted[sorted.len() - 1]);
        prop_assert_eq!(quantile(&sorted, 0.0, method), Some(sorted[0]));
        prop_assert_eq!(quantile(&sorted, 1.0, method), sorted.last().copied());
    }

    #[test]
    fn quantiles_follow_scale_and_shift(values in values(60), method in method(), p in 0.0..=1.0,
                                        scale in 1e-3..1e3_f64, shift in -1e6..1e6_f64) {
        let sorted = sorted(values);
        let moved: Vec<f64> = sorted.iter().map(|value| value * scale + shift).collect();
        let expected = quantile(&sorted, p, method).unwrap() * scale + shift;
        let allowed = 4.0 * (slack(&moved) + slack(&sorted) * scale + 8.0 * f64::EPSILON * shift.abs());
        prop_assert!((quantile(&moved, p, method).unwrap() - expected).abs() <= allowed);
    }

    #[test]
    fn counted_samples_are_repeated_samples(pairs in prop::collection::vec((value(), 0_u64..6), 1..30),
                                            method in method(), p in 0.0..=1.0) {
        let mut counted = Samples::new();
        let mut repeated = Vec::new();
        for (value, count) in pairs {
            counted.push_n(value, count);
            repeated.extend((0..count).map(|_| value));
        }
        let (mean, std) = (counted.mean(), counted.std());
        let counted = counted.freeze();
        prop_assert!(counted.is_exact());
        let one_by_one: Samples = repeated.iter().copied().collect();
        prop_assert_eq!(counted.n(), one_by_one.n());
        prop_assert_eq!(counted.quantile(p, method), quantile(&sorted(repeated.clone()), p, method));
        let allowed = slack(&repeated);
        for (a, b) in [(mean, one_by_one.mean()), (std, one_by_one.std())] {
            prop_assert_eq!(a.is_some(), b.is_some());
            prop_assert!((a.unwrap_or(0.0) - b.unwrap_or(0.0)).abs() <= allowed);
        }
    }

    /// Exact or in bins, whatever is merged with whatever in whatever order: the same answers.
    #[test]
    fn order_and_split_do_not_matter(
        (values, shuffled) in values(120).prop_flat_map(|v| (Just(v.clone()), Just(v).prop_shuffle())),
        limit in prop::sample::select(vec![2_usize, 5, 40, 1_000]),
        cuts in prop::collection::vec(0_usize..120, 0..5),
    ) {
        let whole = limited(&values, limit);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(shuffled.len())).collect();
        cuts.push(shuffled.len());
        cuts.sort_unstable();
        let mut merged = Samples::with_distinct_limit(limit);
        let mut start = 0;
        for end in cuts {
            merged.merge(&limited(&shuffled[start..end], limit));
            start = end;
        }
        let bits = |samples: &Samples| [samples.mean().unwrap(), samples.std().unwrap(), samples.sum()].map(f64::to_bits);
        prop_assert_eq!(bits(&whole), bits(&merged));
        let (whole, merged) = (whole.freeze(), merged.freeze());
        prop_assert_eq!(answers(&whole), answers(&merged));
        let mut distinct = sorted(values);
        distinct.dedup();
        prop_assert_eq!(whole.is_exact(), distinct.len() <= limit);
    }

    #[test]
    fn bins_are_as_narrow_as_they_say(
        values in prop::collection::vec(prop_oneof![1.0..2.0_f64, -2.0..-1.0_f64, Just(0.0)], 1..120),
        limit in 3_usize..30,
    ) {
        let frozen = limited(&values, limit).freeze();
        let sorted = sorted(values);
        for (rank, value) in (1..).zip(&sorted) {
            let found = frozen.order_statistic(rank).unwrap();
            prop_assert!((found - value).abs() <= frozen.relative_error() * value.abs(), "{} {}", found, value);
        }
    }

    /// Quantiles do not average, but the pooled one lies among the parts'.
    #[test]
    fn pooled_inverse_cdf_lies_between_the_parts(parts in prop::collection::vec(values(40), 1..6), p in 0.0..=1.0) {
        let parts: Vec<Samples> = parts.into_iter().map(|part| part.into_iter().collect()).collect();
        let own: Vec<f64> = parts
            .iter()
            .map(|part| part.clone().freeze().quantile(p, Method::InverseCdf).unwrap())
            .collect();
        let pooled = pool(&parts).freeze().quantile(p, Method::InverseCdf).unwrap();
        let smallest = own.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = own.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        prop_assert!(smallest <= pooled && pooled <= largest);
    }

    #[test]
    fn rank_interval_holds_the_quantile_and_nests(n in 1_u64..5_000, p in 0.0..=1.0,
                                                  a in 0.5..0.999_f64, b in 0.5..0.999_f64) {
        let narrow = order_statistic_ranks(n, p, f64::min(a, b));
        let wide = order_statistic_ranks(n, p, f64::max(a, b));
        let own = ((n as f64 * p).ceil() as u64).clamp(1, n);
        prop_assert!(narrow.low.is_none_or(|low| low <= own));
        prop_assert!(narrow.high.is_none_or(|high| own <= high));
        prop_assert!(wide.low.unwrap_or(0) <= narrow.low.unwrap_or(0));
        prop_assert!(narrow.high.unwrap_or(n + 1) <= wide.high.unwrap_or(n + 1));
    }

    #[test]
    fn wilson_holds_the_share_and_is_symmetric(n in 1_u64..100_000, share in 0.0..=1.0, confidence in 0.01..0.999) {
        let successes = (n as f64 * share) as u64;
        let interval = wilson(successes, n, confidence).unwrap();
        prop_assert!(interval.contains(successes as f64 / n as f64));
        prop_assert!(0.0 <= interval.low && interval.high <= 1.0);
        let mirrored = wilson(n - successes, n, confidence).unwrap();
        prop_assert!((1.0 - mirrored.high - interval.low).abs() < 1e-12);
    }

    #[test]
    fn mean_interval_holds_the_mean(values in values(40), confidence in 0.01..0.999) {
        let mut values = values;
        let interval = student_t_mean(&values, confidence);
        prop_assert_eq!(interval.is_some(), values.len() >= 2);
        prop_assert!(interval.is_none_or(|interval| interval.contains(mean(&mut values).unwrap())));
    }

    #[test]
    fn bootstrap_of_a_mean_stays_inside_and_repeats(values in values(30), length in 0_usize..40, seed: u64) {
        let how = Resampling { resamples: 50, confidence: 0.9, seed };
        let estimate = block(&values, length, &how, mean).unwrap();
        prop_assert_eq!(Some(estimate), block(&values, length, &how, mean));
        let (slack, sorted) = (slack(&values), sorted(values));
        prop_assert!(sorted[0] - slack <= estimate.low && estimate.low <= estimate.high);
        prop_assert!(estimate.high <= sorted[sorted.len() - 1] + slack);
        prop_assert_eq!(estimate.undefined, 0);
    }

    /// Clusters of one sample are samples; and the quick way to a quantile is the same as the slow one.
    #[test]
    fn cluster_bootstraps_agree(clusters in prop::collection::vec(prop::collection::vec(value(), 0..12), 1..12),
                                p in 0.0..=1.0, method in method(), seed: u64) {
        let how = Resampling { resamples: 40, confidence: 0.9, seed };
        let of = |samples: &mut [f64]| {
            samples.sort_unstable_by(f64::total_cmp);
            quantile(samples, p, method)
        };
        prop_assert_eq!(clustered(&clusters, &how, of), clustered_quantile(&clusters, p, method, &how));
        let samples: Vec<f64> = clusters.concat();
        let single: Vec<[f64; 1]> = samples.iter().map(|value| [*value]).collect();
        prop_assert_eq!(clustered(&single, &how, of), plain(&samples, &how, of));
    }

    #[test]
    fn difference_of_a_shift_is_the_shift(values in values(30), shift in -1e3..1e3_f64, seed: u64) {
        let how = Resampling { resamples: 40, confidence: 0.9, seed };
        let shifted: Vec<f64> = values.iter().map(|value| value + shift).collect();
        let found = difference(&values, &shifted, &how, mean).unwrap();
        prop_assert!((found.value - shift).abs() <= slack(&values) + slack(&shifted));
        prop_assert!(found.low <= found.high);
    }

    #[test]
    fn ks_p_value_falls_with_the_distance(n in 1_usize..150, a in 0.0..=1.0, b in 0.0..=1.0) {
        let (near, far) = (ks_p_value(n, f64::min(a, b)), ks_p_value(n, f64::max(a, b)));
        prop_assert!((0.0..=1.0).contains(&near) && (0.0..=1.0).contains(&far));
        prop_assert!(far <= near + 1e-12, "{} {}", near, far);
    }
}
